//! The caution that processes of the command worked for which nobody waited.
//!
//! A process that ignores the end of its children has them in no counter of its own. What its group
//! used beside it is counted as the command's: see `trial/held_against.rs`.

use crate::finding::Caution;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::number;
use crate::finding::stacks::Stacks;
use std::collections::BTreeSet;
use surtax_instrument::amount::CPU_COMMAND_GROUP;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let unwaited = &signs.conditions.unwaited;
    let found = |column: &ArmTrials<'_>| -> Vec<f64> {
        column.counted.iter().filter_map(|trial| unwaited.get(&trial.id).copied()).collect()
    };
    let most = signs.columns.iter().flat_map(found).reduce(f64::max)?;
    let seen = signs.arms().filter(|(column, _)| !found(column).is_empty());
    let stacks: BTreeSet<&str> = seen.map(|(_, arm)| arm.stack.as_str()).collect();
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
    ).of(stacks))
}

/// Says of stacks in which nobody sees such time as the command's, since its group was not read:
/// another kernel's, one with others in it, none at all. `seen` are those in which it was seen.
fn elsewhere(signs: &Signs<'_>, seen: &BTreeSet<&str>) -> String {
    let is_told = |column: &ArmTrials<'_>| {
        let mut readings = column.counted.iter().flat_map(|trial| &trial.readings);
        readings.any(|reading| reading.amounts.get(CPU_COMMAND_GROUP).is_some())
    };
    let untold = signs.stacks(|column, arm| !is_told(column) && !seen.contains(arm.stack.as_str()));
    untold.map_or_else(String::new, |stacks| {
        format!(
            ", but in {stacks}, where this host cannot tell them, as the others' or as nobody's"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::tests::{caution_of_records, caution_of_run};
    use crate::trial::TrialResult;

    #[test]
    fn what_nobody_waited_for_is_told_with_the_most_of_it() {
        let said = caution_of_run("unwaited-cpu", "cpu_unwaited_ns", |block, arm| {
            (arm == 2).then(|| f64::from(block + 1) * 1e8)
        });
        let said = said.unwrap();
        assert!(said.starts_with("in `runc` up to 300.0 ms of CPU time"), "{said}");
        // No group was read of any, so that in `native` there may be as much.
        let elsewhere =
            "but in `native`, where this host cannot tell them, as the others' or as nobody's";
        assert!(said.ends_with(elsewhere), "{said}");
        assert_eq!(caution_of_run("unwaited-cpu", "cpu_unwaited_ns", |_, _| None), None);
    }

    #[test]
    fn a_stack_whose_commands_group_was_read_has_no_such_time() {
        let said = caution_of_records("unwaited-cpu", |_, arm, record| match arm {
            2 => record.conditions.push((String::from("cpu_unwaited_ns"), 1e8)),
            _ => {
                let TrialResult::Done(measured) = &mut record.result else { panic!("{record:?}") };
                measured.readings[0].amounts.set(CPU_COMMAND_GROUP, 7);
            }
        });
        let said = said.unwrap();
        assert!(said.ends_with("they count as the command's"), "{said}");
    }
}
