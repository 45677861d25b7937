//! Checks of how the command ended: the same way in every stack, and by success.

use super::signs::{baseline, compared};
use super::{Signs, caution};
use crate::finding::foreign::line;
use crate::finding::stacks::{Stacks, joined};
use crate::finding::{ArmFindings, Caution};
use std::collections::BTreeSet;

/// The exit status of a command that succeeded.
const SUCCESS: &str = "exit 0";

/// The most exit statuses that are named.
const NAMED_LIMIT: usize = 4;

/// Cautions that the exit statuses give against the numbers.
pub(super) fn cautions(signs: &Signs<'_>) -> impl Iterator<Item = Caution> {
    differ(signs.arms).into_iter().chain(counted(signs))
}

/// The failures that count, since the plan ignores that they are some.
fn counted(signs: &Signs<'_>) -> Option<Caution> {
    let counted = signs.columns.iter().flat_map(|column| &column.counted);
    let statuses = counted.filter_map(|trial| trial.exit_status.as_deref());
    let failures: BTreeSet<&str> = statuses.filter(|status| *status != SUCCESS).collect();
    let named = joined(failures.iter().copied().take(NAMED_LIMIT).map(line), ", ")?;
    let more = if failures.len() > NAMED_LIMIT { " and others" } else { "" };
    Some(caution(
        "failures-counted",
        format!("runs that ended with {named}{more} count: failure is ignored"),
        "leave out `--ignore-failure` if the command should succeed",
    ))
}

fn differ(arms: &[ArmFindings]) -> Option<Caution> {
    let statuses = |arm: &ArmFindings| arm.exit_statuses.iter().cloned().collect::<BTreeSet<_>>();
    let expected: BTreeSet<String> = baseline(arms).flat_map(statuses).collect();
    let others = compared(arms)
        .filter(|arm| !arm.exit_statuses.is_empty() && statuses(arm) != expected)
        .map(|arm| (arm.stack.as_str(), arm.exit_statuses.join(", ")));
    let all = Stacks::of(arms);
    let others: Vec<(&str, String)> = others.collect();
    let told = others.iter().map(|(stack, words)| (*stack, words));
    let words = all.by_words(told).map(|(words, stacks)| format!("{stacks} ended with {words}"));
    let (baseline, words) = (joined(expected.iter().cloned(), ", ")?, joined(words, "; ")?);
    Some(
        caution(
            "exit-statuses-differ",
            format!("the baseline ended with {baseline}, but {words}"),
            "see the command's last words; unless failure is ignored, only trials that ended with \
         `exit 0` count",
        )
        .of(others.iter().map(|(stack, _)| *stack)),
    )
}
