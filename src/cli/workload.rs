//! `surtax workload`: what there is to run by name, what one of them measures, and whether a file
//! of the user's own is right.

use super::completions::candidates;
use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::fault::{Doing, Fault};
use crate::finding::{foreign, number};
use crate::lab;
use crate::report::json;
use crate::workload::definition::{Limits, Rule};
use crate::workload::{Definition, OUTPUT_LIMIT, Workload, shelf};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Name that stands for standard input in the place of a file.
const STANDARD_INPUT: &str = "-";

/// Number of bytes of an output that are read: enough to see that it is too long.
const INPUT_LIMIT: u64 = OUTPUT_LIMIT as u64 + 1;

/// Flags of `surtax workload`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/workload.txt"))]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists the workloads that come with surtax, and those of your own.
    List,
    /// Shows what a workload runs, measures and takes, with its parameters filled in.
    Show {
        /// The workload, with parameters if you like: `NAME:key=value`.
        #[arg(value_name = "NAME", add = candidates::workload())]
        name: String,
        /// Prints its file, to begin one of your own with.
        #[arg(long)]
        file: bool,
    },
    /// Reads a workload file, and says what is wrong with it.
    Check {
        /// The file, or the name of a workload that is listed.
        #[arg(value_name = "FILE.toml", add = candidates::workload())]
        file: String,
        /// Also reads what its tool printed on standard output, from this file or `-`, and shows
        /// all that is read.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    match &arguments.command {
        Command::List => list(globals),
        Command::Show { name, file: true } => answer(&Workload::find(name)?.text),
        Command::Show { name, file: false } => show(name, globals),
        Command::Check { file, output } => check(file, output.as_deref(), globals),
    }
}

