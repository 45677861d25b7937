//! Timelines of trials: what each level's payers used, moment by moment.
//!
//! Series stay the bytes that they are in the file until somebody wants their values: a run of half
//! an hour may have millions.

use super::row::{natural, odd, unknown_word};
use super::schema::TIMELINES_SINCE;
use super::{Ledger, StoredTrial};
use crate::fault::Fault;
use crate::layer::DEPTH_LIMIT;
use crate::ledger::refused;
use crate::plan::TrialId;
use crate::stack::NAME_MOST;
use crate::trial::timeline::{Phase, PhaseKind};
use rusqlite::types::Type;
use rusqlite::{Row, params};
use std::collections::HashSet;
use surtax_instrument::amount::{Key, Quantity};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::series::parse;
use surtax_instrument::wire::Role;

/// More samples than a day has at ten a second.
const SAMPLES_MAX: usize = 1_000_000;

/// More series than all payers of a level have.
const SERIES_MAX: usize = 8192;

/// More parts than a trial with warm-up and iterations has.
const PHASES_MAX: usize = 20_100;

/// The timeline of one trial, as the ledger holds it.
#[derive(Clone, Debug, Default)]
pub struct StoredTimeline {
    /// Parts of the trial, in time since it began.
    pub phases: Vec<Phase>,
    /// The levels that were looked at, outermost first.
    pub levels: Vec<StoredLevel>,
}

/// One level that was looked at.
#[derive(Clone, Debug)]
pub struct StoredLevel {
    /// Number of the level; 0 is the host.
    pub level: u8,
    /// Time between two looks.
    pub every: Nanoseconds,
    /// Samples that came later than half of that.
    pub late_count: u64,
    /// The most by which a time may be wrong; `None` where the level's clock was not known.
    pub clock_bound: Option<Nanoseconds>,
    /// Time of each sample since the trial began.
    pub times: Vec<Nanoseconds>,
    /// Everything that was seen.
    pub series: Vec<StoredSeries>,
}

/// Amounts of one quantity of one payer.
#[derive(Clone, Debug)]
pub struct StoredSeries {
    /// For people.
    pub payer: String,
    /// Part of the bill to which it belongs.
    pub role: Role,
    /// True where the deeper levels and the command run inside it.
    pub carries_workload: bool,
    /// The quantity.
    pub quantity: &'static Quantity,
    bytes: Vec<u8>,
}

impl StoredSeries {
    /// Reads its values, as many as there are times; `None` where they are not so many.
    #[must_use]
    pub fn values(&self, count: usize) -> Option<Vec<Option<u64>>> {
        parse(&self.bytes, count)
    }

    /// Makes one of values.
    #[cfg(test)]
    pub(crate) fn of(
        payer: &str,
        role: Role,
        quantity: &'static Quantity,
        values: &[Option<u64>],
    ) -> Self {
        let series: surtax_instrument::series::Series = values.iter().copied().collect();
        let bytes = series.bytes().to_vec();
        Self { payer: payer.into(), role, carries_workload: false, quantity, bytes }
    }
}

impl Ledger {
    /// Lists the attempts at trials that were looked at while their command ran.
    ///
    /// # Errors
    /// The machine's.
    pub fn watched(&self) -> Result<HashSet<(TrialId, u32)>, Fault> {
        if self.format < TIMELINES_SINCE {
            return Ok(HashSet::new());
        }
        let query = "SELECT DISTINCT block, position, arm, attempt
                     FROM timelines JOIN trials USING (trial)";
        let read = |row: &Row| {
            let [block, position, arm, attempt] = [0, 1, 2, 3].map(|column| row.get(column));
            Ok((TrialId { block: block?, position: position?, arm: arm? }, attempt?))
        };
        Ok(self.all("read which trials were looked at", query, read)?.into_iter().collect())
    }

