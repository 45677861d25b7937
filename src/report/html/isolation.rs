//! Isolation: one row per metric and stack, beside a neighbour over the same stack alone.

use super::table::{Cell, Table};
use crate::finding::{Findings, isolation};
use maud::{Markup, html};

/// The section; nothing where no neighbour ran.
pub fn isolation(findings: &Findings) -> Option<Markup> {
    let rows = isolation::rows(findings);
    if rows.is_empty() {
        return None;
    }
    let columns = ["Metric", "Stack", "Neighbour", "#Overhead"];
    let caption = "Beside the neighbour, over the same stack alone";
    let mut table = Table::new(caption, &columns).sortable();
    for row in rows {
        let cells = vec![
            Cell::Code(row.found.metric.clone()),
            Cell::Code(row.stack.to_owned()),
            Cell::Code(row.neighbour.to_owned()),
            Cell::overhead(Some(&row.found.overhead)),
        ];
        table.row(Some(row.arm.arm), cells);
    }
    Some(html! {
        section #isolation {
            h2 { "Isolation" }
            p { "What it costs a stack that something runs beside it, in the same blocks." }
            (table.finish())
        }
    })
}
