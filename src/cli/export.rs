//! `surtax export`: the results of a run for other programs.

use super::{Format, Globals};
use super::{answer, place, run_and_report};
use crate::fault::Fault;
use crate::report::{export, terminal};
use std::path::{Path, PathBuf};

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

/// Endings of files, and the forms that they stand for.
const ENDINGS: [(&str, Format); 4] = [
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("md", Format::Markdown),
    ("txt", Format::Table),
];

impl Arguments {
    /// The form: the one that was asked for, else the one that the file's name says, else JSON;
    /// of trials CSV.
    ///
    /// # Errors
    /// The user's: a name that says none, or trials in another form.
    pub fn format(&self, globals: &Globals) -> Result<Format, Fault> {
        let ending = self.output.as_deref().and_then(Path::extension);
        let named = ending.and_then(|ending| {
            ENDINGS.into_iter().find(|(known, _)| ending.eq_ignore_ascii_case(known))
        });
        let asked = globals.format.or(named.map(|(_, format)| format));
        if self.trials && asked.is_some_and(|format| format != Format::Csv) {
            return Err(Fault::user("`--trials` writes CSV, and another form was asked for")
                .hint("leave out one of them; JSON has every trial anyway"));
        }
        if let (None, Some(path)) = (asked, &self.output) {
            let all = ENDINGS.map(|(known, _)| known);
            place::require_form(path, if self.trials { &["csv"] } else { &all })?;
        }
        Ok(asked.unwrap_or(if self.trials { Format::Csv } else { Format::Json }))
    }
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let format = arguments.format(globals)?;
    let (_, findings) = run_and_report::findings(&arguments.run, globals)?;
    let text = |look| match arguments.trials {
        true => export::csv_trials(&findings),
        false => run_and_report::text(&findings, format, look),
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
        let named = |name: &str, trials| Arguments {
            run: String::from("last"),
            output: Some(name.into()),
            trials,
        };
        let none = Globals::default();
        let asked = Globals { format: Some(Format::Markdown), ..Globals::default() };
        assert_eq!(named("a.csv", false).format(&none).unwrap(), Format::Csv);
        assert_eq!(named("a.TXT", false).format(&none).unwrap(), Format::Table);
        assert_eq!(named("a", false).format(&none).unwrap(), Format::Json);
        assert_eq!(named("a.csv", false).format(&asked).unwrap(), Format::Markdown);
        assert_eq!(named("a.v2", false).format(&asked).unwrap(), Format::Markdown);
        assert_eq!(named("a", true).format(&none).unwrap(), Format::Csv);
        let refused = |name, trials, globals| named(name, trials).format(globals).unwrap_err();
        assert!(refused("a.csv", true, &asked).message.contains("`--trials` writes CSV"));
        assert!(refused("a.json", true, &none).message.contains("`--trials` writes CSV"));
        let fault = refused("a.xml", false, &none);
        assert_eq!(fault.message, "`a.xml`: no `.xml` file is written here");
        let hint = "end the name with `.json` or `.csv` or `.md` or `.txt`";
        assert_eq!(fault.hint.as_deref(), Some(hint));
        let hint = refused("a.xml", true, &none).hint;
        assert_eq!(hint.as_deref(), Some("end the name with `.csv`"));
        assert_eq!(named("run-1.2", false).format(&none).unwrap(), Format::Json);
    }
}
