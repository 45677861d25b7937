//! History of a question in text.

use super::rows::{Rows, RowsForm};
use crate::finding::history::{History, RUNS_MIN, Series, SeriesPoint};
use crate::finding::same_machine::{FactChange, SameMachine};
use crate::finding::trial_metric::typed;
use crate::finding::{foreign, number};

/// Letters of a fact's value in a table, at most; JSON has it whole.
const VALUE_LENGTH: usize = 24;

/// Columns of a table of all stacks; one of a single stack leaves the first two out.
const HEADER: [&str; 6] = ["Stack", "Metric", "Run", "Cost", "New level", "Changed there"];

/// One row for each run of each stack.
#[must_use]
pub fn rows(found: &History) -> Rows {
    let mut rows = Rows::new(&HEADER);
    for series in &found.series {
        let name = [series.stack.clone(), typed(&series.metric).to_owned()];
        cells(found, series).for_each(|cells| rows.push([&name[..], &cells].concat()));
    }
    rows
}

/// One row for each run of one stack.
#[must_use]
pub fn series_rows(found: &History, series: &Series) -> Rows {
    let mut rows = Rows::new(&HEADER[2..]);
    cells(found, series).for_each(|cells| rows.push(cells.to_vec()));
    rows
}

/// Name of a series: its stack and its metric.
#[must_use]
pub fn series_name(series: &Series) -> String {
    [&series.stack, typed(&series.metric)].map(foreign::line).join(", ")
}

/// Cells of each point of a series: the run, its cost, a new level, and what changed there.
fn cells<'a>(found: &'a History, series: &'a Series) -> impl Iterator<Item = [String; 4]> + 'a {
    series.points.iter().map(|point| {
        let run = &found.runs[point.run];
        let level = point.shift.as_ref().map_or_else(String::new, number::overhead);
        let cost = number::overhead(&point.cost);
        [second(&run.began_at), cost, level, changed(point).join(", ")]
    })
}

/// Says where each stack got a new level, and of which no level can show yet.
#[must_use]
pub fn said(found: &History) -> Vec<String> {
    let mut lines = Vec::new();
    for series in &found.series {
        let what = [&series.stack, typed(&series.metric)].map(foreign::line).join("`: ").to_owned();
        let shifts = series.points.iter().filter_map(|it| Some((it, it.shift.as_ref()?)));
        let before = lines.len();
        for (point, shift) in shifts {
            let changed = match changed(point) {
                none if none.is_empty() => String::from("nothing that is told here changed there"),
                changed => format!("there changed {}", changed.join(", ")),
            };
            let (run, step) = (&found.runs[point.run], number::overhead(shift));
            let since = second(&run.began_at);
            lines.push(format!("`{what} {step} from the run of {since} on; {changed}"));
        }
        let runs = number::count(series.points.len(), "run");
        if series.points.len() < RUNS_MIN {
            lines.push(format!("`{what} in {runs}: a new level shows with {RUNS_MIN} at least"));
        } else if lines.len() == before {
            lines.push(format!("`{what} has no new level in {runs}"));
        }
    }
    lines
}

/// Lists what changed against the point before.
fn changed(point: &SeriesPoint) -> Vec<String> {
    let machine = match point.machine {
        Some(SameMachine::Alike) => Some("perhaps the machine"),
        Some(SameMachine::Same) => Some("booted again"),
        Some(SameMachine::Another | SameMachine::SameBoot) | None => None,
    };
    let told = |it: &FactChange| {
        let [key, before, after] = [&it.key, &it.before, &it.after].map(|text| short(text));
        format!("{key} {before} → {after}")
    };
    machine.map(String::from).into_iter().chain(point.changes.iter().map(told)).collect()
}

fn short(text: &str) -> String {
    let line = foreign::line(text);
    match line.char_indices().nth(VALUE_LENGTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The second in which a run began, of RFC 3339; the names of runs begin with it.
fn second(began_at: &str) -> String {
    let line = foreign::line(began_at);
    line.chars().take("2026-01-02T03:04:05".len()).collect::<String>().replace('T', " ")
}

/// Every point with its intervals, as comma-separated values.
#[must_use]
pub fn csv(found: &History) -> String {
    let mut rows = Rows::new(&[
        "stack", "metric", "run", "began at", "cost", "cost low", "cost high", "new level",
        "new level low", "new level high", "changed",
    ]);
    for series in &found.series {
        for point in &series.points {
            let run = &found.runs[point.run];
            let numbers = |it: &crate::finding::Interval| {
                [it.ratio, it.low, it.high].map(|value| value.to_string())
            };
            let mut row = vec![
                series.stack.clone(),
                series.metric.clone(),
                run.id.clone(),
                run.began_at.clone(),
            ];
            row.extend(numbers(&point.cost));
            row.extend(point.shift.as_ref().map_or_else(<[String; 3]>::default, numbers));
            row.push(changed(point).join(", "));
            rows.push(row);
        }
    }
    rows.text(RowsForm::Csv, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_cut_from_any_text_and_a_value_to_its_beginning() {
        assert_eq!(second("2026-01-02T03:04:05Z"), "2026-01-02 03:04:05");
        assert_eq!(second("no\u{1b}[31m"), "no\\u{1b}[31m");
        assert_eq!(short("a"), "a");
        assert_eq!(short(&"ä".repeat(30)), format!("{}…", "ä".repeat(24)));
    }
}
