//! `surtax man`: manual pages, from the same definitions as the help.

use super::{Cli, answer, place};
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
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &arguments.directory else {
        return answer(&page(&command)?.1);
    };
    let shown = directory.display();
    std::fs::create_dir_all(directory).doing(format!("make the directory `{shown}`"))?;
    for command in std::iter::once(&command).chain(command.get_subcommands()) {
        let (name, page) = page(command)?;
        place::write(&directory.join(name), page.as_bytes())?;
    }
    Ok(())
}

/// The file name and the text of a command's page.
fn page(command: &clap::Command) -> Result<(String, String), Fault> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page).doing("write the manual page")?;
    let page = String::from_utf8_lossy(&page);
    // Examples are typed again: no hyphens and no spaces that are not in them.
    let (head, body) = page.split_once("\n.SH NAME").unwrap_or((&page, ""));
    Ok((man.get_filename(), format!("{head}\n.nh\n.ad l\n.SH NAME{body}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_its_examples_as_they_are_typed() {
        let mut command = Cli::command();
        command.build();
        let compare = command.find_subcommand("compare").unwrap();
        let (name, page) = page(compare).unwrap();
        assert_eq!(name, "surtax-compare.1");
        assert!(page.contains("\n.nh\n.ad l\n.SH NAME\n"), "{page}");
        assert!(page.contains("make \\-j2"), "{page}");
    }
}
