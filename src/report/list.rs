//! The list of runs in text.

use crate::finding::kept::KeptRun;
use crate::finding::number;

/// Columns of the list; where there is little room, the last one is left out.
pub const HEADER: [&str; 6] = ["Run", "Began", "State", "Took", "Stacks", "Title"];

/// Cells of a run, one for each column. `began` says when it began.
#[must_use]
pub fn cells(run: &KeptRun, began: String) -> Vec<String> {
    vec![
        run.name.clone(),
        began,
        run.state_word().into(),
        run.wall_ns.map_or_else(String::new, number::span),
        run.stacks.join(","),
        run.title.clone(),
    ]
}
