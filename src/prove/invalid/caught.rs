//! Rules for when a fault counts as told of.
//!
//! A mark on a trial must be on every trial of the compared stack whose command succeeded. Where
//! nothing but the fault can leave it, no trial of the baseline may have it.

use crate::finding::{ArmFindings, Findings, TrialPoint, Verdict};

/// Sign by which the findings tell of a fault.
pub(super) enum Sign {
    /// A caution of this code.
    Caution(&'static str),
    /// The compared stack is invalid.
    Invalid,
    /// The compared stack is invalid, with a caution of this code.
    InvalidWith(&'static str),
    /// This mark, on trials of the compared stack alone.
    OnlyThere(&'static str),
    /// This mark, which others may leave on the baseline too: this machine need not be quiet.
    Everywhere(&'static str),
    /// A trial that does not count, or a caution that is about the fault, and not about so short a
    /// run or a machine that is not quiet.
    Any,
}

impl Sign {
    /// Tells whether the findings give it.
    pub(super) fn is_in(&self, findings: &Findings, arm: &ArmFindings) -> bool {
        let has_caution = |code: &str| findings.cautions.iter().any(|it| it.code == code);
        let is_invalid = matches!(arm.verdict, Verdict::Invalid { .. });
        match self {
            Self::Caution(code) => has_caution(code),
            Self::Invalid => is_invalid,
            Self::InvalidWith(code) => is_invalid && has_caution(code),
            Self::OnlyThere(key) => only_there(findings, arm, key),
            Self::Everywhere(key) => everywhere(arm, key),
            Self::Any => says_anything(findings, arm),
        }
    }
}

fn says_anything(findings: &Findings, arm: &ArmFindings) -> bool {
    let usual = ["few-trials", "noisy-machine", "bill-overdrawn", "disturbed"];
    let counts = ["done", "disturbed"];
    arm.trials.iter().any(|trial| !counts.contains(&trial.state.as_str()))
        || findings.cautions.iter().any(|caution| !usual.contains(&caution.code.as_str()))
}

/// Every trial of the arm is marked, and none of the baseline.
fn only_there(findings: &Findings, arm: &ArmFindings, key: &str) -> bool {
    let mut baseline = findings.arms.iter().filter(|arm| !arm.is_compared());
    everywhere(arm, key)
        && !baseline.any(|arm| arm.trials.iter().any(|trial| is_marked(trial, key)))
}

fn everywhere(arm: &ArmFindings, key: &str) -> bool {
    let ran = || arm.trials.iter().filter(|trial| ["done", "disturbed"].contains(&&*trial.state));
    ran().next().is_some() && ran().all(|trial| is_marked(trial, key))
}

fn is_marked(trial: &TrialPoint, key: &str) -> bool {
    trial.disturbances.iter().any(|found| found.key == key)
}
