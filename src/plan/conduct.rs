//! Conduct of each trial: iterations, caches, pauses, and the environment's size.

use super::Draft;
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Outcome, Status};

/// Iterations of a plan that names none: each start of a stack runs the command once.
pub(super) const DEFAULT_ITERATIONS: u32 = 1;

/// Up to how many bytes are added to the environment unless told: what one page holds.
pub(super) const DEFAULT_PADDING: u32 = 4096;

const ITERATIONS_LIMIT: u32 = 10_000;
const PADDING_LIMIT: u32 = 64 << 10;
const WATCH_LEAST: Duration = Duration::from_millis(100);
const SETTLE_LIMIT: Duration = Duration::from_secs(3600);

/// Settings of a trial, the same for every arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TrialSettings {
    /// Runs of the command inside each started stack that are measured, at least 1.
    pub iterations: u32,
    /// Number of the command's instances that run at once inside each started stack, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub instances: u32,
    /// State of the page caches when the command begins.
    pub cache: Cache,
    /// Idle time before each trial, in nanoseconds.
    pub settle_ns: u64,
    /// The command's environment grows by a random length up to this in each trial, in bytes: where
    /// the stack begins changes the speed of the same code. Source: Mytkowicz, Diwan, Hauswirth and
    /// Sweeney, "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009.
    pub padding_limit_bytes: u32,
    /// Time between two looks at who uses what while the command runs, in nanoseconds; zero for
    /// none. `None` is a second, where the command runs for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_ns: Option<u64>,
    /// True if a run of the command counts whatever its exit status is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_failure: bool,
    /// True if a trial that was disturbed counts at once, and is not repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_disturbed: bool,
}

/// State of the page caches when the command begins.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// State that a fresh start of the stack finds: usually a warm cache of this machine, and a
    /// cold one of a virtual machine.
    #[default]
    AsStarted,
    /// Nothing: every kernel of the stack drops its caches before each run of the command.
    Cold,
    /// State that an uncounted run of the command in the same stack has left.
    Warm,
}

/// Returns the number of instances in runs that were made before there was a choice.
fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl TrialSettings {
    /// That of runs which were made before there was a choice.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            iterations: 1,
            instances: 1,
            cache: Cache::AsStarted,
            settle_ns: 0,
            padding_limit_bytes: 0,
            watch_ns: None,
            ignore_failure: false,
            keep_disturbed: false,
        }
    }

    /// Tells whether a run of the command that ended so counts, all of its instances. One that was
    /// killed never does.
    pub(crate) fn counts(&self, outcome: &Outcome) -> bool {
        let counts = |status| match status {
            Status::Exit(code) => code == 0 || self.ignore_failure,
            Status::Signal(_) | Status::Deadline | Status::Cancelled => false,
        };
        counts(outcome.status) && outcome.instances.iter().all(|it| counts(it.status))
    }

    /// Returns the time between two looks, if that is said; zero for none.
    #[must_use]
    pub fn watch(&self) -> Option<Duration> {
        self.watch_ns.map(Duration::from_nanos)
    }

    /// Returns the idle time before each trial.
    #[must_use]
    pub fn settle(&self) -> Duration {
        Duration::from_nanos(self.settle_ns)
    }
}

impl Cache {
    /// Reads the word after `--cache`.
    ///
    /// # Errors
    /// The user's: another word.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        match text {
            "cold" => Ok(Self::Cold),
            "warm" => Ok(Self::Warm),
            _ => Err(Fault::user(format!("`{}` is no state of a cache", text.escape_debug()))
                .hint("use `cold` or `warm`; without it, each start finds what it finds")),
        }
    }

    /// The word that is read as this; `None` where nothing is said.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::AsStarted => None,
            Self::Cold => Some("cold"),
            Self::Warm => Some("warm"),
        }
    }
}

/// Settings of a trial, as far as they have been said; `None` for what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialSettingsDraft {
    /// See [`TrialSettings::iterations`]; by default 1.
    pub iterations: Option<u32>,
    /// See [`TrialSettings::instances`]; by default 1.
    pub instances: Option<u32>,
    /// See [`TrialSettings::cache`].
    pub cache: Option<Cache>,
    /// See [`TrialSettings::settle_ns`]; by default none.
    pub settle: Option<Duration>,
    /// See [`TrialSettings::padding_limit_bytes`]; by default 4096.
    pub padding_limit_bytes: Option<u32>,
    /// See [`TrialSettings::watch_ns`].
    pub watch: Option<Duration>,
    /// See [`TrialSettings::ignore_failure`]; by default false.
    pub ignore_failure: Option<bool>,
    /// See [`TrialSettings::keep_disturbed`]; by default false.
    pub keep_disturbed: Option<bool>,
}

impl TrialSettingsDraft {
    /// Lays another draft over this one.
    pub(super) fn overlaid_by(self, other: Self) -> Self {
        Self {
            iterations: other.iterations.or(self.iterations),
            instances: other.instances.or(self.instances),
            cache: other.cache.or(self.cache),
            settle: other.settle.or(self.settle),
            padding_limit_bytes: other.padding_limit_bytes.or(self.padding_limit_bytes),
            watch: other.watch.or(self.watch),
            ignore_failure: other.ignore_failure.or(self.ignore_failure),
            keep_disturbed: other.keep_disturbed.or(self.keep_disturbed),
        }
    }
}

