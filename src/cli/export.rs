//! `surtax export`: the results of a run for other programs; and `--export` of the commands that
//! measure or show.

use super::completions::candidates;
use super::{Format, Globals};
use super::{answer, place, run_and_report, say};
use crate::fault::Fault;
use crate::finding::Findings;
use crate::finding::timeline::each_series;
use crate::layer::instead;
use crate::ledger::{Ledger, shelf};
use crate::report::forms::{FORMS, Form};
use crate::report::series::{Run, SeriesTable};
use crate::report::terminal;
use clap::ValueEnum;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Endings of tables with a row for each trial.
const OF_TRIALS: [&str; 2] = ["csv", "parquet"];

/// Standard output, as the name of a file.
const OUTPUT: &str = "-";

/// Flags of `surtax export`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/export.txt"))]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    ///
    /// Thresholds are not kept with a run: `surtax show RUN --fail-if … --export FORM=FILE` holds
    /// it to some, and writes what came of that.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub run: String,
    /// File that it goes to; by default standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The form: benchmark-action, bmf, brief, csv, github, html, hyperfine, json, junit, markdown,
    /// openmetrics, parquet, table or trials.
    #[arg(long = "as", value_name = "FORM", value_parser = form_of)]
    pub form: Option<&'static Form>,
    /// Writes CSV with one row per trial, instead of one per stack and metric; as Parquet always
    /// does.
    #[arg(long)]
    pub trials: bool,
    /// Writes what everybody used moment by moment, with one row per time and quantity, as CSV or
    /// Parquet.
    #[arg(long, conflicts_with = "trials")]
    pub timeline: bool,
}

impl Arguments {
    /// The form: the one that was asked for, else the one that the file's name says, else JSON;
    /// of trials CSV.
    ///
    /// # Errors
    /// The user's: a name that says none, or trials in another form.
    pub fn form(&self, globals: &Globals) -> Result<&'static Form, Fault> {
        let ending = self.output.as_deref().and_then(Path::extension);
        let usual = ending.and_then(|ending| Form::of_ending(&ending.to_string_lossy()));
        let asked = self.form.or(globals.format.map(form_like));
        let wanted = asked.or(usual);
        let has_rows = |form: &Form| form.endings.iter().any(|it| OF_TRIALS.contains(it));
        let is_table = self.trials || self.timeline;
        if is_table && wanted.is_some_and(|form| !has_rows(form)) {
            let flag = if self.trials { "--trials" } else { "--timeline" };
            return Err(Fault::user(format!(
                "`{flag}` writes CSV or Parquet, and another form was asked for"
            ))
            .hint("leave out one of them; JSON has every trial anyway"));
        }
        if let (None, Some(path)) = (asked, &self.output) {
            let all: Vec<&str> = usual_endings().collect();
            place::require_form(path, if is_table { &OF_TRIALS } else { &all })?;
        }
        let usual = if is_table { "trials" } else { "json" };
        let wanted = wanted.filter(|form| !is_table || form.name != "csv");
        named(wanted.map_or(usual, |form| form.name))
    }
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let form = arguments.form(globals)?;
    if arguments.timeline {
        return timeline(arguments, form, globals);
    }
    let (_, findings) = run_and_report::findings(&arguments.run, globals)?;
    match &arguments.output {
        Some(path) => {
            place::require_form(path, form.endings)?;
            place::write(path, &form.write(&findings))
        }
        None if form.name == "table" => answer(&terminal::render(&findings, globals.look())),
        None => {
            require_reader(form)?;
            say::put(&form.write(&findings))
        }
    }
}

/// Writes the timelines of a run.
fn timeline(arguments: &Arguments, form: &'static Form, globals: &Globals) -> Result<(), Fault> {
    let ledger = Ledger::open(&shelf::find(&shelf::directories()?, &arguments.run)?)?;
    let findings = run_and_report::findings_of(&ledger, globals)?;
    let mut table = SeriesTable::new(Run::of(&findings), !form.is_text());
    let mut count = 0_u64;
    each_series(&ledger, |series| {
        count += 1;
        table.add(&series);
    })?;
    if count == 0 {
        return Err(Fault::user("nobody looked at this run moment by moment").hint(
            "repeat it with `--watch 1s`; of commands of 5 s or more that goes without saying",
        ));
    }
    match &arguments.output {
        Some(path) => {
            place::require_form(path, form.endings)?;
            place::write(path, &table.finish())
        }
        None => {
            require_reader(form)?;
            say::put(&table.finish())
        }
    }
}

