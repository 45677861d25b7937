//! The ledger: one run in one SQLite file, readable by any SQL tool.
//!
//! A finished trial is one committed transaction (WAL, `synchronous=FULL`). A trial that was in
//! flight when surtax died is `void`, and resuming counts nothing twice: a unique index sees to it.
//! `FORMAT.md` explains every field; nothing else in surtax writes or reads these files.

mod attempts;
mod birth;
mod causes;
pub mod calendar;
mod files;
mod hold;
mod insert;
mod journalless;
pub mod machine;
mod measured;
mod meter_rows;
mod meters;
mod read;
mod record;
mod recovered;
mod removal;
mod row;
mod samples;
mod schema;
mod seal;
pub mod shelf;
mod stranger;
mod timeline_rows;
mod timelines;
mod write;

use crate::fault::Fault;
use crate::plan::TrialId;
use crate::trial::disturbance::Disturbance;
use crate::trial::outside::Cpu;
use crate::workload::Better;
pub(crate) use birth::taken;
pub use causes::{CallCount, Counted, PriceSample};
pub use measured::{Absences, Histograms};
pub use meters::KnownMeter;
use rusqlite::ErrorCode;
use rustix::process::{Resource, getrlimit};
pub use seal::Key;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surtax_instrument::amount::Amounts;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{LevelFacts, Reading};
use surtax_instrument::words;
pub use timelines::{StoredLevel, StoredSeries, StoredTimeline};

/// `PRAGMA application_id` of every ledger: `surt`.
pub const APPLICATION_ID: i32 = 0x7375_7274;

/// `PRAGMA user_version`: raised when a field changes its meaning.
pub const FORMAT_VERSION: i32 = 11;

/// The file name's end.
pub const EXTENSION: &str = crate::lab::state::RUN_EXTENSION;

/// An open run file. Dropped, everything that was committed is in the file.
#[derive(Debug)]
pub struct Ledger {
    connection: rusqlite::Connection,
    path: PathBuf,
    known: record::Cached,
    /// After the connection: its file is closed last.
    hold: hold::Hold,
    format: i32,
    budget: stranger::Budget,
    is_made_here: bool,
}

/// Facts known of the run as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Random UUID.
    pub id: String,
    /// For people.
    pub title: String,
    /// Version of the surtax that wrote it.
    pub surtax_version: String,
    /// Time when it began, in nanoseconds since 1970.
    pub began_at: Nanoseconds,
    /// State of the run: how far it is.
    pub state: RunState,
}

/// State of a run: how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// A process works on it.
    Running,
    /// The plan is done.
    Finished,
    /// It was stopped, or surtax died; it can be resumed.
    Interrupted,
}

/// State in which one attempt at a trial ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrialState {
    /// Begun and not ended.
    #[default]
    Running,
    /// The command ended with exit status 0, or with any where the plan ignores failure: the only
    /// state that counts.
    Done,
    /// The same on a machine that was not quiet: the trial was repeated.
    Disturbed,
    /// The command failed.
    Failed,
    /// The stack did not start, or broke.
    Broken,
    /// The layer does not run on this machine.
    Unavailable,
    /// Not where its label says.
    Invalid,
    /// In flight when surtax ended.
    Void,
}

/// One attempt at a trial, as the ledger holds it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredTrial {
    /// Trial of the plan.
    pub id: TrialId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// State in which it ended.
    pub state: TrialState,
    /// Time when it began, in nanoseconds since 1970.
    pub began_at: Nanoseconds,
    /// Time when its end was written down; `None` while it runs.
    pub ended_at: Option<Nanoseconds>,
    /// `exit 0`, `signal 9`, `deadline`, `cancelled`; `None` where no command ran.
    pub exit_status: Option<String>,
    /// Reason why it does not count; empty when it does.
    pub why: String,
    /// Advice on what would help.
    pub remedy: Option<String>,
    /// The number of its evidence in [`Ledger::evidence`].
    pub evidence: Option<i64>,
    /// Numbers of the trial, by metric.
    pub samples: Vec<Sample>,
    /// The numbers of each of several instances, in their order; empty where one ran.
    pub instances: Vec<Sample>,
    /// Time that each iteration took, in nanoseconds of host time; empty where there was one.
    pub iterations: Vec<f64>,
    /// Use of each payer, gross, in order of reading.
    pub readings: Vec<Reading>,
    /// Use of each machine as a whole, and of its network links, by its own kernel's account.
    pub machines: Vec<Reading>,
    /// XXH3-128 of standard output, hexadecimal.
    pub stdout_hash: Option<String>,
    /// Disturbances of the trial, the worst first.
    pub disturbances: Vec<Disturbance>,
    /// Things that were removed by force after it.
    pub leftovers: Vec<String>,
}

