//! The distribution per arm: every trial that counts as a dot, or as many quantiles as dots.
//!
//! Times stand over the median of their own arm, on one axis: how wide an arm scatters, its second
//! mode and its tail can be compared though one arm takes ten times as long as another. Dots of
//! quantiles: Kay, Kola, Hullman and Munson, "When (ish) is My Bus?", CHI 2016.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Fill, Frame, Shape};
use super::escape;
use super::legend::{self, Arm};
use super::table::{Cell, Table};
use crate::finding::estimate::float;
use crate::finding::{Findings, QuantileFindings, number};
use maud::{Markup, html};
use surtax_statistics::{Sample, quantile};

/// As many dots stand for an arm.
const DOTS_MAX: usize = 200;
/// As many dots are drawn over all arms.
const DOTS_OF_ALL_MAX: usize = 3_000;
/// Beyond so many times the middle half's width from it, a dot stands at the edge: "far out" of
/// Tukey, Exploratory Data Analysis, 1977, chapter 2.
const FAR_OUT: f64 = 3.0;
/// A middle half narrower than this share of the median is taken as so wide.
const HALF_LEAST: f64 = 0.005;
const RADIUS: f64 = 2.7;
const HEAP_HEIGHT: f64 = 30.0;
const FOOT: f64 = 28.0;
const TIME_WIDTH: f64 = 76.0;

/// Data that is shown of one arm.
struct DotStack<'a> {
    arm: &'a Arm<'a>,
    median_ns: f64,
    /// Over the median: first and third quartile.
    half: (f64, f64),
    dots: Vec<Dot>,
}

/// One trial, or one quantile.
#[derive(Clone, Copy)]
struct Dot {
    /// Over the arm's median.
    ratio: f64,
    is_disturbed: bool,
}

/// The section; `None` when no trial counts, or wall time says nothing.
pub fn spread(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    if findings.run.is_of_fixed_time {
        return None;
    }
    let each = (DOTS_OF_ALL_MAX / arms.len().max(1)).clamp(10, DOTS_MAX);
    let dot_stacks: Vec<DotStack<'_>> =
        arms.iter().filter_map(|arm| DotStack::of(arm, each)).collect();
    if dot_stacks.is_empty() {
        return None;
    }
    let names = dot_stacks.iter().map(|heap| heap.arm.name.as_str());
    let wide = Frame::wide(50.0, chart::names_width(names, 360.0), TIME_WIDTH + 12.0);
    let narrow = Frame::narrow(66.0, 6.0, 6.0);
    Some(html! {
        section #spread {
            h2 { "How the times scatter" }
            figure {
                (draw(findings, &dot_stacks, &wide))
                (draw(findings, &dot_stacks, &narrow))
                figcaption { (escape::line(&explanation(&dot_stacks, each))) }
            }
            details {
                summary { "The numbers of this chart" }
                (numbers(arms))
            }
        }
    })
}

impl<'a> DotStack<'a> {
    fn of(arm: &'a Arm<'a>, dot_count: usize) -> Option<Self> {
        let counted = arm.found.trials.iter().filter(|trial| legend::counts(trial));
        let mut walls: Vec<(f64, bool)> = counted
            .filter_map(|trial| Some((float(trial.wall_ns?), !trial.disturbances.is_empty())))
            .filter(|(wall_ns, _)| *wall_ns > 0.0)
            .collect();
        walls.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sample = Sample::new(&walls.iter().map(|(wall_ns, _)| *wall_ns).collect::<Vec<_>>());
        let sample = sample.ok()?;
        let quantile = |share: f64| quantile(&sample, share);
        let median_ns = quantile(0.5);
        let half = (quantile(0.25) / median_ns, quantile(0.75) / median_ns);
        let dots = if walls.len() <= dot_count {
            let dot = |(wall_ns, is_disturbed): &(f64, bool)| Dot {
                ratio: wall_ns / median_ns,
                is_disturbed: *is_disturbed,
            };
            walls.iter().map(dot).collect()
        } else {
            let share = |place: usize| (float(place as u64) + 0.5) / float(dot_count as u64);
            let dot = |wall_ns: f64| Dot { ratio: wall_ns / median_ns, is_disturbed: false };
            (0..dot_count).map(|place| dot(quantile(share(place)))).collect()
        };
        Some(Self { arm, median_ns, half, dots })
    }

