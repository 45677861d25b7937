//! Check that the command had done its work when it ended.
//!
//! One that goes into the background ends at once, and what it left running is killed: its time
//! says nothing about the work. The end of a pipe may be told of by chance, so only what most
//! trials of an arm did is said.

use crate::finding::Caution;
use crate::finding::caution::{Signs, caution};

/// The arms whose command left something running.
pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let left = &signs.conditions.left_running;
    let stacks = signs.stacks(|column, _| {
        let those = column.counted.iter().filter(|trial| left.contains_key(&trial.id));
        2 * those.count() > column.counted.len()
    })?;
    Some(caution(
        "left-running",
        format!(
            "in {stacks} the command ended while processes that it had started ran on; they were \
             killed, and what they would have done is in no number"
        ),
        "keep it in the foreground (a daemon's `--foreground`, a shell's `wait`), or measure its \
         server with a workload that has one",
    ).of_those(stacks))
}

#[cfg(test)]
mod tests {
    use crate::finding::tests::caution_of_run;

    /// Returns what is said where the compared arm left something running in so many of three
    /// trials.
    fn said(count: u32) -> Option<String> {
        caution_of_run("left-running", "left_running_count", |block, arm| {
            (arm == 2 && block < count).then_some(1.0)
        })
    }

    #[test]
    fn a_command_that_goes_into_the_background_is_told_of() {
        assert!(said(3).unwrap().starts_with("in `runc` the command ended while processes"));
        assert!(said(2).is_some());
    }

    #[test]
    fn what_one_trial_left_by_chance_is_no_sign() {
        assert_eq!((said(0), said(1)), (None, None));
    }
}
