//! Decides whether a disturbed trial is repeated: at most once, a bounded share of all, and not in
//! vain.
//!
//! A repeat costs as much as the trial did. On a machine that is never quiet it would double the
//! time and change nothing, so after a few repeats that were disturbed as well there are no more.

use crate::plan::TrialId;
use std::collections::HashSet;

/// Number of repeats in a row, disturbed too, that end all repeating.
const IN_VAIN_MAX: u32 = 3;

/// One trial in so many may be repeated.
const TRIALS_PER_REPEAT: u32 = 4;

/// Number of trials that may be repeated beyond that share, so that a short run has some.
const REPEATS_FREE: u32 = 3;

/// Fate of a trial that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It stands as it is.
    Stands,
    /// It is repeated, and this attempt does not count.
    Repeat,
    /// It stands, and from now on every one does: why.
    StandsFromNowOn(String),
}

/// The repeats of one campaign.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Trials that were repeated, also in an earlier session, or are being repeated.
    repeated: HashSet<TrialId>,
    ended: u32,
    made: u32,
    in_vain: u32,
    has_given_up: bool,
}

impl Repeats {
    /// None yet, but for those of an earlier session.
    pub(super) fn after(repeated: HashSet<TrialId>) -> Self {
        Self { repeated, ..Self::default() }
    }

    /// Decides about a trial whose command succeeded. It counts when it is written down:
    /// [`Repeats::count`].
    pub(super) fn decide(&self, trial: TrialId, is_disturbed: bool) -> Next {
        if self.repeated.contains(&trial) {
            if self.in_vain_after(is_disturbed) < IN_VAIN_MAX || self.has_given_up {
                return Next::Stands;
            }
            return Next::StandsFromNowOn(format!(
                "{IN_VAIN_MAX} disturbed trials in a row were disturbed again when they were \
                 repeated: no more are repeated"
            ));
        }
        let ended = self.ended + 1;
        let is_within_share = self.made < REPEATS_FREE + ended / TRIALS_PER_REPEAT;
        if !is_disturbed || self.has_given_up || !is_within_share {
            return Next::Stands;
        }
        Next::Repeat
    }

    /// Counts a trial about which was decided so, and which is in the ledger.
    pub(super) fn count(&mut self, trial: TrialId, is_disturbed: bool, next: &Next) {
        if self.repeated.contains(&trial) {
            self.in_vain = self.in_vain_after(is_disturbed);
            self.has_given_up |= matches!(next, Next::StandsFromNowOn(_));
            return;
        }
        self.ended += 1;
        if *next == Next::Repeat {
            self.made += 1;
            self.repeated.insert(trial);
        }
    }

    /// Repeats in a row that were disturbed too, with one more.
    fn in_vain_after(&self, is_disturbed: bool) -> u32 {
        if is_disturbed { self.in_vain + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(block: u32) -> TrialId {
        TrialId { block, position: 0, arm: 0 }
    }

    /// One trial to its end, written down.
    fn ended(repeats: &mut Repeats, trial: TrialId, is_disturbed: bool) -> Next {
        let next = repeats.decide(trial, is_disturbed);
        repeats.count(trial, is_disturbed, &next);
        next
    }

    /// Runs so many trials; `disturbs` says whether an attempt, counted from 0, is disturbed.
    /// Counts attempts, and what was said.
    fn run(trials: u32, mut disturbs: impl FnMut(u32) -> bool) -> (u32, usize) {
        let mut repeats = Repeats::default();
        let (mut attempts, mut said) = (0, 0);
        for block in 0..trials {
            loop {
                let next = ended(&mut repeats, trial(block), disturbs(attempts));
                attempts += 1;
                said += usize::from(matches!(next, Next::StandsFromNowOn(_)));
                if next != Next::Repeat {
                    break;
                }
            }
        }
        (attempts, said)
    }

    #[test]
    fn a_quiet_machine_repeats_nothing() {
        assert_eq!(run(100, |_| false), (100, 0));
    }

    #[test]
    fn a_machine_that_is_never_quiet_costs_three_repeats_and_says_so_once() {
        assert_eq!(run(100, |_| true), (103, 1));
    }

    #[test]
    fn a_machine_that_is_busy_now_and_then_is_repeated_up_to_a_share() {
        // Every other attempt is disturbed: each repeat is quiet, and every trial would want one.
        assert_eq!(run(100, |attempt| attempt % 2 == 0), (100 + 28, 0));
        assert_eq!(run(10, |attempt| attempt == 4), (11, 0));
    }

    #[test]
    fn a_trial_is_repeated_once_also_when_the_run_is_resumed() {
        let mut resumed = Repeats::after(HashSet::from([trial(0)]));
        assert_eq!(ended(&mut resumed, trial(0), true), Next::Stands);
        assert_eq!(ended(&mut resumed, trial(1), true), Next::Repeat);
        assert_eq!(ended(&mut resumed, trial(1), true), Next::Stands);
    }

    #[test]
    fn a_repeat_that_no_ledger_takes_is_none_of_the_few() {
        let mut repeats = Repeats::default();
        for block in 0..10 {
            assert_eq!(repeats.decide(trial(block), true), Next::Repeat);
        }
        assert_eq!(ended(&mut repeats, trial(0), true), Next::Repeat);
        assert_eq!(repeats.decide(trial(0), true), Next::Stands, "it was repeated");
    }
}
