//! The overhead chart: one row per compared arm, its estimate, its interval, and what is noise.
//!
//! A gap keeps its row and says its reason. The axis is logarithmic as soon as the arms span more
//! than a factor of three, so that +5 % and 8× are both legible. It is drawn twice, for wide and
//! for narrow screens, because a scaled drawing has scaled letters.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Caption, Fill};
use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::number;
use crate::finding::{Findings, Interval, Verdict};

/// Layout of one of the two drawings.
struct Frame {
    class: &'static str,
    width: f64,
    row_height: f64,
    names: Names,
    plot: (f64, f64),
}

/// Place of a row's name and number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Beside,
    Above,
}

const HEAD: f64 = 26.0;
const FOOT: f64 = 34.0;
const NUMBER_WIDTH: f64 = 138.0;

/// The section; `None` when no arm is compared, or wall time says nothing.
pub fn overhead(findings: &Findings, arms: &[Arm<'_>]) -> Option<String> {
    let rows: Vec<&Arm<'_>> = arms.iter().filter(|arm| arm.is_compared()).collect();
    if rows.is_empty() || findings.run.is_of_fixed_time {
        return None;
    }
    let names = rows.iter().map(|arm| chart::width_of(&arm.name(), 13)).fold(90.0, f64::max);
    let left = (names + 34.0).min(360.0);
    let wide = Frame {
        class: "wide",
        width: chart::WIDE,
        row_height: 34.0,
        names: Names::Beside,
        plot: (left, chart::WIDE - NUMBER_WIDTH - 12.0),
    };
    let narrow = Frame {
        class: "narrow",
        width: chart::NARROW,
        row_height: 52.0,
        names: Names::Above,
        plot: (6.0, chart::NARROW - 6.0),
    };
    Some(format!(
        "<section id=\"overhead\"><h2>Overhead on wall \
         time</h2>\n<figure>\n{}{}<figcaption>{}</figcaption></figure>\n<details><summary>The \
         numbers of this chart</summary>{}</details></section>\n",
        draw(findings, &rows, &wide),
        draw(findings, &rows, &narrow),
        escape::line(&explanation(findings)),
        numbers(findings, &rows)
    ))
}

fn draw(findings: &Findings, rows: &[&Arm<'_>], frame: &Frame) -> String {
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let bottom = HEAD + frame.row_height * f64::from(count);
    let mut canvas = Canvas::new(frame.width, bottom + FOOT);
    let intervals = rows.iter().filter_map(|arm| arm.overhead()).chain(noise(findings));
    let ends = intervals.flat_map(|interval| [interval.low, interval.ratio, interval.high]);
    // Without a span of some percent, a chart of equals would magnify noise.
    let axis = Axis::over(ends.chain([0.99, 1.0, 1.03]), frame.plot.0, frame.plot.1);

    ground(&mut canvas, findings, frame, &axis, bottom);
    for (arm, top) in rows.iter().zip((0..count).map(|i| HEAD + frame.row_height * f64::from(i))) {
        row(&mut canvas, arm, frame, &axis, top);
    }
    canvas.svg(&Caption {
        id: &format!("overhead-{}", frame.class),
        class: frame.class,
        title: &format!("Overhead over {} on wall time", findings.run.baseline),
        description: &spoken(rows),
    })
}

/// The noise floor, the margin, the ticks, and the line of the baseline.
fn ground(canvas: &mut Canvas, findings: &Findings, frame: &Frame, axis: &Axis, bottom: f64) {
    if let Some(floor) = noise(findings) {
        let (from, to) = (axis.at(floor.low), axis.at(floor.high));
        canvas.open("noise", None, Some("noise floor: native against native"));
        canvas.rect((from, HEAD), ((to - from).max(2.0), bottom - HEAD), 1.0);
        canvas.close();
    }
    let apart = if frame.names == Names::Beside { 58.0 } else { 60.0 };
    for tick in axis.ratio_ticks(apart) {
        canvas.open("grid", None, None);
        canvas.line((tick.at, HEAD), (tick.at, bottom), 1.0, None);
        canvas.close();
        canvas.open("axis", None, None);
        let x = tick.at.clamp(18.0, frame.width - 18.0);
        canvas.text((x, bottom + 18.0), 12, Anchor::Middle, &tick.label);
        canvas.close();
    }
    let margin = findings.run.equivalence_margin;
    let (from, to) = (axis.at(1.0 - margin), axis.at(1.0 + margin));
    if margin > 0.0 && margin < 1.0 && to - from > 12.0 {
        canvas.open("margin", None, Some("margin of equivalence"));
        for x in [from, to] {
            canvas.line((x, HEAD), (x, bottom), 1.0, Some("2 4"));
        }
        canvas.close();
    }
    canvas.open("one", None, None);
    let one = axis.at(1.0);
    canvas.line((one, HEAD - 6.0), (one, bottom), 1.0, None);
    let name = chart::fitting(&findings.run.baseline, frame.width / 2.0, 12);
    let half = chart::width_of(&name, 12) / 2.0;
    let x = one.clamp(half, (frame.width - half).max(half));
    canvas.open("name", None, None);
    canvas.text((x, HEAD - 12.0), 12, Anchor::Middle, &name);
    canvas.close();
    canvas.close();
}

fn row(canvas: &mut Canvas, arm: &Arm<'_>, frame: &Frame, axis: &Axis, top: f64) {
    let (name_at, middle) = match frame.names {
        Names::Beside => ((22.0, top + frame.row_height / 2.0 + 4.0), top + frame.row_height / 2.0),
        Names::Above => ((22.0, top + 19.0), top + 36.0),
    };
    let swatch_at = (8.0, name_at.1 - 4.5);
    let overhead = arm.overhead();
    let value = overhead.as_ref().map(number::overhead);
    canvas.open("row", Some(arm.found.arm), Some(&hint(arm, value.as_deref())));
    canvas.open(&arm.class, None, None);
    canvas.marks(arm.shape, &[swatch_at], 4.5, Fill::Solid);
    canvas.close();

    let room = match (frame.names, &value) {
        (Names::Beside, _) => frame.plot.0 - 34.0,
        (Names::Above, Some(_)) => frame.width - 24.0 - NUMBER_WIDTH,
        (Names::Above, None) => frame.width - 24.0,
    };
    canvas.open("name", None, None);
    canvas.text(name_at, 13, Anchor::Start, &chart::fitting(&arm.name(), room, 13));
    canvas.close();
    match overhead {
        Some(interval) => {
            whisker(canvas, arm, axis, interval, middle);
            canvas.open("value", None, None);
            let text = value.unwrap_or_default();
            canvas.text((frame.width - 2.0, name_at.1), 13, Anchor::End, &text);
            canvas.close();
        }
        None => {
            let (x, y) = match frame.names {
                Names::Beside => (frame.plot.0.max(axis.at(1.0) + 10.0), middle + 4.0),
                Names::Above => (22.0, middle + 2.0),
            };
            canvas.open("gap", None, None);
            let reason = format!("no number: {}", arm.gap());
            let reason = chart::fitting_prose(&reason, frame.width - x, 12);
            canvas.text((x, y), 12, Anchor::Start, &reason);
            canvas.close();
        }
    }
    canvas.close();
}

fn whisker(canvas: &mut Canvas, arm: &Arm<'_>, axis: &Axis, interval: Interval, y: f64) {
    let (low, high) = (axis.at(interval.low), axis.at(interval.high));
    let fill = match arm.found.verdict {
        Verdict::Inconclusive | Verdict::Invalid { .. } => Fill::Hollow,
        _ => Fill::Solid,
    };
    canvas.open(&arm.class, None, None);
    canvas.line((low, y), (high, y), 1.5, None);
    let middle = axis.at(interval.ratio);
    // An end that the mark covers has no cap: it would only deform the mark.
    for x in [low, high].into_iter().filter(|x| (x - middle).abs() > 6.0) {
        canvas.line((x, y - 4.0), (x, y + 4.0), 1.5, None);
    }
    canvas.marks(arm.shape, &[(middle, y)], 4.5, fill);
    canvas.close();
}

fn hint(arm: &Arm<'_>, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("{}: {value}. {}", arm.name(), arm.found.because),
        None => format!("{}: {}", arm.name(), arm.gap()),
    }
}

/// Describes the chart, for those who cannot see it.
fn spoken(rows: &[&Arm<'_>]) -> String {
    let said: Vec<String> = rows
        .iter()
        .map(|arm| match arm.overhead() {
            Some(interval) => format!("{} {}", arm.name(), number::overhead(&interval)),
            None => format!("{} has no number: {}", arm.name(), arm.gap()),
        })
        .collect();
    said.join("; ")
}

fn explanation(findings: &Findings) -> String {
    let margin = number::trimmed(findings.run.equivalence_margin * 100.0, 1);
    let floor = match noise(findings) {
        Some(floor) => format!(
            "The band is the noise floor: {} against itself, {}.",
            findings.run.baseline,
            number::overhead(&floor)
        ),
        None => String::from("There are too few trials to say what the noise floor is."),
    };
    format!(
        "Ratio to {} with its 95 % interval; to the right is slower. {floor} A hollow mark is \
         inconclusive; dotted lines, where drawn, are the margin of ±{margin} % within which an \
         arm is equivalent.",
        findings.run.baseline
    )
}

fn noise(findings: &Findings) -> Option<Interval> {
    findings.noise_floor.filter(|floor| floor.low > 0.0 && floor.high.is_finite())
}

fn numbers(findings: &Findings, rows: &[&Arm<'_>]) -> String {
    let mut table =
        Table::new("Overhead as a ratio", &["Stack", "#Ratio", "#Low", "#High", "Remark"]);
    let ratio = |ratio: f64| format!("{ratio:.4}");
    let mut add = |arm, name, interval: Option<Interval>, remark| {
        let of = |end: fn(&Interval) -> f64| Cell::number(interval.as_ref().map(end), ratio);
        let numbers = [of(|i| i.ratio), of(|i| i.low), of(|i| i.high)];
        let [middle, low, high] = numbers;
        table.row(arm, vec![Cell::Code(name), middle, low, high, Cell::Text(remark)]);
    };
    for arm in rows {
        let interval = arm.overhead();
        let remark = interval.map_or_else(|| arm.gap(), |_| String::new());
        add(Some(arm.found.arm), arm.name(), interval, remark);
    }
    if let Some(floor) = noise(findings) {
        add(None, findings.run.baseline.clone(), Some(floor), String::from("noise floor"));
    }
    table.finish()
}
