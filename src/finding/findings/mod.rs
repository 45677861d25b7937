//! Everything that a report may say about a run: every format is a function of it, and JSON is it
//! whole.

mod arm;
mod levels;
mod meters;
mod metric;
mod verdict;
mod why;

use crate::finding::threshold::ThresholdFindings;
use crate::ledger::machine::MACHINE_HASH;
use crate::plan::Word;
pub use levels::{
    Agreement, LevelTimelineFindings, MachineFindings, PhaseFindings, SeriesFindings,
    StealFindings, TimelineFindings, UseFindings,
};
pub use meters::{AttributedEnergy, EnergyFindings, MeterFindings, WorkEnergy};
pub use metric::{
    AbsenceFindings, BesideFindings, BesideOverhead, DistributionFindings, InstanceFindings,
    Interval, JudgementFindings, MetricFindings, PercentilePoint, ProgressPoint, QuantileFindings,
};
use serde::{Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use surtax_instrument::amount::{Key, QUANTITIES, Quantity};
pub use verdict::{Gap, Verdict};
pub use why::{
    CauseFindings, Confirmation, ConfirmedFindings, CountedBy, Spread, TimePart, WhyFindings,
};

/// Everything a report may say about one run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// Cautions that the reader must know before believing a number, most important first.
    pub cautions: Vec<Caution>,
    /// Parts of stacks that were exchanged to confirm what explains their overheads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<ConfirmedFindings>,
    /// Meters of power that were read all through the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<MeterFindings>,
    /// Thresholds that the findings were held against, each with every stack that it is of.
    pub thresholds: Vec<ThresholdFindings>,
}