    /// Returns the timeline of an attempt at a trial; `None` where nobody looked, or the command
    /// was over soon.
    ///
    /// # Errors
    /// The machine's.
    pub fn timeline(&self, trial: &StoredTrial) -> Result<Option<StoredTimeline>, Fault> {
        if self.format < TIMELINES_SINCE {
            return Ok(None);
        }
        let read = || -> rusqlite::Result<Option<StoredTimeline>> {
            let id = trial.id;
            let of = params![id.block, id.position, id.arm, trial.attempt];
            let query =
                "SELECT timeline, level, every_ns, sample_count, late_count, clock_bound_ns,
                                time_list FROM timelines JOIN trials USING (trial)
                         WHERE block = ?1 AND position = ?2 AND arm = ?3 AND attempt = ?4
                         ORDER BY level";
            let mut levels = Vec::new();
            for (number, mut level) in self.collect(query, of, stored_level)? {
                let query = "SELECT name, role, carries_workload, quantity, amount_list
                             FROM series JOIN payers USING (payer)
                             WHERE timeline = ?1 ORDER BY series.position LIMIT ?2";
                let most = i64::try_from(SERIES_MAX).unwrap_or(i64::MAX);
                let series = self.collect(query, params![number, most], stored_series)?;
                level.series = series.into_iter().flatten().collect();
                levels.push(level);
            }
            if levels.is_empty() {
                return Ok(None);
            }
            let query = "SELECT phase, from_ns, to_ns FROM phases p JOIN trials t USING (trial)
                         WHERE t.block = ?1 AND t.position = ?2 AND arm = ?3 AND attempt = ?4
                         ORDER BY p.position";
            let mut phases = self.collect(query, of, phase)?;
            phases.truncate(PHASES_MAX);
            Ok(Some(StoredTimeline { phases, levels }))
        };
        match read() {
            // One that a stranger wrote badly is none: it is a picture, and no number rests on it.
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => Ok(None),
            read => read.map_err(|error| refused(&self.path, "read a timeline", &error)),
        }
    }
}

fn stored_level(row: &Row) -> rusqlite::Result<(i64, StoredLevel)> {
    let count = usize::try_from(natural(row.get(3)?)).unwrap_or(usize::MAX);
    let bytes: Vec<u8> = row.get(6)?;
    let times = Some(count).filter(|count| *count <= SAMPLES_MAX);
    let times = times.and_then(|count| parse(&bytes, count)?.into_iter().collect());
    let times: Vec<u64> = times
        .ok_or_else(|| odd(6, Type::Blob, format!("these are no times of {count} samples")))?;
    let level = StoredLevel {
        level: Some(row.get(1)?)
            .filter(|level| usize::from(*level) <= DEPTH_LIMIT)
            .ok_or_else(|| odd(1, Type::Integer, String::from("no stack has such a level")))?,
        every: Nanoseconds(natural(row.get(2)?)),
        late_count: natural(row.get(4)?),
        clock_bound: row.get::<_, Option<i64>>(5)?.map(|bound| Nanoseconds(natural(bound))),
        times: times.into_iter().map(Nanoseconds).collect(),
        series: Vec::new(),
    };
    Ok((row.get(0)?, level))
}

/// Reads a series; `None` of a quantity that this surtax does not know.
fn stored_series(row: &Row) -> rusqlite::Result<Option<StoredSeries>> {
    let role: String = row.get(1)?;
    let Some(quantity) = Quantity::of(Key(row.get(3)?)) else { return Ok(None) };
    Ok(Some(StoredSeries {
        payer: Some(row.get(0)?)
            .filter(|name: &String| name.len() <= NAME_MOST)
            .ok_or_else(|| odd(0, Type::Text, String::from("no payer has so long a name")))?,
        role: Role::of_word(&role).ok_or_else(|| unknown_word(1, &role))?,
        carries_workload: row.get(2)?,
        quantity,
        bytes: row.get(4)?,
    }))
}

