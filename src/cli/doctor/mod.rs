//! `surtax doctor`: which layers work here, what would make the others work, what disturbs
//! measurement.
//!
//! Looks, and changes nothing. The layers are asked in parallel and each answer has a deadline, so
//! that one daemon that hangs does not hide what the others say.

mod checks;
mod disturbance;
mod options;
mod questions;

use super::rows::Rows;
use super::run_and_report::OpenedLab;
use super::{Format, Globals, answer};
use crate::driver::registered;
use crate::fault::{Doing, Fault};
use crate::report::page::Page;
use crate::report::terminal::{Colour, Look};
pub use checks::{Check, Finding, run_all};
use disturbance::{Disturbance, State};
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
pub struct Arguments {
    /// Shows the options that each layer takes instead.
    #[arg(long)]
    options: bool,
}

/// Everything that is said, in the shape of `--format json`.
#[derive(Debug, Serialize)]
struct Diagnosis {
    schema_version: u32,
    surtax_version: &'static str,
    layers: Vec<Finding>,
    host: Vec<Disturbance>,
}

/// Asks every layer and this host, and prints what they say.
///
/// # Errors
/// The machine's, when the answer cannot be written.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let format = globals.format_or(Format::Table);
    if arguments.options {
        return answer(&options::text(&registered(), format, globals.look()));
    }
    // The host first: our own questions to the layers would look like somebody else's work.
    let host = disturbance::look(Path::new("/"), WATCH);
    let opened = Arc::new(OpenedLab::open(globals)?);
    let layers = run_all(questions::about_all(&opened)?);
    // A check that was given up still holds the lab; then the reaper closes it when we are gone.
    if let Some(opened) = Arc::into_inner(opened) {
        opened.close(globals)?;
    }
    let surtax_version = env!("CARGO_PKG_VERSION");
    let diagnosis = Diagnosis { schema_version: 1, surtax_version, layers, host };
    answer(&text(&diagnosis, format, globals.look())?)
}

fn text(diagnosis: &Diagnosis, format: Format, look: Look) -> Result<String, Fault> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(diagnosis).doing("write JSON")? + "\n",
        Format::Table => painted(&shown(diagnosis, look.width), look.colour),
        Format::Csv => {
            rows_of_layers(diagnosis).text(format, None)
                + "\r\n"
                + &rows_of_host(diagnosis).text(format, None)
        }
        Format::Markdown => {
            let (layers, host) = (rows_of_layers(diagnosis), rows_of_host(diagnosis));
            format!("{}\n{}", layers.text(format, None), host.text(format, None))
        }
    })
}

/// The answer for people: a mark, a name, what was found; below it what would help.
fn shown(diagnosis: &Diagnosis, width: u16) -> String {
    let mut page = Page::new(width);
    let names = diagnosis.layers.iter().map(|finding| finding.layer.chars().count());
    let names = names.chain(diagnosis.host.iter().map(|seen| seen.code.len())).max().unwrap_or(0);
    let indent = MARK_WIDTH + names + 2;
    page.add("Layers\n");
    for finding in &diagnosis.layers {
        let mark = if finding.usable { GOOD } else { BAD };
        let found = finding.why.clone().unwrap_or_else(|| finding.facts_text());
        page.paragraph(&format!("  {mark} {:names$}  ", finding.layer), &found, indent);
        if let Some(remedy) = &finding.remedy {
            page.unbroken(&format!("{:indent$}→ ", ""), remedy);
        }
    }
    page.add("\nWhat disturbs measurement here\n");
    for seen in &diagnosis.host {
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
    for line in summary(diagnosis) {
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

fn summary(diagnosis: &Diagnosis) -> Vec<String> {
    let usable = diagnosis.layers.iter().filter(|finding| finding.usable).count();
    let all = diagnosis.layers.len();
    let mut lines = vec![format!(
        "{usable} of {all} layers are usable; `surtax doctor --options` lists the options of each."
    )];
    let mut emulated: Vec<String> = Vec::new();
    // To translate is no hardware's business.
    let is_emulated =
        |finding: &&Finding| !finding.ran_on_hardware && !finding.layer.contains("accel=tcg");
    for finding in diagnosis.layers.iter().filter(is_emulated) {
        let name = format!("`{}`", finding.layer);
        if !emulated.contains(&name) {
            emulated.push(name);
        }
    }
    if !emulated.is_empty() {
        let names = emulated.join(", ");
        lines.push(format!(
            "Not yet run on real hardware by surtax's authors, in emulation at most: {names}."
        ));
    }
    lines
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

fn rows_of_host(diagnosis: &Diagnosis) -> Rows {
    let mut rows = Rows::new(&["Host", "State", "What was found", "Advice"]);
    for seen in &diagnosis.host {
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
