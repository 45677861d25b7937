//! The bill: whose CPU time a trial took, as one bar per arm in equal units.
//!
//! A bar adds medians of payers, so it may differ a little from the median of the sum. An arm
//! without readings keeps its row and says so.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Frame};
use super::escape;
use super::legend::Arm;
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

const TOTAL_WIDTH: f64 = 76.0;

/// The section; `None` when nobody's CPU time is known.
pub fn bill(arms: &[Arm<'_>]) -> Option<Markup> {
    if arms.iter().all(|arm| arm.found.payers.is_empty()) {
        return None;
    }
    let left = chart::names_width(arms.iter().map(|arm| arm.name.as_str()), 360.0);
    let wide = Frame::wide(34.0, left, TOTAL_WIDTH);
    let narrow = Frame::narrow(52.0, 2.0, TOTAL_WIDTH);
    Some(html! {
        section #bill {
            h2 { "Who used the CPU" }
            (roles(arms))
            figure {
                (draw(arms, &wide))
                (draw(arms, &narrow))
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

fn draw(arms: &[Arm<'_>], frame: &Frame) -> Markup {
    let mut canvas = Canvas::new(frame.width, frame.bottom(6.0, arms.len()));
    let longest = arms.iter().map(total_ns).fold(0.0, f64::max);
    let axis = Axis::from_zero(longest, frame.plot.0, frame.plot.1);
    for (arm, top) in arms.iter().zip(frame.tops(0.0)) {
        row(&mut canvas, arm, frame, &axis, top);
    }
    let said: Vec<String> = arms.iter().map(spoken).collect();
    canvas.svg("bill", frame.class, "CPU time per trial, by payer", &said.join("; "))
}

fn row(canvas: &mut Canvas, arm: &Arm<'_>, frame: &Frame, axis: &Axis, top: f64) {
    let (name_at, bar_top) = if frame.names_above {
        ((2.0, top + 19.0), top + 26.0)
    } else {
        ((0.0, top + frame.row_height / 2.0 + 4.0), top + 7.0)
    };
    let room = if frame.names_above { frame.width } else { frame.plot.0 - 12.0 };
    canvas.group_of("row", Some(arm.found.arm), None, |canvas| {
        canvas.text_in("name", name_at, 13, Anchor::Start, &chart::fitting(&arm.name, room, 13));
        let base = bar_top + 14.5;
        if arm.found.payers.is_empty() {
            canvas.group("gap", |canvas| {
                let room = frame.width - frame.plot.0;
                let reason = chart::fitting_prose(&format!("no reading: {}", arm.gap()), room, 12);
                canvas.text((frame.plot.0, base), 12, Anchor::Start, &reason);
            });
        } else {
            let end = segments(canvas, arm, axis, bar_top);
            let time = number::time(total_ns(arm));
            canvas.text_in("value", (end + 8.0, base), 13, Anchor::Start, &time);
        }
    });
}

/// Draws one bar and says where it ends.
fn segments(canvas: &mut Canvas, arm: &Arm<'_>, axis: &Axis, top: f64) -> f64 {
    let (mut sum_ns, total_ns) = (0.0, total_ns(arm));
    let mut end = axis.at(0.0);
    for (part_ns, (_, name, class)) in shares_ns(arm).into_iter().zip(ROLES) {
        if part_ns <= 0.0 {
            continue;
        }
        let start = axis.at(sum_ns);
        sum_ns += part_ns;
        end = axis.at(sum_ns);
        let percent = format!("{:.0} %", part_ns / total_ns * 100.0);
        let hint = format!("{}, {name}: {}, {percent}", arm.name, number::time(part_ns));
        canvas.group_of(class, None, Some(&hint), |canvas| {
            // The gap of a pixel separates neighbours where colour does not.
            canvas.rect((start, top), ((end - start - 1.0).max(0.6), 20.0), 1.0);
            let label = if end - start > 130.0 { format!("{name} {percent}") } else { percent };
            if end - start > 40.0 {
                canvas.text_in("on-bar", (start + 7.0, top + 14.5), 12, Anchor::Start, &label);
            }
        });
    }
    end
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

fn total_ns(arm: &Arm<'_>) -> f64 {
    shares_ns(arm).iter().sum()
}

fn spoken(arm: &Arm<'_>) -> String {
    let parts: Vec<String> = shares_ns(arm)
        .into_iter()
        .zip(ROLES)
        .filter(|(part_ns, _)| *part_ns > 0.0)
        .map(|(part_ns, (_, name, _))| format!("{name} {}", number::time(part_ns)))
        .collect();
    match parts.as_slice() {
        [] => format!("{}: no reading", arm.name),
        _ => format!("{}: {}", arm.name, parts.join(", ")),
    }
}

/// The colours of the roles that occur.
fn roles(arms: &[Arm<'_>]) -> Markup {
    let mut sums_ns = [0.0; ROLES.len()];
    for arm in arms {
        for (sum_ns, part_ns) in sums_ns.iter_mut().zip(shares_ns(arm)) {
            *sum_ns += part_ns;
        }
    }
    let square = |canvas: &mut Canvas| canvas.rect((1.0, 1.0), (12.0, 12.0), 1.0);
    let occurring = sums_ns.into_iter().zip(ROLES).filter(|(sum_ns, _)| *sum_ns > 0.0);
    html! {
        ul.legend aria-label="Payers" {
            @for (_, (_, name, class)) in occurring {
                li { (Canvas::swatch(|canvas| canvas.group(class, square))) (escape::line(name)) }
                "\n"
            }
        }
    }
}
