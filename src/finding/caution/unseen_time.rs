//! Check that a command took about as long as this host waited for it.
//!
//! One frame may be late on a crowded machine, and is believed within half a second: see
//! `trial/held_against.rs`. Where most trials of an arm are late, the time is told too short by
//! someone who can speak for the agent, or it waits where others do not; either way the number
//! leaves out what the host saw.

use crate::finding::Caution;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::{Signs, caution};
use crate::finding::number;

/// By so much the host may have waited longer, in nanoseconds: on a machine of two CPUs with a load
/// of 9, one honest trial of a hundred did.
const LATE_NS: f64 = 2e7;

/// Or by so much of the command's own time.
const LATE_RATIO: f64 = 0.05;

/// The arms whose time is mostly shorter than what this host waited.
pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let mostly_late = |column: &ArmTrials<'_>| {
        Some(late(column, signs)).filter(|late| 2 * late.len() > column.counted.len())
    };
    let stacks = signs.stacks(|column, _| mostly_late(column).is_some())?;
    let most = signs.columns.iter().filter_map(mostly_late).flatten().fold(0.0, f64::max);
    Some(caution(
        "unseen-time",
        format!(
            "in {stacks} this machine waited longer for the command than it is said to have taken, \
             by up to {}: its wall time may be told too short",
            number::time(most)
        ),
        "measure on a machine that does nothing else; where it stays, look who can speak for the \
         agent there (root beside it, a guest's kernel)",
    ).of_those(stacks))
}

/// Returns the excess of every trial that is late, in nanoseconds.
fn late(column: &ArmTrials<'_>, signs: &Signs<'_>) -> Vec<f64> {
    let trials = column.counted.iter().filter_map(|trial| {
        let excess = *signs.conditions.excesses.get(&trial.id)?;
        let wall = trial.sample("wall_ns")?.value;
        (excess > LATE_NS.max(LATE_RATIO * wall)).then_some(excess)
    });
    trials.collect()
}

#[cfg(test)]
mod tests {
    use crate::finding::tests::caution_of_run;

    /// Returns what is said where the host waited so much longer in so many of three trials of the
    /// compared arm, which take a second.
    fn said(count: u32, excess_ns: f64) -> Option<String> {
        caution_of_run("unseen-time", "bracket_excess_ns", |block, arm| {
            Some(if arm == 2 && block < count { excess_ns } else { 4e5 })
        })
    }

    #[test]
    fn a_time_that_is_told_too_short_is_told_of_with_what_the_host_saw() {
        let text = said(3, 4.5e8).unwrap();
        assert!(text.starts_with("in `runc` this machine waited longer"), "{text}");
        assert!(text.contains("by up to 450.0 ms"), "{text}");
        assert!(said(2, 6e7).is_some());
    }

    #[test]
    fn a_frame_that_was_late_by_chance_and_one_within_a_twentieth_are_no_sign() {
        assert_eq!((said(1, 4.5e8), said(3, 4.5e7)), (None, None));
    }
}
