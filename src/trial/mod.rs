//! A trial: one measurement, from a quiet machine to a record.

pub mod acts;
pub mod check;
mod came_of;
mod clock_check;
mod cold;
pub mod command;
mod command_run;
mod companion;
mod counting;
mod cpu_wait;
pub mod disturbance;
mod held_against;
mod host_conditions;
mod iterate;
mod looking;
mod measured;
mod program;
pub mod protocol;
pub mod conditions;
mod neighbour;
mod endpoints;
mod energy;
mod clock_map;
mod clock_sync;
mod peer;
pub mod oom;
mod overheard;
mod own_port;
pub mod outside;
mod pids;
mod stage;
pub mod timeline;
mod track;
mod trial_workload;
mod concurrency;
mod usage;
mod workload_reading;
mod workload_steps;

use crate::meter::Used;
use crate::plan::TrialId;
use crate::workload::WorkloadReading;
pub use counting::CountedCalls;
use disturbance::Disturbance;
pub(crate) use held_against::longest_measured;
pub(crate) use program::CHANGED as COMMAND_FILE_CHANGED;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{LevelFacts, Outcome, Reading};
use timeline::Timeline;

/// Everything that is kept of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Block, position and arm of the trial.
    pub trial: TrialId,
    /// Start of the trial, in nanoseconds since 1970.
    pub began_at: Nanoseconds,
    /// Result of the trial.
    pub result: TrialResult,
    /// From the first act to the agent's first frame, host time; zero if it never came.
    pub start_wall: Nanoseconds,
    /// From the request to stop until nothing was left, host time.
    pub stop_wall: Nanoseconds,
    /// Conditions of this machine, before and after: stable key, value.
    pub conditions: Vec<(String, f64)>,
    /// Conditions that were above their limits; only of a trial whose command succeeded.
    pub disturbances: Vec<Disturbance>,
    /// Use by everybody moment by moment, where somebody looked.
    pub timeline: Option<Timeline>,
    /// Host times in which the command ran and was measured, by `CLOCK_MONOTONIC_RAW`.
    pub ran: Vec<[Nanoseconds; 2]>,
    /// Energy of a run by each meter of the plan, by the name of its metric.
    pub energies: Vec<(String, Used)>,
    /// Things that are still there though the stack has been stopped; each was removed by force.
    pub leftovers: Vec<String>,
}

/// Largest number of readings of a trial, of all levels: what claims more is made up.
pub(crate) const READINGS_MOST: usize = 2048;

/// Result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialResult {
    /// The command ran and ended by itself, with exit status 0 unless the plan ignores failure.
    Done(Box<Measured>),
    /// The same, but the machine was not quiet: the trial is repeated, and this attempt does not
    /// count.
    Disturbed(Box<Measured>),
    /// The command ran, and failed: it has an outcome, and no number of it counts.
    CommandFailed(Box<Measured>),
    /// The layer is not usable on this machine: the whole arm is a named gap.
    Unavailable(Reason),
    /// The stack did not start, or broke.
    Broken(Reason),
    /// It ran, but not where its label says.
    Invalid {
        /// The reason.
        reason: Reason,
        /// Measurement that was made all the same.
        measured: Option<Box<Measured>>,
    },
}

/// Reason why a trial does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Description of what happened, or is missing.
    pub why: String,
    /// Advice on what would help.
    pub remedy: Option<String>,
}

impl From<String> for Reason {
    fn from(why: String) -> Self {
        Self { why, remedy: None }
    }
}

/// A run that has an outcome. It cannot be built without evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Time that the command took, in host time; `clock_sync.rs` says how it is known. Of several
    /// iterations the median.
    pub wall: Nanoseconds,
    /// Outcome of the command, as the agent said it; `iterate.rs` says what that is of several
    /// iterations.
    pub outcome: Outcome,
    /// Readings of what each payer used meanwhile, the command itself not among them; per
    /// iteration.
    pub readings: Vec<Reading>,
    /// Readings of what the machine of each level that has a kernel of its own used as a whole, and
    /// of its network links; per iteration.
    pub machines: Vec<Reading>,
    /// Time and CPU time of each iteration, in their order.
    pub iterations: Vec<Iteration>,
    /// Energy that this machine took meanwhile, in microjoules, per iteration; `None` where it does
    /// not say.
    pub energy_uj: Option<u64>,
    /// System calls of the command, in a trial that counted them.
    pub calls: Option<CountedCalls>,
    /// The clock of the innermost level ran wrong: what was measured in its time says nothing.
    pub is_guest_time_void: bool,
    /// Reading of what a workload measured itself; nothing of an ordinary command, and nothing
    /// where it cannot be believed.
    pub workload: WorkloadReading,
    /// Evidence that proves where it ran.
    pub evidence: Evidence,
}

/// Time and CPU time of one run of the command inside a started stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// In host time.
    pub wall: Nanoseconds,
    /// User CPU time, by the kernel it ran on.
    pub cpu_user: Nanoseconds,
    /// System CPU time, likewise.
    pub cpu_system: Nanoseconds,
}

/// Proof of what ran, level by level. Only [`Evidence::of`] makes one, and it refuses an empty
/// level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    levels: Vec<LevelFacts>,
}

impl Evidence {
    /// Accepts the facts of every level of a stack, outermost first.
    ///
    /// # Errors
    /// The layer that proved nothing.
    pub fn of(levels: Vec<LevelFacts>) -> Result<Self, String> {
        match levels.iter().find(|level| level.facts.is_empty()) {
            Some(level) => Err(level.layer.clone()),
            None if levels.is_empty() => Err(String::from("the stack")),
            None => Ok(Self { levels }),
        }
    }

    /// The facts, outermost level first.
    #[must_use]
    pub fn levels(&self) -> &[LevelFacts] {
        &self.levels
    }
}
