//! The caution that processes of the command worked for which nobody waited.
//!
//! A process that ignores the end of its children has them in no counter of its own. What its group
//! used beside it is counted as the command's: see `trial/held_against.rs`.

use crate::finding::caution::signs::{Signs, caution};
use crate::finding::number;
use crate::finding::stacks::Stacks;
use crate::finding::{ArmFindings, Caution, MetricFindings};
use std::collections::BTreeSet;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let found = signs.columns.iter().zip(signs.arms).flat_map(|(column, arm)| {
        let known =
            column.counted.iter().filter_map(|trial| signs.conditions.unwaited.get(&trial.id));
        known.map(|used| (arm.stack.as_str(), *used))
    });
    let found: Vec<(&str, f64)> = found.collect();
    let most = found.iter().map(|(_, used)| *used).reduce(f64::max)?;
    let stacks: BTreeSet<&str> = found.iter().map(|(stack, _)| *stack).collect();
    Some(caution(
        "unwaited-cpu",
        format!(
            "in {} up to {} of CPU time in the group of the command are of processes that nobody \
             waited for; they count as the command's{}",
            Stacks::counted(signs.arms).words(&stacks),
            number::time(most),
            elsewhere(signs, &stacks)
        ),
        "have the command wait for what it starts: it ignores SIGCHLD, or hides it in a PID \
         namespace of its own, and no other tool would see that time either",
    ))
}

/// Says of stacks with a kernel of their own that nobody sees such time there; `seen` are those in
/// which it was.
fn elsewhere(signs: &Signs<'_>, seen: &BTreeSet<&str>) -> String {
    let has_claims = |arm: &&ArmFindings| {
        // Of little of it no sample has the parts, and then the others' is claimed.
        let is_cpu = |it: &&MetricFindings| it.metric.starts_with("cpu_");
        arm.metrics.iter().filter(is_cpu).any(|metric| metric.claimed_by.is_some())
    };
    let own = signs.arms.iter().filter(has_claims).map(|arm| arm.stack.as_str());
    let own: BTreeSet<&str> = own.filter(|stack| !seen.contains(stack)).collect();
    match Stacks::counted(signs.arms).words(&own) {
        _ if own.is_empty() => String::new(),
        stacks => format!(", but in {stacks}, where this host cannot tell them, as the others'"),
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::tests::caution_of_run;

    #[test]
    fn what_nobody_waited_for_is_told_with_the_most_of_it() {
        let said = caution_of_run("unwaited-cpu", "cpu_unwaited_ns", |block, arm| {
            (arm == 2).then(|| f64::from(block + 1) * 1e8)
        });
        let said = said.unwrap();
        assert!(said.starts_with("in `runc` up to 300.0 ms of CPU time"), "{said}");
        // Of this machine no kernel is known, so that `native` may be on another one.
        let elsewhere = "but in `native`, where this host cannot tell them, as the others'";
        assert!(said.ends_with(elsewhere), "{said}");
        assert_eq!(caution_of_run("unwaited-cpu", "cpu_unwaited_ns", |_, _| None), None);
    }
}
