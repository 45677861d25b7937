//! `surtax list`: the runs that are kept.

use super::rows::Rows;
use super::{Format, Globals, answer, note, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::foreign;
use crate::finding::kept::KeptRun;
use crate::ledger::shelf;
use crate::report::json;
use crate::report::list::{HEADER, cells};
use crate::report::rows;
use std::path::PathBuf;
use surtax_instrument::clock;

/// Columns of a terminal that has room for a title beside a run's name.
const ROOM_FOR_A_TITLE: u16 = 110;

/// Flags of `surtax list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lists the run files of this directory instead.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
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
        match KeptRun::read(&path) {
            Ok(line) => lines.push(line),
            Err(fault) => note(&foreign::line(&fault.message), globals),
        }
    }
    if globals.format() == Format::Json {
        return answer(&json::pretty(&lines).doing("write the list as JSON")?);
    }
    if lines.is_empty() {
        note(&format!("no run is kept in `{}`", directories[0].display()), globals);
    }
    let (is_table, now) = (globals.format() == Format::Table, clock::wall());
    // A name ends with the beginning of the title: where there is little room, that is enough.
    let width = globals.table_width().filter(|_| is_table);
    let has_title = width.is_none_or(|it| it >= ROOM_FOR_A_TITLE);
    let widest = lines.iter().map(|line| line.name.chars().count()).max();
    let widest = widest.and_then(|it| u16::try_from(it).ok()).unwrap_or(0);
    let most = if has_title { HEADER.len() } else { HEADER.len() - 1 };
    // A name is copied: whatever would break it is left out, from the right.
    let is_room = |others: &usize| width.is_none_or(|width| rows::fits(widest, *others, width));
    let header = &HEADER[..(2..most).rev().find(is_room).unwrap_or(1) + 1];
    let mut rows = Rows::new(header);
    for line in lines {
        let began = if is_table { line.ago(now) } else { line.began_at.clone() };
        let mut row = cells(&line, began);
        row.truncate(header.len());
        rows.push(row);
    }
    answer(&rows.text(globals.format(), width))
}
