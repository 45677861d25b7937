//! Energy by meters: a table for all stacks, and what was found of each meter.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::energy_words::{
    ENERGIES_ARE, HEADINGS, all, meter, of_work, power, shares, short,
};
use crate::finding::{Findings, number};
use maud::{Markup, html};

/// The section; `None` where no meter was read.
pub fn energies(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    if findings.meters.is_empty() {
        return None;
    }
    let mut table = Table::new("Energy of the machine while the command ran", &HEADINGS);
    for (arm, of) in all(findings) {
        let name = arms.iter().find(|it| it.found.arm == arm.arm).map(|it| it.name.clone());
        let row = vec![
            Cell::Code(name.unwrap_or_default()),
            Cell::Text(short(&of.metric).into()),
            Cell::number(Some(of.power_uw), power),
            Cell::number(Some(of.energy_uj), number::energy),
            Cell::number(of.idle_uj, number::energy),
            Cell::number(of.dynamic_uj, number::energy),
            Cell::Text(shares(of)),
        ];
        table.row(Some(arm.arm), row);
    }
    Some(html! {
        section #energy {
            h2 { "Energy by meters" }
            (table.finish())
            p { (escape::prose(ENERGIES_ARE)) }
            @if let Some(said) = of_work(findings) { p { (escape::prose(&said)) } }
            ul { @for it in &findings.meters { li { (escape::prose(&meter(it))) } } }
        }
    })
}
