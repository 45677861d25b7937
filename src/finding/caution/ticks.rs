//! The caution that a command's CPU time was counted in ticks, and used few of them.

use crate::finding::Caution;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::stacks::Stacks;
use crate::finding::ticks::are_too_coarse;
use std::collections::BTreeSet;

/// Parts that the ticks divide, in the words of a table.
const PARTS: [(&str, &str); 2] =
    [("cpu_user_ns", "the command's own part"), ("cpu_others_ns", "what others used for it")];

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let coarse_in = |metric| {
        let coarse = signs
            .arms
            .iter()
            .zip(signs.columns)
            .filter(move |(_, column)| are_too_coarse(column.counted.iter(), metric));
        coarse.map(|(arm, _)| arm.stack.as_str()).collect::<BTreeSet<&str>>()
    };
    let found = PARTS.map(|(metric, words)| (words, coarse_in(metric)));
    let parts: Vec<&str> =
        found.iter().filter(|(_, stacks)| !stacks.is_empty()).map(|(words, _)| *words).collect();
    let stacks: BTreeSet<&str> = found.iter().flat_map(|(_, stacks)| stacks).copied().collect();
    (!parts.is_empty()).then(|| {
        caution(
            "bill-in-ticks",
            format!(
                "CPU time inside {} was counted in ticks of 10 ms, and few of them were used: the \
                 sum is right, and {} {} known to a tick only and compared with nothing",
                Stacks::counted(signs.arms).words(&stacks),
                parts.join(" and "),
                if parts.len() == 1 { "is" } else { "are" },
            ),
            "repeat with so many `--iterations` that the command uses at least 100 ms in a trial, \
             where the parts are asked for",
        )
    })
}