/// The run as such.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RunFacts {
    /// UUID-like identifier.
    pub id: String,
    /// For people.
    pub title: String,
    /// The command, argument by argument: text, or [`Word`]'s object where one is none.
    pub command: Vec<Word>,
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
    /// True if the workload runs for a time that it is told, so that wall time says nothing of a
    /// stack.
    pub is_of_fixed_time: bool,
    /// Conduct of each trial, where that is not the usual one: iterations, caches, rests.
    pub conduct: String,
    /// To what share of its ratio every overhead was to be known, if the plan says so.
    pub precision: Option<f64>,
    /// Line by which the workload says what it measures; empty where there is none.
    #[serde(skip)]
    pub(crate) about: String,
    #[serde(skip)]
    pub(crate) plan_digest: super::plan_digest::PlanDigest,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct KeyValue {
    /// Stable name.
    pub key: String,
    /// As text.
    pub value: String,
    /// Place where it was read; may be empty.
    pub source: String,
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ArmFindings {
    /// Place of the arm in the plan, from 0.
    pub arm: u32,
    /// The stack as text.
    pub stack: String,
    /// The stack for people: with the accelerator that was chosen where its text names none, as in
    /// `qemu (tcg)`, and the second arm of the baseline told apart.
    pub name: String,
    /// `baseline`, `baseline-again` or `compared`.
    pub part: String,
    /// Trials of the arm in time order, those that do not count included.
    pub trials: Vec<TrialPoint>,
    /// Number of trials that count.
    pub trial_count: u32,
    /// Number of those that the machine disturbed.
    pub disturbed_count: u32,
    /// Number of disturbed attempts that do not count, because the trial was repeated.
    pub repeated_count: u32,
    /// Medians over the trials that count; empty when none does.
    pub metrics: Vec<MetricFindings>,
    /// The distributions that its workload measured, over all trials that count.
    pub histograms: Vec<DistributionFindings>,
    /// Spread between the instances of the command, which ran at once; empty where one ran.
    pub instances: Vec<InstanceFindings>,
    /// Cost to the stack of something that ran beside it; `None` where nothing did.
    pub beside: Option<BesideFindings>,
    /// Metrics that its workload could not measure in it.
    pub absences: Vec<AbsenceFindings>,
    /// Findings about its first iterations, where each start runs the command several times.
    pub warm_up: Option<WarmUpFindings>,
    /// The overhead in wall time, of an arm that is compared.
    pub overhead: Option<Interval>,
    /// The blocks that it rests on: those in which the arm and the baseline count.
    pub block_count: u32,
    /// The interval over the first three blocks and over more and more of them, at most 60 times;
    /// of the second baseline arm, that of its difference to the first.
    pub progress: Vec<ProgressPoint>,
    /// The chance of an overhead at least so far from none, were there none.
    pub p_value: Option<f64>,
    /// The same by Holm's adjustment for all compared arms: where there are several, `differs`
    /// takes less than 0.05, or with blocks too few for so small a p-value an interval of Student's
    /// t that excludes 1 at 0.05 over their number.
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
    /// Payers of the CPU time: medians per trial, the command first, host view.
    pub payers: Vec<PayerFindings>,
    /// Part of it that could not be divided, because more was counted inside than was seen from
    /// outside.
    pub bill_gap: Option<BillGap>,
    /// Page cache of files on disks that was in the memory of the others when the command had
    /// ended: the median.
    pub page_cache_bytes: Option<f64>,
    /// Parts of the command's wall time, which they are in all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_parts: Vec<TimePart>,
    /// Machines by their own kernels' accounts, this one first, each with its network links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineFindings>,
    /// Uses of each resource, inside and by this whole machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<UseFindings>,
    /// CPU time that was taken from levels with a kernel of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steals: Vec<StealFindings>,
    /// Energy of a run by each meter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub energies: Vec<EnergyFindings>,
    /// Timeline of one trial, where somebody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineFindings>,
    /// Explanation of its overhead, where its command was counted and its stack priced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<WhyFindings>,
    /// Evidence of where it ran, per level; from its first counted trial, with differences between
    /// trials as cautions.
    pub evidence: Vec<LevelEvidence>,
    /// Distinct hashes of standard output over counted trials, hexadecimal.
    pub stdout_hashes: Vec<String>,
    /// Distinct exit statuses over its trials: `exit 0`, `signal 9`, `deadline`.
    pub exit_statuses: Vec<String>,
    /// For a gap or a failure: why, what would help, the command's last error output (escaped).
    pub trouble: Option<ArmFailure>,
}

/// The first iterations of an arm's starts.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct WarmUpFindings {
    /// Runs of the command in each start.
    pub iterations: u32,
    /// Number of the first ones that do not count, since they are not like the later ones.
    pub left_out: u32,
    /// Their time by that of the later ones, 1 if there are none; `None` where it takes more starts
    /// or iterations to say.
    pub ratio: Option<f64>,
    /// True if what counts was found to be alike, or could not be told.
    pub is_steady: bool,
}

/// One trial as a point.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrialPoint {
    /// Block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub position: u32,
    /// Number of the attempt at this trial, from 1.
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
    /// Values that its workload measured, by metric.
    pub metrics: BTreeMap<String, f64>,
    /// `done`, `disturbed`, `failed`, `broken`, `unavailable`, `invalid`, `void`.
    pub state: String,
    /// Reason why it does not count; empty when it does.
    pub why: String,
    /// Remedy that would help.
    pub remedy: Option<String>,
    /// Disturbances of the trial, the worst first; one that is `done` counts all the same.
    pub disturbances: Vec<DisturbanceFinding>,
}

/// Amounts that one trial used. The others are those who worked for its stack on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    /// Page cache of files on disks in the memory of the others, right after the command.
    pub memory_others_page_cache_bytes: Option<u64>,
    /// Peak memory of those who serve all trials, since their start: in no trial's.
    pub memory_shared_peak_bytes: Option<u64>,
}

impl TrialPoint {
    /// Tells whether it counts.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.state == "done"
    }

    /// All that disturbed it, in words; empty when nothing did.
    #[must_use]
    pub fn disturbed(&self) -> String {
        let words: Vec<&str> = self.disturbances.iter().map(|found| found.what.as_str()).collect();
        words.join(", ")
    }
}

