//! Reports: claims from a ledger and nothing else.
//!
//! `compare.rs` turns a ledger into [`Findings`]; every format (terminal, Markdown, CSV, JSON, HTML)
//! is a function from findings to text, so that no two formats can disagree.

mod bill;
mod caution;
mod compare;
mod distribution;
mod estimate;
pub mod export;
pub mod foreign;
mod guest_clock;
pub mod html;
mod instances;
mod isolation;
pub mod markdown;
pub mod number;
pub mod page;
mod judged;
mod page_ins;
mod position;
pub mod prices;
mod program;
mod settings;
mod steady;
mod step;
pub mod terminal;
pub mod threshold;
mod verdict;
mod wall;
mod workload;

pub use compare::compare;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything a report may say about one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// Raised when a field changes its meaning; additive changes do not.
    pub schema_version: u32,
    /// Version of surtax that computed this.
    pub surtax_version: String,
    /// The run.
    pub run: RunFacts,
    /// The machine: stable key and value, in order of interest.
    pub machine: Vec<KeyValue>,
    /// One per arm of the plan, in its order; arms 0 and 1 are the baseline.
    pub arms: Vec<ArmFindings>,
    /// Difference between the two baseline arms, on wall time; `None` with too few trials.
    pub noise_floor: Option<Interval>,
    /// What the reader must know before believing a number, most important first.
    pub cautions: Vec<Caution>,
}

/// The run as such.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFacts {
    /// UUID-like identifier.
    pub id: String,
    /// For people.
    pub title: String,
    /// The command, argument by argument.
    pub command: Vec<String>,
    /// The workload whose command it is, as typed.
    pub workload: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// The shell line that repeats the run.
    pub repeat_with: String,
    /// RFC 3339, UTC.
    pub began_at: String,
    /// Seed of the order.
    pub seed: u64,
    /// Blocks in the plan, when it has a count.
    pub blocks_planned: Option<u32>,
    /// Blocks in which every arm that ever counts has an ended trial.
    pub blocks_done: u32,
    /// `finished`, `interrupted` or `running`.
    pub state: String,
    /// Host time from the first trial's begin to the last one's end.
    pub wall_ns: u64,
    /// The baseline's stack.
    pub baseline: String,
    /// Half-width of the equivalence margin as a share: 0.03 is ±3 %.
    pub equivalence_margin: f64,
    /// How each trial was carried out, where that is not the usual way: iterations, caches, rests.
    pub conduct: String,
    /// To what share of its ratio every overhead was to be known, if the plan says so.
    pub precision: Option<f64>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyValue {
    /// Stable name.
    pub key: String,
    /// As text.
    pub value: String,
    /// Where it was read; may be empty.
    pub source: String,
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmFindings {
    /// Its place in the plan.
    pub arm: u32,
    /// The stack as text.
    pub stack: String,
    /// The stack for people: with the accelerator that was chosen where its text names none, as in
    /// `qemu (tcg)`, and the second arm of the baseline told apart.
    pub name: String,
    /// `baseline`, `baseline-again` or `compared`.
    pub part: String,
    /// Its trials in time order, those that do not count included.
    pub trials: Vec<TrialPoint>,
    /// How many count.
    pub trial_count: u32,
    /// How many of those the machine disturbed.
    pub disturbed_count: u32,
    /// How many disturbed attempts do not count, because the trial was repeated.
    pub repeated_count: u32,
    /// Medians over the trials that count; empty when none does.
    pub metrics: Vec<MetricFindings>,
    /// The distributions that its workload measured, over all trials that count.
    pub histograms: Vec<DistributionFindings>,
    /// How far several instances of the command, which ran at once, were apart; empty where one ran.
    pub instances: Vec<InstanceFindings>,
    /// Where something ran beside it: what that cost the stack.
    pub beside: Option<BesideFindings>,
    /// What its workload could not measure in it.
    pub absences: Vec<AbsenceFindings>,
    /// What was found about its first iterations, where each start runs the command several times.
    pub warm_up: Option<WarmUpFindings>,
    /// The overhead in wall time, of an arm that is compared.
    pub overhead: Option<Interval>,
    /// The blocks that it rests on: those in which the arm and the baseline count.
    pub block_count: u32,
    /// The interval over the first three blocks and over more and more of them, at most 60 times; of
    /// the second baseline arm, that of its difference to the first.
    pub progress: Vec<ProgressPoint>,
    /// The chance of an overhead at least so far from none, were there none.
    pub p_value: Option<f64>,
    /// The same by Holm's adjustment for all compared arms: where there are several, `differs` takes
    /// less than 0.05, or with blocks too few for so small a p-value an interval of Student's t that
    /// excludes 1 at 0.05 over their number.
    pub p_value_adjusted: Option<f64>,
    /// The smallest overhead, as a share, that so many blocks so noisy call different in 80 of 100
    /// runs, as one of so many compared arms. It must be above the noise floor, too.
    pub detectable_effect: Option<f64>,
    /// The verdict on wall time.
    pub verdict: Verdict,
    /// One sentence that explains it.
    pub because: String,
    /// About how many more blocks would decide, where no verdict could be given and a reasonable
    /// number would do.
    pub more_blocks: Option<u32>,
    /// Where the CPU time went: medians per trial, the command first, host view.
    pub payers: Vec<PayerFindings>,
    /// What proved where it ran, per level; from its first counted trial, with differences between trials as cautions.
    pub evidence: Vec<LevelEvidence>,
    /// Distinct hashes of standard output over counted trials, hexadecimal.
    pub stdout_hashes: Vec<String>,
    /// Distinct exit statuses over its trials: `exit 0`, `signal 9`, `deadline`.
    pub exit_statuses: Vec<String>,
    /// For a gap or a failure: why, what would help, the command's last error output (escaped).
    pub trouble: Option<Trouble>,
}

/// The first iterations of an arm's starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WarmUpFindings {
    /// Runs of the command in each start.
    pub iterations: u32,
    /// How many of the first ones do not count, since they are not like the later ones.
    pub left_out: u32,
    /// Their time by that of the later ones, 1 if there are none; `None` where it takes more starts
    /// or iterations to say.
    pub ratio: Option<f64>,
    /// Whether what counts was found to be alike, or could not be told.
    pub is_steady: bool,
}

