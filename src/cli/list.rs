//! `surtax list`: the runs that are kept.

use super::rows::Rows;
use super::{Format, Globals, answer, note, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::{foreign, number};
use crate::layer::StackSpec;
use crate::ledger::{Ledger, RunState, calendar, shelf};
use crate::report::json;
use std::path::PathBuf;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Columns of a terminal that has room for a title beside a run's name.
const ROOM_FOR_A_TITLE: u16 = 110;

/// Flags of `surtax list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lists the run files of this directory instead.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// One run, as `--format json` shows it.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(super) struct RunRow {
    name: String,
    #[serde(skip)]
    began: Nanoseconds,
    began_at: String,
    state: &'static str,
    /// Number of trials that are in the results.
    counted_trial_count: u64,
    /// From the first trial's begin to the last one's end.
    wall_ns: Option<u64>,
    stacks: Vec<String>,
    title: String,
    /// Path of the run file; what of it is not UTF-8 is shown as `�`.
    path: String,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let directories = match &arguments.directory {
        Some(directory) => vec![directory.clone()],
        None => run_and_report::shelf_directories(globals)?,
    };
    if let Some(directory) = arguments.directory.as_ref().filter(|it| !it.is_dir()) {
        let shown = directory.display();
        return Err(Fault::user(format!("`{shown}` is no directory")).hint(
            "a run is shown by `surtax show RUN`; `surtax list` lists those of a directory",
        ));
    }
    let mut lines = Vec::new();
    for path in shelf::list(&directories)? {
        match line(&path) {
            Ok(line) => lines.push(line),
            Err(fault) => note(&foreign::line(&fault.message), globals),
        }
    }
    if globals.format_or(Format::Table) == Format::Json {
        return answer(&json::pretty(&lines).doing("write the list as JSON")?);
    }
    if lines.is_empty() {
        note(&format!("no run is kept in `{}`", directories[0].display()), globals);
    }
    let (is_table, now) = (globals.format_or(Format::Table) == Format::Table, clock::wall());
    // A name ends with the beginning of the title: where there is little room, that is enough.
    let has_title = !is_table || globals.table_width().is_none_or(|it| it >= ROOM_FOR_A_TITLE);
    let header = ["Run", "Began", "State", "Took", "Stacks", "Title"];
    let header = if has_title { &header[..] } else { &header[..5] };
    let mut rows = Rows::new(header);
    for line in lines {
        let took = line.wall_ns.map_or_else(String::new, number::span);
        let is_empty = line.state == RunState::Finished.word() && line.counted_trial_count == 0;
        let state = if is_empty { "nothing counts" } else { line.state };
        let (state, stacks) = (String::from(state), line.stacks.join(","));
        let began = if is_table { ago(now.since(line.began)) } else { line.began_at };
        let mut row = vec![line.name, began, state, took, stacks];
        row.extend(has_title.then_some(line.title));
        rows.push(row);
    }
    answer(&rows.text(globals.format_or(Format::Table), globals.table_width()))
}

/// Time since then, in one unit.
fn ago(since: Nanoseconds) -> String {
    let minutes = since.0 / 60_000_000_000;
    let (count, unit) = match minutes {
        0 => return String::from("just now"),
        1..60 => (minutes, "min"),
        60..2880 => (minutes / 60, "h"),
        _ => (minutes / 1440, "days"),
    };
    format!("{count} {unit} ago")
}

fn texts(stacks: &[StackSpec]) -> Vec<String> {
    stacks.iter().map(ToString::to_string).collect()
}

fn line(path: &std::path::Path) -> Result<RunRow, Fault> {
    let ledger = Ledger::open(path)?;
    let run = ledger.run()?;
    Ok(RunRow {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        began: run.began_at,
        began_at: calendar::rfc3339(run.began_at),
        state: run.state.word(),
        counted_trial_count: ledger.counted_trial_count()?,
        wall_ns: ledger.took()?.map(|took| took.0),
        // A plan that this surtax does not know is a run all the same.
        stacks: ledger.plan().map_or_else(|_| Vec::new(), |plan| texts(&plan.stacks)),
        title: run.title,
        path: path.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ago_is_told_in_one_unit() {
        let told = |seconds: u64| ago(Nanoseconds(seconds * 1_000_000_000));
        let times = [59, 60, 3_599, 3_600, 86_400, 172_800].map(told);
        let expected = ["just now", "1 min ago", "59 min ago", "1 h ago", "24 h ago", "2 days ago"];
        assert_eq!(times, expected);
    }
}
