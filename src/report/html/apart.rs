//! The wall time of each stack's command apart: on a CPU, waiting, and elsewhere, as a bar.

use super::escape;
use super::legend::Arm;
use super::stacked::Bars;
use super::table::{Cell, Table};
use crate::finding::apart::{PARTS, PARTS_ARE, table};
use crate::finding::{Findings, number};
use maud::{Markup, html};

/// Classes of the parts' colours, in their order.
const CLASSES: [&str; PARTS.len()] = [
    "role-workload", "role-guest-kernel", "part-all", "role-hypervisor", "role-surtax",
    "role-engine", "part-memory", "part-stolen", "role-others",
];

/// The section; `None` where nobody's time is divided.
pub fn apart(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    let (headings, rows) = table(findings)?;
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut twin = Table::new("Parts of the wall time of one run", &headings);
    for (arm, cells) in rows {
        let name = arms.iter().find(|it| it.found.arm == arm.arm).map(|it| it.name.clone());
        let time = |ns: f64| Cell::number(Some(ns).filter(|ns| *ns > 0.0), number::time);
        let cells = cells.into_iter().map(time);
        let row = std::iter::once(Cell::Code(name.unwrap_or_default())).chain(cells).collect();
        twin.row(Some(arm.arm), row);
    }
    let parts: Vec<(&str, &str)> =
        PARTS.iter().zip(CLASSES).map(|((_, words), class)| (*words, class)).collect();
    let bars = Bars {
        kind: "apart",
        title: "Wall time of one run, by what the command did or waited for",
        legend: "Parts of the time",
        parts: &parts,
        of: &|arm| PARTS.map(|(part, _)| arm.found.time_part(part).unwrap_or(0.0)).into(),
    };
    Some(html! {
        section #apart {
            h2 { "Where the time was" }
            (bars.legend(arms))
            figure {
                (bars.draw(arms))
                figcaption { (escape::prose(PARTS_ARE)) }
            }
            details {
                summary { "The parts of this chart" }
                (twin.finish())
            }
        }
    })
}
