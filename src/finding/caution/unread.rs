//! The caution that somebody whose CPU time belongs to the bill could not be read.
//!
//! A sum without that part would be too small and look whole: it is unknown.

use crate::finding::Caution;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::stacks::Stacks;
use std::collections::BTreeSet;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let gaps = || {
        let gaps = signs.arms.iter().filter_map(|arm| Some((arm, arm.bill_gap.as_ref()?)));
        gaps.filter(|(_, gap)| gap.partial_count > 0)
    };
    let payers: BTreeSet<&str> =
        gaps().flat_map(|(_, gap)| &gap.unread_payers).map(String::as_str).collect();
    let stacks: BTreeSet<&str> = gaps().map(|(arm, _)| arm.stack.as_str()).collect();
    let partial: u32 = gaps().map(|(_, gap)| gap.partial_count).sum();
    let counted: u32 = gaps().map(|(arm, _)| arm.trial_count).sum();
    (partial > 0).then(|| {
        caution(
            "bill-partial",
            format!(
                "in {partial} of {counted} trials of {} {} could not be read: gone when the \
                 command had ended, or nothing tells which process that is; no sum of CPU time or \
                 memory is known there of which that is a part, and nothing is divided",
                Stacks::counted(signs.arms).words(&stacks),
                payers.into_iter().collect::<Vec<_>>().join(" and "),
            ),
            "look whether it ended and why (the log of its service, on the machine or in the guest \
             that it ran on), and repeat; where it did not, run surtax as root and among the same \
             processes as the daemon",
        )
    })
}
