//! The course of a run that is not finished: what runs now, and how long the rest takes.

use super::library::Library;
use crate::fault::Fault;
use crate::finding::number;
use crate::ledger::{RunState, StoredTrial};
use crate::plan::duration::rough;
use crate::plan::{Costs, Plan, TrialId};
use crate::trial::disturbance;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use surtax_instrument::clock::{self, monotonic_raw};
use surtax_instrument::probe::host::Host;
use surtax_instrument::quantity::Nanoseconds;

/// Time for which what was seen is told again.
const GOOD_FOR: Nanoseconds = Nanoseconds(900_000_000);

/// The state of a run, in words for people.
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

impl Now {
    /// Looks at a run.
    ///
    /// # Errors
    /// The user's or the machine's: it cannot be read.
    pub(super) fn of(library: &Library, path: &Path) -> Result<Self, Fault> {
        library.read(path, |ledger| {
            let is_running = ledger.run()?.state == RunState::Running;
            let (plan, trials, done) = (ledger.plan()?, ledger.trials()?, ledger.done()?);
            let precise = plan.precision_ppm.is_some();
            let course = Course { plan: &plan, trials: &trials, done: &done, now: clock::wall() };
            let line = match is_running {
                true => course.words(precise),
                false => String::from("it has ended"),
            };
            let ended = trials.iter().filter(|it| it.ended_at.is_some()).count();
            Ok(Self { is_running, ended, line, machine: machine(&trials) })
        })
    }
}

/// Last looks at runs, each good for a moment: many may ask at once.
#[derive(Default)]
pub(super) struct Watch {
    seen: Mutex<HashMap<PathBuf, (Nanoseconds, Now)>>,
}

impl Watch {
    /// Looks at a run, unless somebody just did.
    pub(super) fn now(&self, library: &Library, path: &Path) -> Result<Now, Fault> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (at, _)| monotonic_raw().since(*at) < GOOD_FOR);
        if let Some((_, now)) = seen.get(path) {
            return Ok(now.clone());
        }
        let now = Now::of(library, path)?;
        seen.insert(path.into(), (monotonic_raw(), now.clone()));
        Ok(now)
    }
}

/// Course of a run.
struct Course<'a> {
    plan: &'a Plan,
    trials: &'a [StoredTrial],
    done: &'a HashSet<TrialId>,
    now: Nanoseconds,
}

impl Course<'_> {
    fn words(&self, is_precise: bool) -> String {
        let (blocks, of_next) = self.blocks();
        let mut words = Vec::new();
        let running = self.trials.iter().find(|it| it.ended_at.is_none());
        let planned = match (is_precise, self.plan.time_budget()) {
            (false, None) => format!(" of {}", self.plan.block_limit()),
            _ => String::new(),
        };
        words.push(format!("run {}{planned} of each stack", blocks + 1));
        if let Some(trial) = running {
            let arms = self.plan.arms();
            let arm = arms.into_iter().find(|arm| arm.index == trial.id.arm);
            let stack = arm.map_or_else(String::new, |arm| arm.to_string());
            words.push(format!("{stack} for {}", number::span(self.now.since(trial.began_at).0)));
        }
        if !is_precise {
            words.push(self.left(blocks, &of_next));
        }
        words.join(" · ")
    }

    /// The blocks that are whole, and the arms of the next one that have ended.
    fn blocks(&self) -> (u32, Vec<u32>) {
        let last = self.done.iter().map(|it| it.block).max().unwrap_or(0);
        let of_last: Vec<u32> =
            self.done.iter().filter(|it| it.block == last).map(|it| it.arm).collect();
        match of_last.len() >= self.plan.arm_count() as usize {
            true => (last + 1, Vec::new()),
            false => (last, of_last),
        }
    }

    /// The time that the rest takes.
    fn left(&self, blocks: u32, of_next: &[u32]) -> String {
        let mut costs = Costs::of(self.plan);
        let whole = |it: &StoredTrial| Some((it.id.arm, it.ended_at?.since(it.began_at)));
        for (arm, took) in self.trials.iter().filter_map(whole) {
            costs.learn(arm, took.into());
        }
        let began = self.trials.iter().map(|it| it.began_at).min().unwrap_or(self.now);
        let elapsed = Duration::from(self.now.since(began));
        match costs.left(self.plan, blocks, of_next, elapsed) {
            Duration::ZERO => String::from("nearly done"),
            left => format!("{} left", rough(left)),
        }
    }
}

/// Says what the machine is doing, and what disturbed the last trial that ended.
fn machine(trials: &[StoredTrial]) -> String {
    let now = Host::open(Path::new("/")).read();
    let mut words = Vec::new();
    let cpus = now.cpu.map(|it| it.cpu_count);
    if let (Some(load), Some(cpus)) = (now.load_1min, cpus) {
        let cpus = number::count(usize::try_from(cpus).unwrap_or(0), "CPU");
        words.push(format!("load {load:.1} on {cpus}"));
    }
    let last = trials.iter().filter(|it| it.ended_at.is_some()).max_by_key(|it| it.ended_at);
    if let Some(last) = last.filter(|it| !it.disturbances.is_empty()) {
        words.push(format!(
            "the last trial was disturbed: {}",
            disturbance::words(&last.disturbances)
        ));
    }
    words.join(" · ")
}
