//! The price list: a chart of what each primitive costs as a ratio to the baseline, and all prices.
//!
//! One row for each primitive, one mark for each stack, on one axis: where a stack is dear shows at
//! a glance, and that it is dear in one thing only as well. Drawn twice, as every chart.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Fill, Frame};
use super::escape;
use super::legend::{self, Arm};
use super::table::{Cell, Table};
use crate::finding::number::{self, GAP};
use crate::finding::prices::{Cell as Price, List, Row};
use crate::finding::{Findings, Interval};
use maud::{Markup, html};

const HEAD: f64 = 26.0;
const FOOT: f64 = 34.0;
/// Room of the baseline's prices.
const PRICE: f64 = 84.0;
/// Room of one stack's numbers behind the plot.
const COLUMN: f64 = 84.0;
/// More stacks than these have their numbers in the table alone.
const COLUMNS_MAX: usize = 4;
/// Heights that the marks of one row share, so that equal ones do not lie on each other.
const SPREAD: f64 = 9.0;

/// The section.
pub fn prices(findings: &Findings, list: &List<'_>, arms: &[Arm<'_>]) -> Markup {
    let compared: Vec<&Arm<'_>> = arms.iter().filter(|arm| arm.found.is_compared()).collect();
    let longest = list.rows.iter().map(|row| chart::width_of(row.name, 12)).fold(90.0, f64::max);
    let columns = if compared.len() > COLUMNS_MAX { 0 } else { compared.len() };
    let room = f64::from(u32::try_from(columns).unwrap_or(0)) * COLUMN;
    let wide = Frame::wide(22.0, longest + 16.0 + PRICE, room + 20.0);
    let narrow = Frame::narrow(38.0, 6.0, 6.0);
    html! {
        section #prices {
            h2 { "What primitives cost" }
            @if !compared.is_empty() {
                p { (escape::line(&explanation(findings, list))) }
                figure {
                    (legend::legend(&compared, None))
                    (draw(findings, list, arms, &wide))
                    (draw(findings, list, arms, &narrow))
                }
            }
            (numbers(list, arms))
            @for (what, why) in list.gaps() {
                p { "No price of " (escape::line(&what)) ": " (escape::line(&why)) "." }
            }
        }
    }
}

fn explanation(findings: &Findings, list: &List<'_>) -> String {
    let (baseline, count) = (&findings.run.baseline, list.comparison_count());
    format!(
        "Each as a multiple of its price in {baseline}, with its 95 % interval: to the right it \
         costs more. Of {count} comparisons a few would seem to differ by chance, so not every \
         interval beside {baseline} shows a difference: hollow marks and grey numbers are not \
         decided. —: no price, for a reason below."
    )
}

fn draw(findings: &Findings, list: &List<'_>, arms: &[Arm<'_>], frame: &Frame) -> Markup {
    let bottom = frame.bottom(HEAD, list.rows.len());
    let mut canvas = Canvas::new(frame.width, bottom + FOOT);
    let drawn = list.rows.iter().flat_map(|row| &row.cells).filter_map(ratio);
    let ends = drawn.flat_map(|interval| [interval.low, interval.ratio, interval.high]);
    let axis = Axis::over(ends.chain([0.9, 1.0, 1.1]), frame.plot.0, frame.plot.1);
    for tick in axis.ratio_ticks(58.0) {
        canvas.line_in("grid", (tick.at, HEAD), (tick.at, bottom));
        let x = tick.at.clamp(18.0, frame.width - 18.0);
        // One is the baseline's, which has a name.
        let is_one = (tick.value - 1.0).abs() <= f64::EPSILON;
        let label = if is_one { &findings.run.baseline } else { &tick.label };
        for y in [HEAD - 10.0, bottom + 18.0] {
            canvas.text_in("axis", (x, y), 12, Anchor::Middle, label);
        }
    }
    if !frame.names_above {
        let at = (frame.plot.0 - 20.0, HEAD - 10.0);
        canvas.text_in(
            "name",
            at,
            12,
            Anchor::End,
            &chart::fitting(&findings.run.baseline, PRICE, 12),
        );
        let compared = list.arms.iter().filter(|arm| arm.is_compared());
        for (arm, end) in compared.zip(columns(frame)) {
            let name = chart::fitting(&arm.name, COLUMN - 8.0, 12);
            canvas.text_in("name", (end, HEAD - 10.0), 12, Anchor::End, &name);
        }
    }
    canvas.line_in("one", (axis.at(1.0), HEAD - 6.0), (axis.at(1.0), bottom));
    // From the top of a row to its name's foot, and to the middle of its marks.
    let (name, middle) = if frame.names_above { (13.0, 27.0) } else { (15.0, 11.0) };
    for (row, top) in list.rows.iter().zip(frame.tops(HEAD)) {
        canvas.text_in("name", (4.0, top + name), 12, Anchor::Start, row.name);
        let compared = || of_arms(list, row, arms).filter(|(arm, _)| arm.found.is_compared());
        for ((arm, cell), lower) in compared().zip(heights(compared().count())) {
            mark(&mut canvas, row, arm, cell, &axis, top + middle + lower);
        }
        if !frame.names_above {
            let price = row.cells.first().map_or_else(|| GAP.to_owned(), Price::price);
            let at = (frame.plot.0 - 20.0, top + name);
            canvas.text_in("aside", at, 12, Anchor::End, &price);
            for ((arm, cell), end) in compared().zip(columns(frame)) {
                number(&mut canvas, arm, cell, (end, top + name));
            }
        }
    }
    canvas.svg(
        "prices",
        frame.class,
        &format!("Prices of primitives over {}", findings.run.baseline),
        &spoken(list, arms),
    )
}

