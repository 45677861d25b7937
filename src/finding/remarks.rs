//! Remarks below a table of stacks: each a label and words, with names in backticks.

use crate::finding::{Findings, claims, energy, memory, starts};

/// Lists those that a run has, in their order, without a full stop.
pub(crate) fn below_the_table(findings: &Findings) -> impl Iterator<Item = (&'static str, String)> {
    let all = [
        ("Memory, others", memory::remark(findings)),
        ("Start and stop", starts::remark(findings)),
        ("Energy", energy::remark(findings)),
        ("Not counted by this host", claims::remark(findings)),
    ];
    all.into_iter().filter_map(|(label, words)| Some((label, words?)))
}