/// One trial as a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialPoint {
    /// Block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub position: u32,
    /// Which attempt at this trial, from 1.
    pub attempt: u32,
    /// Host time since the first trial's begin.
    pub at_ns: u64,
    /// Wall time of the command, when it ran.
    pub wall_ns: Option<u64>,
    /// From the first act to the agent's first frame.
    pub start_ns: Option<u64>,
    /// CPU time and memory, as far as they were read.
    #[serde(flatten)]
    pub usage: TrialUsage,
    /// What its workload measured, by metric.
    pub metrics: BTreeMap<String, f64>,
    /// `done`, `disturbed`, `failed`, `broken`, `unavailable`, `invalid`, `void`.
    pub state: String,
    /// Why it does not count; empty when it does.
    pub why: String,
    /// What disturbed it, the worst first; one that is `done` counts all the same.
    pub disturbances: Vec<DisturbanceFinding>,
}

/// What one trial used. The others are those who worked for its stack on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TrialUsage {
    /// CPU time of the command in user mode.
    pub cpu_user_ns: Option<u64>,
    /// CPU time of the command in its kernel.
    pub cpu_system_ns: Option<u64>,
    /// CPU time of the others.
    pub cpu_others_ns: Option<u64>,
    /// The command's largest resident set.
    pub memory_peak_bytes: Option<u64>,
    /// Peak memory of the others.
    pub memory_others_peak_bytes: Option<u64>,
}

impl TrialPoint {
    /// All that disturbed it, in words; empty when nothing did.
    #[must_use]
    pub fn disturbed(&self) -> String {
        let words: Vec<&str> = self.disturbances.iter().map(|found| found.what.as_str()).collect();
        words.join(", ")
    }
}

/// What the machine did during a trial that was too much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DisturbanceFinding {
    /// Stable name that ends with its unit: `others_cpu_ratio`, `throttled_count`, …
    pub key: String,
    /// How much of it there was.
    pub value: f64,
    /// What it had to exceed.
    pub limit: f64,
    /// The same in words.
    pub what: String,
}

/// One metric of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricFindings {
    /// A metric of the workload, or one that every trial has: `wall_ns`, `cpu_user_ns`, `cpu_system_ns`, `cpu_others_ns`, `cpu_total_ns`, `memory_peak_bytes`,
    /// `memory_others_peak_bytes`, `start_ns`, `stop_ns`.
    pub metric: String,
    /// `ns`, `bytes`, or what a workload's metric is in: `bytes/s`, `bit/s`, `1/s`, `count`, `ratio`.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// Median over the trials that count.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// First and third quartile.
    pub quartiles: (f64, f64),
    /// Of wall time: p50, p90 and p99, as far as the trials support them.
    pub quantiles: Vec<QuantileFindings>,
    /// Overhead over the baseline, as a ratio of the costs: 1.12 is 12 % slower, dearer or larger.
    pub overhead: Option<Interval>,
    /// Of a metric of the workload, where the arm is compared. The verdict on wall time is the arm's, and
    /// the other metrics that every trial has get none.
    pub judgement: Option<JudgementFindings>,
}

