//! The interval's progress: how each overhead came to be known, over more and more blocks.
//!
//! One small chart per arm, all over the same blocks and each on a scale of its own. The first
//! intervals are wide, and a scale that held them would hide the rest: it holds those of the last
//! two thirds, and what is beyond is cut off at its edge. It holds 1 and the margin, too, unless
//! these are so far away that nothing could be seen of the interval.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Fill};
use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::{Findings, Interval, ProgressPoint, number};
use maud::{Markup, html};

/// Layout of one of the two drawings.
struct Frame {
    class: &'static str,
    width: f64,
    columns: u32,
}

/// One arm's chart within a drawing.
struct Panel {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    blocks: Span,
}

/// The blocks that all charts span.
#[derive(Clone, Copy)]
struct Span {
    first: f64,
    last: f64,
    is_log: bool,
}

const WIDE: Frame = Frame { class: "wide", width: chart::WIDE, columns: 3 };
const NARROW: Frame = Frame { class: "narrow", width: chart::NARROW, columns: 1 };
const PANEL_HEIGHT: f64 = 184.0;
const HEAD: f64 = 42.0;
const FOOT: f64 = 34.0;
const TICKS_WIDTH: f64 = 50.0;
const APART: f64 = 20.0;
/// From so many blocks on, equal distances are equal factors, as are the points.
const LOG_FROM_BLOCKS: f64 = 63.0;
/// As many rows are in the table: of one arm, and of all that share it.
const ROWS_MAX: usize = 12;
const ROWS_OF_ALL_MAX: usize = 200;
/// No overhead is left off a scale that would be so many times as long for it.
const FAR_AWAY: f64 = 4.0;

/// The section; `None` when no interval has a progress, or wall time says nothing.
pub fn progress(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    if findings.run.is_of_fixed_time {
        return None;
    }
    let rows: Vec<(&Arm<'_>, Vec<ProgressPoint>)> =
        arms.iter().map(|arm| (arm, points(arm))).filter(|(_, points)| points.len() > 1).collect();
    let last = rows.iter().flat_map(|(_, points)| points.last()).map(|point| point.block_count);
    let blocks = Span::of(f64::from(last.max()?));
    let each = (ROWS_OF_ALL_MAX / rows.len()).clamp(2, ROWS_MAX);
    Some(html! {
        section #progress {
            h2 { "How each overhead came to be known" }
            figure {
                (draw(findings, &rows, blocks, &WIDE))
                (draw(findings, &rows, blocks, &NARROW))
                figcaption { (escape::line(&explanation(findings))) }
            }
            details {
                summary { "The numbers of this chart" }
                (numbers(&rows, each))
            }
        }
    })
}

/// The points that can be drawn.
fn points(arm: &Arm<'_>) -> Vec<ProgressPoint> {
    arm.found.progress.iter().filter(|point| point.overhead.can_be_drawn()).copied().collect()
}

impl Span {
    fn of(last: f64) -> Self {
        Self { first: 3.0, last: last.max(4.0), is_log: last >= LOG_FROM_BLOCKS }
    }

    fn share(self, block_count: u32) -> f64 {
        let block_count = f64::from(block_count).max(self.first);
        if self.is_log {
            (block_count / self.first).ln() / (self.last / self.first).ln()
        } else {
            (block_count - self.first) / (self.last - self.first)
        }
    }

    /// The numbers of blocks that are written below a chart: its ends, and what is round between.
    fn ticks(self) -> Vec<u32> {
        let between = [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000];
        let is_free = |tick: &u32| (0.18..0.72).contains(&self.share(*tick));
        let mut ticks: Vec<u32> = Vec::new();
        for tick in between.into_iter().filter(is_free) {
            if ticks.last().is_none_or(|last| self.share(tick) - self.share(*last) > 0.18) {
                ticks.push(tick);
            }
        }
        ticks
    }
}

