//! Writes what is kept of one ended trial.
//!
//! What repeats from trial to trial (facts, proofs, payers) is stored once and referred to by
//! number, so that a ledger of 100,000 trials stays small.

use super::insert::{insert_row, integer, number, payer_number};
use super::{Stream, TrialState, meter_rows as meters, samples, timeline_rows};
use crate::trial::disturbance::Disturbance;
use crate::trial::{Evidence, Measured, Reason, Record, TrialResult};
use rusqlite::{Connection, Transaction, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use surtax_instrument::amount::{QUANTITIES, Quantity};
use surtax_instrument::clock;
use surtax_instrument::wire::{Output, Reading, Status};

/// Number of different outputs of one arm that keep their tails though their trials are `done`.
const DIFFERENT_TAILS_KEPT: usize = 8;

/// Facts that this process remembers of a ledger so that it need not look again.
#[derive(Debug, Default)]
pub(super) struct Cached {
    outputs: HashMap<(u32, Stream), HashSet<String>>,
}

impl Cached {
    /// Looks up what an earlier process kept.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut known = Self::default();
        let query = "SELECT DISTINCT arm, stream, xxh3_hex FROM outputs JOIN trials USING (trial)";
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let word: String = row.get(1)?;
            let stream = if word == "stdout" { Stream::Stdout } else { Stream::Stderr };
            known.outputs.entry((row.get(0)?, stream)).or_default().insert(row.get(2)?);
        }
        Ok(known)
    }

    /// Tells whether an output is one of the first different ones that are kept whole, and new.
    fn lacks(&self, of: (u32, Stream), hash: &str) -> bool {
        let seen = self.outputs.get(&of);
        seen.is_none_or(|seen| seen.len() < DIFFERENT_TAILS_KEPT && !seen.contains(hash))
    }

    /// Notes outputs that were written, and committed.
    pub(super) fn keep(&mut self, kept: Vec<KeptOutput>) {
        for (of, hash) in kept {
            self.outputs.entry(of).or_default().insert(hash);
        }
    }
}

/// An output that is kept whole: arm, stream and hash.
pub(super) type KeptOutput = ((u32, Stream), String);

/// Returns how a result is written: its state, what was measured, why it does not count, what would
/// help.
fn spelled(result: &TrialResult) -> (TrialState, Option<&Measured>, Option<&str>, Option<&str>) {
    match result {
        TrialResult::Done(measured) => (TrialState::Done, Some(measured), None, None),
        TrialResult::Disturbed(measured) => {
            (TrialState::Disturbed, Some(measured), Some("disturbed, and repeated"), None)
        }
        TrialResult::CommandFailed(measured) => {
            let is_late = measured.outcome.status == Status::Deadline;
            let remedy = is_late.then_some("give the command more time with `--deadline`");
            (TrialState::Failed, Some(measured), Some("the command failed"), remedy)
        }
        TrialResult::Unavailable(Reason { why, remedy }) => {
            (TrialState::Unavailable, None, Some(why), remedy.as_deref())
        }
        TrialResult::Broken(Reason { why, remedy }) => {
            (TrialState::Broken, None, Some(why), remedy.as_deref())
        }
        TrialResult::Invalid { reason: Reason { why, remedy }, measured } => {
            (TrialState::Invalid, measured.as_deref(), Some(why), remedy.as_deref())
        }
    }
}

