//! Metrics that the workload measured: one row per metric and arm, with its own verdict.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::number;
use crate::finding::stacks::FEW;
use crate::finding::{Findings, reasons, workload};
use maud::{Markup, html};

/// A table of more rows is opened by whoever wants it.
const ROWS_MAX: usize = 80;

/// The section; nothing where an ordinary command was measured.
pub fn measured(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    let rows = workload::rows(findings);
    if rows.is_empty() {
        return None;
    }
    // A sentence that stands in many rows is read once, below them.
    let (common, own): (Vec<_>, Vec<_>) =
        reasons::of_metrics(&rows).into_iter().partition(|reason| reason.count > FEW);
    let mut columns = vec!["Metric", "Stack", "#Median", "#Range", "#Overhead", "Verdict"];
    columns.extend((!own.is_empty()).then_some("Why"));
    let mut table = Table::new("Medians of what the workload measured", &columns).sortable();
    for row in &rows {
        let found = row.found;
        let amount = |value| number::amount(value, &found.unit);
        let arm = arms.iter().find(|arm| arm.found.arm == row.arm.arm);
        let because = found.judgement.as_ref().map(|judged| judged.because.as_str());
        let because = because.filter(|it| common.iter().all(|reason| reason.because != *it));
        let mut cells = vec![
            Cell::Code(row.metric.to_owned()),
            arm.map_or_else(|| Cell::Code(row.arm.name.clone()), |arm| Cell::Markup(arm.label())),
            Cell::number(Some(found.median), amount),
            Cell::range(found.min, found.max, amount),
            Cell::overhead(found.overhead.as_ref()),
            Cell::Text(row.verdict.to_owned()),
        ];
        cells.extend((!own.is_empty()).then(|| Cell::Prose(because.unwrap_or_default().into())));
        table.row(Some(row.arm.arm), cells);
    }
    let title = workload::measurer(findings);
    let table = table.finish();
    Some(html! {
        section #measured {
            h2 { "What " (escape::prose(&title)) " measured" }
            @if let Some(remark) = workload::remark(&rows) {
                p { "Overhead: " (escape::prose(&remark)) "." }
            }
            @for line in crate::finding::settings::lines(findings) {
                p { "Measured with " (escape::prose(&line)) "." }
            }
            @if rows.len() <= ROWS_MAX {
                (table)
            } @else {
                details {
                    summary { "Every number with its verdict (" (rows.len()) " rows)" }
                    (table)
                }
            }
            @for reason in &common {
                p { (escape::prose(&reason.whose)) ": " (escape::prose(reason.because)) "." }
            }
            @for (what, why) in workload::gaps(findings) {
                p { "No number of " (escape::line(&what)) ": " (escape::prose(why)) "." }
            }
        }
    })
}
