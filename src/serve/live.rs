//! The course of a run that is not finished: what runs now, and how long the rest takes.
//!
//! A look must not be what disturbs the run: its file is read without what trials measured, at most
//! once in a while, and after a look that took long not before long.

use super::library::{FileStamp, Library, rest};
use super::lock;
use crate::campaign::GIVE_UP_AFTER;
use crate::fault::Fault;
use crate::finding::{foreign, number};
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

/// Longest time between two trials of one sitting.
const PAUSE: Nanoseconds = Nanoseconds(60_000_000_000);

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

/// The part of a run that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// All that is planned.
    Planned,
    /// The running trial: it was asked to end.
    ThisTrial,
}

/// Courses of runs as they were seen last: many may ask at once.
#[derive(Default)]
pub(super) struct CourseCache {
    seen: Mutex<HashMap<PathBuf, CachedCourse>>,
}

/// Course of a run, and what it was read from.
struct CachedCourse {
    stamp: FileStamp,
    at: Nanoseconds,
    /// Time that it took to read, without waiting for its turn.
    took: Nanoseconds,
    course: Arc<RunCourse>,
}

impl CachedCourse {
    fn is_good(&self, stamp: &FileStamp, now: Nanoseconds) -> bool {
        let age = now.since(self.at);
        let rest = rest(self.took);
        match self.stamp == *stamp {
            true => age < LOOK_ANYWAY.max(rest),
            false => age < LOOK_AFTER.max(rest),
        }
    }
}

impl CourseCache {
    /// Looks at a run, unless somebody just did; `rest` is what is known of how it goes on.
    pub(super) fn now(&self, library: &Library, path: &Path, rest: Rest) -> Result<Now, Fault> {
        Ok(self.course(library, path)?.now(clock::wall(), rest))
    }

    /// Forgets a run, so that the next look is at its file.
    pub(super) fn forget(&self, path: &Path) {
        lock(&self.seen).remove(path);
    }

    fn course(&self, library: &Library, path: &Path) -> Result<Arc<RunCourse>, Fault> {
        let mut seen = lock(&self.seen);
        let (stamp, at) = (FileStamp::of(path), monotonic_raw());
        seen.retain(|_, it| it.course.is_running || at.since(it.at) < LOOK_ANYWAY);
        if let Some(known) = seen.get(path).filter(|it| it.is_good(&stamp, at)) {
            return Ok(Arc::clone(&known.course));
        }
        let (course, took) = library.read(path, |ledger| {
            let began = monotonic_raw();
            let course = RunCourse::read(ledger)?;
            Ok((Arc::new(course), monotonic_raw().since(began)))
        })?;
        let known = CachedCourse { stamp, at: monotonic_raw(), took, course: Arc::clone(&course) };
        seen.insert(path.into(), known);
        Ok(course)
    }
}

/// Course of a run.
struct RunCourse {
    is_running: bool,
    plan: Plan,
    costs: Costs,
    /// Number of blocks that are whole.
    blocks: u32,
    /// Arms of the next block that have ended.
    of_next: Vec<u32>,
    /// Time when it was begun, or went on, in nanoseconds since 1970.
    began: Nanoseconds,
    /// The stack that runs now, and since when.
    running: Option<(String, Nanoseconds)>,
    ended: usize,
    disturbances: String,
}

impl RunCourse {
    fn read(ledger: &Ledger) -> Result<Self, Fault> {
        let is_running = ledger.run()?.state == RunState::Running;
        let disturbances = disturbance::words(&ledger.last_disturbances()?);
        let (plan, trials) = (ledger.plan()?, ledger.attempts()?);
        Ok(Self { is_running, disturbances, ..Self::of(plan, &trials) })
    }