/// Flags of what is written of a run for other programs, beside what is printed.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct Exports {
    /// Also writes the results for another program, such as `junit=tests.xml`, `github=-` or
    /// `times.csv`; may be repeated.
    ///
    /// Forms: benchmark-action, bmf, brief (Markdown for a pull request), csv, github (annotations
    /// of its Actions), html, hyperfine, json, junit, markdown, openmetrics, parquet, table,
    /// trials. Without one the name's ending says it. `-` is standard output, where the table is
    /// not printed then.
    #[arg(long, value_name = "FORM=FILE", value_parser = Export::parse, help_heading = "Results")]
    export: Vec<Export>,
}

/// A form, and where it goes.
#[derive(Clone, Debug)]
struct Export {
    form: &'static Form,
    path: PathBuf,
}

impl PartialEq for Export {
    fn eq(&self, other: &Self) -> bool {
        (self.form.name, &self.path) == (other.form.name, &other.path)
    }
}

impl Export {
    fn parse(text: &str) -> Result<Self, Fault> {
        if let Some((form, path)) = text.split_once('=') {
            if path.is_empty() {
                return Err(Fault::user(format!("`{text}` names no file"))
                    .hint(format!("write `{text}FILE`, or `{text}-` for standard output")));
            }
            return Ok(Self { form: form_of(form)?, path: path.into() });
        }
        let ending = Path::new(text).extension().unwrap_or_default().to_string_lossy();
        match (Form::named(text), Form::of_ending(&ending)) {
            (Some(form), _) => Ok(Self { form, path: OUTPUT.into() }),
            (None, Some(form)) => Ok(Self { form, path: text.into() }),
            (None, None) => Err(Fault::user(format!("`{text}` says no form")).hint(format!(
                "write `FORM=FILE`, as in `junit={text}`, or end the name with one of {}",
                usual_endings().map(|it| format!("`.{it}`")).collect::<Vec<_>>().join(", ")
            ))),
        }
    }
}

impl Exports {
    /// Refuses early what would be refused after hours of measuring.
    pub(super) fn require_places(&self) -> Result<(), Fault> {
        for (index, export) in self.export.iter().enumerate() {
            let is_same = |it: &Export| it.path == export.path && it.path != Path::new(OUTPUT);
            if self.export.iter().take(index).any(is_same) {
                let shown = export.path.display();
                return Err(Fault::user(format!("`{shown}` is named by two of `--export`"))
                    .hint("give each a file of its own"));
            }
        }
        self.named().try_for_each(|export| {
            place::require_form(&export.path, export.form.endings)
                .map_err(|fault| fault.during(format_args!("`--export {}=`", export.form.name)))
        })?;
        let to_output = self.export.len() - self.named().count();
        let to_output_forms = self.export.iter().filter(|it| it.path == Path::new(OUTPUT));
        to_output_forms.map(|it| it.form).try_for_each(require_reader)?;
        if to_output > 1 {
            return Err(Fault::user("several forms are to be written to standard output")
                .hint("give all but one of `--export` a file"));
        }
        Ok(())
    }

    /// Lists the files that are named.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.named().map(|export| export.path.as_path())
    }

    /// Those that are no standard output.
    fn named(&self) -> impl Iterator<Item = &Export> {
        self.export.iter().filter(|export| export.path != Path::new(OUTPUT))
    }

    /// Tells whether standard output is taken by one of them.
    pub(super) fn take_standard_output(&self) -> bool {
        self.export.iter().any(|export| export.path == Path::new(OUTPUT))
    }

    /// Writes all of them; the first that cannot be is told when the others are written.
    pub(super) fn write(&self, findings: &Findings) -> Result<(), Fault> {
        let write = |export: &Export| place::write(&export.path, &export.form.write(findings));
        self.export.iter().map(write).fold(Ok(()), Result::and)
    }
}

/// Refuses to write what is no text to a terminal.
fn require_reader(form: &Form) -> Result<(), Fault> {
    if form.is_text() || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let name = form.name;
    Err(Fault::user(format!("`{name}` is no text, and standard output is a terminal"))
        .hint(format!("name a file, as in `-o run.{name}`")))
}

/// Reads the name of a form.
fn form_of(name: &str) -> Result<&'static Form, Fault> {
    Form::named(name).ok_or_else(|| {
        let all = FORMS.iter().map(|form| form.name);
        Fault::user(format!("there is no form `{name}`")).hint(instead(name, "forms", all))
    })
}