fn phase(row: &Row) -> rusqlite::Result<Phase> {
    let word: String = row.get(0)?;
    let kind = PhaseKind::of_word(&word).ok_or_else(|| unknown_word(0, &word))?;
    let time = |column| row.get::<_, i64>(column).map(|ns| Nanoseconds(natural(ns)));
    Ok(Phase { kind, from: time(1)?, to: time(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture;
    use crate::stack::sampler::Sample;
    use crate::trial::timeline::{LevelTimeline, Timeline, Track};
    use surtax_instrument::amount::{Amounts, CPU_USER, MEMORY_USED};
    use surtax_instrument::wire::Reading;

    fn level(level: u8) -> LevelTimeline {
        let mut track = Track::of(level);
        for moment in 0..4_u64 {
            let used = Amounts::default().with(CPU_USER, 100 * moment);
            let amounts = used.with(MEMORY_USED, (moment != 2).then_some(7));
            let of = |payer: &str, role| Reading {
                payer: payer.into(),
                role,
                level,
                amounts: amounts.clone(),
                carries_workload: false,
                is_shared: false,
            };
            let readings = vec![of("dockerd", Role::Engine), of("the machine", Role::Machine)];
            track.add(&Sample { at: Nanoseconds(moment * 1000), readings });
        }
        LevelTimeline { track, clock_bound: Some(Nanoseconds(u64::from(level))), late_count: 1 }
    }

    #[test]
    fn a_timeline_is_read_as_it_was_written_and_that_of_no_other_trial() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.surtax");
        let mut ledger = fixture::ledger(&path, &["native", "runc"]);
        let phase = Phase { kind: PhaseKind::Run, from: Nanoseconds(5), to: Nanoseconds(9) };
        let timeline = Timeline {
            every: Nanoseconds(1000),
            phases: vec![phase],
            levels: vec![level(0), level(1)],
        };
        for (arm, timeline) in [(0, Some(timeline)), (1, None)] {
            let trial = TrialId { block: 0, position: arm, arm };
            ledger.begin_trial(trial).unwrap();
            let record = fixture::done(trial, 5);
            ledger.end_trial(&crate::trial::Record { timeline, ..record }).unwrap();
        }
        let trials = ledger.trials().unwrap();
        assert!(ledger.timeline(&trials[1]).unwrap().is_none());
        let read = ledger.timeline(&trials[0]).unwrap().unwrap();
        assert_eq!(read.phases, [phase]);
        assert_eq!(read.levels.iter().map(|it| it.level).collect::<Vec<_>>(), [0, 1]);
        let inner = &read.levels[1];
        assert_eq!((inner.late_count, inner.clock_bound), (1, Some(Nanoseconds(1))));
        assert_eq!(inner.times, [0, 1000, 2000, 3000].map(Nanoseconds));
        let found: Vec<(&str, &str, Vec<Option<u64>>)> = inner
            .series
            .iter()
            .map(|it| (it.payer.as_str(), it.quantity.name, it.values(4).unwrap()))
            .collect();
        let cpu = [0, 100, 200, 300].map(Some).to_vec();
        let memory = vec![Some(7), Some(7), None, Some(7)];
        let expected = [
            ("dockerd", "cpu_user_ns", cpu.clone()),
            ("dockerd", "memory_used_bytes", memory.clone()),
            ("the machine", "cpu_user_ns", cpu),
            ("the machine", "memory_used_bytes", memory),
        ];
        assert_eq!(found, expected);
        assert!(inner.series[0].values(5).is_none(), "a count that is not true");
        // What a stranger wrote badly is no timeline, and harms no other number.
        let path = path.to_str().unwrap();
        let edited = rusqlite::Connection::open(path).unwrap();
        edited.execute("UPDATE timelines SET level = 99 WHERE level = 1", []).unwrap();
        assert!(ledger.timeline(&trials[0]).unwrap().is_none());
    }
}