/// Writes the row of a running trial to its end, and all that hangs on it. Gives the outputs that
/// are kept since, for [`Cached::keep`] once that is committed.
pub(super) fn insert_record(
    transaction: &Transaction,
    trial: i64,
    record: &Record,
    known: &Cached,
) -> rusqlite::Result<Vec<KeptOutput>> {
    let (state, measured, why, remedy) = spelled(&record.result);
    let evidence = measured.map(|it| insert_evidence(transaction, &it.evidence)).transpose()?;
    let exit_status = measured.map(|it| it.outcome.status.to_string());
    transaction
        .prepare_cached(
            "UPDATE trials SET state = ?2, began_at_ns = ?3, ended_at_ns = max(?3, ?4),
                    exit_status = ?5, why = ?6, remedy = ?7, evidence = ?8 WHERE trial = ?1",
        )?
        .execute(params![
            trial,
            state.word(),
            integer(record.began_at.0),
            integer(clock::wall().0),
            exit_status,
            why,
            remedy,
            evidence
        ])?;
    for (metric, unit, value) in samples::of(record, measured) {
        insert_row(transaction, "samples", params![trial, metric, unit, integer(value)])?;
    }
    for (key, value) in &record.conditions {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO conditions VALUES (?1, ?2, ?3)")?
            .execute(params![trial, key, value])?;
    }
    for (position, disturbance) in (0i64..).zip(&record.disturbances) {
        let Disturbance { key, value, limit } = disturbance;
        insert_row(transaction, "disturbances", params![trial, position, key, value, limit])?;
    }
    for (position, what) in (0i64..).zip(&record.leftovers) {
        insert_row(transaction, "leftovers", params![trial, position, what])?;
    }
    if let Some(timeline) = &record.timeline {
        timeline_rows::insert(transaction, trial, timeline)?;
    }
    let Some(measured) = measured else { return Ok(Vec::new()) };
    super::measured::insert(transaction, trial, &measured.workload)?;
    meters::insert_energies(transaction, trial, &record.energies)?;
    let readings = measured.readings.iter().chain(&measured.machines);
    for (position, reading) in (0i64..).zip(readings) {
        insert_reading(transaction, trial, position, reading)?;
    }
    insert_iterations(transaction, trial, measured)?;
    let outcome = &measured.outcome;
    let mut kept = Vec::new();
    for (stream, output) in [(Stream::Stdout, &outcome.stdout), (Stream::Stderr, &outcome.stderr)] {
        let hash = format!("{:032x}", output.hash);
        let of = (record.trial.arm, stream);
        let is_new = known.lacks(of, &hash);
        let is_success = matches!(state, TrialState::Done | TrialState::Disturbed);
        let keep = !is_success || is_new;
        insert_output(transaction, trial, stream, &hash, output, keep)?;
        if is_new {
            kept.push((of, hash));
        }
    }
    Ok(kept)
}

/// One iteration is the trial itself, whose samples say it all.
fn insert_iterations(
    transaction: &Transaction,
    trial: i64,
    measured: &Measured,
) -> rusqlite::Result<()> {
    if measured.iterations.len() < 2 {
        return Ok(());
    }
    for (place, one) in (0i64..).zip(&measured.iterations) {
        let times = [one.wall, one.cpu_user, one.cpu_system].map(|time| integer(time.0));
        insert_row(transaction, "iterations", params![trial, place, times[0], times[1], times[2]])?;
    }
    Ok(())
}

fn insert_output(
    transaction: &Transaction,
    trial: i64,
    stream: Stream,
    hash: &str,
    output: &Output,
    keep: bool,
) -> rusqlite::Result<()> {
    let (length, tail) = (integer(output.length.0), keep.then_some(&output.tail));
    insert_row(transaction, "outputs", params![trial, stream.word(), hash, length, tail])
}

fn insert_evidence(transaction: &Transaction, evidence: &Evidence) -> rusqlite::Result<i64> {
    let mut numbers = Vec::new();
    for (level, facts) in (0i64..).zip(evidence.levels()) {
        for fact in &facts.facts {
            let row = params![level, facts.layer, fact.key, fact.value, fact.source];
            numbers.push(number(
                transaction,
                "INSERT INTO facts (level, layer, key, value, source) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO NOTHING",
                "SELECT fact FROM facts WHERE level = ?1 AND layer = ?2 AND key = ?3
                 AND value = ?4 AND source = ?5",
                row,
            )?);
        }
    }
    let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    number(
        transaction,
        "INSERT INTO evidence (fact_list) VALUES (?1) ON CONFLICT DO NOTHING",
        "SELECT evidence FROM evidence WHERE fact_list = ?1",
        params![format!("[{}]", list.join(","))],
    )
}

fn insert_reading(
    transaction: &Transaction,
    trial: i64,
    position: i64,
    reading: &Reading,
) -> rusqlite::Result<()> {
    let Reading { payer, role, level, carries_workload, .. } = reading;
    let payer = payer_number(transaction, payer, *role, *level, *carries_workload)?;
    let pairs: BTreeMap<u16, u64> =
        reading.amounts.iter().map(|(key, amount)| (key.0, amount)).collect();
    let map = serde_json::to_string(&pairs)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    insert_row(transaction, "readings", params![trial, position, payer, reading.is_shared, map])
}

/// Writes what the numbers of quantities stand for, into a new ledger.
pub(super) fn insert_quantities(transaction: &Transaction) -> rusqlite::Result<()> {
    for Quantity { key, name, unit, .. } in &QUANTITIES {
        insert_row(transaction, "quantities", params![key.0, name, unit.word()])?;
    }
    Ok(())
}