/// The verdict on one metric, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgementFindings {
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence that explains it.
    pub because: String,
    /// The blocks that it rests on.
    pub block_count: u32,
    /// See [`ArmFindings::more_blocks`].
    pub more_blocks: Option<u32>,
    /// See [`ArmFindings::p_value`].
    pub p_value: Option<f64>,
    /// See [`ArmFindings::p_value_adjusted`]: by all verdicts of the run, those on wall time included.
    pub p_value_adjusted: Option<f64>,
    /// See [`ArmFindings::detectable_effect`].
    pub detectable_effect: Option<f64>,
    /// Difference between the two baseline arms on this metric.
    pub noise_floor: Option<Interval>,
    /// How far values may be apart that the workload prints alike, as a share of them: 0.1 for `1.2` and `1.2`
    /// is one of 12. `None` where its file does not say in which unit it prints them.
    pub step_share: Option<f64>,
}

/// What it costs a stack that something runs beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BesideFindings {
    /// What ran, and in which stack.
    pub neighbour: String,
    /// The stack alone.
    pub alone: String,
    /// By metric: the stack beside it over the same stack alone, paired by block.
    pub overheads: Vec<BesideOverhead>,
}

/// One metric of a stack beside a neighbour, over the same stack alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BesideOverhead {
    /// The metric.
    pub metric: String,
    /// As a ratio of the costs: 1.12 is 12 % slower, dearer or larger beside the neighbour.
    pub overhead: Interval,
}

/// One metric of the several instances of a command that ran at once: medians over the trials that count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceFindings {
    /// A metric of the workload, or `wall_ns`: what the instance took.
    pub metric: String,
    /// See [`MetricFindings::unit`].
    pub unit: String,
    /// How many ran at once.
    pub instance_count: u32,
    /// Of the instance with the least.
    pub min: f64,
    /// Of the instance with the most.
    pub max: f64,
    /// The standard deviation of the instances by their mean; `None` where that is zero.
    pub variation_ratio: Option<f64>,
}

/// A metric that the workload could not measure in a stack, by its own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsenceFindings {
    /// The metric.
    pub metric: String,
    /// Why.
    pub why: String,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DistributionFindings {
    /// Its name.
    pub metric: String,
    /// How many values it has.
    pub value_count: u64,
    /// The largest of them, to a thousandth.
    pub highest_ns: Option<u64>,
    /// Its curve, ten points for each nine that ten values support.
    pub points: Vec<PercentilePoint>,
}

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PercentilePoint {
    /// Which share of the values is not above it: 0.99 is p99.
    pub share: f64,
    /// The value.
    pub value_ns: u64,
}

/// A quantile between two values of the sample; without a number where the sample is too small.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantileFindings {
    /// Which: 0.99 is p99.
    pub p: f64,
    /// The sample's quantile, of type 7 (Hyndman and Fan, 1996).
    pub value: Option<f64>,
    /// Lower end, a value of the sample.
    pub low: Option<f64>,
    /// Upper end, a value of the sample.
    pub high: Option<f64>,
    /// What the interval covers, at least 0.95: order statistics come in steps.
    pub confidence: Option<f64>,
    /// Why there is no number.
    pub why: Option<String>,
}

/// What an overhead was after so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProgressPoint {
    /// How many blocks counted.
    pub block_count: u32,
    /// The overhead that they gave.
    #[serde(flatten)]
    pub overhead: Interval,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of confidence: 0.95.
    pub confidence: f64,
}

/// One of four, never a bare number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Verdict {
    /// The baseline itself.
    Baseline,
    /// The interval excludes 1 and the difference is above the noise floor.
    Differs,
    /// The whole interval lies within the margin.
    Equivalent,
    /// Neither.
    Inconclusive,
    /// No number of this arm counts, or it ran another program than the baseline.
    Invalid {
        /// Why.
        reason: String,
    },
}

/// Who paid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PayerFindings {
    /// For people: `the command`, `vCPU threads`, `dockerd`.
    pub payer: String,
    /// `workload`, `guest-kernel`, `hypervisor`, `engine`, `surtax`.
    pub role: String,
    /// The level whose kernel counted it.
    pub level: u8,
    /// Median CPU time per trial, net of what runs inside it.
    pub cpu_ns: f64,
    /// The user and system parts of it.
    pub cpu_user_ns: f64,
    /// See `cpu_user_ns`.
    pub cpu_system_ns: f64,
    /// Median peak memory, where it can be read.
    pub memory_peak_bytes: Option<f64>,
}

/// Evidence of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelEvidence {
    /// The layer as text.
    pub layer: String,
    /// Its facts.
    pub facts: Vec<KeyValue>,
}

/// Why an arm has no numbers, or fewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// What happened.
    pub why: String,
    /// What would help.
    pub remedy: Option<String>,
    /// The last lines of the command's standard error, control characters escaped.
    pub stderr: Option<String>,
}

/// A finding against our own result, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// Stable name: `few-trials`, `noisy-machine`, `outputs-differ`, …
    pub code: String,
    /// What was found.
    pub finding: String,
    /// What to do.
    pub advice: String,
}
