//! Findings about what an overhead consists of.

use super::Interval;
use serde::Serialize;

/// Explanation of what a stack takes more than the baseline, for one run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct WhyFindings {
    /// Wall time of the command in the baseline: 100 points.
    pub baseline_ns: f64,
    /// Time that the stack takes more, as it was measured.
    pub extra: Spread,
    /// Causes, the largest first.
    pub causes: Vec<CauseFindings>,
    /// Time that no cause explains, or that they explain too much.
    pub unexplained: Spread,
    /// Whose count of the system calls it is.
    pub counted_by: CountedBy,
    /// Reason why it is not the stack's own kernel's.
    pub why_not_own: Option<String>,
    /// CPUs over which the command spreads its work: so much of a cost is in its wall time.
    pub spread_over: f64,
    /// The same in the baseline.
    pub baseline_spread_over: f64,
}

/// Time with its interval, at a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Spread {
    /// Estimate.
    pub ns: f64,
    /// Lower end.
    pub low_ns: f64,
    /// Upper end.
    pub high_ns: f64,
}

/// Part of the wall time of a command.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TimePart {
    /// Name: `cpu-user`, `cpu-system`, or `cpu-all` with that of its layers; `throttled`,
    /// `waited-for-cpu`, `waited-for-disk`, `waited-for-memory`, `stolen`, `elsewhere`.
    pub part: String,
    /// Amount of it.
    pub ns: f64,
}

/// Cause of time.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CauseFindings {
    /// Name: a price of the price list, `context_switch`, or `own_code`.
    pub cause: String,
    /// In words.
    pub what: String,
    /// Number of times that the command asks for it; `None` of its own code.
    pub count: Option<f64>,
    /// The same in the baseline.
    pub baseline_count: Option<f64>,
    /// Median price of one in the stack.
    pub price_ns: Option<f64>,
    /// The same in the baseline.
    pub baseline_price_ns: Option<f64>,
    /// Time that it makes the stack take more.
    pub extra: Spread,
}

/// Whose count of the system calls it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// This machine's kernel, in the stack itself.
    ThisMachine,
    /// A kernel further in, whose word it is.
    Inside,
    /// This machine's kernel, of the same command in the baseline, which stands in.
    Baseline,
}

impl Spread {
    /// One of so much to either side.
    pub(crate) fn around(ns: f64, half: f64) -> Self {
        Self { ns, low_ns: ns - half, high_ns: ns + half }
    }

    pub(crate) fn half(&self) -> f64 {
        (self.high_ns - self.low_ns) / 2.0
    }

    /// Returns what is left of it without another, whose error is its own.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let ns = self.ns - other.ns;
        let (below, above) = (self.ns - self.low_ns, self.high_ns - self.ns);
        // More of the other is less that is left.
        let low_ns = ns - below.hypot(other.high_ns - other.ns);
        Self { ns, low_ns, high_ns: ns + above.hypot(other.ns - other.low_ns) }
    }

    /// Returns both together, whose errors are of one kind and add up.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            ns: self.ns + other.ns,
            low_ns: self.low_ns + other.low_ns,
            high_ns: self.high_ns + other.high_ns,
        }
    }
}

/// Finding about one part of a stack that was exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ConfirmedFindings {
    /// The stack as it was explained.
    pub stack: String,
    /// The stack with the part exchanged.
    pub variant: String,
    /// Words for what was there in its place.
    pub instead: String,
    /// Causes that it may change.
    pub causes: Vec<String>,
    /// Time with it, as a ratio to the time without; `None` where there is no such number.
    pub ratio: Option<Interval>,
    /// Verdict on them.
    pub verdict: Confirmation,
    /// The same in a sentence.
    pub because: String,
}

/// Verdict on causes of which a part was exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmation {
    /// The time changed: the part has to do with so much of it.
    Confirmed,
    /// The time did not change, within the margin.
    Refuted,
    /// Neither could be shown.
    NotSeparable,
    /// It could not be exchanged here.
    NotTried,
}

impl Confirmation {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::NotSeparable => "not separable",
            Self::NotTried => "not tried",
        }
    }
}
