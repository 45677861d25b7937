//! `surtax compare`: a quick question, from flags.

use super::Globals;
use super::measure::{MeasureArguments, Question, ResultArguments};
use crate::driver::registered;
use crate::fault::Fault;
use std::ffi::OsString;

/// Flags of `surtax compare`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "surtax compare [OPTIONS] --in <STACKS> -- <CMD>...\n       surtax \
                            compare [OPTIONS] --in <STACKS> --workload \
                            <NAME>", after_long_help = include_str!("help/compare.txt"),
          after_help = "Example\n  surtax compare --in native,runc,qemu:memory=1G -- make \
                        -j4\nMore with --help.")]
pub struct Arguments {
    /// The command and its arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    measure: MeasureArguments,
    #[command(flatten)]
    results: ResultArguments,
}

impl Arguments {
    /// The plan that the flags ask for.
    ///
    /// # Errors
    /// The user's: what is missing, unknown or contradicts itself.
    pub fn question(&self, globals: &Globals) -> Result<Question, Fault> {
        let draft = self.measure.draft(&self.command, &registered())?;
        self.results.question(draft, globals)
    }
}
