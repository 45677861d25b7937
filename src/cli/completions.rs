//! `surtax completions`: a completion script, from the same definitions as the help.

use super::{Cli, answer};
use crate::fault::Fault;
use clap::CommandFactory;
use clap_complete::Shell;

/// Flags of `surtax completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/completions.txt"))]
pub struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "surtax", &mut script);
    answer(&String::from_utf8_lossy(&script))
}