impl Draft {
    /// The conduct and the number of runs that warm up.
    pub(super) fn checked_conduct(&self) -> Result<(TrialSettings, u32), Fault> {
        let said = self.conduct;
        let iterations = said.iterations.unwrap_or(DEFAULT_ITERATIONS);
        if !(1..=ITERATIONS_LIMIT).contains(&iterations) {
            let message =
                format!("`iterations = {iterations}` is not from 1 to {ITERATIONS_LIMIT}");
            return Err(self.refuse("iterations", message));
        }
        let padding_limit_bytes = said.padding_limit_bytes.unwrap_or(DEFAULT_PADDING);
        if padding_limit_bytes > PADDING_LIMIT {
            let message = format!("`env_padding = {padding_limit_bytes}` is above {PADDING_LIMIT}");
            return Err(self.refuse("env_padding", message));
        }
        let settle = said.settle.unwrap_or_default();
        if settle > SETTLE_LIMIT {
            return Err(self.refuse("settle", "`settle` is longer than an hour"));
        }
        let cache = said.cache.unwrap_or_default();
        let warm_up = match (cache, self.warm_up) {
            (Cache::Cold, Some(1..)) => {
                return Err(self
                    .refuse("cache", "a cold cache and runs that warm up contradict each other")
                    .hint("leave one of the two out"));
            }
            (Cache::Warm, Some(0)) => {
                return Err(self
                    .refuse("cache", "a warm cache needs a run that warms up, and `warm_up` is 0")
                    .hint("leave `warm_up` out"));
            }
            (Cache::Warm, said) => said.unwrap_or(1),
            (_, said) => said.unwrap_or(0),
        };
        if said.watch.is_some_and(|watch| !watch.is_zero() && watch < WATCH_LEAST) {
            let message = "`watch` is shorter than 100 ms: to look more often is a load of its own";
            return Err(self.refuse("watch", message));
        }
        let settle_ns = Nanoseconds::from(settle).0;
        let instances = self.checked_instances()?;
        let ignore_failure = said.ignore_failure.unwrap_or_default();
        if ignore_failure && self.workload.is_some() {
            let message = "`ignore_failure` and a workload contradict each other: the numbers of a \
                           workload that failed say nothing";
            return Err(self.refuse("ignore_failure", message));
        }
        let settings = TrialSettings {
            iterations,
            instances,
            cache,
            settle_ns,
            padding_limit_bytes,
            watch_ns: said.watch.map(|watch| Nanoseconds::from(watch).0),
            ignore_failure,
            keep_disturbed: said.keep_disturbed.unwrap_or_default(),
        };
        Ok((settings, warm_up))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{around, draft};
    use super::*;

    fn decided(
        conduct: TrialSettingsDraft,
        warm_up: Option<u32>,
    ) -> Result<(TrialSettings, u32), Fault> {
        let draft = Draft { conduct, warm_up, ..draft(&["native"]) };
        draft.complete(&around()).map(|decided| (decided.plan.conduct, decided.plan.warm_up))
    }

    #[test]
    fn unless_told_a_start_runs_the_command_once_in_an_environment_of_random_size() {
        let (conduct, warm_up) = decided(TrialSettingsDraft::default(), None).unwrap();
        assert_eq!(conduct, TrialSettings { padding_limit_bytes: 4096, ..TrialSettings::plain() });
        assert_eq!(warm_up, 0);
    }

    #[test]
    fn an_ignored_failure_counts_and_nothing_that_was_killed_does() {
        let counts = |status: Status, ignore_failure: bool| {
            let settings = TrialSettings { ignore_failure, ..TrialSettings::plain() };
            let mut measured = crate::ledger::fixture::measured(1);
            measured.outcome.status = status;
            settings.counts(&measured.outcome)
        };
        assert!(counts(Status::Exit(0), false) && counts(Status::Exit(3), true));
        assert!(!counts(Status::Exit(3), false));
        for killed in [Status::Signal(9), Status::Deadline, Status::Cancelled] {
            assert!(!counts(killed, true), "{killed}");
        }
    }

    #[test]
    fn a_warm_cache_is_one_uncounted_run_more_and_a_cold_one_allows_none() {
        let warm = TrialSettingsDraft { cache: Some(Cache::Warm), ..TrialSettingsDraft::default() };
        assert_eq!(decided(warm, None).unwrap().1, 1);
        assert_eq!(decided(warm, Some(3)).unwrap().1, 3);
        assert!(decided(warm, Some(0)).unwrap_err().message.contains("warm cache"));
        let cold = TrialSettingsDraft { cache: Some(Cache::Cold), ..TrialSettingsDraft::default() };
        assert_eq!(decided(cold, None).unwrap().1, 0);
        assert!(decided(cold, Some(1)).unwrap_err().message.contains("contradict"));
    }

    #[test]
    fn what_is_beyond_measure_is_refused() {
        let none = TrialSettingsDraft { iterations: Some(0), ..TrialSettingsDraft::default() };
        assert!(decided(none, None).unwrap_err().message.contains("from 1 to"));
        let long = Some(Duration::from_secs(3601));
        let long = TrialSettingsDraft { settle: long, ..TrialSettingsDraft::default() };
        assert!(decided(long, None).unwrap_err().message.contains("an hour"));
        let often = Some(Duration::from_millis(99));
        let often = TrialSettingsDraft { watch: often, ..TrialSettingsDraft::default() };
        assert!(decided(often, None).unwrap_err().message.contains("shorter than 100 ms"));
        let large = TrialSettingsDraft {
            padding_limit_bytes: Some(1 << 20),
            ..TrialSettingsDraft::default()
        };
        assert!(decided(large, None).unwrap_err().message.contains("above 65536"));
        assert!(Cache::parse("hot").unwrap_err().hint.unwrap().contains("`cold` or `warm`"));
    }
}
