//! The course of a run that is not finished: what runs now, and how long the rest takes.
//!
//! A look must not be what disturbs the run: its file is read again only when it changed, without
//! what trials measured, and after a look that took long not before long.

use super::library::{Library, Stamp};
use super::lock;
use crate::campaign::GIVE_UP_AFTER;
use crate::fault::Fault;
use crate::finding::number;
use crate::ledger::{Ledger, RunState, StoredTrial, TrialState};
use crate::plan::duration::rough;
use crate::plan::{Costs, Plan};
use crate::trial::disturbance;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surtax_instrument::clock::{self, monotonic_raw};
use surtax_instrument::probe::host::Host;
use surtax_instrument::quantity::Nanoseconds;

/// Shortest time between two looks at a file that changed.
const LOOK_AFTER: Nanoseconds = Nanoseconds(900_000_000);

/// Longest time for which a file that did not change is not looked at: a surtax that was killed
/// changes nothing.
const LOOK_ANYWAY: Nanoseconds = Nanoseconds(5_000_000_000);

/// Multiple of the time that a look took, for which it is good: what is left to the run.
const REST: u64 = 20;

/// State of a run, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Now {
    /// True if a surtax works on it.
    pub(super) is_running: bool,
    /// Number of trials that have ended: with another, other things are found.
    pub(super) ended: usize,
    /// Words on what runs, and how long the rest takes.
    pub(super) line: String,
    /// Words on what the machine is doing, and what disturbed the last trial.
    pub(super) machine: String,
}

/// Last looks at runs: many may ask at once.
#[derive(Default)]
pub(super) struct Watch {
    seen: Mutex<HashMap<PathBuf, Look>>,
}

/// A look at a run's file.
struct Look {
    stamp: Stamp,
    at: Nanoseconds,
    took: Nanoseconds,
    course: Arc<Course>,
}

impl Look {
    fn is_good(&self, stamp: &Stamp, now: Nanoseconds) -> bool {
        let age = now.since(self.at);
        let rest = Nanoseconds(self.took.0.saturating_mul(REST));
        match self.stamp == *stamp {
            true => age < LOOK_ANYWAY.max(rest),
            false => age < LOOK_AFTER.max(rest),
        }
    }
}

impl Watch {
    /// Looks at a run, unless somebody just did.
    pub(super) fn now(&self, library: &Library, path: &Path) -> Result<Now, Fault> {
        Ok(self.course(library, path)?.now(clock::wall()))
    }

    fn course(&self, library: &Library, path: &Path) -> Result<Arc<Course>, Fault> {
        let mut seen = lock(&self.seen);
        let (stamp, at) = (Stamp::of(path), monotonic_raw());
        seen.retain(|_, look| look.course.is_running || at.since(look.at) < LOOK_ANYWAY);
        if let Some(look) = seen.get(path).filter(|look| look.is_good(&stamp, at)) {
            return Ok(Arc::clone(&look.course));
        }
        let course = Arc::new(library.read(path, Course::read)?);
        let took = monotonic_raw().since(at);
        seen.insert(path.into(), Look { stamp, at, took, course: Arc::clone(&course) });
        Ok(course)
    }
}

/// Course of a run.
struct Course {
    is_running: bool,
    plan: Plan,
    trials: Vec<StoredTrial>,
    disturbances: String,
}

impl Course {
    fn read(ledger: &Ledger) -> Result<Self, Fault> {
        Ok(Self {
            is_running: ledger.run()?.state == RunState::Running,
            plan: ledger.plan()?,
            trials: ledger.attempts()?,
            disturbances: disturbance::words(&ledger.last_disturbances()?),
        })
    }

    fn now(&self, now: Nanoseconds) -> Now {
        let line = match self.is_running {
            true => self.words(now),
            false => String::from("it has ended"),
        };
        let ended = self.trials.iter().filter(|it| it.ended_at.is_some()).count();
        Now { is_running: self.is_running, ended, line, machine: self.machine() }
    }

