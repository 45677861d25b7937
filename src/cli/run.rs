//! `surtax run`: a plan file, with flags over it.

use super::Globals;
use super::completions::candidates;
use super::measure::{MeasureArguments, Question, ResultArguments};
use crate::driver::registered;
use crate::fault::Fault;
use crate::lab;
use crate::plan::file;
use std::path::PathBuf;

/// Flags of `surtax run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("help/run.txt"))]
pub struct Arguments {
    /// The plan: a file, or the name of one that comes with surtax.
    #[arg(value_name = "PLAN.toml", add = candidates::plan())]
    plan: PathBuf,
    #[command(flatten)]
    measure: MeasureArguments,
    #[command(flatten)]
    results: ResultArguments,
}

impl Arguments {
    /// The plan of the file, with what the flags say over it.
    ///
    /// # Errors
    /// The user's: what is missing, unknown or contradicts itself, with the line of the file.
    pub fn question(&self, globals: &Globals) -> Result<Question, Fault> {
        let descriptors = registered();
        let draft = file::read(&self.plan, &descriptors)
            .map_err(|fault| self.instead(fault))?
            .overlaid_by(self.measure.draft(&[], &descriptors)?);
        self.results.question(draft, globals)
    }

    /// Adds what was probably meant where a command stands in the place of a plan.
    fn instead(&self, fault: Fault) -> Fault {
        if self.plan.exists() || lab::find(&self.plan).is_none() {
            return fault;
        }
        let command = self.plan.display();
        fault.hint(format!(
            "`run` takes a plan; to measure a command, write `surtax compare --in native,runc -- \
             {command}`"
        ))
    }
}
