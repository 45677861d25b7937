//! `surtax man`: manual pages, from the same definitions as the help.

use super::{Cli, answer};
use crate::fault::{Doing, Fault};
use clap::CommandFactory;
use std::path::PathBuf;

/// Flags of `surtax man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example\n  surtax man --directory ~/.local/share/man/man1")]
pub struct Arguments {
    /// Writes a page for every command into this directory, which is made if need be.
    #[arg(short, long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let Some(directory) = &arguments.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).doing("write the manual page")?;
        return answer(&String::from_utf8_lossy(&page));
    };
    let shown = directory.display();
    std::fs::create_dir_all(directory).doing(format!("make the directory `{shown}`"))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .doing(format!("write the manual pages into `{shown}`"))
}