    fn words(&self, now: Nanoseconds) -> String {
        let (blocks, of_next) = self.blocks();
        // How many there will be is known beforehand where neither time nor precision decides.
        let is_counted = self.plan.precision_ppm.is_none() && self.plan.time_budget().is_none();
        let limit = self.plan.block_limit();
        let block = blocks.saturating_add(1).min(limit);
        let of = if is_counted { format!(" of {limit}") } else { String::new() };
        let mut words = vec![format!("run {block}{of} of each stack")];
        if let Some(trial) = self.trials.iter().find(|it| it.state == TrialState::Running) {
            let arms = self.plan.arms();
            let arm = arms.into_iter().find(|arm| arm.index == trial.id.arm);
            let stack = arm.map_or_else(String::new, |arm| arm.to_string());
            words.push(format!("{stack} for {}", number::span(now.since(trial.began_at).0)));
        }
        if self.plan.precision_ppm.is_none() {
            words.push(self.left(blocks, &of_next, now));
        }
        words.join(" · ")
    }

    /// The arms that will not run any more: not usable here, or failed and never succeeded.
    fn dropped(&self) -> BTreeSet<u32> {
        let of = |arm: u32| self.trials.iter().filter(move |it| it.id.arm == arm);
        let is_dropped = |arm: &u32| {
            let has_succeeded =
                of(*arm).any(|it| matches!(it.state, TrialState::Done | TrialState::Disturbed));
            let failures = of(*arm).filter(|it| {
                matches!(it.state, TrialState::Failed | TrialState::Broken | TrialState::Invalid)
            });
            let is_unavailable = of(*arm).any(|it| it.state == TrialState::Unavailable);
            !has_succeeded && (is_unavailable || failures.count() >= GIVE_UP_AFTER as usize)
        };
        (0..self.plan.arm_count()).filter(is_dropped).collect()
    }

    /// Number of blocks that are whole, and the arms of the next one that have ended.
    fn blocks(&self) -> (u32, Vec<u32>) {
        let has_ended = |it: &&StoredTrial| {
            let states = [TrialState::Running, TrialState::Void, TrialState::Disturbed];
            !states.contains(&it.state)
        };
        let last = self.trials.iter().map(|it| it.id.block).max().unwrap_or(0);
        let of_last = self.trials.iter().filter(|it| it.id.block == last).filter(has_ended);
        let of_last: Vec<u32> = of_last.map(|it| it.id.arm).collect();
        let dropped = self.dropped();
        let is_ended = |arm: &u32| of_last.contains(arm) || dropped.contains(arm);
        match (0..self.plan.arm_count()).all(|arm| is_ended(&arm)) {
            true => (last.saturating_add(1), Vec::new()),
            false => (last, of_last),
        }
    }

    /// Says how long the rest takes.
    fn left(&self, blocks: u32, of_next: &[u32], now: Nanoseconds) -> String {
        let mut costs = Costs::of(&self.plan);
        // The end of one that was in flight when surtax ended is when somebody went on.
        let whole = self.trials.iter().filter(|it| it.state != TrialState::Void);
        for trial in whole {
            if let Some(ended_at) = trial.ended_at {
                costs.learn(trial.id.arm, ended_at.since(trial.began_at).into());
            }
        }
        self.dropped().into_iter().for_each(|arm| costs.drop_arm(arm));
        // A time limit counts from where a run was begun or went on.
        let is_void = |it: &StoredTrial| it.state == TrialState::Void;
        let session = self.trials.iter().rposition(is_void).map_or(0, |last| last + 1);
        let began = self.trials.get(session).map_or(now, |it| it.began_at);
        let elapsed = Duration::from(now.since(began));
        match costs.left(&self.plan, blocks, of_next, elapsed) {
            Duration::ZERO => String::from("nearly done"),
            left => format!("{} left", rough(left)),
        }
    }

