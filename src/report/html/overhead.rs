//! The chart of the answer: one row per compared stack, its number, its interval, and in words what
//! it costs.
//!
//! A gap keeps its row and says its reason. The axis is logarithmic as soon as the stacks span more
//! than a factor of three, so that +5 % and 8× are both legible. It is drawn twice, for wide and
//! for narrow screens, because a scaled drawing has scaled letters.

mod key;

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Fill, Frame};
use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::answer::{Answer, Row, Said};
use crate::finding::verdict;
use crate::finding::{Findings, Interval, number};
use maud::{Markup, html};
use surtax_statistics::departure;

const HEAD: f64 = 26.0;
const FOOT: f64 = 34.0;
/// Room of a median, of the words, and of an interval.
const MEDIAN_WIDTH: f64 = 92.0;
const WORDS_WIDTH: f64 = 150.0;
const RANGE_WIDTH: f64 = 112.0;

/// More rows than these are put in order, the least first, and stand closer.
const MANY: usize = 12;

/// A row of the answer with its arm's look.
struct Line<'a> {
    row: &'a Row<'a>,
    arm: &'a Arm<'a>,
}

/// Key that rows are put in order by.
fn size(line: &Line<'_>) -> f64 {
    line.row.ratio.map_or(f64::INFINITY, |interval| interval.ratio)
}

fn line<'a>(row: &'a Row<'a>, arms: &'a [Arm<'a>]) -> Option<Line<'a>> {
    let arm = arms.iter().find(|arm| std::ptr::eq(arm.found, row.arm))?;
    Some(Line { row, arm })
}

/// The figure; `None` when nothing is compared.
pub fn overhead(findings: &Findings, arms: &[Arm<'_>], answer: &Answer<'_>) -> Option<Markup> {
    let mut lines: Vec<Line<'_>> = answer.rows.iter().filter_map(|row| line(row, arms)).collect();
    let is_long = lines.len() > MANY;
    if is_long {
        // Those without a number last.
        lines.sort_by(|one, other| size(one).total_cmp(&size(other)));
    }
    let says = answer.metric.is_some() || !findings.run.is_of_fixed_time;
    if lines.is_empty() || !says {
        return None;
    }
    let left = chart::names_width(lines.iter().map(|line| line.arm.name.as_str()), 330.0);
    let (wide, narrow) = if is_long { (24.0, 46.0) } else { (30.0, 52.0) };
    let wide = Frame::wide(wide, left + MEDIAN_WIDTH, WORDS_WIDTH + RANGE_WIDTH + 12.0);
    let narrow = Frame::narrow(narrow, 6.0, 6.0);
    Some(html! {
        section #overhead aria-label="The answer, stack by stack" {
            figure {
                (draw(findings, answer, &lines, &wide))
                (draw(findings, answer, &lines, &narrow))
                figcaption { (key::key(findings, answer, &lines, &wide)) }
            }
            details {
                summary { "How to read this chart, and its numbers" }
                p.facts { (escape::line(&explanation(findings, answer))) }
                (numbers(findings, answer, &lines))
            }
        }
    })
}

/// The axis of a drawing of these rows.
fn axis(answer: &Answer<'_>, lines: &[Line<'_>], frame: &Frame) -> Axis {
    let intervals = lines.iter().filter_map(|line| line.row.ratio).chain(answer.floor);
    let ends = intervals.flat_map(|interval| [interval.low, interval.ratio, interval.high]);
    // Without a span of some percent, a chart of equals would magnify noise.
    Axis::over(ends.chain([0.99, 1.0, 1.03]), frame.plot.0, frame.plot.1)
}

/// Places of the margin's ends, where they are far enough from each other to be seen.
fn margin(findings: &Findings, axis: &Axis) -> Option<[f64; 2]> {
    let margin = findings.run.equivalence_margin;
    let (from, to) = (axis.at(1.0 - margin), axis.at(1.0 + margin));
    (margin > 0.0 && margin < 1.0 && to - from > 12.0).then_some([from, to])
}

