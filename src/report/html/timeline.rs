//! Timelines: of each stack what everybody used moment by moment, level by level, as small
//! multiples on one axis of time.

use super::axis::Axis;
use super::bill;
use super::chart::{self, Anchor, Canvas};
use super::escape;
use super::legend::Arm;
use crate::finding::estimate::float;
use crate::finding::over_time::{ASPECTS, PayerRow, caption, of_arm, rows, run};
use crate::finding::{LevelTimelineFindings, TimelineFindings};
use maud::{Markup, html};

/// Height of a payer's row, and of its charts.
const ROW: f64 = 44.0;
const PLOT: f64 = 30.0;
/// Room for a level's heading, and for those of the columns.
const LEVEL: f64 = 26.0;
const HEAD: f64 = 24.0;
const FOOT: f64 = 26.0;
/// Between two columns.
const APART: f64 = 22.0;

/// As many warm-ups are shaded.
const WARM_UPS_MAX: usize = 50;

/// Layout of one of the two drawings.
struct Form {
    class: &'static str,
    width: f64,
    /// Room for names on the left; none where they stand above.
    names: f64,
    /// As many aspects have room.
    aspects_max: usize,
}

const FORMS: [Form; 2] = [
    Form { class: "wide", width: chart::WIDE, names: 200.0, aspects_max: 4 },
    Form { class: "narrow", width: chart::NARROW, names: 0.0, aspects_max: 2 },
];