    /// Tells whether a ratio is so near to the middle half that it decides the axis.
    fn is_near(&self, ratio: f64) -> bool {
        let reach = FAR_OUT * (self.half.1 - self.half.0).max(HALF_LEAST);
        (self.half.0 - reach..=self.half.1 + reach).contains(&ratio)
    }
}

fn draw(findings: &Findings, dot_stacks: &[DotStack<'_>], frame: &Frame) -> Markup {
    let bottom = frame.bottom(4.0, dot_stacks.len());
    let mut canvas = Canvas::new(frame.width, bottom + FOOT);
    let near = dot_stacks.iter().flat_map(|heap| {
        heap.dots.iter().map(|dot| dot.ratio).filter(|ratio| heap.is_near(*ratio))
    });
    let axis = Axis::over(near.chain([0.99, 1.01]), frame.plot.0, frame.plot.1);
    for tick in axis.ratio_ticks(60.0) {
        let is_median = (tick.value - 1.0).abs() < 1e-9;
        let (class, label) = if is_median { ("one", "median") } else { ("grid", &*tick.label) };
        canvas.line_in(class, (tick.at, 4.0), (tick.at, bottom));
        let x = tick.at.clamp(18.0, frame.width - 18.0);
        canvas.text_in("axis", (x, bottom + 18.0), 12, Anchor::Middle, label);
    }
    let heights: Vec<Vec<(f64, u32)>> =
        dot_stacks.iter().map(|heap| stacked(heap, &axis, frame.plot.0)).collect();
    let tallest = heights.iter().flatten().map(|(_, height)| height + 1).max().unwrap_or(1);
    let step = (2.0 * RADIUS).min(HEAP_HEIGHT / f64::from(tallest));
    for ((heap, places), end) in dot_stacks.iter().zip(&heights).zip(frame.tops(0.0).skip(1)) {
        heap.draw(&mut canvas, frame, &axis, places, end - 8.0, step);
    }
    let said: Vec<String> = dot_stacks.iter().map(DotStack::spoken).collect();
    canvas.svg(
        "spread",
        frame.class,
        &format!("Wall times of each stack of {} over its median", findings.run.title),
        &said.join("; "),
    )
}

/// Returns where each dot of an arm stands: across, and how many stand below it.
fn stacked(heap: &DotStack<'_>, axis: &Axis, start: f64) -> Vec<(f64, u32)> {
    let width = 2.0 * RADIUS;
    let (mut bin, mut height) = (f64::NEG_INFINITY, 0);
    let place = |dot: &Dot| {
        let column = ((axis.at(dot.ratio) - start) / width).floor();
        height = if column > bin { 0 } else { height + 1 };
        bin = column;
        (start + (column + 0.5) * width, height)
    };
    heap.dots.iter().map(place).collect()
}

impl DotStack<'_> {
    fn draw(
        &self,
        canvas: &mut Canvas,
        frame: &Frame,
        axis: &Axis,
        places: &[(f64, u32)],
        base: f64,
        step: f64,
    ) {
        canvas.group_of("row", Some(self.arm.found.arm), Some(&self.spoken()), |canvas| {
            let name_at = if frame.names_above { (2.0, base - 42.0) } else { (0.0, base - 4.0) };
            let room =
                if frame.names_above { frame.width - TIME_WIDTH } else { frame.plot.0 - 12.0 };
            let name = chart::fitting(&self.arm.name, room, 13);
            canvas.text_in("name", name_at, 13, Anchor::Start, &name);
            let (time_at, time) = ((frame.width - 2.0, name_at.1), number::time(self.median_ns));
            canvas.text_in("value", time_at, 13, Anchor::End, &time);

            canvas.group(&self.arm.class, |canvas| {
                let of = |is_disturbed: bool| -> Vec<(f64, f64)> {
                    let dots = self.dots.iter().zip(places);
                    dots.filter(|(dot, _)| dot.is_disturbed == is_disturbed)
                        .map(|(_, (x, height))| (*x, base - RADIUS - step * f64::from(*height)))
                        .collect()
                };
                canvas.marks(Shape::Circle, &of(false), RADIUS - 0.3, Fill::Solid);
                canvas.marks(Shape::Circle, &of(true), RADIUS - 0.5, Fill::Hollow);
                canvas.line(
                    (axis.at(self.half.0), base + 3.0),
                    (axis.at(self.half.1), base + 3.0),
                    2.0,
                    None,
                );
            });
            self.edges(canvas, axis, base);
        });
    }

    /// Writes how many dots stand at an edge because they are beyond it.
    fn edges(&self, canvas: &mut Canvas, axis: &Axis, base: f64) {
        let beyond = self.dots.iter().filter(|dot| !axis.has(dot.ratio));
        let (below, above): (Vec<&Dot>, Vec<&Dot>) = beyond.partition(|dot| dot.ratio < 1.0);
        canvas.group("axis", |canvas| {
            let y = base - 12.0;
            if let Some(last) = above.last() {
                let text = format!("{} up to {} →", above.len(), number::ratio_tick(last.ratio));
                canvas.text((axis.at(f64::MAX), y), 11, Anchor::End, &text);
            }
            if let Some(first) = below.first() {
                let text = format!("← {} down to {}", below.len(), number::ratio_tick(first.ratio));
                canvas.text((axis.at(0.0), y), 11, Anchor::Start, &text);
            }
        });
    }

    /// Describes a row, for those who cannot see it.
    fn spoken(&self) -> String {
        let (low, high) = (self.half.0 * self.median_ns, self.half.1 * self.median_ns);
        format!(
            "{}: median {}, middle half {} to {}",
            self.arm.name,
            number::time(self.median_ns),
            number::time(low),
            number::time(high)
        )
    }
}

