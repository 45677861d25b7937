//! The bill: whose CPU time a trial took, as one bar per arm in equal units.
//!
//! A bar adds medians of payers, so it may differ a little from the median of the sum. An arm
//! without readings keeps its row and says so.

use super::escape;
use super::legend::Arm;
use super::stacked::Bars;
use super::table::{Cell, Table};
use crate::finding::PayerFindings;
use crate::finding::number;
use maud::{Markup, html};

/// The parts of a bill: their name in the ledger, for people, and their colour's class.
const ROLES: [(&str, &str, &str); 6] = [
    ("workload", "the command", "role-workload"),
    ("guest-kernel", "guest kernel", "role-guest-kernel"),
    ("hypervisor", "hypervisor", "role-hypervisor"),
    ("engine", "engine", "role-engine"),
    ("surtax", "surtax", "role-surtax"),
    ("", "others", "role-others"),
];

/// Returns the class of a role's colour.
pub fn class_of(role: &str) -> &'static str {
    let known = ROLES.iter().find(|(known, ..)| *known == role);
    known.or(ROLES.last()).map_or("", |(.., class)| class)
}

/// The section; `None` when nobody's CPU time is known.
pub fn bill(arms: &[Arm<'_>]) -> Option<Markup> {
    if arms.iter().all(|arm| arm.found.payers.is_empty()) {
        return None;
    }
    let bars = Bars {
        kind: "bill",
        title: "CPU time per trial, by payer",
        legend: "Payers",
        parts: &ROLES.map(|(_, name, class)| (name, class)),
        of: &|arm| shares_ns(arm).to_vec(),
    };
    Some(html! {
        section #bill {
            h2 { "Who used the CPU" }
            (bars.legend(arms))
            figure {
                (bars.draw(arms))
                figcaption {
                    "Median CPU time per trial, by payer, as the kernel of its level counts it. \
                     What runs inside a payer is not counted twice. The number beside a bar adds \
                     the medians of its payers, which need not be the median of all CPU time, \
                     below."
                }
            }
            details {
                summary { "The payers of this chart" }
                (payers(arms, "CPU time and memory per payer"))
                p { (escape::line(crate::finding::memory::PARTS)) "." }
            }
        }
    })
}

/// Payers as a table, with the arm's name when they are of several.
pub fn payers(arms: &[Arm<'_>], caption: &str) -> Markup {
    let quantities = PayerFindings::columns(arms.iter().flat_map(|arm| &arm.found.payers));
    let mut table = Table::new(caption, &PayerFindings::headings(&quantities));
    for arm in arms {
        for payer in &arm.found.payers {
            let mut cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::Text(payer.name()),
                Cell::Text(payer.role.clone()),
                Cell::count(payer.level),
                Cell::number(Some(payer.cpu_ns), number::time),
            ];
            cells.extend(quantities.iter().map(|it| {
                let shown = |amount| number::amount(amount, it.unit.word());
                Cell::number(payer.amounts.get(it.key), shown)
            }));
            table.row(Some(arm.found.arm), cells);
        }
        let all = arm.found.metric("cpu_total_ns").filter(|_| !arm.found.payers.is_empty());
        if let Some(all) = all {
            let mut cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::Text(String::from("CPU, all")),
                Cell::Text(String::from("median of each trial's sum")),
                Cell::Gap,
                Cell::number(Some(all.median), number::time),
            ];
            cells.extend(quantities.iter().map(|_| Cell::Gap));
            table.row(Some(arm.found.arm), cells);
        }
    }
    table.finish()
}

/// CPU time per role, in the order of [`ROLES`].
fn shares_ns(arm: &Arm<'_>) -> [f64; ROLES.len()] {
    let mut shares_ns = [0.0; ROLES.len()];
    let is_amount = |payer: &&PayerFindings| payer.cpu_ns.is_finite() && payer.cpu_ns > 0.0;
    for payer in arm.found.payers.iter().filter(is_amount) {
        let place = ROLES.iter().position(|(role, ..)| *role == payer.role);
        shares_ns[place.unwrap_or(ROLES.len() - 1)] += payer.cpu_ns;
    }
    shares_ns
}
