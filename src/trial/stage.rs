//! A workload in its place: the bridge on which its sides meet, its stack, its other side, and its
//! command.
//!
//! The workload that is measured is one, and so is each neighbour. What is begun last is taken away
//! first.

use super::acts::{Act, Acts, Who};
use super::cold;
use super::command_run::execute;
use super::companion::Companion;
use super::conditions::ConditionReader;
use super::endpoints::Bridge;
use super::iterate::TimedRun;
use super::overheard::Overheard;
use super::peer::{Peer, Side};
use super::timeline::{PhaseKind, Recorder};
use super::trial_workload::TrialWorkload;
use crate::fault::Fault;
use crate::layer::{Payer, StackSpec};
use crate::plan::{Cache, Plan};
use crate::stack::start::{RunningStack, StartContext};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Outcome};

/// A workload in its place.
pub(super) struct Placed {
    // Dropped in this order, which is that in which they are taken away.
    /// The other side, of a workload that has two.
    pub peer: Option<Peer>,
    /// The stack.
    pub running: RunningStack,
    between: Option<Bridge>,
    /// Command that runs in the stack, or outside where that is the client.
    pub command: Command,
    /// The workload's own part.
    pub work: TrialWorkload,
    /// Time at which the stack stood, by `CLOCK_MONOTONIC_RAW`.
    pub stood_at: Nanoseconds,
}

/// Reason why it could not be placed, and what was left of what had been.
pub(super) struct NotPlaced {
    pub fault: Fault,
    pub leftovers: Vec<String>,
    /// Time at which that was known of the stack itself, or it stood, by `CLOCK_MONOTONIC_RAW`.
    pub stood_at: Nanoseconds,
}

impl Placed {
    /// Starts the bridge, the stack and the other side, as far as there are any. `network` is where
    /// the stack stands if there is no bridge.
    ///
    /// # Errors
    /// What could not be started; all that had been is taken away.
    pub(super) fn place(
        mut work: TrialWorkload,
        stack: &StackSpec,
        mut command: Command,
        context: &StartContext<'_>,
        name: &str,
        acts: Acts<'_>,
    ) -> Result<Self, NotPlaced> {
        let inside = work.inside(&command);
        let between = Bridge::between(work.definition.as_ref(), stack, context, name)
            .map_err(NotPlaced::before)?;
        if between.is_some() {
            acts(Who::Bridge, Act::Start);
        }
        let network = between.as_ref().map(Bridge::path);
        let network = network.as_deref().or(context.network);
        acts(Who::Stack, Act::Start);
        let started =
            stack.start(&StartContext { command: Some(&inside), network, ..*context }, name);
        let stood_at = clock::monotonic_raw();
        let mut running = match started {
            Ok(running) => running,
            Err(fault) => {
                if between.is_some() {
                    acts(Who::Bridge, Act::Stop);
                }
                let left = between.map(Bridge::close).unwrap_or_default();
                return Err(NotPlaced { fault, leftovers: left, stood_at });
            }
        };
        running.tell(&mut command);
        match work.peer(&running, &mut command, context, name) {
            Ok(peer) => {
                if peer.is_some() {
                    acts(Who::Peer, Act::Start);
                }
                Ok(Self { peer, running, between, command, work, stood_at })
            }
            Err(fault) => {
                let fault = running.explained(fault);
                let peer = None;
                let placed = Self { peer, running, between, command, work, stood_at };
                Err(NotPlaced { fault, leftovers: placed.stop(acts).0, stood_at })
            }
        }
    }

    /// Returns the stack on one of its sides.
    pub(super) fn running(&mut self, side: Side) -> &mut RunningStack {
        match (side, &mut self.peer) {
            (Side::Outside, Some(peer)) => peer.outside(),
            _ => &mut self.running,
        }
    }

    /// Takes it away: what was left, and how long the stack took to end.
    pub(super) fn stop(self, acts: Acts<'_>) -> (Vec<String>, Nanoseconds) {
        let Self { peer, running, between, .. } = self;
        if peer.is_some() {
            acts(Who::Peer, Act::Stop);
        }
        let mut left = peer.map(Peer::stop).unwrap_or_default();
        acts(Who::Stack, Act::Stop);
        let stopping_at = clock::monotonic_raw();
        left.extend(running.stop().unwrap_or_else(|fault| vec![fault.message]));
        let stop_wall = clock::monotonic_raw().since(stopping_at);
        if between.is_some() {
            acts(Who::Bridge, Act::Stop);
        }
        left.extend(between.into_iter().flat_map(Bridge::close));
        (left, stop_wall)
    }
}

