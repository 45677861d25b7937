//! `surtax workload`: what there is to run by name, what one of them measures, and whether a file of
//! the user's own is right.

use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::fault::{Doing, Fault};
use crate::lab;
use crate::report::{foreign, number};
use crate::workload::definition::{Limits, Rule};
use crate::workload::{Definition, Workload, shelf};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Flags of `surtax workload`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples\n  surtax compare --in native,runc --workload cpu.sysbench:threads=2\n  surtax workload check ./mine.toml --output what-it-printed.txt"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists the workloads that come with surtax, and those of your own.
    List,
    /// Shows what a workload runs, measures and takes, with its parameters filled in.
    Show {
        /// The workload, with parameters if you like: `NAME:key=value`.
        #[arg(value_name = "NAME")]
        name: String,
        /// Prints its file, to begin one of your own with.
        #[arg(long)]
        file: bool,
    },
    /// Reads a workload file, and says what is wrong with it.
    Check {
        /// The file.
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
        /// Also reads what its tool printed, from this file, and shows the numbers.
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
#[derive(serde::Serialize)]
struct Line {
    name: String,
    about: String,
    parameters: Vec<ParameterLine>,
    metrics: Vec<MetricLine>,
    needs_scratch: bool,
    packages: Vec<(String, Vec<String>)>,
    /// Whether its program is in `PATH` here.
    is_installed: bool,
    /// The user's file, of one that does not come with surtax.
    path: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct ParameterLine {
    name: String,
    about: String,
    default: String,
    may_be: String,
}

#[derive(serde::Serialize)]
struct MetricLine {
    name: String,
    unit: &'static str,
    better: &'static str,
}

fn line(name: &str, definition: &Definition, path: Option<PathBuf>) -> Line {
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
    Line {
        name: name.to_owned(),
        about: definition.about.clone(),
        parameters: parameters.collect(),
        metrics: rules.map(metric).collect(),
        needs_scratch: definition.scratch,
        packages: definition.packages.clone(),
        is_installed: definition.is_built_in() || lab::find(program).is_some(),
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
    let format = globals.format_or(Format::Table);
    if format == Format::Json {
        return answer(
            &(serde_json::to_string_pretty(&lines).doing("write the workloads as JSON")? + "\n"),
        );
    }
    let mut rows = Rows::new(&["Workload", "Parameters", "Installed", "About"]);
    for line in lines {
        let parameters: Vec<String> =
            line.parameters.iter().map(|it| format!("{}={}", it.name, it.default)).collect();
        let installed = if line.is_installed { "yes" } else { "no" };
        let about = line.about;
        rows.push(vec![line.name, parameters.join(" "), String::from(installed), about]);
    }
    answer(&rows.text(format, globals.table_width()))
}

fn show(name: &str, globals: &Globals) -> Result<(), Fault> {
    let workload = Workload::find(name)?;
    let definition = workload.resolve()?;
    if globals.format_or(Format::Table) == Format::Json {
        let line = line(&workload.name, &definition, None);
        return answer(
            &(serde_json::to_string_pretty(&line).doing("write a workload as JSON")? + "\n"),
        );
    }
    answer(&shown(&workload, &definition))
}

/// What a workload is, for people.
fn shown(workload: &Workload, definition: &Definition) -> String {
    let shell = |words: &[String]| crate::plan::shell_line(words.iter().map(String::as_str));
    let mut text = format!("{}: {}\n\n", workload.typed(), definition.about);
    // Writing into a string cannot fail.
    let mut say = |label: &str, what: &str| {
        let _ = writeln!(text, "  {label:9}  {}", foreign::line(what));
    };
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
        let (name, unit, better) = (&rule.name, rule.unit.kept, rule.better.word());
        say("metric", &format!("{name} in {unit}, {better} is better{}", plausible(rule)));
    }
    for rule in &definition.histograms {
        say(
            "histogram",
            &format!("{} of times, as quantiles `{}_p50` and so on", rule.name, rule.name),
        );
    }
    text
}

fn plausible(rule: &Rule) -> String {
    if rule.limits == Limits::default() {
        return String::new();
    }
    format!("; {} {} is plausible", rule.limits.words(), rule.unit.printed)
}

fn check(file: &Path, output: Option<&Path>, globals: &Globals) -> Result<(), Fault> {
    let text = shelf::read(file)?;
    let name = file.display().to_string();
    let definition = Definition::parse(&text, &foreign::line(&name))?;
    let count = number::count(definition.metrics.len() + definition.histograms.len(), "metric");
    let Some(output) = output else {
        note(&format!("`{}` is a workload with {count}", foreign::line(&name)), globals);
        return Ok(());
    };
    let shown = output.display();
    let printed = std::fs::read(output).map_err(|error| {
        Fault::user(format!("cannot read what the tool printed in `{shown}`: {error}"))
    })?;
    let reading = definition.read(&String::from_utf8_lossy(&printed)).map_err(|why| {
        Fault::user(format!("what is in `{shown}` would make a trial invalid: {why}"))
            .hint("correct the file, or record the output of the version that it is for")
    })?;
    let mut rows = Rows::new(&["Metric", "Value", "Unit", "Better"]);
    for metric in &reading.metrics {
        let (unit, better) = (metric.unit.to_owned(), metric.better.word().to_owned());
        rows.push(vec![metric.name.clone(), metric.value.to_string(), unit, better]);
    }
    answer(&rows.text(globals.format_or(Format::Table), globals.table_width()))
}