/// One number of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the metric; of those that every trial has, the unit is at the end of the name. One
    /// text for all trials of a run.
    pub metric: Arc<str>,
    /// `ns`, `bytes`, or what a workload's metric is in.
    pub unit: Arc<str>,
    /// The number.
    pub value: f64,
    /// The number rounded down, exact where `value` is a whole one.
    pub whole: u64,
}

/// A metric that the workload of a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMetric {
    /// Name of the metric.
    pub name: String,
    /// Unit of the metric.
    pub unit: String,
    /// Direction that is better.
    pub better: Better,
}

/// Stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Severity of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// May explain a number.
    Warning,
    /// Something failed.
    Error,
}

/// Every distinct proof of a ledger, by its number.
pub type Proofs = HashMap<i64, Vec<LevelFacts>>;

impl StoredTrial {
    /// An attempt that has begun, of which nothing else is known.
    pub(crate) fn begun(
        id: TrialId,
        attempt: u32,
        state: TrialState,
        began_at: Nanoseconds,
    ) -> Self {
        Self { id, attempt, state, began_at, ..Self::default() }
    }

    /// The number of one metric.
    #[must_use]
    pub fn sample(&self, metric: &str) -> Option<&Sample> {
        self.samples.iter().find(|sample| *sample.metric == *metric)
    }

    /// The number of one metric, looked for first at the place where the trial before has it: of
    /// the trials of one run most have their numbers in the same order.
    pub(crate) fn sample_near(&self, metric: &str, place: &mut usize) -> Option<&Sample> {
        let is_meant = |sample: &Sample| *sample.metric == *metric;
        if !self.samples.get(*place).is_some_and(is_meant) {
            *place = self.samples.iter().position(is_meant)?;
        }
        self.samples.get(*place)
    }

    /// Returns what the kernel inside said of the command's CPU time; `None` where it cannot be
    /// believed.
    #[must_use]
    pub fn cpu_claim(&self) -> Option<Cpu> {
        samples::claim(self)
    }

    /// Returns what the kernel on which it ran counted of the command; nothing of what it does not
    /// count.
    #[must_use]
    pub fn counts(&self) -> Amounts {
        samples::counts(self)
    }
}

words!(RunState { Running: "running", Finished: "finished", Interrupted: "interrupted" });

words!(TrialState {
    Running: "running",
    Done: "done",
    Disturbed: "disturbed",
    Failed: "failed",
    Broken: "broken",
    Unavailable: "unavailable",
    Invalid: "invalid",
    Void: "void",
});

words!(Stream { Stdout: "stdout", Stderr: "stderr" });

words!(Severity { Note: "note", Warning: "warning", Error: "error" });

/// Says what SQLite could not do, and where; a full disk gets its own words.
fn refused(path: &Path, doing: &str, error: &rusqlite::Error) -> Fault {
    let shown = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Fault::machine(format!(
            "cannot {doing}: the disk of `{shown}` is full; every trial that ended before is kept"
        ))
        .hint(format!("make room, then run: surtax resume {shown}")),
        Some(ErrorCode::NotADatabase) => {
            Fault::user(format!("`{shown}` is not a run file of surtax"))
                .hint("name a run file that ends in `.surtax`; `surtax list` shows them")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            Fault::machine(format!("cannot {doing}: the run file `{shown}` is damaged: {error}"))
                .hint(format!("save what can be read: sqlite3 {shown} .recover"))
        }
        Some(ErrorCode::OperationInterrupted) => Fault::user(format!(
            "cannot {doing}: the run file `{shown}` takes more time or memory than a run of its \
             size explains"
        ))
        .hint("ask whoever gave it to you for the file as it was made"),
        Some(ErrorCode::SystemIoFailure) if let Some(most) = largest_file() => {
            Fault::machine(format!(
                "cannot {doing}: no file may be larger than {most} bytes here, and the ledger \
                 `{shown}` would be; every trial that ended before is kept"
            ))
            .hint(format!("run `ulimit -f unlimited`, then: surtax resume {shown}"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            let what = format!("the run file `{shown}` cannot be written: {error}");
            Fault::machine(format!("cannot {doing}: {what}"))
                .hint("go on as whoever made it, in a directory that can be written")
        }
        _ => Fault::machine(format!("cannot {doing} in the run file `{shown}`: {error}")),
    }
}

/// Size in bytes above which no file of this process's may grow, where there is one.
fn largest_file() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
