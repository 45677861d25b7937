//! Findings about the levels of a stack as wholes, and about what everybody used moment by moment.

use super::Medians;
use serde::Serialize;

/// A whole machine by its own kernel's account, or one of its network links.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MachineFindings {
    /// The level whose kernel counted: 0 is this machine.
    pub level: u8,
    /// `the machine`, or `link` and a name.
    pub name: String,
    /// Medians per trial, each in a field of its own.
    #[serde(flatten)]
    pub amounts: Medians,
}

/// Use of one resource by the innermost machine or container, and by this machine as a whole.
///
/// Source: the resource overhead of Tesfatsion, Klein and Tordsson, "Virtualization Techniques
/// Compared", ICPE 2018, equation 3.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UseFindings {
    /// `cpu_ns`, `disk_read_bytes` or `disk_written_bytes`.
    pub resource: String,
    /// Median of what was used inside, as is counted there.
    pub inside: f64,
    /// Median of what this whole machine used meanwhile, whoever it was.
    pub whole: f64,
    /// Overhead of CPU time: by what share of what was used inside the whole used more, or, below
    /// zero, less.
    pub overhead_ratio: Option<f64>,
}

/// CPU time that was taken from a level, by its own account and by that of the level outside.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StealFindings {
    /// The level from which it was taken.
    pub level: u8,
    /// Median of what its kernel calls stolen; `None` where it does not say.
    pub inside_ns: Option<f64>,
    /// Median of how long its virtual CPUs were ready to run and had no CPU.
    pub waited_ns: Option<f64>,
    /// Median of how long a quota held them back.
    pub throttled_ns: Option<f64>,
    /// Outcome of holding both accounts against each other.
    pub agreement: Agreement,
}

/// Outcome of holding two accounts of the same time against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Both say the same.
    Agree,
    /// The level says less than was taken from it.
    InsideSaysLess,
    /// The level says more than was seen to be taken.
    InsideSaysMore,
    /// Neither can tell: too little was taken.
    TooLittle,
    /// The level says nothing.
    Unknown,
}

/// Use by everybody in one trial of an arm, moment by moment. All times are the host's, in
/// nanoseconds since the trial began.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TimelineFindings {
    /// Block of the trial: of those that count the one that took the median time, else the last.
    pub block: u32,
    /// Attempt at it.
    pub attempt: u32,
    /// Time between two looks.
    pub every_ns: u64,
    /// Parts of the trial, each with its time.
    pub phases: Vec<PhaseFindings>,
    /// The levels that were looked at, outermost first.
    pub levels: Vec<LevelTimelineFindings>,
}

/// Part of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PhaseFindings {
    /// `start`, `warm-up` or `run`.
    pub phase: String,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

/// One level, moment by moment.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LevelTimelineFindings {
    /// Number of the level: 0 is this machine.
    pub level: u8,
    /// Number of samples, of which `at_ns` has some.
    pub sample_count: u64,
    /// Number of samples that came late.
    pub late_count: u64,
    /// The most by which a time may be wrong; `None` where the level's clock was not known.
    pub clock_bound_ns: Option<u64>,
    /// Time of each value.
    pub at_ns: Vec<u64>,
    /// All of which something was used.
    pub series: Vec<SeriesFindings>,
}

/// Values of one quantity of one payer.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SeriesFindings {
    /// For people.
    pub payer: String,
    /// Part of the bill to which it belongs, or `machine`.
    pub role: String,
    /// True if the deeper levels and the command run inside it.
    pub carries_workload: bool,
    /// `cpu_ns`, user and system time together; else the name of the amount.
    pub quantity: String,
    /// True if a value is what was used per second since the time before; else it is the amount at
    /// its time.
    pub is_rate: bool,
    /// The values, one for each time; nothing where it is not known.
    pub values: Vec<Option<f64>>,
}
