//! Timelines as text: for each stack who used the CPUs, as a line of bars.

use super::page::Page;
use super::terminal::{Look, plain};
use crate::finding::over_time::{PayerRow, cpus, every, remarks, rows, run, watched};
use crate::finding::{Findings, LevelTimelineFindings, TimelineFindings, foreign};
use comfy_table::{Attribute, Cell, CellAlignment};

/// Bars from nothing to all.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bars in a line.
const WIDTH: usize = 24;

/// The heading of the table.
const COLUMNS: [&str; 5] = ["Stack", "Who", "CPUs in use", "Mean", "Most"];

/// As many payers of a stack are shown.
const ROWS_MAX: usize = 3;

/// Of fewer CPUs on average, nobody is shown.
const LEAST_CPUS: f64 = 0.01;

/// Writes who used the CPUs while the command ran; nothing where nobody looked.
pub fn write(page: &mut Page, findings: &Findings, look: Look) {
    let mut table = plain(look);
    table.set_header(COLUMNS.map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
    let mut said = Vec::new();
    for (arm, timeline) in watched(findings.arms.iter()) {
        for (place, (level, row)) in busiest(timeline).into_iter().enumerate() {
            let stack = if place == 0 { foreign::line(&arm.name) } else { String::new() };
            let who = match (row.is_machine(), level.level) {
                (true, _) | (false, 1..) => format!("{}, level {}", row.payer, level.level),
                (false, 0) => row.payer.to_owned(),
            };
            let number = |ns: Option<f64>| {
                Cell::new(ns.map(cpus).unwrap_or_default()).set_alignment(CellAlignment::Right)
            };
            table.add_row([
                Cell::new(stack),
                Cell::new(foreign::line(&who)),
                Cell::new(bars(timeline, level, &row)),
                number(row.mean(0)),
                number(row.most(0)),
            ]);
        }
        if said.is_empty() {
            said.push(format!("One trial of each stack, {}", every(timeline)));
        }
        said.extend(remarks(timeline).map(|it| format!("`{}`: {it}", arm.name)));
    }
    if said.is_empty() {
        return;
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(place + 1 < COLUMNS.len())));
    }
    page.gap();
    page.paragraph("", "Over time, from the command's begin to its end", 0);
    page.add(&(table.trim_fmt() + "\n"));
    page.paragraph("", &(said.join("; ") + "."), 2);
    page.gap();
}

/// The payers that used most CPU time, in the order of their levels; not this machine as a whole.
fn busiest(timeline: &TimelineFindings) -> Vec<(&LevelTimelineFindings, PayerRow<'_>)> {
    let of = |level| rows(level, timeline).into_iter().map(move |row| (level, row));
    let mut all: Vec<(&LevelTimelineFindings, PayerRow<'_>)> =
        timeline.levels.iter().flat_map(of).collect();
    let mean = |row: &PayerRow<'_>| row.mean(0).unwrap_or(0.0);
    all.retain(|(level, row)| {
        mean(row) >= LEAST_CPUS * 1e9 && !(row.is_machine() && level.level == 0)
    });
    all.sort_by(|(_, one), (_, other)| mean(other).total_cmp(&mean(one)));
    all.truncate(ROWS_MAX);
    all.sort_by_key(|(level, _)| level.level);
    all
}

/// The use of CPUs while the command ran, each bar the mean of its part of the time; the highest
/// stands for the most that anybody of the stack used at once, or for one CPU.
fn bars(timeline: &TimelineFindings, level: &LevelTimelineFindings, row: &PayerRow<'_>) -> String {
    let Some((values, (from, to))) = row.aspects[0].as_ref().zip(run(timeline)) else {
        return String::new();
    };
    let most = row.most(0).unwrap_or(0.0).max(1e9);
    let span = to.saturating_sub(from).max(1);
    let place = |at: u64| {
        let passed = u128::from(at.saturating_sub(from)) * WIDTH as u128;
        usize::try_from(passed / u128::from(span)).unwrap_or(WIDTH).min(WIDTH - 1)
    };
    let mut parts = [(0.0, 0_u32); WIDTH];
    let mut before = None;
    for (at, value) in level.at_ns.iter().zip(values) {
        let since = before.replace(*at);
        let Some((since, value)) = since.zip(*value) else { continue };
        if *at <= from || since >= to {
            continue;
        }
        // What is seen at a look was used since the one before.
        for part in parts.iter_mut().take(place(*at) + 1).skip(place(since.max(from))) {
            *part = (part.0 + value, part.1 + 1);
        }
    }
    let bar = |(sum, count): (f64, u32)| bar_of(sum / f64::from(count.max(1)) / most);
    parts.map(bar).into_iter().collect()
}

fn bar_of(share: f64) -> char {
    let steps = u32::try_from(BARS.len() - 1).unwrap_or(1);
    let step = surtax_instrument::quantity::whole((share * f64::from(steps)).round());
    let step = usize::try_from(step).unwrap_or(0).min(BARS.len() - 1);
    BARS[step]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::finding::over_time::tests::example as timeline;
    use crate::report::terminal::PLAIN;

    #[test]
    fn who_used_the_cpus_is_a_line_of_bars_from_the_begin_of_the_command_to_its_end() {
        let mut findings = example(6, |_| {});
        findings.arms[2].timeline = Some(timeline());
        let mut page = Page::new(80);
        write(&mut page, &findings, PLAIN);
        let text = page.finish();
        let line = text.lines().find(|line| line.contains("container")).unwrap();
        // Of eight seconds it used a CPU in the first three.
        assert!(line.contains(&"█".repeat(9)) && !line.contains(&"█".repeat(13)), "{line:?}");
        assert!(line.trim_end().ends_with("0.38     1") && line.starts_with("runc"), "{line:?}");
        assert!(text.contains("the machine, level 1") && !text.contains("level 0"), "{text}");
        assert!(
            text.contains("One trial of each stack, looked at every 1.000 s; `runc`: times of")
        );
        let mut none = Page::new(80);
        write(&mut none, &example(6, |_| {}), PLAIN);
        assert_eq!(none.finish(), "");
    }
}
