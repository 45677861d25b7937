//! Findings about one metric: how it is spread, what it costs over the baseline, and how sure that
//! is.

use crate::finding::findings::Verdict;
use serde::Serialize;

/// One metric of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MetricFindings {
    /// A metric of the workload, or one that every trial has: `wall_ns`, `cpu_user_ns`,
    /// `cpu_system_ns`, `cpu_others_ns`, `cpu_total_ns`, `memory_peak_bytes`,
    /// `memory_others_peak_bytes`, `start_ns`, `stop_ns`.
    pub metric: String,
    /// `ns`, `bytes`, or what a workload's metric is in: `bytes/s`, `bit/s`, `1/s`, `count`,
    /// `ratio`.
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
    /// The same at the confidence that thresholds are held at, of a run that may look at them more
    /// than once; `None` of any other, where that is the confidence of `overhead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead_at_look: Option<Interval>,
    /// Of a metric of the workload, where the arm is compared. The verdict on wall time is the
    /// arm's, and the other metrics that every trial has get none.
    pub judgement: Option<JudgementFindings>,
    /// Claimant of this number, where this machine's kernel has not counted it: `a kernel further
    /// in`, `another machine` or `the workload`. As far as this host saw anything of it, it was
    /// held against that.
    pub claimed_by: Option<String>,
}

/// The verdict on one metric, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct JudgementFindings {
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence that explains it.
    pub because: String,
    /// The blocks that it rests on.
    pub block_count: u32,
    /// See [`super::ArmFindings::more_blocks`].
    pub more_blocks: Option<u32>,
    /// See [`super::ArmFindings::p_value`].
    pub p_value: Option<f64>,
    /// See [`super::ArmFindings::p_value_adjusted`]: by all verdicts of the run, those on wall time
    /// included.
    pub p_value_adjusted: Option<f64>,
    /// See [`super::ArmFindings::detectable_effect`].
    pub detectable_effect: Option<f64>,
    /// Difference between the two baseline arms on this metric.
    pub noise_floor: Option<Interval>,
    /// Largest distance between values that the workload prints alike, as a share of them: 0.1 for
    /// `1.2` and `1.2` is one of 12. `None` where its file does not say in which unit it prints
    /// them.
    pub step_share: Option<f64>,
}

/// Cost to a stack of something that runs beside it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BesideFindings {
    /// Neighbour that ran beside it, and in which stack.
    pub neighbour: String,
    /// The stack alone.
    pub alone: String,
    /// By metric: the stack beside it over the same stack alone, paired by block.
    pub overheads: Vec<BesideOverhead>,
}

/// One metric of a stack beside a neighbour, over the same stack alone.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BesideOverhead {
    /// The metric.
    pub metric: String,
    /// As a ratio of the costs: 1.12 is 12 % slower, dearer or larger beside the neighbour.
    pub overhead: Interval,
}

/// One metric of the several instances of a command that ran at once: medians over the trials that
/// count.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct InstanceFindings {
    /// A metric of the workload, or `wall_ns`: what the instance took.
    pub metric: String,
    /// See [`MetricFindings::unit`].
    pub unit: String,
    /// Number of instances that ran at once.
    pub instance_count: u32,
    /// Of the instance with the least.
    pub min: f64,
    /// Of the instance with the most.
    pub max: f64,
    /// The standard deviation of the instances by their mean; `None` where that is zero.
    pub variation_ratio: Option<f64>,
}

/// A metric that the workload could not measure in a stack, by its own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AbsenceFindings {
    /// The metric.
    pub metric: String,
    /// Reason why it could not be measured.
    pub why: String,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DistributionFindings {
    /// Name of the distribution.
    pub metric: String,
    /// Number of values in the distribution.
    pub value_count: u64,
    /// The largest of them, to a thousandth.
    pub highest_ns: Option<u64>,
    /// Points of the percentile curve, ten for each nine that ten values support.
    pub points: Vec<PercentilePoint>,
}

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PercentilePoint {
    /// Share of all values that are not above `value_ns`: 0.99 is p99.
    pub share: f64,
    /// The value.
    pub value_ns: u64,
}

/// A quantile between two values of the sample; without a number where the sample is too small.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct QuantileFindings {
    /// Order of the quantile: 0.99 is p99.
    pub p: f64,
    /// The sample's quantile, of type 7 (Hyndman and Fan, 1996).
    pub value: Option<f64>,
    /// Lower end, a value of the sample.
    pub low: Option<f64>,
    /// Upper end, a value of the sample.
    pub high: Option<f64>,
    /// Confidence that the interval has, at least 0.95: order statistics come in steps.
    pub confidence: Option<f64>,
    /// Reason why there is no number.
    pub why: Option<String>,
}

/// Overhead as it was after so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ProgressPoint {
    /// Number of blocks that counted.
    pub block_count: u32,
    /// The overhead that they gave.
    #[serde(flatten)]
    pub overhead: Interval,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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

impl Interval {
    /// Tells whether all of it are numbers above zero, so that it can be drawn.
    pub(crate) fn can_be_drawn(&self) -> bool {
        [self.ratio, self.low, self.high].iter().all(|end| end.is_finite() && *end > 0.0)
    }
}
