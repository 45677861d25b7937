//! `surtax report`: the results of a run as one HTML file.

use super::completions::candidates;
use super::{Globals, note, place, run_and_report};
use crate::fault::Fault;
use crate::report::html;
use std::path::{Path, PathBuf};

/// Flags of `surtax report`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub run: String,
    /// File that it goes to; by default beside the run file, with the ending `.html`.
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
}

impl Arguments {
    /// Returns where the report of this run file goes.
    #[must_use]
    pub fn place(&self, run_file: &Path) -> PathBuf {
        self.output.clone().unwrap_or_else(|| run_file.with_extension("html"))
    }
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    arguments.output.as_deref().map_or(Ok(()), place::require_page)?;
    let (run_file, findings) = run_and_report::findings(&arguments.run, globals)?;
    let file = arguments.place(&run_file);
    place::write(&file, html::html(&findings).as_bytes())?;
    note(&format!("the report is `{}`", file.display()), globals);
    Ok(())
}