/// One workload, as `--format json` shows it.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(super) struct WorkloadRow {
    name: String,
    about: String,
    parameters: Vec<ParameterLine>,
    metrics: Vec<MetricLine>,
    needs_scratch: bool,
    packages: Vec<(String, Vec<String>)>,
    /// True if the workload's program is in `PATH` here.
    is_installed: bool,
    /// The user's file, of one that does not come with surtax.
    path: Option<PathBuf>,
    /// True if that file stands in the place of one that comes with surtax.
    is_replaced: bool,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct ParameterLine {
    name: String,
    about: String,
    default: String,
    may_be: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct MetricLine {
    name: String,
    unit: &'static str,
    better: &'static str,
}

fn line(name: &str, definition: &Definition, path: Option<PathBuf>) -> WorkloadRow {
    let parameters = definition.parameters.iter().map(|it| ParameterLine {
        name: it.name.clone(),
        about: it.about.clone(),
        default: it.default.clone(),
        may_be: it.kind.words(),
    });
    let rules = definition.metrics.iter().chain(&definition.histograms);
    let metric = |rule: &Rule| MetricLine {
        name: rule.name.clone(),
        unit: rule.unit.kept,
        better: rule.better.word(),
    };
    let program = definition.command.first().map_or("", String::as_str);
    WorkloadRow {
        name: name.to_owned(),
        about: foreign::line(&definition.about),
        parameters: parameters.collect(),
        metrics: rules.map(metric).collect(),
        needs_scratch: definition.scratch,
        packages: definition.packages.clone(),
        is_installed: definition.is_built_in() || lab::find(program).is_some(),
        is_replaced: path.is_some() && shelf::is_ready(name),
        path,
    }
}

fn list(globals: &Globals) -> Result<(), Fault> {
    let mut lines = Vec::new();
    for listed in shelf::all()? {
        // A file of the user's that is wrong hides none of the others.
        match Workload::find(&listed.name).and_then(|found| found.resolve()) {
            Ok(definition) => lines.push(line(&listed.name, &definition, listed.path)),
            Err(fault) => note(&fault.to_string(), globals),
        }
    }
    let format = globals.format();
    if format == Format::Json {
        return answer(&json::pretty(&lines).doing("write the workloads as JSON")?);
    }
    let mut rows = Rows::new(&["Workload", "Parameters", "Installed", "About"]);
    for line in lines {
        let parameters: Vec<String> =
            line.parameters.iter().map(|it| format!("{}={}", it.name, it.default)).collect();
        let installed = if line.is_installed { "yes" } else { "no" };
        let about = match &line.path {
            Some(_) if line.is_replaced => {
                format!("(your file, in place of the one that comes with surtax) {}", line.about)
            }
            Some(_) => format!("(your file) {}", line.about),
            None => line.about,
        };
        rows.push(vec![line.name, parameters.join(" "), String::from(installed), about]);
    }
    answer(&rows.text(format, globals.table_width()))
}

fn show(name: &str, globals: &Globals) -> Result<(), Fault> {
    let workload = Workload::find(name)?;
    let definition = workload.resolve()?;
    let path = shelf::own_file(&workload.name)?;
    if globals.format() == Format::Json {
        let line = line(&workload.name, &definition, path);
        return answer(&json::pretty(&line).doing("write a workload as JSON")?);
    }
    answer(&shown(&workload, &definition, path.as_deref()))
}

/// Describes a workload, for people.
fn shown(workload: &Workload, definition: &Definition, own: Option<&Path>) -> String {
    let shell = |words: &[String]| crate::plan::shell_line(words.iter().map(String::as_str));
    let mut text = format!("{}: {}\n\n", workload.typed(), foreign::line(&definition.about));
    // Writing into a string cannot fail.
    let mut say = |label: &str, what: &str| {
        let _ = writeln!(text, "  {label:9}  {}", foreign::line(what));
    };
    if let Some(own) = own {
        let is_replaced = shelf::is_ready(&workload.name);
        let of = if is_replaced { ", in place of the one that comes with surtax" } else { "" };
        say("file", &format!("{}{of}", own.display()));
    }
    for step in &definition.setup {
        say("set-up", &shell(step));
    }
    say("command", &shell(&definition.command));
    for step in &definition.cleanup {
        say("clean-up", &shell(step));
    }
    if let Some(version) = &definition.version {
        say("versions", &format!("{}, by `{}`", version.known.join(", "), shell(&version.command)));
    }
    if let Some(remedy) = definition.remedy() {
        say("install", &remedy);
    }
    if definition.scratch {
        say("needs", "a scratch directory in every stack, as in `runc:scratch=layer`");
    }
    for parameter in &definition.parameters {
        let given = workload.parameters.iter().find(|(key, _)| *key == parameter.name);
        let value = given.map_or(&parameter.default, |(_, value)| value);
        let (name, about, kind) = (&parameter.name, &parameter.about, parameter.kind.words());
        say("parameter", &format!("{name}={value}: {about} ({kind})"));
    }
    for check in &definition.checks {
        say("check", &format!("that {}: {}", check.about, check.limits.words()));
    }
    for rule in &definition.metrics {
        let (name, unit, better) = (&rule.name, rule.unit.printed, rule.better.word());
        let plausible = plausible(rule);
        say("metric", &format!("{name}, printed in {unit}; {better} is better{plausible}"));
    }
    for rule in &definition.histograms {
        say(
            "histogram",
            &format!(
                "{0} of times, printed in {1}; as quantiles `{0}_p50` and so on",
                rule.name, rule.unit.printed
            ),
        );
    }
    text
}

fn plausible(rule: &Rule) -> String {
    if rule.limits == Limits::default() {
        return String::new();
    }
    format!("; {} is plausible", rule.limits.words())
}

fn check(typed: &str, output: Option<&Path>, globals: &Globals) -> Result<(), Fault> {
    let path = Path::new(typed);
    // A path may hold a colon; whatever is no file is read as `--workload` reads it.
    let (name, definition) = if path.is_file() && Workload::find(typed).is_err() {
        let name = foreign::line(typed);
        let definition = Definition::parse(&shelf::read(path)?, &name)?;
        (name, definition)
    } else {
        let workload = Workload::find(typed)?;
        (foreign::line(&workload.typed()), workload.resolve()?)
    };
    let Some(output) = output else {
        let counts = [
            (definition.metrics.len() + definition.histograms.len(), "metric"),
            (definition.checks.len(), "check"),
            (definition.settings.len(), "setting"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| number::count(*count, what)).collect();
        note(&format!("`{name}` is a workload with {}", counts.join(", ")), globals);
        return Ok(());
    };
    let shown = match output.to_str() {
        Some(STANDARD_INPUT) => String::from("what standard input holds"),
        _ => format!("what is in `{}`", output.display()),
    };
    let printed = read_output(output)
        .map_err(|error| Fault::user(format!("cannot read {shown}: {error}")))?;
    let hint = match printed.trim_ascii().is_empty() {
        true => {
            "if the program prints on standard error, add 2>&1, here and in the file: \
             command = [\"sh\", \"-c\", \"PROGRAM 2>&1\"]"
        }
        false => "correct the file, or record the output of the version that it is for",
    };
    let lines = definition.account(&String::from_utf8_lossy(&printed)).map_err(|why| {
        Fault::user(format!("{shown} would make a trial invalid: {why}")).hint(hint)
    })?;
    let mut rows = Rows::new(&["What", "Name", "Value", "Unit", "Plausible"]);
    for line in lines {
        let (kind, unit) = (line.kind.to_owned(), line.unit.to_owned());
        rows.push(vec![kind, line.name, line.value, unit, line.wanted]);
    }
    answer(&rows.text(globals.format(), globals.table_width()))
}

/// Reads what a tool printed, as far as a trial would read it and one byte more.
fn read_output(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    if path.to_str() == Some(STANDARD_INPUT) {
        std::io::stdin().lock().take(INPUT_LIMIT).read_to_end(&mut printed)?;
    } else {
        std::fs::File::open(path)?.take(INPUT_LIMIT).read_to_end(&mut printed)?;
    }
    if printed.len() > OUTPUT_LIMIT as usize {
        let limit = OUTPUT_LIMIT >> 10;
        return Err(std::io::Error::other(format!(
            "no more than {limit} KiB of an output are read"
        )));
    }
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_shown_in_one_unit_and_with_the_file_that_replaces_it() {
        let text = "about = \"x\"\ncommand = [\"x\"]\n[[metric]]\nname = \"time\"\nunit = \"s\"\n\
                    better = \"lower\"\nregex = '(.*)'\nmin = 0.001\nmax = 1000\n";
        let workload = Workload::of("timer", text.to_owned(), Vec::new()).unwrap();
        let definition = workload.resolve().unwrap();
        let own = shown(&workload, &definition, Some(Path::new("/a/timer.toml")));
        let metric = "time, printed in s; lower is better; between 0.001 and 1000 is plausible";
        assert!(own.contains(metric), "{own}");
        assert!(own.contains("/a/timer.toml, in place of the one that comes with surtax"), "{own}");
        assert!(!shown(&workload, &definition, None).contains("in place of"));
        assert!(line("timer", &definition, Some(PathBuf::from("/a/timer.toml"))).is_replaced);
        assert!(!line("mine", &definition, Some(PathBuf::from("/a/mine.toml"))).is_replaced);
        assert!(!line("timer", &definition, None).is_replaced);
    }

    #[test]
    fn what_a_trial_would_not_read_is_refused_here_too() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("printed.txt");
        std::fs::write(&path, vec![b'x'; OUTPUT_LIMIT as usize]).unwrap();
        assert_eq!(read_output(&path).unwrap().len(), OUTPUT_LIMIT as usize);
        std::fs::write(&path, vec![b'x'; OUTPUT_LIMIT as usize + 1]).unwrap();
        let refused = read_output(&path).unwrap_err().to_string();
        assert_eq!(refused, "no more than 256 KiB of an output are read");
    }
}
