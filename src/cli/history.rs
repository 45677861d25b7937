//! `surtax history`: what each stack cost in all runs of one question, and since when.

use super::rows::{self, Rows};
use super::{Format, Globals, answer, note, of_metric, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::diff::require_one_question;
use crate::finding::history::{History, RUNS_MIN, Series, SeriesPoint, history};
use crate::finding::same_machine::{FactChange, SameMachine};
use crate::finding::threshold::typed_name;
use crate::finding::{Findings, foreign, number};
use crate::ledger::{Ledger, shelf};
use crate::plan::Plan;
use crate::report::json;
use std::path::Path;

/// Letters of a fact's value in a table, at most; JSON has it whole.
const VALUE_LENGTH: usize = 24;

/// Flags of `surtax history`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each cost is one over its own run's native, so that a slow day is in no number. \
                  A new level is told where at least two runs on each side differ by more than \
                  runs differ from each other, and by more than their own intervals; of a hundred \
                  stacks that cost the same all the time, one gets a new level by chance. What \
                  else changed there is shown beside it, and may be the cause.\n\nExamples\n  \
                  surtax history\n  surtax history gzip --metric cpu\n  \
                  surtax history nightly/*.surtax --format csv"
)]
pub struct Arguments {
    /// One run: all that are kept and ask the same. Several: these. Each is a file, a part of a
    /// name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last")]
    pub runs: Vec<String>,
    /// Shows this metric, such as `cpu` or `start`; may be repeated [default: wall
    /// time, or what the workload measures].
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let runs = match &arguments.runs[..] {
        [one] => of_one_question(one, globals)?,
        several => {
            let found = several.iter().map(|run| run_and_report::findings(run, globals));
            found.map(|found| Ok(found?.1)).collect::<Result<Vec<_>, Fault>>()?
        }
    };
    let is_of_workload = runs.iter().any(|it| it.run.workload.is_some());
    let mut found = history(runs)?;
    of_metric::keep(
        &mut found.series,
        |it| &it.metric,
        &arguments.metric,
        is_of_workload,
        globals,
    )?;
    answer(&text(&found, globals)?)
}

/// A run, and all that are kept and ask the same. One that cannot be read is told and left out.
fn of_one_question(run: &str, globals: &Globals) -> Result<Vec<Findings>, Fault> {
    let (path, findings) = run_and_report::findings(run, globals)?;
    let plan = Ledger::open(&path)?.plan()?;
    let (mut runs, mut others) = (Vec::new(), 0);
    let mut asked = Some(findings);
    for other in shelf::list(&run_and_report::shelf_directories(globals)?)? {
        if other == path {
            runs.extend(asked.take());
            continue;
        }
        // To see that a run asks something else is quick, and to read one is not.
        let read = || match is_like(&other, &plan)? {
            true => run_and_report::findings_at(&other, globals).map(Some),
            false => Ok(None),
        };
        match read() {
            Ok(None) => {}
            Ok(Some(found)) => {
                let asked = asked.as_ref().or(runs.first());
                match asked.map(|asked| require_one_question(&found, asked)) {
                    Some(Err(_)) => others += 1,
                    _ => runs.push(found),
                }
            }
            Err(fault) => note(&foreign::line(&fault.message), globals),
        }
    }
    runs.extend(asked);
    if others > 0 {
        let runs = number::count(others, "run");
        note(&format!("{runs} of the same command asked for something else beside it"), globals);
    }
    Ok(runs)
}

/// Tells whether a file holds a run of the same command or workload.
fn is_like(path: &Path, plan: &Plan) -> Result<bool, Fault> {
    let name = |plan: &Plan| plan.workload.as_ref().map(|it| it.name.clone());
    let found = Ledger::open(path)?.plan()?;
    Ok(match (name(&found), name(plan)) {
        (None, None) => found.command == plan.command,
        (one, other) => one == other,
    })
}

fn text(found: &History, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format_or(Format::Table);
    if format == Format::Json {
        return json::pretty(found).doing("write the history as JSON");
    }
    if format == Format::Csv {
        return Ok(csv(found));
    }
    let above = rows::above(&said(found), format, globals);
    let header = ["Stack", "Metric", "Run", "Cost", "New level", "Changed there"];
    if format == Format::Markdown {
        let mut rows = Rows::new(&header);
        for series in &found.series {
            let name = [series.stack.clone(), typed_name(&series.metric).to_owned()];
            cells(found, series).for_each(|cells| rows.push([&name[..], &cells].concat()));
        }
        return Ok(above + &rows.text(format, None));
    }
    // A stack's name may be long: it stands above its own table.
    let table = |series: &Series| {
        let mut rows = Rows::new(&header[2..]);
        cells(found, series).for_each(|cells| rows.push(cells.to_vec()));
        let [stack, metric] = [&series.stack, typed_name(&series.metric)].map(foreign::line);
        format!("{stack}, {metric}\n{}", rows.text(format, globals.table_width()))
    };
    Ok(found.series.iter().map(table).collect::<Vec<_>>().join("\n"))
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
fn said(found: &History) -> Vec<String> {
    let mut lines = Vec::new();
    for series in &found.series {
        let what =
            [&series.stack, typed_name(&series.metric)].map(foreign::line).join("`: ").to_owned();
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

fn csv(found: &History) -> String {
    let mut rows = Rows::new(&[
        "stack",
        "metric",
        "run",
        "began at",
        "cost",
        "cost low",
        "cost high",
        "new level",
        "new level low",
        "new level high",
        "changed",
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
    rows.text(Format::Csv, None)
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