/// The section; `None` where nobody looked.
pub fn timeline(arms: &[Arm<'_>]) -> Option<Markup> {
    let watched: Vec<(&Arm<'_>, &TimelineFindings)> =
        arms.iter().filter_map(|arm| Some((arm, of_arm(arm.found)?))).collect();
    (!watched.is_empty()).then(|| {
        html! {
            section #timeline {
                h2 { "Who used what, over time" }
                p {
                    "One trial of each stack: of those that were kept the one that took the \
                     median time. Each row is a \
                     payer, or a machine as its own kernel counts it; a column has one scale for \
                     all rows of a stack. The command ran between the two upright lines; a shade \
                     is its warm-up."
                }
                @for (place, (arm, timeline)) in watched.iter().enumerate() {
                    figure data-arm=(arm.found.arm) {
                        figcaption {
                            code { (escape::line(&arm.name)) } ": "
                            (escape::prose(&(caption(timeline) + ".")))
                        }
                        @for form in &FORMS { (draw(arm, timeline, form, place)) }
                    }
                }
            }
        }
    })
}

/// A column: place of its aspect, its scale, and where it stands.
struct Column {
    aspect: usize,
    most: f64,
    left: f64,
    right: f64,
}

fn draw(arm: &Arm<'_>, timeline: &TimelineFindings, form: &Form, place: usize) -> Markup {
    let levels: Vec<(&LevelTimelineFindings, Vec<PayerRow<'_>>)> =
        timeline.levels.iter().map(|level| (level, rows(level, timeline))).collect();
    let all = || levels.iter().flat_map(|(_, rows)| rows);
    let columns = columns(all, form);
    let row_height = if form.names > 0.0 { ROW } else { ROW + 14.0 };
    let body = levels.iter().fold(0.0, |sum, (_, rows)| {
        sum + LEVEL + row_height * f64::from(u32::try_from(rows.len()).unwrap_or(0))
    });
    let mut canvas = Canvas::new(form.width, HEAD + body + FOOT);
    let end = timeline.levels.iter().filter_map(|it| it.at_ns.last()).max().copied().unwrap_or(0);
    let end = end.max(run(timeline).map_or(0, |(_, to)| to));
    for column in &columns {
        let Some(aspect) = ASPECTS.get(column.aspect) else { continue };
        let head = format!("{}, to {}", aspect.name, (aspect.shown)(column.most));
        let head = chart::fitting_prose(&head, column.right - column.left, 12);
        canvas.text_in("axis", (column.left, 14.0), 12, Anchor::Start, &head);
        let time = Axis::from_zero(float(end), column.left, column.right);
        phases(&mut canvas, timeline, &time, (HEAD, HEAD + body));
        for tick in time.time_ticks(70.0) {
            let at = tick.at.clamp(column.left + 10.0, column.right - 12.0);
            canvas.text_in("axis", (at, HEAD + body + 16.0), 11, Anchor::Middle, &tick.label);
        }
    }
    let mut top = HEAD;
    for (level, rows) in &levels {
        let name = level_name(level.level);
        canvas.text_in("aside", (0.0, top + 17.0), 12, Anchor::Start, &name);
        top += LEVEL;
        for row in rows {
            payer(&mut canvas, row, (form, &columns), (level, end), top);
            top += row_height;
        }
    }
    let said: Vec<String> = all().map(spoken).collect();
    canvas.svg(
        &format!("timeline-{place}"),
        form.class,
        &format!("What each payer of {} used over time", arm.name),
        &said.join("; "),
    )
}

/// The columns of which somebody used something, side by side.
fn columns<'a, 'r: 'a, I: Iterator<Item = &'a PayerRow<'r>>>(
    all: impl Fn() -> I,
    form: &Form,
) -> Vec<Column> {
    let used = (0..ASPECTS.len()).filter_map(|aspect| {
        let most = all().filter_map(|row| row.highest(aspect)).reduce(f64::max)?;
        (most > 0.0).then_some((aspect, most))
    });
    let used: Vec<(usize, f64)> = used.take(form.aspects_max).collect();
    let count = f64::from(u32::try_from(used.len()).unwrap_or(1)).max(1.0);
    let width = (form.width - form.names - APART * (count - 1.0)) / count;
    let mut left = form.names;
    used.into_iter()
        .map(|(aspect, most)| {
            let column = Column { aspect, most, left, right: left + width };
            left += width + APART;
            column
        })
        .collect()
}

/// Draws the parts of a trial behind everything.
fn phases(
    canvas: &mut Canvas,
    timeline: &TimelineFindings,
    time: &Axis,
    (top, bottom): (f64, f64),
) {
    let warm_up = timeline.phases.iter().filter(|it| it.phase == "warm-up").take(WARM_UPS_MAX);
    for phase in warm_up {
        let (from, to) = (time.at(float(phase.from_ns)), time.at(float(phase.to_ns)));
        canvas.group_of("margin-band", None, Some("warm-up"), |canvas| {
            canvas.rect((from, top), (to - from, bottom - top), 1.0);
        });
    }
    if let Some((from, to)) = run(timeline) {
        for at in [from, to] {
            let at = time.at(float(at));
            canvas.line_in("grid", (at, top), (at, bottom));
        }
    }
}

/// Draws a payer's row.
fn payer(
    canvas: &mut Canvas,
    row: &PayerRow<'_>,
    (form, columns): (&Form, &[Column]),
    (level, end): (&LevelTimelineFindings, u64),
    top: f64,
) {
    let (name_at, room, plot_top) = match form.names > 0.0 {
        true => ((0.0, top + PLOT / 2.0 + 9.0), form.names - 10.0, top + 4.0),
        false => ((0.0, top + 12.0), form.width, top + 16.0),
    };
    let class = if row.is_machine() { "ink-baseline" } else { bill::class_of(row.role) };
    canvas.group_of("row", None, Some(&spoken(row)), |canvas| {
        let name = chart::fitting(row.payer, room, 12);
        canvas.text_in("name", name_at, 12, Anchor::Start, &name);
        for column in columns {
            let base = plot_top + PLOT;
            canvas.line_in("grid", (column.left, base), (column.right, base));
            let values = row.aspects.get(column.aspect).and_then(Option::as_ref);
            let Some(values) = values else { continue };
            let time = Axis::from_zero(float(end), column.left, column.right);
            let height = Axis::from_zero(column.most, base, plot_top);
            let is_rate = ASPECTS.get(column.aspect).is_some_and(|it| it.is_rate);
            let mut before = None;
            let points = level.at_ns.iter().zip(values).map(|(at, value)| {
                // What was used since the look before stands in the middle between both.
                let since = before.replace(*at).filter(|_| is_rate).unwrap_or(*at);
                value.map(|value| (time.at(float(since.midpoint(*at))), height.at(value)))
            });
            canvas.group(class, |canvas| {
                for line in unbroken(points) {
                    let ground: Vec<(f64, f64)> = line.iter().map(|(x, _)| (*x, base)).collect();
                    canvas.band(&ground, &line, 0.25);
                    canvas.polyline(&line, 1.4);
                }
            });
        }
    });
}

/// Cuts values into lines without a gap.
fn unbroken(points: impl Iterator<Item = Option<(f64, f64)>>) -> Vec<Vec<(f64, f64)>> {
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for point in points {
        match (point, lines.last_mut()) {
            (Some(point), Some(line)) => line.push(point),
            (None, Some(line)) if !line.is_empty() => lines.push(Vec::new()),
            _ => {}
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn level_name(level: u8) -> String {
    match level {
        0 => String::from("Level 0, this machine"),
        level => format!("Level {level}, as it says itself"),
    }
}

/// Describes a row, for those who cannot see it.
fn spoken(row: &PayerRow<'_>) -> String {
    let each = ASPECTS.iter().enumerate().filter_map(|(place, aspect)| {
        let (mean, most) = row.mean(place).zip(row.most(place))?;
        let name = aspect.name.to_lowercase();
        Some(format!("{name} {}, at most {}", (aspect.shown)(mean), (aspect.shown)(most)))
    });
    format!("{}: {}", row.payer, each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_breaks_a_line_and_nothing_is_drawn_over_it() {
        let at = |x: f64| Some((x, 0.0));
        let lines = unbroken([None, at(1.0), at(2.0), None, None, at(5.0), None].into_iter());
        assert_eq!(lines, [vec![(1.0, 0.0), (2.0, 0.0)], vec![(5.0, 0.0)]]);
    }
}