fn explanation(dot_stacks: &[DotStack<'_>], each: usize) -> String {
    let is_reduced = dot_stacks
        .iter()
        .any(|heap| usize::try_from(heap.arm.found.trial_count).is_ok_and(|count| count > each));
    let dot = if is_reduced {
        format!("A dot is a trial, or of a stack with more than {each} one of {each} quantiles")
    } else {
        String::from("A dot is a trial")
    };
    let is_disturbed = dot_stacks.iter().any(|heap| heap.dots.iter().any(|dot| dot.is_disturbed));
    let hollow = if is_disturbed { "; hollow ones were disturbed" } else { "" };
    format!(
        "Wall times over the median of their own arm, which stands at the right, on one scale. \
         {dot}{hollow}; the line below spans the middle half. Two heaps are two modes, of the \
         command or of the machine; a long tail to the right is what a median leaves out."
    )
}

fn numbers(arms: &[Arm<'_>]) -> Markup {
    let columns = [
        "Stack", "#Trials", "#Fastest", "#First quartile", "#Median", "#Third quartile", "#p90",
        "#p99", "#Slowest",
    ];
    let mut table =
        Table::new("Wall time; a quantile that the trials do not support is left out", &columns);
    for arm in arms {
        let Some(wall) = arm.found.metric("wall_ns") else { continue };
        let time = |ns: f64| Cell::number(Some(ns), number::time);
        let tail = |p: f64| {
            let is_it = |found: &&QuantileFindings| found.p.total_cmp(&p).is_eq();
            let found = wall.quantiles.iter().find(is_it);
            Cell::number(found.and_then(|found| found.value), number::time)
        };
        let cells = vec![
            Cell::Code(arm.name.clone()),
            Cell::count(arm.found.trial_count),
            time(wall.min),
            time(wall.quartiles.0),
            time(wall.median),
            time(wall.quartiles.1),
            tail(0.9),
            tail(0.99),
            time(wall.max),
        ];
        table.row(Some(arm.found.arm), cells);
    }
    table.finish()
}