    /// The course that these attempts are.
    fn of(plan: Plan, trials: &[StoredTrial]) -> Self {
        let session = &trials[session(trials)..];
        let dropped = dropped(&plan, trials, session);
        let (blocks, of_next) = blocks(&plan, trials, &dropped);
        let mut costs = Costs::of(&plan);
        // The end of one that was in flight when surtax ended is when somebody went on.
        for trial in trials.iter().filter(|it| it.state != TrialState::Void) {
            if let Some(ended_at) = trial.ended_at {
                costs.learn(trial.id.arm, ended_at.since(trial.began_at).into());
            }
        }
        dropped.into_iter().for_each(|arm| costs.drop_arm(arm));
        let running = trials.iter().find(|it| it.state == TrialState::Running).map(|it| {
            let arm = plan.arms().into_iter().find(|arm| arm.index == it.id.arm);
            (arm.map_or_else(String::new, |arm| arm.to_string()), it.began_at)
        });
        Self {
            is_running: true,
            costs,
            blocks,
            of_next,
            began: session.first().map_or(Nanoseconds(0), |it| it.began_at),
            running,
            ended: trials.iter().filter(|it| it.ended_at.is_some()).count(),
            disturbances: String::new(),
            plan,
        }
    }

    fn now(&self, now: Nanoseconds, rest: Rest) -> Now {
        let line = match self.is_running {
            true => self.words(now, rest),
            false => String::from("it has ended"),
        };
        // Its texts go into a page as they are.
        let (line, machine) = (foreign::line(&line), foreign::line(&self.machine()));
        Now { is_running: self.is_running, ended: self.ended, line, machine }
    }

    fn words(&self, now: Nanoseconds, rest: Rest) -> String {
        let limit = self.plan.block_limit();
        let block = self.blocks.saturating_add(1).min(limit);
        let of = if self.plan.is_counted() { format!(" of {limit}") } else { String::new() };
        let mut words = vec![format!("run {block}{of} of each stack")];
        if let Some((stack, since)) = &self.running {
            words.push(format!("{stack} for {}", number::span(now.since(*since).0)));
        }
        match rest {
            Rest::ThisTrial => words.push(String::from("ends after this trial")),
            Rest::Planned if self.plan.precision_ppm.is_none() && self.plan.looks().is_empty() => {
                words.push(self.left(now));
            }
            Rest::Planned => {}
        }
        words.join(" · ")
    }

    /// Says how long the rest takes.
    fn left(&self, now: Nanoseconds) -> String {
        let elapsed = Duration::from(now.since(self.began));
        match self.costs.left(&self.plan, self.blocks, &self.of_next, elapsed) {
            Duration::ZERO => String::from("nearly done"),
            left => format!("{} left", rough(left)),
        }
    }

    /// Says what the machine is doing, and what disturbed the last trial that ended.
    fn machine(&self) -> String {
        let now = Host::open(Path::new("/")).read();
        let mut words = Vec::new();
        if let (Some(load), Some(cpu)) = (now.load_1min, now.cpu) {
            words.push(format!("load {load:.1} on {}", number::count(cpu.cpu_count, "CPU")));
        }
        if !self.disturbances.is_empty() {
            words.push(format!("the last trial was disturbed: {}", self.disturbances));
        }
        words.join(" · ")
    }
}

/// Index of the first trial since the run was begun or last went on: after one that was cut off, or
/// a pause that no trial makes.
fn session(trials: &[StoredTrial]) -> usize {
    let is_new = |pair: &[StoredTrial]| {
        let ended_at = pair[0].ended_at.unwrap_or(pair[0].began_at);
        pair[0].state == TrialState::Void || pair[1].began_at.since(ended_at) > PAUSE
    };
    trials.windows(2).rposition(is_new).map_or(0, |last| last + 1)
}

