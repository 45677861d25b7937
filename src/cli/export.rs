//! `surtax export`: the results of a run for other programs.

use super::{Format, Globals};
use super::{answer, place, run_and_report};
use crate::fault::Fault;
use crate::report::{export, terminal};
use std::path::PathBuf;

/// Flags of `surtax export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The form follows the name of FILE (.json, .csv, .md, .txt) unless `--format` \
                  says it.\n\nExamples\n  surtax export -o last.csv\n  surtax export RUN --trials \
                  > trials.csv\n  surtax export --format json | jq '.arms[].verdict'"
)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// File that it goes to; by default standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Writes CSV with one row per trial, instead of one per stack and metric.
    #[arg(long)]
    pub trials: bool,
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
    let (_, findings) = run_and_report::findings(&arguments.run, globals)?;
    if arguments.trials && !matches!(globals.format, None | Some(Format::Csv)) {
        return Err(Fault::user("`--trials` writes CSV, and another `--format` was asked for")
            .hint("leave out one of them; JSON has every trial anyway"));
    }
    let text = |look| match arguments.trials {
        true => export::csv_trials(&findings),
        false => run_and_report::text(&findings, arguments.format(globals), look),
    };
    match &arguments.output {
        Some(path) => place::write(path, &text(terminal::PLAIN)),
        None => answer(&text(globals.look())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_name_of_the_file_unless_it_was_asked_for() {
        let named = |name: &str| Arguments {
            run: String::from("last"),
            output: Some(name.into()),
            trials: false,
        };
        let asked = Globals { format: Some(Format::Markdown), ..Globals::default() };
        assert_eq!(named("a.csv").format(&Globals::default()), Format::Csv);
        assert_eq!(named("a").format(&Globals::default()), Format::Json);
        assert_eq!(named("a.csv").format(&asked), Format::Markdown);
    }
}