impl NotPlaced {
    /// It failed before anything was started.
    pub(super) fn before(fault: Fault) -> Self {
        Self { fault, leftovers: Vec::new(), stood_at: clock::monotonic_raw() }
    }
}

/// The workload that is measured, in its place, in one trial.
pub(super) struct Stage<'a> {
    /// It.
    pub placed: &'a mut Placed,
    /// Plan of the run.
    pub plan: &'a Plan,
    /// The level on which its stack stands.
    pub level: u8,
    /// The cgroup hierarchies of that level.
    pub hierarchies: &'a Hierarchies,
    /// The counters of this machine.
    pub reader: &'a mut ConditionReader,
    /// Payers that work for the stack on that level, as it was right before the command.
    pub payers: Vec<Payer>,
    /// Whoever writes down the timeline.
    pub recorder: Recorder,
}

impl Stage<'_> {
    fn deadline(&self) -> Duration {
        self.plan.command_deadline()
    }

    /// Runs the command once, or both sides of a workload that has two.
    ///
    /// # Errors
    /// It could not be started, or does not end.
    pub(super) fn run(&mut self, kind: PhaseKind) -> Result<TimedRun, Fault> {
        let deadline = self.deadline();
        let recorder = &mut self.recorder;
        let Placed { peer, running, command, .. } = &mut *self.placed;
        let asked = clock::monotonic_raw();
        let ran = match peer {
            Some(peer) => {
                let watching = recorder.watching(peer.is_heard());
                peer.run(running, deadline, (watching, &mut recorder.ear))
            }
            None => {
                let watching = Some(recorder.watching(true));
                let command = Command { watching, ..command.clone() };
                execute(running, &command, deadline, &mut recorder.ear)
            }
        };
        let (from, to) = match &ran {
            Ok(ran) => (ran.began, ran.began + ran.between),
            Err(_) => (asked, clock::monotonic_raw()),
        };
        recorder.phase(kind, from, to);
        ran
    }

    /// Drops the caches of all levels, where the plan wants them cold. `is_fresh`: nothing that is
    /// measured has run in this start yet.
    ///
    /// # Errors
    /// The machine's: a cache that holds what an earlier run left cannot be dropped.
    pub(super) fn cool(&mut self, is_fresh: bool) -> Result<(), Fault> {
        match self.plan.conduct.cache {
            Cache::Cold => cold::drop_caches(self.placed.running.link()?, is_fresh),
            _ => Ok(()),
        }
    }

    /// Runs the command as often as the plan has it in one start, or until it fails. The caches are
    /// cold for its first run; companions look away while they are dropped for the others.
    ///
    /// # Errors
    /// As [`Self::run`]; also where a cache cannot be dropped.
    pub(super) fn iterate(
        &mut self,
        beside: &mut [Box<dyn Companion>],
        acts: Acts<'_>,
    ) -> Result<Vec<TimedRun>, Fault> {
        let mut runs: Vec<TimedRun> = Vec::new();
        for iteration in 0..self.plan.conduct.iterations {
            if iteration > 0 && self.plan.conduct.cache == Cache::Cold {
                beside.iter_mut().rev().for_each(|it| it.pause());
                self.cool(false)?;
                beside.iter_mut().for_each(|it| it.resume());
            }
            acts(Who::Command, Act::Run);
            let ran = self.run(PhaseKind::Run)?;
            let goes_on = self.plan.conduct.counts(&ran.outcome);
            runs.push(ran);
            if !goes_on {
                break;
            }
        }
        Ok(runs)
    }

    /// The command that runs in the stack: the server, where the client is outside.
    pub(super) fn inside(&self) -> Command {
        let Placed { peer, command, .. } = &*self.placed;
        peer.as_ref().map_or(command, Peer::inside).clone()
    }
}

impl Placed {
    /// Runs a step that is not measured, with what the workload's own part makes of it.
    ///
    /// # Errors
    /// The step's.
    pub(super) fn with_steps<T>(
        &mut self,
        deadline: Duration,
        steps: impl FnOnce(
            &TrialWorkload,
            &Command,
            &mut dyn FnMut(&Command) -> Result<Outcome, Fault>,
        ) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let Self { running, command, work, .. } = self;
        steps(work, command, &mut |step| {
            Ok(execute(running, step, deadline, &mut Overheard::default())?.outcome)
        })
    }
}
