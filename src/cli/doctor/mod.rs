//! `surtax doctor`: which layers work here, what would make the others work, what disturbs
//! measurement.
//!
//! Looks, and changes nothing. The layers are asked in parallel and each answer has a deadline, so
//! that one daemon that hangs does not hide what the others say.

mod checks;
mod disturbance;
mod lines;
pub(super) mod options;
mod questions;

use super::completions::candidates;
use super::rows::Rows;
use super::run_and_report::OpenedLab;
use super::{Format, Globals, answer};
use crate::fault::{Doing, Fault};
use crate::lab::us;
use crate::report::json;
use crate::report::page::Page;
use crate::report::terminal::{Colour, Look};
pub use checks::{Check, Finding, run_all};
use disturbance::{Disturbance, State};
use lines::Line;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time for which the host is watched for what else runs on it.
const WATCH: Duration = Duration::from_millis(500);

/// Mark that stands before a line; two spaces before it and one behind.
const GOOD: char = '✓';
const BAD: char = '✗';
const WARNING: char = '!';
const UNKNOWN: char = '?';
const MARK_WIDTH: usize = 4;

/// Flags of `surtax doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/doctor.txt"))]
pub struct Arguments {
    /// Asks these layers only, and not what disturbs measurement.
    #[arg(value_name = "LAYER", add = candidates::layer())]
    layers: Vec<String>,
    /// Shows every form of all layers, and not a line for each layer.
    #[arg(long)]
    all: bool,
    /// Shows the options that each layer takes instead.
    #[arg(long)]
    options: bool,
}

/// Everything that is said, in the shape of `--format json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Diagnosis {
    schema_version: u32,
    surtax_version: &'static str,
    layers: Vec<Finding>,
    /// Absent where only some layers were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Vec<Disturbance>>,
}

/// Words for who is not root, above all else.
const WITHOUT_ROOT: &str = "Without root layers run in a user namespace of your own. `sudo` adds \
                            limits, stacks of several layers, what those who work for a stack \
                            use, and the layers that ask for it below.";

/// Asks every layer and this host, and prints what they say.
///
/// # Errors
/// The machine's, when the answer cannot be written.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let format = globals.format();
    let asked = questions::asked(&arguments.layers)?;
    if arguments.options {
        return answer(&options::text(&asked, format, globals.look()));
    }
    // The host first: our own questions to the layers would look like somebody else's work.
    let host = arguments.layers.is_empty().then(|| disturbance::look(Path::new("/"), WATCH));
    let opened = Arc::new(OpenedLab::open(globals)?);
    let layers = run_all(questions::about(&asked, &opened)?);
    // A check that was given up still holds the lab; then the reaper closes it when we are gone.
    if let Some(opened) = Arc::into_inner(opened) {
        opened.close(globals)?;
    }
    let surtax_version = env!("CARGO_PKG_VERSION");
    let diagnosis = Diagnosis { schema_version: 1, surtax_version, layers, host };
    let is_brief = arguments.layers.is_empty() && !arguments.all;
    answer(&text(&diagnosis, is_brief, format, globals.look())?)
}

fn text(
    diagnosis: &Diagnosis,
    is_brief: bool,
    format: Format,
    look: Look,
) -> Result<String, Fault> {
    let rows = |between: &str| {
        let layers = rows_of_layers(diagnosis).text(format, None);
        let host = diagnosis.host.as_deref().map(|host| rows_of_host(host).text(format, None));
        layers + &host.map_or_else(String::new, |host| format!("{between}{host}"))
    };
    Ok(match format {
        Format::Json => json::pretty(diagnosis).doing("write JSON")?,
        Format::Table => painted(&shown(diagnosis, is_brief, look.width), look.colour),
        Format::Csv => rows("\r\n"),
        Format::Markdown => rows("\n"),
    })
}

