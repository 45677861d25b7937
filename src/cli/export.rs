//! `surtax export`: the results of a run for other programs.

use super::{Format, Globals};
use super::{answer, measuring};
use crate::fault::Fault;
use std::path::PathBuf;

/// Flags of `surtax export`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// Where it goes; by default to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Arguments {
    /// The form: the one that was asked for, else the one that the file's name says, else JSON.
    #[must_use]
    pub fn format(&self, globals: &Globals) -> Format {
        let ending = self.output.as_deref().and_then(|path| path.extension()?.to_str());
        globals.format.unwrap_or(match ending {
            Some("csv") => Format::Csv,
            Some("md") => Format::Markdown,
            Some("txt") => Format::Table,
            _ => Format::Json,
        })
    }
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let (_, findings) = measuring::findings(&arguments.run)?;
    let text = measuring::text(&findings, arguments.format(globals));
    match &arguments.output {
        Some(path) => measuring::write(path, &text),
        None => answer(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_name_of_the_file_unless_it_was_asked_for() {
        let named = |name: &str| Arguments { run: String::from("last"), output: Some(name.into()) };
        let asked = Globals { format: Some(Format::Markdown), ..Globals::default() };
        assert_eq!(named("a.csv").format(&Globals::default()), Format::Csv);
        assert_eq!(named("a").format(&Globals::default()), Format::Json);
        assert_eq!(named("a.csv").format(&asked), Format::Markdown);
    }
}
