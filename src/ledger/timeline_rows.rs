//! Writes the timeline of a trial: what each level's payers used, moment by moment.

use super::insert::{insert_row, integer, payer_number};
use crate::trial::timeline::{LevelTimeline, Phase, Timeline};
use rusqlite::{Transaction, params};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::series::Series;

/// Writes the timeline of one trial.
pub(super) fn insert(
    transaction: &Transaction,
    trial: i64,
    timeline: &Timeline,
) -> rusqlite::Result<()> {
    let Timeline { every, phases, levels } = timeline;
    for (position, Phase { kind, from, to }) in (0i64..).zip(phases) {
        let row = params![trial, position, kind.word(), integer(from.0), integer(to.0)];
        insert_row(transaction, "phases", row)?;
    }
    for level in levels {
        insert_level(transaction, trial, *every, level)?;
    }
    Ok(())
}

fn insert_level(
    transaction: &Transaction,
    trial: i64,
    every: Nanoseconds,
    LevelTimeline { track, clock_bound, late_count }: &LevelTimeline,
) -> rusqlite::Result<()> {
    let times: Series = track.times.iter().map(|at| Some(at.0)).collect();
    let insert = "INSERT INTO timelines (trial, level, every_ns, sample_count, late_count,
                         clock_bound_ns, time_list) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    transaction.prepare_cached(insert)?.execute(params![
        trial,
        track.level,
        integer(every.0),
        i64::try_from(times.count()).unwrap_or(i64::MAX),
        late_count,
        clock_bound.map(|bound| integer(bound.0)),
        times.bytes()
    ])?;
    let timeline = transaction.last_insert_rowid();
    let insert = "INSERT INTO series (timeline, position, payer, quantity, amount_list)
                  VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut position = 0_i64;
    for of in &track.payers {
        let (name, role) = (&of.payer, of.role);
        let payer = payer_number(transaction, name, role, track.level, of.carries_workload)?;
        for (key, series) in &of.series {
            let row = params![timeline, position, payer, key.0, series.bytes()];
            transaction.prepare_cached(insert)?.execute(row)?;
            position += 1;
        }
    }
    Ok(())
}