/// The answer for people: a mark, a name, what was found; below it what would help.
fn shown(diagnosis: &Diagnosis, is_brief: bool, width: u16) -> String {
    let mut page = Page::new(width);
    let of = if is_brief { lines::of_layers } else { lines::of_forms };
    let lines = of(&diagnosis.layers);
    let host = diagnosis.host.as_deref().unwrap_or_default();
    let names = lines.iter().map(|line| line.name.chars().count());
    let names = names.chain(host.iter().map(|seen| seen.code.len())).max().unwrap_or(0);
    let indent = MARK_WIDTH + names + 2;
    if us::is_in_a_namespace() {
        page.paragraph("", WITHOUT_ROOT, 0);
        page.add("\n");
    }
    page.add("Layers\n");
    for Line { name, usable, found, remedy } in &lines {
        let mark = if *usable { GOOD } else { BAD };
        // What a tool said has lines of its own.
        let mut label = format!("  {mark} {name:names$}  ");
        for text in found.split('\n') {
            page.paragraph(&label, text.trim_start(), indent);
            label = " ".repeat(indent);
        }
        if let Some(remedy) = remedy {
            page.unbroken(&format!("{:indent$}→ ", ""), remedy);
        }
    }
    if diagnosis.host.is_some() {
        page.add("\nWhat disturbs measurement here\n");
    }
    for seen in host {
        let mark = match seen.state {
            State::Fine => GOOD,
            State::Disturbs => WARNING,
            State::Unknown => UNKNOWN,
        };
        page.paragraph(&format!("  {mark} {:names$}  ", seen.code), &seen.finding, indent);
        if let Some(advice) = &seen.advice {
            page.paragraph(&format!("{:indent$}→ ", ""), advice, indent + 2);
        }
    }
    page.gap();
    let usable = lines.iter().filter(|line| line.usable).count();
    let more = match is_brief {
        true => {
            "layers are usable; `surtax doctor LAYER` shows every form of one, `--all` of all, and \
             `--options` what each takes."
        }
        false => "forms are usable; `surtax doctor --options` lists what each layer takes.",
    };
    page.paragraph("", &format!("{usable} of {} {more}", lines.len()), 0);
    if let Some(line) = not_yet_run(&diagnosis.layers) {
        page.paragraph("", &line, 0);
    }
    page.finish()
}

/// Marks in the colours of their meaning.
fn painted(text: &str, colour: Colour) -> String {
    let paint = |line: &str| {
        for (mark, color) in [(GOOD, 32), (BAD, 31), (WARNING, 33)] {
            if let Some(rest) = line.strip_prefix(&format!("  {mark} ")) {
                return format!("  \x1b[{color}m{mark}\x1b[0m {rest}\n");
            }
        }
        format!("{line}\n")
    };
    if colour == Colour::No { text.to_owned() } else { text.lines().map(paint).collect() }
}

/// Names what has run in emulation at most: a layer, or those of its forms.
fn not_yet_run(findings: &[Finding]) -> Option<String> {
    // To translate is no hardware's business.
    let is_emulated =
        |finding: &&Finding| !finding.ran_on_hardware && !finding.layer.contains("accel=tcg");
    let emulated: Vec<String> = lines::by_layer(findings)
        .flat_map(|forms| match forms.iter().all(|form| is_emulated(&form)) {
            true => vec![format!("`{}`", forms[0].kind)],
            false => forms.iter().filter(is_emulated).map(|it| format!("`{}`", it.layer)).collect(),
        })
        .collect();
    (!emulated.is_empty()).then(|| {
        let names = emulated.join(", ");
        format!("Not yet run on real hardware by surtax's authors, in emulation at most: {names}.")
    })
}

fn rows_of_layers(diagnosis: &Diagnosis) -> Rows {
    let mut rows = Rows::new(&["Layer", "Usable", "Ran on hardware", "What was found", "Remedy"]);
    for finding in &diagnosis.layers {
        let yes = |said: bool| String::from(if said { "yes" } else { "no" });
        rows.push(vec![
            finding.layer.clone(),
            yes(finding.usable),
            yes(finding.ran_on_hardware),
            finding.why.clone().unwrap_or_else(|| finding.facts_text()),
            finding.remedy.clone().unwrap_or_default(),
        ]);
    }
    rows
}

fn rows_of_host(host: &[Disturbance]) -> Rows {
    let mut rows = Rows::new(&["Host", "State", "What was found", "Advice"]);
    for seen in host {
        rows.push(vec![
            seen.code.to_owned(),
            seen.state.word().to_owned(),
            seen.finding.clone(),
            seen.advice.clone().unwrap_or_default(),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests;