fn draw(findings: &Findings, answer: &Answer<'_>, lines: &[Line<'_>], frame: &Frame) -> Markup {
    let bottom = frame.bottom(HEAD, lines.len());
    let mut canvas = Canvas::new(frame.width, bottom + FOOT);
    let axis = axis(answer, lines, frame);
    let spans = spans(lines, frame, bottom);
    ground(&mut canvas, (findings, answer), frame, &axis, (&spans, bottom));
    for (line, top) in lines.iter().zip(frame.tops(HEAD)) {
        row(&mut canvas, (line, answer.floor), frame, &axis, top);
    }
    if !frame.names_above {
        let (at, head) = ((frame.width - 2.0, HEAD - 12.0), "95 % interval");
        canvas.text_in("axis", at, 12, Anchor::End, head);
    }
    let what = answer.metric.unwrap_or("wall time");
    canvas.svg(
        "overhead",
        frame.class,
        &format!("Each stack over {}: {what}", findings.run.baseline),
        &spoken(lines),
    )
}

/// From where to where lines run behind the rows: where names stand above, beside those alone
/// that have a mark, for a line through a name reads badly.
fn spans(lines: &[Line<'_>], frame: &Frame, bottom: f64) -> Vec<(f64, f64)> {
    if !frame.names_above {
        return vec![(HEAD, bottom)];
    }
    let rows = lines.iter().zip(frame.tops(HEAD)).filter(|(line, _)| line.row.ratio.is_some());
    rows.map(|(_, top)| (top + 26.0, top + 46.0)).collect()
}

/// The noise floor, the margin, the ticks, and the line of the baseline.
fn ground(
    canvas: &mut Canvas,
    (findings, answer): (&Findings, &Answer<'_>),
    frame: &Frame,
    axis: &Axis,
    (spans, bottom): (&[(f64, f64)], f64),
) {
    if let Some(floor) = answer.floor {
        let (from, to) = (axis.at(floor.low), axis.at(floor.high));
        canvas.group_of("noise", None, Some("noise floor: native against native"), |canvas| {
            for (top, end) in spans {
                canvas.rect((from, *top), ((to - from).max(2.0), end - top), 1.0);
            }
        });
    }
    let apart = if !frame.names_above { 58.0 } else { 60.0 };
    for tick in axis.ratio_ticks(apart) {
        canvas.group("grid", |canvas| {
            down(canvas, tick.at, spans, None);
        });
        canvas.group("axis", |canvas| {
            let x = tick.at.clamp(18.0, frame.width - 18.0);
            // One is the baseline's, whose name stands above.
            if (tick.value - 1.0).abs() > f64::EPSILON {
                canvas.text((x, bottom + 18.0), 12, Anchor::Middle, &tick.label);
            }
        });
    }
    if let Some(ends) = margin(findings, axis) {
        canvas.group_of("margin", None, Some("margin of equivalence"), |canvas| {
            for x in ends {
                down(canvas, x, spans, Some("2 4"));
            }
        });
    }
    canvas.group("one", |canvas| {
        let one = axis.at(1.0);
        canvas.line((one, HEAD - 6.0), (one, HEAD), 1.0, None);
        down(canvas, one, spans, None);
        let name = chart::fitting(&findings.run.baseline, frame.width / 2.0, 12);
        let half = chart::width_of(&name, 12) / 2.0;
        let x = one.clamp(half, (frame.width - half).max(half));
        canvas.text_in("name", (x, HEAD - 12.0), 12, Anchor::Middle, &name);
    });
}

fn down(canvas: &mut Canvas, x: f64, spans: &[(f64, f64)], dashes: Option<&str>) {
    for (top, end) in spans {
        canvas.line((x, *top), (x, *end), 1.0, dashes);
    }
}

/// Places of what a row says: in columns on a wide screen, and on a narrow one above its line.
struct RowPlaces {
    name: (f64, f64),
    /// Width that the name may take.
    name_room: f64,
    /// Height at which the interval is drawn.
    middle: f64,
    words: (f64, Anchor),
    /// Begin of a reason why there is no interval, and the place where it ends.
    reason: ((f64, f64), f64),
}

impl RowPlaces {
    fn of(frame: &Frame, axis: &Axis, words: &str, top: f64) -> Self {
        if frame.names_above {
            return Self {
                name: (22.0, top + 19.0),
                name_room: frame.width - 30.0 - chart::prose_width_of(words, 13),
                middle: top + 36.0,
                words: (frame.width - 2.0, Anchor::End),
                reason: ((22.0, top + 38.0), frame.width),
            };
        }
        let (begin, middle) = (frame.plot.0, top + frame.row_height / 2.0);
        let words_at = frame.width - WORDS_WIDTH - RANGE_WIDTH + 4.0;
        // Beside the baseline's line, unless that stands too far to the right.
        let is_left = axis.at(1.0) < f64::midpoint(begin, words_at);
        let reason_at = if is_left { begin.max(axis.at(1.0) + 10.0) } else { begin };
        Self {
            name: (22.0, middle + 4.0),
            name_room: begin - MEDIAN_WIDTH - 34.0,
            middle,
            words: (words_at, Anchor::Start),
            reason: ((reason_at, middle + 4.0), words_at - 10.0),
        }
    }
}

fn row(
    canvas: &mut Canvas,
    (line, floor): (&Line<'_>, Option<Interval>),
    frame: &Frame,
    axis: &Axis,
    top: f64,
) {
    let Line { row, arm } = line;
    let words = words_of(row, floor, arm, frame);
    let RowPlaces { name, name_room, middle, words: (words_at, anchor), reason } =
        RowPlaces::of(frame, axis, &words, top);
    canvas.group_of("row", Some(arm.found.arm), Some(&hint(line)), |canvas| {
        canvas.group(&arm.class, |canvas| {
            canvas.marks(arm.shape, &[(8.0, name.1 - 4.5)], 4.5, Fill::Solid)
        });
        text(canvas, "name", name, Anchor::Start, &chart::fitting(&arm.name, name_room, 13));
        text(canvas, class_of(row), (words_at, name.1), anchor, &words);
        if !frame.names_above {
            let median = row.median.as_deref().unwrap_or_default();
            text(canvas, "aside", (frame.plot.0 - 18.0, name.1), Anchor::End, median);
            text(canvas, "aside", (frame.width - 2.0, name.1), Anchor::End, &row.range);
        }
        match row.ratio {
            Some(interval) => whisker(canvas, line, axis, interval, middle),
            None => {
                let (at, end) = reason;
                let why = chart::fitting_prose(&row.because, end - at.0, 12);
                canvas.text_in("gap", at, 12, Anchor::Start, &why);
            }
        }
    });
}

/// The verdict in words; on a narrow screen with the interval, where it fits beside the name.
fn words_of(row: &Row<'_>, floor: Option<Interval>, arm: &Arm<'_>, frame: &Frame) -> String {
    let words = row.words.clone() + open_because(row, floor);
    if !frame.names_above || row.range.is_empty() {
        return words;
    }
    let both = format!("{words}, {}", row.range);
    let room = frame.width - 34.0 - chart::width_of(&arm.name, 13);
    if chart::prose_width_of(&both, 13) <= room { both } else { words }
}

/// Says why a stack is not decided whose whole interval lies on one side of the baseline.
fn open_because(row: &Row<'_>, floor: Option<Interval>) -> &'static str {
    let is_one_sided = |it: &Interval| it.low > 1.0 || it.high < 1.0;
    let Some(found) = row.ratio.filter(|it| row.said == Said::Open && is_one_sided(it)) else {
        return "";
    };
    let noise = floor.map_or(0.0, |it| departure(it.low).max(departure(it.high)));
    if departure(found.ratio) <= noise { ": noise" } else { ": few runs" }
}

/// The class that says what is said means to whoever reads it.
fn class_of(row: &Row<'_>) -> &'static str {
    match row.said {
        Said::Alike | Said::Gain => "value good",
        Said::Loss => "value bad",
        Said::Open | Said::Nothing => "value soft",
    }
}

fn text(canvas: &mut Canvas, class: &str, at: (f64, f64), anchor: Anchor, content: &str) {
    if !content.is_empty() {
        canvas.text_in(class, at, 13, anchor, content);
    }
}

fn whisker(canvas: &mut Canvas, line: &Line<'_>, axis: &Axis, interval: Interval, y: f64) {
    let Line { row, arm } = line;
    let (low, high) = (axis.at(interval.low), axis.at(interval.high));
    let fill = match row.said {
        Said::Open | Said::Nothing => Fill::Hollow,
        _ => Fill::Solid,
    };
    let (one, middle) = (axis.at(1.0), axis.at(interval.ratio));
    canvas.group(&arm.class, |canvas| {
        if matches!(row.said, Said::Gain | Said::Loss) {
            canvas.rect((one.min(middle), y - 7.0), ((middle - one).abs(), 14.0), 0.22);
        }
        canvas.line((low, y), (high, y), 1.5, None);
        // An end that the mark covers has no cap: it would only deform the mark.
        for x in [low, high].into_iter().filter(|x| (x - middle).abs() > 6.0) {
            canvas.line((x, y - 4.0), (x, y + 4.0), 1.5, None);
        }
        canvas.marks(arm.shape, &[(middle, y)], 4.5, fill);
    });
}

fn hint(line: &Line<'_>) -> String {
    let Line { row, arm } = line;
    match row.ratio {
        Some(_) => format!("{}: {}, {}. {}", arm.name, row.words, row.range, row.because),
        None => format!("{}: {}", arm.name, row.because),
    }
}

/// Describes the chart, for those who cannot see it.
fn spoken(lines: &[Line<'_>]) -> String {
    let said = lines.iter().map(|Line { row, arm }| match row.ratio {
        Some(_) => format!("{} {}, {}", arm.name, row.words, row.range),
        None => {
            format!("{} {}: {}", arm.name, row.words, row.because)
        }
    });
    said.collect::<Vec<_>>().join("; ")
}

fn explanation(findings: &Findings, answer: &Answer<'_>) -> String {
    let margin = number::trimmed(findings.run.equivalence_margin * 100.0, 1);
    let baseline = &findings.run.baseline;
    let floor = match answer.floor {
        Some(floor) => format!(
            "The band is the noise floor: {baseline} against itself, {}, so that the larger arm is \
             up to {} above the smaller.",
            number::range(floor.low, floor.high),
            verdict::departure((1.0 / floor.low).max(floor.high) - 1.0)
        ),
        None => String::from("There are too few trials to say what the noise floor is."),
    };
    let (what, right) = match answer.metric {
        None => ("wall time", "slower"),
        Some(metric) => (metric, if answer.is_more_better { "better" } else { "worse" }),
    };
    format!(
        "Ratio of {what} to that of {baseline} with its 95 % interval; to the right is {right}. \
         {floor} A hollow mark is not decided; dotted lines, where drawn, are the margin of \
         ±{margin} % within which stacks count as equivalent."
    )
}

fn numbers(findings: &Findings, answer: &Answer<'_>, lines: &[Line<'_>]) -> Markup {
    let mut table =
        Table::new("Ratio to the baseline", &["Stack", "#Ratio", "#Low", "#High", "Remark"]);
    let ratio = |ratio: f64| format!("{ratio:.4}");
    let mut add = |arm, name, interval: Option<Interval>, remark| {
        let of = |end: fn(&Interval) -> f64| Cell::number(interval.as_ref().map(end), ratio);
        let numbers = [of(|i| i.ratio), of(|i| i.low), of(|i| i.high)];
        let [middle, low, high] = numbers;
        table.row(arm, vec![Cell::Code(name), middle, low, high, Cell::Prose(remark)]);
    };
    for Line { row, arm } in lines {
        let remark = if row.ratio.is_some() { &row.words } else { &row.because };
        add(Some(arm.found.arm), arm.name.clone(), row.ratio, remark.clone());
    }
    if let Some(floor) = answer.floor {
        add(None, findings.run.baseline.clone(), Some(floor), String::from("noise floor"));
    }
    table.finish()
}