    /// Says what the machine is doing, and what disturbed the last trial that ended.
    fn machine(&self) -> String {
        let now = Host::open(Path::new("/")).read();
        let mut words = Vec::new();
        if let (Some(load), Some(cpu)) = (now.load_1min, now.cpu) {
            let cpus = usize::try_from(cpu.cpu_count).unwrap_or(usize::MAX);
            words.push(format!("load {load:.1} on {}", number::count(cpus, "CPU")));
        }
        if !self.disturbances.is_empty() {
            words.push(format!("the last trial was disturbed: {}", self.disturbances));
        }
        words.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TrialId;
    use crate::plan::tests::plan;

    const SECOND: u64 = 1_000_000_000;

    /// A trial of a second, which began so many seconds after the first.
    fn trial(block: u32, arm: u32, state: TrialState, second: u64) -> StoredTrial {
        let is_over = state != TrialState::Running;
        StoredTrial {
            id: TrialId { block, position: 0, arm },
            attempt: 1,
            state,
            began_at: Nanoseconds(second * SECOND),
            ended_at: is_over.then_some(Nanoseconds((second + 1) * SECOND)),
            exit_status: None,
            why: String::new(),
            remedy: None,
            evidence: None,
            samples: Vec::new(),
            instances: Vec::new(),
            iterations: Vec::new(),
            readings: Vec::new(),
            stdout_hash: None,
            disturbances: Vec::new(),
            leftovers: Vec::new(),
        }
    }

    /// A run of four blocks of native, native again, and runc.
    fn course(trials: Vec<StoredTrial>) -> Course {
        let mut plan = plan(&["native", "runc"]);
        plan.runs = Some(4);
        Course { is_running: true, plan, trials, disturbances: String::new() }
    }

    use TrialState::{Disturbed, Done, Failed, Running, Unavailable, Void};

    #[test]
    fn a_run_is_as_far_as_its_trials_are() {
        let mut trials = vec![trial(0, 0, Done, 0), trial(0, 1, Done, 1), trial(0, 2, Running, 2)];
        assert_eq!(course(trials.clone()).blocks(), (0, vec![0, 1]));
        let line = course(trials.clone()).words(Nanoseconds(5 * SECOND));
        assert!(line.starts_with("run 1 of 4 of each stack · runc for 3 s · "), "{line}");
        trials[2] = trial(0, 2, Disturbed, 2);
        assert_eq!(course(trials.clone()).blocks(), (0, vec![0, 1]), "it is repeated");
        trials.push(trial(0, 2, Done, 3));
        assert_eq!(course(trials.clone()).blocks(), (1, Vec::new()));
        let left = course(trials.clone()).left(1, &[], Nanoseconds(4 * SECOND));
        assert_eq!(left, "9 s left", "three blocks of three trials of a second");
        for block in 1..4 {
            trials.extend((0..3).map(|arm| trial(block, arm, Done, 4)));
        }
        let line = course(trials).words(Nanoseconds(5 * SECOND));
        assert!(line.starts_with("run 4 of 4 ") && line.ends_with("nearly done"), "{line}");
    }

    #[test]
    fn a_stack_that_is_not_tried_again_costs_nothing_and_keeps_no_block_open() {
        for (state, tries) in [(Unavailable, 1), (Failed, 2)] {
            let mut trials = Vec::new();
            for block in 0..2 {
                trials.extend([trial(block, 0, Done, 0), trial(block, 1, Done, 1)]);
                trials.extend((block < tries).then(|| trial(block, 2, state, 2)));
            }
            let course = course(trials);
            assert_eq!(course.blocks(), (2, Vec::new()), "{state:?}");
            let left = course.left(2, &[], Nanoseconds(4 * SECOND));
            assert_eq!(left, "4 s left", "{state:?}: two blocks of two trials");
        }
    }

    #[test]
    fn what_was_in_flight_when_surtax_ended_teaches_nothing() {
        let mut void = trial(0, 0, Void, 0);
        void.ended_at = Some(Nanoseconds(9_000 * SECOND));
        let trials = vec![void, trial(0, 0, Done, 9_000), trial(0, 1, Done, 9_001)];
        let left = course(trials).left(0, &[0, 1], Nanoseconds(9_002 * SECOND));
        assert!(left.ends_with(" s left"), "{left}");
    }

    #[test]
    fn a_hostile_number_of_a_block_is_only_a_number() {
        let trials = (0..3).map(|arm| trial(u32::MAX, arm, Done, 0)).collect();
        let line = course(trials).words(Nanoseconds(SECOND));
        assert!(line.starts_with("run 4 of 4 "), "{line}");
    }

    #[test]
    fn a_look_is_good_for_a_while_and_for_long_where_it_took_long() {
        let stamp = Stamp::of(Path::new("/"));
        let other = Stamp::of(Path::new("/proc/version"));
        let course = Arc::new(course(Vec::new()));
        let look =
            |took| Look { stamp: stamp.clone(), at: Nanoseconds(0), took, course: course.clone() };
        let second = |tenths: u64| Nanoseconds(tenths * SECOND / 10);
        let quick = look(Nanoseconds(1_000));
        assert!(quick.is_good(&other, second(8)) && !quick.is_good(&other, second(10)));
        assert!(quick.is_good(&stamp, second(49)) && !quick.is_good(&stamp, second(51)));
        let slow = look(second(5));
        assert!(slow.is_good(&other, second(99)) && !slow.is_good(&other, second(101)));
    }
}
