//! Companions: what happens beside a command, as one contract.
//!
//! Their list in `protocol.rs` is the protocol: `prepare` and `begin` go along it, `end` and `stop`
//! come back, so that who begins last is nearest to the command. A new one is a file, a name in
//! [`Who`], and a line of that list; where it keeps something new, a field of [`Seen`].

use super::acts::Who;
use super::clock_sync::ClockSync;
use super::counting::CountedCalls;
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::fault::Fault;
use crate::workload::WorkloadReading;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Fact, Reading};

/// Something beside a command.
pub(super) trait Companion {
    /// Names the companion in what is told of the acts.
    fn who(&self) -> Who;

    /// Makes ready what takes time, before the warm-up.
    ///
    /// # Errors
    /// What keeps the trial from being made.
    fn prepare(&mut self, _stage: &mut Stage<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// Looks for the first time, right before the command.
    fn begin(&mut self, _stage: &mut Stage<'_>) {}

    /// Looks away, while the caches are dropped between two runs of the command.
    fn pause(&mut self) {}

    /// Looks again, before the next run.
    fn resume(&mut self) {}

    /// Says what it saw, when all that began after it have ended.
    ///
    /// # Errors
    /// What keeps the trial from having a number.
    fn end(
        &mut self,
        stage: &mut Stage<'_>,
        runs: &[TimedRun],
        seen: &mut Seen,
    ) -> Result<(), Fault>;

    /// Takes away what it has started, also after a failure; what was left of it.
    fn stop(self: Box<Self>) -> Vec<String> {
        Vec::new()
    }

    /// Adds what it knows of a failure of the command, such as the package of a tool that is
    /// missing.
    fn explained(&self, _stage: &Stage<'_>, fault: Fault) -> Fault {
        fault
    }
}

/// Findings of the companions in one trial. They grow while the companions end.
#[derive(Default)]
pub(super) struct Seen {
    /// Readings of what the payers of the stack used on this level.
    pub bill: Vec<Reading>,
    /// Readings of what this machine used as a whole, and of its network links.
    pub machines: Vec<Reading>,
    /// Readings of what others used who are part of the trial and of no bill: the other side, and
    /// neighbours.
    pub beside: Vec<Reading>,
    /// Number of all these payers.
    pub payer_count: usize,
    /// CPU time that the payers of the stack used on this level in pauses between the runs.
    pub paused_cpu: Nanoseconds,
    /// CPU time of the group that holds the command.
    pub group_cpu: Option<Nanoseconds>,
    /// Energy that this machine took, in microjoules, per run of the command.
    pub energy_uj: Option<u64>,
    /// Time that neighbours can have kept the agent and this surtax from a CPU.
    pub kept_waiting: Nanoseconds,
    /// System calls of the command, in a trial that counts them.
    pub calls: Option<CountedCalls>,
    /// Conditions of this machine: stable key, value.
    pub conditions: Vec<(String, f64)>,
    /// Facts, each with its place in the evidence.
    pub facts: Vec<(FactPlace, Fact)>,
    /// Reasons why what was measured cannot be believed; [`Flaws::first`] is the one that is told.
    pub flaws: Flaws,
    /// Reading of what a workload measured.
    pub workload: WorkloadReading,
    /// Facts known of the clock of the innermost level.
    pub clock: Option<ClockSync>,
    /// The clock that the numbers of a workload are in ran wrong.
    pub is_guest_time_void: bool,
}

/// Reasons not to believe a trial, by who has them: the first of them is told.
#[derive(Default)]
pub(super) struct Flaws {
    /// The workload's tool is one that nobody has looked at.
    pub prepared: Option<String>,
    /// A neighbour did not run all the while.
    pub neighbour: Option<String>,
    /// The output of the workload cannot be believed.
    pub reading: Option<String>,
}

impl Flaws {
    /// The one that is told, if there is any.
    pub(super) fn first(self) -> Option<String> {
        self.prepared.or(self.neighbour).or(self.reading)
    }
}

impl Seen {
    /// Adds facts at a place of the evidence.
    pub(super) fn prove(&mut self, place: FactPlace, facts: impl IntoIterator<Item = Fact>) {
        self.facts.extend(facts.into_iter().map(|fact| (place, fact)));
    }

    /// The facts in the order of the evidence.
    pub(super) fn proved(&mut self) -> impl Iterator<Item = Fact> {
        let mut facts = std::mem::take(&mut self.facts);
        facts.sort_by_key(|(place, _)| *place);
        facts.into_iter().map(|(_, fact)| fact)
    }
}

/// Place of a fact in the evidence of the innermost level, after what the layer has proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FactPlace {
    Clock,
    Workload,
    Neighbours,
    Peer,
    Settings,
    Program,
}
