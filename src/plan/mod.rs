//! The plan: stacks × command × repeats as one value.
//!
//! It comes from the command line or from a TOML file, is written into the ledger whole, and is
//! enough to expand every trial again: same seed, same order, on every version.

mod beside;
mod budget;
mod conduct;
mod depth;
pub mod duration;
mod estimate;
mod expand;
pub mod file;
mod instances;
mod looks;
mod networks;
pub mod percentage;
pub mod order;
mod pricing;
mod refuse;
mod repeat;
pub mod shelf;
mod shell;
mod stacks;
mod word;
pub mod writable;

use crate::layer::StackSpec;
use crate::meter::MeterSpec;
use crate::workload::Workload;
pub use beside::Neighbour;
pub use conduct::{Cache, TrialSettings, TrialSettingsDraft};
pub use estimate::Costs;
pub use expand::BLOCK_LIMIT;
pub use looks::LOOKS;
pub use refuse::{CheckedPlan, Defaults, Draft, TITLE_MAX};
use serde::{Deserialize, Serialize};
pub use shell::{line as shell_line, path as shell_path};
pub use stacks::STACK_LIMIT;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use surtax_instrument::words;
pub use word::Word;

/// The value of [`Plan::schema_version`] that this surtax writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Plan of a measurement: what is measured, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// Raised when a field changes its meaning.
    pub schema_version: u32,
    /// For people; appears as the report's heading.
    pub title: String,
    /// The stacks as typed, in the order of the report. The baseline is among them once.
    pub stacks: Vec<StackSpec>,
    /// Stack that the others are compared with; it runs as two arms.
    pub baseline: StackSpec,
    /// Workloads that run in other stacks meanwhile; with any, each stack is also measured without
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Neighbour>,
    /// Meters of power that are read all through the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub meters: Vec<MeterSpec>,
    /// Program and arguments.
    pub command: Vec<Word>,
    /// Workload whose command it is, if it is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Working directory on every level.
    #[serde(with = "word::path")]
    #[schemars(with = "Word")]
    pub cwd: PathBuf,
    /// Variables of the command's environment, sorted by name: over the caller's, or alone.
    pub environment: Vec<(String, Word)>,
    /// True if the command also gets the caller's environment. It is read when the plan runs and
    /// never written down: a run file is passed on, and the caller's secrets are not.
    pub inherit_environment: bool,
    /// Directories whose writes are kept; all other writes are thrown away after the trial.
    pub writable: Vec<PathBuf>,
    /// Number of blocks; without it, as many as fit into `time_budget_ns`.
    pub runs: Option<u32>,
    /// Time after which no further block is started, in nanoseconds.
    pub time_budget_ns: Option<u64>,
    /// Precision at which to stop before that: half the interval of every arm's overhead is at most
    /// this share of its ratio. In parts per million.
    #[serde(default)]
    pub precision_ppm: Option<u32>,
    /// Number of times that it asks whether its thresholds are decided: after `runs` blocks, twice,
    /// four times as many. It ends as soon as they are; of 1 it does not ask.
    #[serde(default = "looks::one", skip_serializing_if = "looks::is_one")]
    pub looks: u32,
    /// Runs of the command inside each started stack before the measured one.
    pub warm_up: u32,
    /// Settings of each trial.
    #[serde(default = "TrialSettings::plain")]
    pub conduct: TrialSettings,
    /// After how long a command is killed and its trial fails, in nanoseconds.
    pub command_deadline_ns: u64,
    /// Time that one layer may take to start, in nanoseconds.
    pub start_deadline_ns: u64,
    /// Half-width of the equivalence margin, as a share: 0.03 is ±3 %. In parts per million.
    pub equivalence_margin_ppm: u32,
    /// Seed of the order of trials.
    pub seed: u64,
}

impl Plan {
    /// After how long a command is killed.
    #[must_use]
    pub fn command_deadline(&self) -> Duration {
        Duration::from_nanos(self.command_deadline_ns)
    }

    /// Returns the time that one layer may take to start.
    #[must_use]
    pub fn start_deadline(&self) -> Duration {
        Duration::from_nanos(self.start_deadline_ns)
    }

    /// Returns the time after which no further block is started, counted from the first trial's
    /// begin.
    #[must_use]
    pub fn time_budget(&self) -> Option<Duration> {
        self.time_budget_ns.map(Duration::from_nanos)
    }

    /// The share to which every overhead is to be known, if the plan names one.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        self.precision_ppm.map(|ppm| f64::from(ppm) / 1e6)
    }

    /// The arms, baseline twice: arm 0 and arm 1 are the baseline, the others follow in order; and
    /// where the plan has neighbours, all once more beside them.
    #[must_use]
    pub fn arms(&self) -> Vec<Arm> {
        let each = || {
            let others = self.stacks.iter().filter(|stack| **stack != self.baseline);
            std::iter::once(&self.baseline).chain(others)
        };
        let alone =
            std::iter::once(&self.baseline).chain(each()).map(|stack| (stack, String::new()));
        let words: Vec<String> = self.beside.iter().map(ToString::to_string).collect();
        let words = words.join(" and ");
        let beside = each().filter(|_| !words.is_empty()).map(|stack| (stack, words.clone()));
        alone
            .chain(beside)
            .zip(0u32..)
            .map(|((stack, beside), index)| Arm { index, stack: stack.clone(), beside })
            .collect()
    }

    /// Lists the workloads that run beside an arm.
    #[must_use]
    pub fn neighbours(&self, arm: u32) -> &[Neighbour] {
        if arm < self.alone_count() { &[] } else { &self.beside }
    }
}

/// One stack in one plan. Arms 0 and 1 hold the same stack: their difference is the noise floor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Place of the arm in the plan, from 0.
    pub index: u32,
    /// Stack that runs.
    pub stack: StackSpec,
    /// Beside what, as typed; empty where it is alone.
    pub beside: String,
}

/// Part that an arm has in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmPart {
    /// Stack that the others are compared with.
    Baseline,
    /// Same stack once more: how far it is from itself is the noise floor.
    BaselineAgain,
    /// One that is compared.
    Compared,
}

words!(ArmPart { Baseline: "baseline", BaselineAgain: "baseline-again", Compared: "compared" });

/// Words between a stack and its neighbours in the text of an arm.
pub(crate) const BESIDE: &str = " beside ";

impl Arm {
    /// Tells whether it is compared with the baseline: all are but the first two, which are that.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.part() == ArmPart::Compared
    }

    /// Returns its part in the plan.
    #[must_use]
    pub fn part(&self) -> ArmPart {
        match self.index {
            0 => ArmPart::Baseline,
            1 => ArmPart::BaselineAgain,
            _ => ArmPart::Compared,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stack.fmt(f)?;
        if self.beside.is_empty() { Ok(()) } else { write!(f, "{BESIDE}{}", self.beside) }
    }
}

/// One line of the expanded plan: who runs when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialId {
    /// Number of the block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub position: u32,
    /// Index of the arm.
    pub arm: u32,
}

#[cfg(test)]
pub(crate) mod tests;
