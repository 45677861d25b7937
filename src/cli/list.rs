//! `surtax list`: the runs that are kept.

use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::fault::{Doing, Fault};
use crate::ledger::{Ledger, calendar, shelf};
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
struct Line {
    name: String,
    began_at: String,
    state: &'static str,
    title: String,
    path: PathBuf,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => shelf::directory()?,
    };
    let mut lines = Vec::new();
    for path in shelf::list(&directory)? {
        match line(&path) {
            Ok(line) => lines.push(line),
            Err(fault) => note(&fault.to_string(), globals),
        }
    }
    if globals.format_or(Format::Table) == Format::Json {
        return answer(
            &(serde_json::to_string_pretty(&lines).doing("write the list as JSON")? + "\n"),
        );
    }
    let mut rows = Rows::new(&["Run", "Began", "State", "Title"]);
    for line in lines {
        rows.push(vec![line.name, line.began_at, String::from(line.state), line.title]);
    }
    answer(&rows.text(globals.format_or(Format::Table), globals.table_width()))
}

fn line(path: &std::path::Path) -> Result<Line, Fault> {
    let run = Ledger::open(path)?.run()?;
    Ok(Line {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        began_at: calendar::rfc3339(run.began_at),
        state: run.state.word(),
        title: run.title,
        path: path.to_path_buf(),
    })
}
