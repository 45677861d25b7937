//! Rules for when a fault counts as told of.
//!
//! A mark on a trial must be on every trial of the compared stack whose command succeeded. Where
//! nothing but the fault can leave it, no trial of the baseline may have it.

use crate::finding::{ArmFindings, Findings, TrialPoint, Verdict};

fn has_caution(findings: &Findings, code: &str) -> bool {
    findings.cautions.iter().any(|caution| caution.code == code)
}

pub(super) fn outputs_differ(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "outputs-differ")
}

pub(super) fn caches_differ(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "unequal-cache")
}

pub(super) fn is_invalid(_: &Findings, arm: &ArmFindings) -> bool {
    matches!(arm.verdict, Verdict::Invalid { .. })
}

pub(super) fn is_another_program(findings: &Findings, arm: &ArmFindings) -> bool {
    is_invalid(findings, arm) && has_caution(findings, "another-program")
}

pub(super) fn has_lost_trials(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "trials-lost")
}

/// A trial that does not count, or a caution that is about the fault, and not about so short a run
/// or a machine that is not quiet.
pub(super) fn is_said_at_all(findings: &Findings, arm: &ArmFindings) -> bool {
    let usual = ["few-trials", "noisy-machine", "bill-overdrawn", "disturbed"];
    let counts = ["done", "disturbed"];
    arm.trials.iter().any(|trial| !counts.contains(&trial.state.as_str()))
        || findings.cautions.iter().any(|caution| !usual.contains(&caution.code.as_str()))
}

pub(super) fn the_command_was_stopped(findings: &Findings, arm: &ArmFindings) -> bool {
    only_there(findings, arm, "command_stopped_ns")
}

pub(super) fn its_agent_was_stopped(findings: &Findings, arm: &ArmFindings) -> bool {
    only_there(findings, arm, "command_stopped_count")
}

pub(super) fn its_carrier_was_stopped(findings: &Findings, arm: &ArmFindings) -> bool {
    only_there(findings, arm, "stack_stopped_count")
}

pub(super) fn was_held_back(findings: &Findings, arm: &ArmFindings) -> bool {
    only_there(findings, arm, "throttled_count")
}

pub(super) fn the_guest_clock_is_doubted(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "guest-clock")
}

/// Others may disturb the baseline too: this machine need not be quiet.
pub(super) fn others_used_the_cpu(_: &Findings, arm: &ArmFindings) -> bool {
    everywhere(arm, "others_cpu_ratio")
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
