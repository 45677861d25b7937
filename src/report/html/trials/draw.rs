//! The drawing of the trials: time to the right, wall time upwards.
//!
//! The trials that count decide the scale. One that does not may have failed at once or run into a
//! deadline; it stands in a lane below when it would squeeze the others, or has no time at all.

use super::super::axis::Axis;
use super::super::chart::{self, Anchor, Canvas, Fill, Shape};
use super::{Counted, Series, thin};
use crate::finding::estimate::float;
use crate::finding::{Findings, TrialPoint, number};
use maud::Markup;

/// Layout of one of the two drawings.
#[derive(Clone, Copy)]
pub struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    tick_apart: f64,
}

/// Axes of the values.
struct Plot {
    x: Axis,
    y: Axis,
    bottom: f64,
    has_hints: bool,
}

/// For screens with room, and for paper.
pub const WIDE: Frame =
    Frame { class: "wide", width: chart::WIDE, height: 360.0, tick_apart: 90.0 };
/// For telephones.
pub const NARROW: Frame =
    Frame { class: "narrow", width: chart::NARROW, height: 320.0, tick_apart: 70.0 };

const LEFT: f64 = 58.0;
const TOP: f64 = 30.0;
const FOOT: f64 = 44.0;
const LANE: f64 = 26.0;
const RADIUS: f64 = 3.6;
/// Up to this many marks, each says what it is when a pointer rests on it.
const HINTS_MAX: usize = 600;

/// Draws the series.
pub fn draw(findings: &Findings, series: &[Series<'_>], frame: Frame) -> Markup {
    let mut walls_ns: Vec<f64> = series.iter().flat_map(Series::counted_walls_ns).collect();
    if walls_ns.is_empty() {
        walls_ns = series.iter().flat_map(|one| super::walls_ns(&one.void)).collect();
    }
    let y = Axis::over(walls_ns.iter().copied(), 0.0, 1.0);
    let void = || series.iter().flat_map(|one| &one.void);
    let is_off = |trial: &&TrialPoint| trial.wall_ns.is_none_or(|ns| !y.has(float(ns)));
    let lane = if void().any(is_off) { LANE } else { 0.0 };
    let across = series.iter().map(Series::latest_ns).fold(0.0, f64::max);
    let plot = Plot {
        x: Axis::from_zero(across, LEFT + 8.0, frame.width - 8.0),
        y: y.between(frame.height - FOOT - lane - 6.0, TOP + 6.0),
        bottom: frame.height - FOOT - lane,
        has_hints: walls_ns.len() + void().count() <= HINTS_MAX,
    };
    let mut canvas = Canvas::new(frame.width, frame.height);
    ground(&mut canvas, frame, &plot);
    for one in series {
        canvas.group_of(&one.arm.class, Some(one.arm.found.arm), None, |canvas| {
            match &one.counted {
                Counted::Each(trials) => {
                    let (calm, disturbed): (Vec<_>, Vec<_>) =
                        trials.iter().copied().partition(|trial| trial.disturbances.is_empty());
                    points(canvas, one, &calm, (one.arm.shape, Fill::Solid), &plot);
                    points(canvas, one, &disturbed, (one.arm.shape, Fill::Hollow), &plot);
                }
                Counted::Binned(bins) => stretches(canvas, one, bins, &plot),
            }
            points(canvas, one, &one.void, (Shape::Cross, Fill::Solid), &plot);
        });
    }
    canvas.svg(
        "trials",
        frame.class,
        "Wall time of every trial, in time order",
        &format!(
            "Wall time against the time since the first trial of {}; the table below has the \
             same points.",
            findings.run.title
        ),
    )
}

impl Plot {
    /// Returns where a trial's mark stands: by its times, or in the lane of those off the scale.
    fn place(&self, trial: &TrialPoint) -> (f64, f64) {
        let wall_ns = trial.wall_ns.map(float).filter(|wall_ns| self.y.has(*wall_ns));
        let lane = self.bottom + LANE / 2.0;
        (self.x.at(float(trial.at_ns)), wall_ns.map_or(lane, |wall_ns| self.y.at(wall_ns)))
    }
}

/// The medians of one arm's stretches of time, each with its range.
fn stretches(canvas: &mut Canvas, one: &Series<'_>, bins: &[thin::Bin], plot: &Plot) {
    let middle = |bin: &thin::Bin| plot.x.at(f64::midpoint(bin.from_ns, bin.to_ns));
    let lines: Vec<_> = bins
        .iter()
        .map(|bin| (middle(bin), plot.y.at(bin.wall_ns_max), plot.y.at(bin.wall_ns_min)))
        .collect();
    canvas.group("range", |canvas| canvas.verticals(&lines, 1.0));
    let marks: Vec<_> =
        bins.iter().map(|bin| (middle(bin), plot.y.at(bin.wall_ns_median))).collect();
    canvas.marks(one.arm.shape, &marks, 2.2, Fill::Solid);
}

/// The marks of one arm's trials: one by one with what they are, or all in one path.
fn points(
    canvas: &mut Canvas,
    one: &Series<'_>,
    trials: &[&TrialPoint],
    (shape, fill): (Shape, Fill),
    plot: &Plot,
) {
    if !plot.has_hints {
        let marks: Vec<_> = trials.iter().map(|trial| plot.place(trial)).collect();
        canvas.marks(shape, &marks, RADIUS * 0.8, fill);
        return;
    }
    for trial in trials {
        canvas.group_of("point", None, Some(&hint(one, trial)), |canvas| {
            canvas.marks(shape, &[plot.place(trial)], RADIUS, fill)
        });
    }
}

fn hint(one: &Series<'_>, trial: &TrialPoint) -> String {
    let wall = trial.wall_ns.map_or_else(|| number::GAP.to_owned(), |ns| number::time(float(ns)));
    format!("{}, block {}: {wall}, {}", one.arm.name, trial.block, super::state(trial))
}

fn ground(canvas: &mut Canvas, frame: Frame, plot: &Plot) {
    let Plot { x, y, bottom, .. } = plot;
    let foot = frame.height - FOOT;
    for tick in y.time_ticks(44.0) {
        canvas.line_in("grid", (LEFT, tick.at), (frame.width, tick.at));
        canvas.text_in("axis", (LEFT - 8.0, tick.at + 4.0), 12, Anchor::End, &tick.label);
    }
    canvas.group("axis", |canvas| {
        for tick in x.time_ticks(frame.tick_apart) {
            canvas.line((tick.at, foot), (tick.at, foot + 4.0), 1.0, None);
            let half = 16.0;
            let at = tick.at.min(frame.width - half);
            canvas.text((at, foot + 18.0), 12, Anchor::Middle, &tick.label);
        }
        canvas.line((LEFT, foot), (frame.width, foot), 1.0, None);
        if foot > *bottom {
            canvas.line((LEFT, *bottom), (frame.width, *bottom), 1.0, Some("2 4"));
            canvas.text((LEFT - 8.0, bottom + LANE / 2.0 + 4.0), 12, Anchor::End, "off scale");
        }
        let scale = if y.is_log { "wall time, logarithmic" } else { "wall time" };
        canvas.text((0.0, 14.0), 12, Anchor::Start, scale);
        let since = "time since the first trial began";
        canvas.text((frame.width, frame.height - 6.0), 12, Anchor::End, since);
    });
}
