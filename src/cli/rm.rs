//! `surtax rm`: removes runs that are kept, with the pages that `surtax report` wrote beside them.

use super::completions::candidates;
use super::{Globals, note, place, run_and_report};
use crate::fault::Fault;
use crate::ledger::{Ledger, shelf};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Flags of `surtax rm`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The runs: files, parts of names that `surtax list` shows, or `last`, which may be one that
    /// `--output` keeps elsewhere.
    #[arg(value_name = "RUN", required = true, add = candidates::run())]
    pub runs: Vec<String>,
}

/// Removes all of them, or none where one is not found.
pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let directories = run_and_report::shelf_directories(globals)?;
    let found = arguments.runs.iter().map(|name| shelf::find(&directories, name));
    let found: BTreeSet<PathBuf> = found.collect::<Result<_, _>>()?;
    for path in &found {
        Ledger::remove(path)?;
        note(&format!("removed the run `{}`", path.display()), globals);
        // Beside a run that lies elsewhere a page has a name that its user chose.
        let is_kept = directories.iter().any(|it| path.parent() == Some(it.as_path()));
        let page = path.with_extension("html");
        match if is_kept { place::remove_page(&page) } else { Ok(false) } {
            Ok(true) => note(&format!("removed its report `{}`", page.display()), globals),
            Ok(false) => {}
            Err(fault) => note(&format!("its report is left: {}", fault.message), globals),
        }
    }
    Ok(())
}