fn draw(
    findings: &Findings,
    rows: &[(&Arm<'_>, Vec<ProgressPoint>)],
    blocks: Span,
    frame: &Frame,
) -> Markup {
    let columns = f64::from(frame.columns);
    let width = (frame.width - APART * (columns - 1.0)) / columns;
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let height = PANEL_HEIGHT * f64::from(count.div_ceil(frame.columns));
    let mut canvas = Canvas::new(frame.width, height);
    for ((arm, points), place) in rows.iter().zip(0..count) {
        let left = f64::from(place % frame.columns) * (width + APART);
        let top = f64::from(place / frame.columns) * PANEL_HEIGHT;
        let panel = Panel {
            left: left + TICKS_WIDTH,
            right: left + width,
            top: top + HEAD,
            bottom: top + PANEL_HEIGHT - FOOT,
            blocks,
        };
        canvas.group_of("row", Some(arm.found.arm), Some(&spoken(arm, points)), |canvas| {
            head(canvas, arm, points, (left, top + 14.0), width);
            panel.draw(canvas, findings, arm, points);
        });
    }
    let said: Vec<String> = rows.iter().map(|(arm, points)| spoken(arm, points)).collect();
    canvas.svg(
        "progress",
        frame.class,
        "The interval of each overhead over more and more blocks",
        &said.join("; "),
    )
}

/// The arm's mark, its name, and what was known in the end.
fn head(
    canvas: &mut Canvas,
    arm: &Arm<'_>,
    points: &[ProgressPoint],
    (left, base): (f64, f64),
    width: f64,
) {
    let value = points.last().map(|point| number::overhead(&point.overhead)).unwrap_or_default();
    let name = chart::fitting(&arm.name, width - 18.0, 12);
    canvas.group(&arm.class, |canvas| {
        canvas.marks(arm.shape, &[(left + 6.0, base - 4.0)], 4.0, Fill::Solid)
    });
    canvas.text_in("name", (left + 18.0, base), 12, Anchor::Start, &name);
    canvas.text_in("value", (left + 18.0, base + 16.0), 12, Anchor::Start, &value);
}

impl Panel {
    fn draw(
        &self,
        canvas: &mut Canvas,
        findings: &Findings,
        arm: &Arm<'_>,
        points: &[ProgressPoint],
    ) {
        let margin = findings.run.equivalence_margin;
        let has_margin = margin > 0.0 && margin < 1.0;
        let bounds = if has_margin { [1.0 - margin, 1.0 + margin] } else { [1.0, 1.0] };
        let late = &points[points.len() / 3..];
        let ends = || late.iter().flat_map(|point| [point.overhead.low, point.overhead.high]);
        let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        let away = (low - 1.0).max(1.0 - high);
        let is_near = away <= FAR_AWAY * (high - low) || away <= FAR_AWAY * margin;
        let one = if is_near { [bounds[0], bounds[1], 1.0] } else { [low; 3] };
        let axis = Axis::over(ends().chain(one), self.bottom, self.top);
        self.ground(canvas, &axis, has_margin.then_some(bounds));

        let at = |point: &ProgressPoint, value: f64| {
            let across = (self.right - self.left - 8.0) * self.blocks.share(point.block_count);
            (self.left + 2.0 + across, axis.at(value))
        };
        let line = |of: fn(&Interval) -> f64| -> Vec<(f64, f64)> {
            points.iter().map(|point| at(point, of(&point.overhead))).collect()
        };
        let (low, middle, high) = (line(|it| it.low), line(|it| it.ratio), line(|it| it.high));
        canvas.group(&arm.class, |canvas| {
            canvas.band(&low, &high, 0.22);
            canvas.polyline(&middle, 1.6);
            if let Some(last) = middle.last() {
                canvas.marks(arm.shape, &[*last], 3.4, Fill::Solid);
            }
        });
    }

    /// The ticks, the margin, and the line of no overhead.
    fn ground(&self, canvas: &mut Canvas, axis: &Axis, margin: Option<[f64; 2]>) {
        let Self { left, right, top, bottom, blocks } = *self;
        if !axis.has(1.0) {
            let is_below = axis.at(1.0) >= bottom - 1.0;
            let below = (bottom - 6.0, "↓ no overhead");
            let (y, text) = if is_below { below } else { (top + 12.0, "↑ no overhead") };
            canvas.text_in("axis", (left + 4.0, y), 11, Anchor::Start, text);
        } else if let Some(bounds) = margin {
            let [low, high] = bounds.map(|bound| axis.at(bound));
            canvas.group_of("margin-band", None, Some("margin of equivalence"), |canvas| {
                canvas.rect((left, high), (right - left, low - high), 1.0)
            });
            canvas.group("margin", |canvas| {
                for y in [low, high] {
                    canvas.line((left, y), (right, y), 1.0, Some("2 4"));
                }
            });
        }
        for tick in axis.ratio_ticks(24.0) {
            if (tick.value - 1.0).abs() > 1e-9 {
                canvas.line_in("grid", (left, tick.at), (right, tick.at));
            }
            canvas.text_in("axis", (left - 6.0, tick.at + 4.0), 11, Anchor::End, &tick.label);
        }
        if axis.has(1.0) {
            let one = axis.at(1.0);
            canvas.line_in("one", (left, one), (right, one));
        }
        canvas.group("axis", |canvas| {
            canvas.line((left, bottom), (right, bottom), 1.0, None);
            let base = bottom + 15.0;
            canvas.text((left, base), 11, Anchor::Start, &format!("{:.0}", blocks.first));
            canvas.text((right, base), 11, Anchor::End, &format!("{:.0} blocks", blocks.last));
            for tick in blocks.ticks() {
                let x = left + 2.0 + (right - left - 8.0) * blocks.share(tick);
                canvas.line((x, bottom), (x, bottom + 3.0), 1.0, None);
                canvas.text((x, base), 11, Anchor::Middle, &tick.to_string());
            }
        });
    }
}

/// Describes a chart, for those who cannot see it.
fn spoken(arm: &Arm<'_>, points: &[ProgressPoint]) -> String {
    let said = |point: &ProgressPoint| {
        let blocks = number::count(point.block_count, "block");
        format!("{} after {blocks}", number::overhead(&point.overhead))
    };
    match (points.first(), points.last()) {
        (Some(first), Some(last)) => format!("{}: {}, {}", arm.name, said(first), said(last)),
        _ => arm.name.clone(),
    }
}

fn explanation(findings: &Findings) -> String {
    let margin = number::trimmed(findings.run.equivalence_margin * 100.0, 1);
    format!(
        "The overhead over {} and its 95 % interval after three blocks and after more and more of \
         them, each arm on its own scale; what is beyond a scale is cut off. The line is no \
         overhead, where a scale reaches it, the band around it the margin of ±{margin} %. An \
         interval that narrows around one value is trustworthy; one that wanders speaks of drift. \
         The second arm of the baseline is compared with the first: its interval is the noise \
         floor.",
        findings.run.baseline
    )
}

fn numbers(rows: &[(&Arm<'_>, Vec<ProgressPoint>)], each: usize) -> Markup {
    let mut table = Table::new(
        "Overhead after so many blocks",
        &["Stack", "#Blocks", "#Overhead", "#Low", "#High"],
    );
    let ratio = |ratio: f64| Cell::number(Some(ratio), |ratio| format!("{ratio:.4}"));
    for (arm, points) in rows {
        let step = points.len().div_ceil(each).max(1);
        // From the end, so that the last is among them.
        let mut shown: Vec<&ProgressPoint> = points.iter().rev().step_by(step).collect();
        shown.reverse();
        for point in shown {
            let Interval { ratio: middle, low, high, .. } = point.overhead;
            let cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::count(point.block_count),
                ratio(middle),
                ratio(low),
                ratio(high),
            ];
            table.row(Some(arm.found.arm), cells);
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_in_their_order_from_edge_to_edge() {
        for last in [4.0, 10.0, 62.0, 63.0, 25_000.0] {
            let span = Span::of(last);
            assert!(span.share(3).abs() < 1e-12, "{last}");
            let ticks = span.ticks();
            let shares: Vec<f64> = ticks.iter().map(|tick| span.share(*tick)).collect();
            assert!(shares.iter().all(|share| (0.0..1.0).contains(share)), "{last}: {ticks:?}");
            assert!(shares.windows(2).all(|pair| pair[1] - pair[0] > 0.18), "{last}: {ticks:?}");
        }
        assert!((Span::of(25_000.0).share(25_000) - 1.0).abs() < 1e-12);
    }
}
