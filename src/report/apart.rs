//! Parts of the wall time of each stack's command, as text.

use super::page::Page;
use super::terminal::{Look, add_broken, name, plain};
use crate::finding::Findings;
use crate::finding::apart::{PARTS_ARE, cell, table};
use comfy_table::CellAlignment;

/// Writes a table of the parts of the time; nothing where nobody's is divided.
pub(super) fn write(page: &mut Page, findings: &Findings, look: Look) {
    let Some((headings, rows)) = table(findings) else { return };
    let mut written = plain(look);
    written.set_header(headings.iter().map(|it| it.trim_start_matches('#')));
    for (arm, cells) in rows {
        written.add_row(std::iter::once(name(arm)).chain(cells.into_iter().map(cell)));
    }
    for column in written.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    page.gap();
    page.paragraph("", "Where the time was", 0);
    add_broken(page, written, look);
    page.paragraph("", PARTS_ARE, 0);
    page.gap();
}
