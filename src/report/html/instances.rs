//! Several instances at once: one row per metric and arm, with the least and the most of them.

use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::{Findings, instances, number};
use maud::{Markup, html};

/// The section; nothing where one ran.
pub fn instances(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    let rows = instances::rows(findings);
    if rows.is_empty() {
        return None;
    }
    let columns = ["Metric", "Stack", "#Instances", "#Least", "#Most", "#Variation"];
    let mut table =
        Table::new("Medians of what the instances of a trial have", &columns).sortable();
    for row in rows {
        let found = row.found;
        let arm = arms.iter().find(|arm| arm.found.arm == row.arm.arm);
        let cells = vec![
            Cell::Code(found.metric.clone()),
            arm.map_or_else(|| Cell::Code(row.arm.name.clone()), |arm| Cell::Markup(arm.label())),
            Cell::count(found.instance_count),
            Cell::Number(row.least, found.min),
            Cell::Number(row.most, found.max),
            Cell::number(found.variation_ratio, number::percent),
        ];
        table.row(Some(row.arm.arm), cells);
    }
    Some(html! {
        section #instances {
            h2 { "Between the instances" }
            p {
                "Several of the command ran at once; the variation is their standard deviation by \
                 their mean."
            }
            (table.finish())
        }
    })
}