/// Right ends of the stacks' columns of numbers, of which there are as many as the frame has room
/// for.
fn columns(frame: &Frame) -> impl Iterator<Item = f64> {
    let ends = (1_u32..).map(|place| frame.plot.1 + 12.0 + COLUMN * f64::from(place));
    ends.take_while(|end| *end < frame.width)
}

/// Heights of the marks of so many stacks about the middle of their row.
fn heights(count: usize) -> impl Iterator<Item = f64> {
    let of = |place: usize| f64::from(u32::try_from(place).unwrap_or(u32::MAX));
    let step = if count > 1 { SPREAD / of(count - 1) } else { 0.0 };
    let first = if count > 1 { -SPREAD / 2.0 } else { 0.0 };
    (0..count).map(move |place| first + step * of(place))
}

/// Writes what a price is a multiple of, behind the plot; in grey where it is not shown to differ.
fn number(canvas: &mut Canvas, arm: &Arm<'_>, cell: &Price<'_>, at: (f64, f64)) {
    let text = ratio(cell).map_or_else(|| GAP.to_owned(), |found| number::short(found.ratio));
    let class = if cell.shown().is_some() { "value" } else { "aside" };
    canvas.group_of(class, Some(arm.found.arm), None, |canvas| {
        canvas.text(at, 12, Anchor::End, &text);
    });
}

/// The cells of a row with the arms whose they are.
fn of_arms<'r, 'a>(
    list: &'r List<'_>,
    row: &'r Row<'_>,
    arms: &'r [Arm<'a>],
) -> impl Iterator<Item = (&'r Arm<'a>, &'r Price<'r>)> {
    let looks = list.arms.iter().map(|found| arms.iter().find(|arm| arm.found.arm == found.arm));
    looks.zip(&row.cells).filter_map(|(arm, cell)| Some((arm?, cell)))
}

fn mark(canvas: &mut Canvas, row: &Row<'_>, arm: &Arm<'_>, cell: &Price<'_>, axis: &Axis, y: f64) {
    let (Some(interval), Some(overhead)) = (ratio(cell), cell.overhead()) else { return };
    let fill = if cell.shown().is_some() { Fill::Solid } else { Fill::Hollow };
    let hint = format!("{}, {}: {}, {overhead}", arm.name, row.name, cell.price());
    canvas.group_of(&arm.class, Some(arm.found.arm), Some(&hint), |canvas| {
        canvas.line((axis.at(interval.low), y), (axis.at(interval.high), y), 1.5, None);
        canvas.marks(arm.shape, &[(axis.at(interval.ratio), y)], 4.0, fill);
    });
}

/// The ratio, when it is a number that can be drawn.
fn ratio(cell: &Price<'_>) -> Option<Interval> {
    let Price::Price(found) = cell else { return None };
    found.overhead.filter(Interval::can_be_drawn)
}

/// Describes the chart, for those who cannot see it.
fn spoken(list: &List<'_>, arms: &[Arm<'_>]) -> String {
    let said = list.rows.iter().map(|row| {
        let cells = of_arms(list, row, arms);
        let cells: Vec<String> = cells
            .filter_map(|(arm, cell)| Some(format!("{} {}", arm.name, cell.overhead()?)))
            .collect();
        format!("{}: {}", row.name, cells.join(", "))
    });
    said.collect::<Vec<_>>().join("; ")
}

/// Every price with its ratio.
fn numbers(list: &List<'_>, arms: &[Arm<'_>]) -> Markup {
    let columns = ["Price", "One of it is", "Stack", "#Median", "#Range", "#Ratio"];
    let mut table = Table::new("Medians for one operation", &columns).sortable();
    for row in &list.rows {
        // What one of it is stands once, beside the first stack.
        let mut operation = row.operation;
        for (arm, cell) in of_arms(list, row, arms) {
            let Price::Price(found) = cell else { continue };
            let ratio = match (cell.overhead(), ratio(cell)) {
                (Some(overhead), Some(interval)) => Cell::Number(overhead, interval.ratio),
                _ => Cell::Gap,
            };
            let cells = vec![
                Cell::Code(row.name.into()),
                Cell::Text(std::mem::take(&mut operation).into()),
                Cell::Markup(arm.label()),
                Cell::number(Some(found.median), number::price),
                Cell::range(found.min, found.max, number::price),
                ratio,
            ];
            table.row(Some(arm.found.arm), cells);
        }
    }
    table.finish()
}