/// The arms that will not run any more: not usable here, or failed and never succeeded. Whoever
/// goes on with a run tries all again.
fn dropped(plan: &Plan, trials: &[StoredTrial], session: &[StoredTrial]) -> BTreeSet<u32> {
    let (mut succeeded, mut failures) = (BTreeSet::new(), HashMap::<u32, u32>::new());
    for trial in trials {
        if matches!(trial.state, TrialState::Done | TrialState::Disturbed) {
            succeeded.insert(trial.id.arm);
        }
    }
    for trial in session {
        let weight = match trial.state {
            TrialState::Unavailable => GIVE_UP_AFTER,
            TrialState::Failed | TrialState::Broken | TrialState::Invalid => 1,
            _ => 0,
        };
        let count = failures.entry(trial.id.arm).or_default();
        *count = count.saturating_add(weight);
    }
    let is_given_up = |arm: &u32| failures.get(arm).is_some_and(|count| *count >= GIVE_UP_AFTER);
    (0..plan.arm_count()).filter(|arm| is_given_up(arm) && !succeeded.contains(arm)).collect()
}

/// Number of blocks that are whole, and the arms of the next one that have ended.
fn blocks(plan: &Plan, trials: &[StoredTrial], dropped: &BTreeSet<u32>) -> (u32, Vec<u32>) {
    let is_over = |it: &&StoredTrial| {
        let states = [TrialState::Running, TrialState::Void, TrialState::Disturbed];
        !states.contains(&it.state)
    };
    let last = trials.iter().map(|it| it.id.block).max().unwrap_or(0);
    let of_last = trials.iter().filter(|it| it.id.block == last).filter(is_over);
    let of_last: Vec<u32> = of_last.map(|it| it.id.arm).collect();
    match (0..plan.arm_count()).all(|arm| of_last.contains(&arm) || dropped.contains(&arm)) {
        true => (last.saturating_add(1), Vec::new()),
        false => (last, of_last),
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
        let (id, began_at) = (TrialId { block, position: 0, arm }, Nanoseconds(second * SECOND));
        StoredTrial {
            ended_at: is_over.then_some(Nanoseconds((second + 1) * SECOND)),
            ..StoredTrial::begun(id, 1, state, began_at)
        }
    }

    /// A run of four blocks of native, native again, and runc.
    fn course(trials: &[StoredTrial]) -> RunCourse {
        let mut plan = plan(&["native", "runc"]);
        plan.runs = Some(4);
        RunCourse::of(plan, trials)
    }

    /// Number of whole blocks, and the arms of the next one that have ended.
    fn blocks_of(trials: &[StoredTrial]) -> (u32, Vec<u32>) {
        let course = course(trials);
        (course.blocks, course.of_next)
    }

    use TrialState::{Disturbed, Done, Failed, Running, Unavailable, Void};

    #[test]
    fn a_run_is_as_far_as_its_trials_are() {
        let mut trials = vec![trial(0, 0, Done, 0), trial(0, 1, Done, 1), trial(0, 2, Running, 2)];
        assert_eq!(blocks_of(&trials), (0, vec![0, 1]));
        let line =
            |trials: &[StoredTrial], rest| course(trials).words(Nanoseconds(5 * SECOND), rest);
        let now = line(&trials, Rest::Planned);
        assert!(now.starts_with("run 1 of 4 of each stack · runc for 3 s · "), "{now}");
        let ending = line(&trials, Rest::ThisTrial);
        assert_eq!(ending, "run 1 of 4 of each stack · runc for 3 s · ends after this trial");
        trials[2] = trial(0, 2, Disturbed, 2);
        assert_eq!(blocks_of(&trials), (0, vec![0, 1]), "it is repeated");
        trials.push(trial(0, 2, Done, 3));
        assert_eq!(blocks_of(&trials), (1, Vec::new()));
        let left = course(&trials).left(Nanoseconds(4 * SECOND));
        assert_eq!(left, "9 s left", "three blocks of three trials of a second");
        for block in 1..4 {
            trials.extend((0..3).map(|arm| trial(block, arm, Done, 4)));
        }
        let line = line(&trials, Rest::Planned);
        assert!(line.starts_with("run 4 of 4 ") && line.ends_with("nearly done"), "{line}");
    }

    #[test]
    fn what_a_ledger_says_turns_no_line_of_the_page_around() {
        let mut course = course(&[]);
        course.disturbances = String::from("a\u{202e}b");
        course.running = Some((String::from("runc\u{202e}"), Nanoseconds(0)));
        let now = course.now(Nanoseconds(5 * SECOND), Rest::ThisTrial);
        assert_eq!(
            now.line,
            "run 1 of 4 of each stack · runc\\u{202e} for 5 s · ends after this trial"
        );
        assert!(now.machine.ends_with("disturbed: a\\u{202e}b"), "{}", now.machine);
    }

    #[test]
    fn a_stack_that_is_not_tried_again_costs_nothing_and_keeps_no_block_open() {
        for (state, tries) in [(Unavailable, 1), (Failed, 2)] {
            let mut trials = Vec::new();
            for block in 0..2 {
                trials.extend([trial(block, 0, Done, 0), trial(block, 1, Done, 1)]);
                trials.extend((block < tries).then(|| trial(block, 2, state, 2)));
            }
            assert_eq!(blocks_of(&trials), (2, Vec::new()), "{state:?}");
            let left = course(&trials).left(Nanoseconds(4 * SECOND));
            assert_eq!(left, "4 s left", "{state:?}: two blocks of two trials");
        }
    }

    #[test]
    fn what_was_in_flight_when_surtax_ended_teaches_nothing() {
        let mut void = trial(0, 0, Void, 0);
        void.ended_at = Some(Nanoseconds(9_000 * SECOND));
        let trials = vec![void, trial(0, 0, Done, 9_000), trial(0, 1, Done, 9_001)];
        let course = course(&trials);
        assert_eq!(course.began, Nanoseconds(9_000 * SECOND));
        let left = course.left(Nanoseconds(9_002 * SECOND));
        assert!(left.ends_with(" s left"), "{left}");
    }

    #[test]
    fn a_run_that_went_on_is_as_old_as_that() {
        let first = vec![trial(0, 0, Done, 0), trial(0, 1, Done, 1), trial(0, 2, Unavailable, 2)];
        let mut trials = first.clone();
        trials.extend([trial(1, 0, Done, 4), trial(1, 1, Running, 5)]);
        assert_eq!(course(&trials).began, Nanoseconds(0));
        assert_eq!(blocks_of(&first), (1, Vec::new()), "there is nothing more to come of it");
        let mut trials = first;
        trials.extend([trial(1, 0, Done, 9_000), trial(1, 1, Done, 9_001)]);
        assert_eq!(course(&trials).began, Nanoseconds(9_000 * SECOND));
        assert_eq!(blocks_of(&trials), (1, vec![0, 1]), "whoever goes on tries all again");
    }

    #[test]
    fn a_hostile_number_of_a_block_is_only_a_number() {
        let trials: Vec<_> = (0..3).map(|arm| trial(u32::MAX, arm, Done, 0)).collect();
        let line = course(&trials).words(Nanoseconds(SECOND), Rest::Planned);
        assert!(line.starts_with("run 4 of 4 "), "{line}");
    }

    #[test]
    fn a_look_is_good_for_a_while_and_for_long_where_it_took_long() {
        let stamp = FileStamp::of(Path::new("/"));
        let other = FileStamp::of(Path::new("/proc/version"));
        let course = Arc::new(course(&[]));
        let look = |took| CachedCourse {
            stamp: stamp.clone(),
            at: Nanoseconds(0),
            took,
            course: course.clone(),
        };
        let second = |tenths: u64| Nanoseconds(tenths * SECOND / 10);
        let quick = look(Nanoseconds(1_000));
        assert!(quick.is_good(&other, second(8)) && !quick.is_good(&other, second(10)));
        assert!(quick.is_good(&stamp, second(49)) && !quick.is_good(&stamp, second(51)));
        let slow = look(second(5));
        assert!(slow.is_good(&other, second(99)) && !slow.is_good(&other, second(101)));
    }
}
