//! `surtax list`: the runs that are kept.

use super::rows::Rows;
use super::{Format, Globals, answer, note, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::{foreign, number};
use crate::layer::StackSpec;
use crate::ledger::{Ledger, RunState, calendar, shelf};
use crate::report::json;
use std::path::PathBuf;

/// Flags of `surtax list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lists the run files of this directory instead.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// One run, as `--format json` shows it.
#[derive(serde::Serialize)]
struct RunRow {
    name: String,
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
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => run_and_report::shelf_directory(globals)?,
    };
    let mut lines = Vec::new();
    for path in shelf::list(&directory)? {
        match line(&path) {
            Ok(line) => lines.push(line),
            Err(fault) => note(&foreign::line(&fault.message), globals),
        }
    }
    if globals.format_or(Format::Table) == Format::Json {
        return answer(&json::pretty(&lines).doing("write the list as JSON")?);
    }
    let mut rows = Rows::new(&["Run", "Began", "State", "Took", "Stacks", "Title"]);
    for line in lines {
        let took = line.wall_ns.map_or_else(String::new, number::span);
        let is_empty = line.state == RunState::Finished.word() && line.counted_trial_count == 0;
        let state = if is_empty { "nothing counts" } else { line.state };
        let (state, stacks) = (String::from(state), line.stacks.join(","));
        rows.push(vec![line.name, line.began_at, state, took, stacks, line.title]);
    }
    answer(&rows.text(globals.format_or(Format::Table), globals.table_width()))
}

fn texts(stacks: &[StackSpec]) -> Vec<String> {
    stacks.iter().map(ToString::to_string).collect()
}

fn line(path: &std::path::Path) -> Result<RunRow, Fault> {
    let ledger = Ledger::open(path)?;
    let run = ledger.run()?;
    Ok(RunRow {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
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
