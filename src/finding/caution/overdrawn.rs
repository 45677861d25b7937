//! The caution that more CPU time was counted inside than was seen from outside.
//!
//! Then the sum is what the outside saw, divided only as far in as the levels fit into each other:
//! see `trial/outside.rs`.

use crate::finding::Caution;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::number::percent;
use crate::finding::stacks::Stacks;
use std::collections::BTreeSet;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let gaps = || {
        let gaps = signs.arms.iter().filter_map(|arm| Some((arm, arm.bill_gap.as_ref()?)));
        gaps.filter(|(_, gap)| gap.cpu_unseen_ns > 0.0)
    };
    let stacks: BTreeSet<&str> = gaps().map(|(arm, _)| arm.stack.as_str()).collect();
    let share = gaps().map(|(_, gap)| gap.unseen_share).reduce(f64::max)?;
    let undivided: u32 = gaps().map(|(_, gap)| gap.trial_count).sum();
    let counted: u32 = gaps().map(|(arm, _)| arm.trial_count).sum();
    let measured = if signs.is_of_fixed_time { "what it measured" } else { "the wall time" };
    Some(caution(
        "bill-overdrawn",
        format!(
            "up to {} of the CPU time that was counted inside {} was not seen outside: in \
             {undivided} of {counted} trials the command's own part is not known, and the sum is \
             what was seen",
            percent(share),
            Stacks::counted(signs.arms).words(&stacks)
        ),
        format!(
            "trust {measured} and the sum there, or repeat on a machine that does nothing else: a \
             kernel that is not told when this machine takes the CPU away counts waiting as work"
        ),
    ))
}