/// Something that the machine did during a trial, and that was too much.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DisturbanceFinding {
    /// Stable name that ends with its unit: `others_cpu_ratio`, `throttled_count`, …
    pub key: String,
    /// Measured amount, in the unit that the key ends with.
    pub value: f64,
    /// Limit that the amount had to exceed.
    pub limit: f64,
    /// The same in words.
    pub what: String,
}

/// One payer of an arm's trials, and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PayerFindings {
    /// For people: `the command`, `vCPU threads`, `dockerd`.
    pub payer: String,
    /// `workload`, `guest-kernel`, `hypervisor`, `engine`, `surtax`.
    pub role: String,
    /// The level whose kernel counted it.
    pub level: u8,
    /// Median CPU time per trial, net of what runs inside it. Medians need not sum to a median.
    pub cpu_ns: f64,
    /// Medians per trial of all that could be read of it, each in a field of its own; CPU time net
    /// of what runs inside it.
    #[serde(flatten)]
    pub amounts: Medians,
    /// True if it serves all trials of the run: then its memory is since its own start, and in no
    /// trial's.
    pub is_shared: bool,
}

/// Medians of amounts by quantity; what nobody could read is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Medians(pub BTreeMap<Key, f64>);

impl Medians {
    /// The median of one quantity.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<f64> {
        self.0.get(&key).copied()
    }
}

/// A field for each quantity of the table.
impl Serialize for Medians {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = |key: &Key| Quantity::of(*key).map(|it| it.name);
        serializer
            .collect_map(self.0.iter().filter_map(|(key, median)| Some((known(key)?, median))))
    }
}

impl schemars::JsonSchema for Medians {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Medians".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let field = |it: &Quantity| (it.name.to_owned(), json!({ "type": "number" }));
        let fields: serde_json::Map<_, _> = QUANTITIES.iter().map(field).collect();
        schemars::json_schema!({ "type": "object", "properties": fields })
    }
}

/// CPU time that could not be divided between the command and the others.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BillGap {
    /// In how many of the trials that count more was counted inside than was seen outside. Their
    /// sum is known all the same.
    pub trial_count: u32,
    /// CPU time that was counted inside and not seen outside, in the worst of them.
    pub cpu_unseen_ns: f64,
    /// The same as a share of what was counted inside.
    pub unseen_share: f64,
    /// In how many of the trials that count a payer was gone before its counters were read. No sum
    /// of which it is a part is known.
    pub partial_count: u32,
    /// Those payers.
    pub unread_payers: Vec<String>,
    /// All this in words.
    pub why: String,
}

impl Findings {
    /// Tells whether any trial counts, so that there is a number to show.
    #[must_use]
    pub fn has_numbers(&self) -> bool {
        self.arms.iter().any(|arm| arm.trial_count > 0)
    }

    /// Returns what tells the machine from others, if that is known.
    #[must_use]
    pub fn machine_hash(&self) -> Option<&str> {
        let found = self.machine.iter().find(|fact| fact.key == MACHINE_HASH);
        found.map(|fact| fact.value.as_str())
    }
}

/// Evidence of one level.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LevelEvidence {
    /// The layer as text.
    pub layer: String,
    /// Facts about that level.
    pub facts: Vec<KeyValue>,
}

/// Reason why an arm has no numbers, or fewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ArmFailure {
    /// Account of what happened.
    pub why: String,
    /// Remedy that would help.
    pub remedy: Option<String>,
    /// The last lines of the command's standard error, control characters escaped.
    pub stderr: Option<String>,
}

/// A finding against our own result, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Caution {
    /// Stable name: `few-trials`, `noisy-machine`, `outputs-differ`, …
    pub code: String,
    /// Observation, in words.
    pub finding: String,
    /// Advice on what to do.
    pub advice: String,
    /// The stacks that it is of; none where it is of the run, or of all.
    pub stacks: Vec<String>,
}