fn named(name: &str) -> Result<&'static Form, Fault> {
    Form::named(name).ok_or_else(|| Fault::bug("a form is lost"))
}

/// The form of what is printed elsewhere.
pub(super) fn form_like(format: Format) -> &'static Form {
    let word = format.to_possible_value();
    word.and_then(|word| Form::named(word.get_name())).unwrap_or(&FORMS[0])
}

fn usual_endings() -> impl Iterator<Item = &'static str> {
    FORMS.iter().filter(|form| form.is_usual).flat_map(|form| form.endings).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_name_of_the_file_unless_it_was_asked_for() {
        let named = |name: &str, trials| Arguments {
            run: String::from("last"),
            output: Some(name.into()),
            form: None,
            trials,
            timeline: false,
        };
        let none = Globals::default();
        let asked = Globals { format: Some(Format::Markdown), ..Globals::default() };
        let form = |name, trials, globals| named(name, trials).form(globals).unwrap().name;
        assert_eq!(form("a.csv", false, &none), "csv");
        assert_eq!(form("a.TXT", false, &none), "table");
        assert_eq!(form("a.xml", false, &none), "junit");
        assert_eq!(form("a", false, &none), "json");
        assert_eq!(form("a.csv", false, &asked), "markdown");
        assert_eq!(form("a.v2", false, &asked), "markdown");
        assert_eq!(form("a", true, &none), "trials");
        let bare = Arguments { form: Form::named("bmf"), ..named("a.json", false) };
        assert_eq!(bare.form(&asked).unwrap().name, "bmf");
        let refused = |name, trials, globals| named(name, trials).form(globals).unwrap_err();
        assert!(refused("a.csv", true, &asked).message.contains("`--trials` writes CSV or"));
        assert!(refused("a.json", true, &none).message.contains("`--trials` writes CSV or"));
        let fault = refused("a.pdf", false, &none);
        assert_eq!(fault.message, "`a.pdf`: no `.pdf` file is written here");
        let hint = "end the name with `.csv` or `.html` or `.htm` or `.json` or `.xml` or `.md` or \
                    `.markdown` or `.prom` or `.parquet` or `.txt`";
        assert_eq!(fault.hint.as_deref(), Some(hint));
        let hint = refused("a.pdf", true, &none).hint;
        assert_eq!(hint.as_deref(), Some("end the name with `.csv` or `.parquet`"));
        assert_eq!(form("a.parquet", false, &none), "parquet");
        assert_eq!(form("a.parquet", true, &none), "parquet");
        assert_eq!(form("a.csv", true, &none), "trials");
        assert_eq!(form("run-1.2", false, &none), "json");
    }

    #[test]
    fn an_export_is_a_form_and_a_file_or_one_of_them() {
        let parsed = |text| {
            let export = Export::parse(text).unwrap();
            (export.form.name, export.path.display().to_string())
        };
        assert_eq!(parsed("junit=a.xml"), ("junit", String::from("a.xml")));
        assert_eq!(parsed("brief=-"), ("brief", String::from("-")));
        assert_eq!(parsed("github"), ("github", String::from("-")));
        assert_eq!(parsed("a/times.csv"), ("csv", String::from("a/times.csv")));
        assert!(Export::parse("a.pdf").unwrap_err().message.contains("says no form"));
        let unknown = Export::parse("junti=a.xml").unwrap_err();
        assert_eq!(unknown.message, "there is no form `junti`");
        assert!(unknown.hint.unwrap().starts_with("use `junit`"));
    }

    #[test]
    fn a_form_goes_where_its_name_fits_and_one_at_most_to_standard_output() {
        let exports = |texts: &[&str]| Exports {
            export: texts.iter().map(|text| Export::parse(text).unwrap()).collect(),
        };
        exports(&["junit=a.xml", "github=-", "bmf=b.json"]).require_places().unwrap();
        let fault = exports(&["junit=a.json"]).require_places().unwrap_err();
        assert!(fault.message.contains("no `.json` file is written here"), "{fault}");
        let fault = exports(&["github", "brief"]).require_places().unwrap_err();
        assert!(fault.message.starts_with("several forms"), "{fault}");
        assert!(exports(&["github"]).take_standard_output());
        assert!(!exports(&["a.csv"]).take_standard_output());
    }
}
