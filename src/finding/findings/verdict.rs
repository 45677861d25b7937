//! Verdicts on an arm, and the kinds of gaps in their place.

use serde::Serialize;

/// One of four, never a bare number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
        /// Kind of the reason.
        gap: Gap,
        /// Reason, in words.
        reason: String,
    },
}

/// Kind of the reason for which an arm has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// A layer does not run on this machine.
    NotAvailable,
    /// The command ended with a failure.
    CommandFailed,
    /// The stack did not start, or broke.
    Broken,
    /// It ran, and what it did or said is not to be believed.
    Rejected,
    /// Nothing of it was run.
    NotRun,
}

impl Gap {
    /// The word for it in every format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotAvailable => "not available",
            Self::CommandFailed => "command failed",
            Self::Broken => "broken",
            Self::Rejected => "rejected",
            Self::NotRun => "not run",
        }
    }
}

impl Verdict {
    /// The word for it in every format.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Differs => "differs",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "not decided",
            Self::Invalid { gap, .. } => gap.word(),
        }
    }
}
