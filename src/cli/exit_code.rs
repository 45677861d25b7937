//! Exit codes of a run: what its answer, and what its thresholds say to whoever goes by them.

use super::results::Undecided;
use super::{Globals, note};
use crate::finding::caution::{baseline, compared};
use crate::finding::threshold::Standing;
use crate::finding::{ArmFindings, Findings, Verdict};
use std::process::ExitCode;

/// Exit code of a run that the user cut short: 128 and the number of SIGINT, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

/// Exit code when a threshold is shown to be crossed.
const CROSSED: u8 = 1;

/// Exit code when whether a threshold is crossed is not decided.
const UNDECIDED: u8 = 4;

/// Exit code when a question has no number for an answer: this machine lacks what it takes.
const UNANSWERED: u8 = 3;

/// Exit code when no trial counts because the command failed.
const COMMAND_FAILED: u8 = 2;

/// The exit code of a run without an answer: no trial of it counts, or the command failed in its
/// baseline. The user's where the command itself failed.
pub(super) fn without_answer(findings: &Findings) -> Option<u8> {
    let failed = |arm: &ArmFindings| arm.trials.iter().any(|trial| trial.state == "failed");
    let baseline = || baseline(&findings.arms);
    if baseline().all(|arm| arm.trial_count == 0) && baseline().any(failed) {
        return Some(COMMAND_FAILED);
    }
    if findings.has_numbers() {
        // Numbers that nothing can be compared with are no answer either.
        let is_baseline_lost =
            baseline().next().is_some() && baseline().all(|arm| arm.trial_count == 0);
        // Nor is the baseline's number, where it was to be compared with others. A threshold has an
        // exit code of its own for that.
        let mut compared = compared(&findings.arms).peekable();
        let is_asked = compared.peek().is_some() && findings.thresholds.is_empty();
        let is_gap = |arm: &ArmFindings| matches!(arm.verdict, Verdict::Invalid { .. });
        let nothing_compared = is_asked && compared.all(|arm| arm.trial_count == 0 || is_gap(arm));
        return (is_baseline_lost || nothing_compared).then_some(UNANSWERED);
    }
    Some(if findings.arms.iter().any(failed) { COMMAND_FAILED } else { UNANSWERED })
}

/// Returns the exit code that the thresholds decide. Says on standard error each stack that does
/// not keep one.
pub(super) fn of_thresholds(findings: &Findings, undecided: Option<Undecided>) -> ExitCode {
    for held in findings.thresholds.iter().filter(|held| held.standing != Standing::Kept) {
        // Said though notes are not wanted: it is why the exit code is what it is.
        note(&held.to_string(), &Globals { quiet: false, ..Globals::default() });
    }
    ExitCode::from(code(findings.thresholds.iter().map(|held| held.standing), undecided))
}

/// The exit code of these standings: that of the worst, with what is not decided taken as it is
/// told.
fn code(standings: impl Iterator<Item = Standing>, undecided: Option<Undecided>) -> u8 {
    let taken = standings.map(|standing| match (standing, undecided) {
        (Standing::Undecided, Some(Undecided::Fail)) => Standing::Crossed,
        (Standing::Undecided, Some(Undecided::Pass)) => Standing::Kept,
        (standing, _) => standing,
    });
    match taken.max() {
        Some(Standing::Crossed) => CROSSED,
        Some(Standing::Unknown) => UNANSWERED,
        Some(Standing::Undecided) => UNDECIDED,
        Some(Standing::Kept) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_that_nothing_is_compared_with_is_no_answer() {
        use crate::finding::compare::tests::example;
        let code = |gone: fn(&ArmFindings) -> bool| {
            let mut findings = example(6, |_| {});
            for arm in findings.arms.iter_mut().filter(|arm| gone(arm)) {
                arm.trial_count = 0;
            }
            without_answer(&findings)
        };
        assert_eq!(code(|arm| arm.stack == "qemu"), None, "`runc` has numbers");
        assert_eq!(code(ArmFindings::is_compared), Some(UNANSWERED));
        assert_eq!(code(|arm| !arm.is_compared()), Some(UNANSWERED));
        let mut alone = example(6, |_| {});
        alone.arms.retain(|arm| !arm.is_compared());
        assert_eq!(without_answer(&alone), None, "nothing was to be compared");
    }

    #[test]
    fn the_worst_standing_decides_and_what_is_not_decided_is_taken_as_it_is_told() {
        use Standing::{Crossed, Kept, Undecided as Open, Unknown};
        for (standings, plain, fail, pass) in [
            (&[][..], 0, 0, 0),
            (&[Kept, Kept], 0, 0, 0),
            (&[Kept, Open], 4, 1, 0),
            (&[Open, Unknown], 3, 1, 3),
            (&[Open, Unknown, Crossed], 1, 1, 1),
        ] {
            let code = |undecided| code(standings.iter().copied(), undecided);
            let codes = [None, Some(Undecided::Fail), Some(Undecided::Pass)].map(code);
            assert_eq!(codes, [plain, fail, pass], "{standings:?}");
        }
    }
}
