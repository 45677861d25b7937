//! Whole machines: what each kernel counted, how much more the whole used than its innermost part,
//! and whether stolen time is known where it was stolen.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::level_words::{
    MACHINES_ARE, STEALS, STEALS_ARE, USES, USES_ARE, agreement, amount, machine, more, quantities,
    quantity, resource,
};
use crate::finding::number;
use maud::{Markup, html};

/// The section; `None` where no machine was read.
pub fn levels(arms: &[Arm<'_>]) -> Option<Markup> {
    let arms: Vec<&Arm<'_>> = arms.iter().filter(|arm| !arm.found.is_again()).collect();
    if arms.iter().all(|arm| arm.found.machines.is_empty()) {
        return None;
    }
    let has_steals = arms.iter().any(|arm| !arm.found.steals.is_empty());
    Some(html! {
        section #levels {
            h2 { "What each kernel counted" }
            (uses(&arms))
            p { (escape::prose(USES_ARE)) }
            @if has_steals {
                (steals(&arms))
                p { (escape::prose(STEALS_ARE)) }
            }
            details {
                summary { "Each machine by its own kernel's account" }
                @for arm in &arms { (machines(arm)) }
                p { (escape::prose(MACHINES_ARE)) }
            }
        }
    })
}

fn uses(arms: &[&Arm<'_>]) -> Markup {
    let mut table = Table::new("Used inside, and by the whole machine", &USES);
    for arm in arms {
        for of in &arm.found.uses {
            let cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::Text(resource(of).into()),
                Cell::number(Some(of.inside), |value| amount(of, value)),
                Cell::number(Some(of.whole), |value| amount(of, value)),
                Cell::number(of.overhead_ratio, |_| more(of)),
            ];
            table.row(Some(arm.found.arm), cells);
        }
    }
    table.finish()
}

fn steals(arms: &[&Arm<'_>]) -> Markup {
    let mut table = Table::new("CPU time that was taken from guests", &STEALS);
    for arm in arms {
        for of in &arm.found.steals {
            let cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::count(of.level),
                Cell::number(of.inside_ns, number::time),
                Cell::number(of.waited_ns, number::time),
                Cell::number(of.throttled_ns, number::time),
                Cell::Text(agreement(of.agreement).into()),
            ];
            table.row(Some(arm.found.arm), cells);
        }
    }
    table.finish()
}

/// The machines of a stack side by side, a row for each quantity.
fn machines(arm: &Arm<'_>) -> Markup {
    let machines = &arm.found.machines;
    let names = machines.iter().map(|it| format!("#{}", machine(it)));
    let columns: Vec<String> = std::iter::once(String::from("Quantity")).chain(names).collect();
    let mut table = Table::new(&format!("Machines of {}", arm.name), &columns);
    for of in quantities(machines) {
        let mut cells = vec![Cell::Text(quantity(of))];
        cells.extend(machines.iter().map(|it| {
            let shown = |value| number::amount(value, of.unit.word());
            Cell::number(it.amounts.get(of.key), shown)
        }));
        table.row(Some(arm.found.arm), cells);
    }
    table.finish()
}
