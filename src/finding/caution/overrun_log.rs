//! The caution that records of the kernel's log were lost: driven out before they were read, torn
//! by others, so that nothing tells whose they are, or held back by the kernel, as the groups of
//! all but ten kills in five seconds.
//!
//! Of a process that was killed or not made in a group that is gone by the end of its command, the
//! log alone tells. Only trials are looked at that a limit of their stack may have stopped.

use crate::finding::Caution;
use crate::finding::caution::signs::{Signs, caution};

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let overrun = &signs.conditions.overrun_logs;
    let stacks =
        signs.stacks(|column, _| column.counted.iter().any(|it| overrun.contains_key(&it.id)))?;
    Some(caution(
        "overrun-log",
        format!(
            "in {stacks} records of the kernel's log were lost (overwritten, torn by others, or \
             held back by the kernel): that a limit stopped a process may be unknown"
        ),
        "find out what is logged meanwhile (`dmesg --follow`): the command itself may be why",
    ).of_those(stacks))
}

#[cfg(test)]
mod tests {
    use crate::finding::tests::caution_of_run;

    #[test]
    fn a_log_that_was_overrun_beside_a_limit_is_told_of() {
        let said = |arm| {
            caution_of_run("overrun-log", "kernel_log_overrun", move |block, it| {
                (it == arm && block == 1).then_some(1.0)
            })
        };
        assert!(said(2).unwrap().starts_with("in `runc` records of the kernel's log"));
        assert_eq!(said(9), None);
    }
}
