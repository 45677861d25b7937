//! The caution that somebody whose CPU time belongs to the bill was gone before it was read.
//!
//! A sum without that part would be too small and look whole: it is unknown.

use crate::finding::Caution;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::stacks::Stacks;
use std::collections::BTreeSet;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let gaps = || {
        let gaps = signs.arms.iter().filter_map(|arm| Some((arm, arm.bill_gap.as_ref()?)));
        gaps.filter(|(_, gap)| !gap.unread_payers.is_empty())
    };
    let payers: BTreeSet<&str> =
        gaps().flat_map(|(_, gap)| &gap.unread_payers).map(String::as_str).collect();
    let payers = payers.into_iter().collect::<Vec<_>>().join(", ");
    let stacks: BTreeSet<&str> = gaps().map(|(arm, _)| arm.stack.as_str()).collect();
    (!payers.is_empty()).then(|| {
        caution(
            "bill-partial",
            format!(
                "in {} {payers} ended before it was read, and what it used went with it: the \
                 trials where it did have no division of their CPU time, nor a sum of which it is \
                 a part",
                Stacks::counted(signs.arms).words(&stacks)
            ),
            "look why it ended (the journal of the machine, a restart of its service), and repeat",
        )
    })
}
