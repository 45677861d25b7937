//! Explanations as text: for each stack a sentence, and a table of its causes.

use super::page::Page;
use super::terminal::{Look, plain};
use crate::finding::why::words::{HEADINGS, explained, rows, sentence, source};
use crate::finding::{ConfirmedFindings, Findings};
use comfy_table::{Attribute, Cell, CellAlignment};

/// All that is explained of a run.
#[must_use]
pub fn page(findings: &Findings, look: Look) -> String {
    let mut page = Page::new(look.width.max(60));
    page.paragraph("", &findings.run.title, 0);
    page.gap();
    super::apart::write(&mut page, findings, look);
    for (arm, why) in explained(findings) {
        page.paragraph(&format!("`{}`: ", arm.name), &(sentence(why) + "."), 2);
        page.gap();
        let mut table = plain(look);
        table.set_header(HEADINGS.map(|heading| {
            Cell::new(heading.trim_start_matches('#')).add_attribute(Attribute::Bold)
        }));
        for row in rows(why) {
            table.add_row(row);
        }
        for (place, column) in table.column_iter_mut().enumerate() {
            let is_number = HEADINGS.get(place).is_some_and(|it| it.starts_with('#'));
            column.set_padding((0, u16::from(place + 1 < HEADINGS.len())));
            if is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        page.add(&(table.trim_fmt() + "\n"));
        page.paragraph("", &(source(why, &findings.run.baseline) + "."), 0);
        page.gap();
    }
    confirmed(&mut page, &findings.confirmed);
    page.finish()
}

/// Says what was shown by exchanging parts of stacks.
fn confirmed(page: &mut Page, all: &[ConfirmedFindings]) {
    if !all.is_empty() {
        page.paragraph("", "Parts exchanged, one at a time:", 0);
    }
    for it in all {
        let ConfirmedFindings { stack, variant, instead, causes, verdict, because, .. } = it;
        let causes = causes.join(", ");
        let text = format!(
            "{} for {causes}. With `{variant}`, where {instead}, and not `{stack}`: {because}.",
            verdict.word()
        );
        page.paragraph("  - ", &text, 4);
    }
}
