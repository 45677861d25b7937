//! `surtax doctor`: which layers work here, what would make the others work, what disturbs measurement.
//!
//! Looks, and changes nothing. The layers are asked in parallel and each answer has a deadline, so
//! that one daemon that hangs does not hide what the others say.

mod checks;
mod disturbance;
mod questions;

use super::measuring::Footing;
use super::rows::Rows;
use super::{Format, Globals, answer};
use crate::fault::{Doing, Fault};
use crate::layer::{Card, Limit};
use crate::stack::registered;
pub use checks::{Check, Finding, run_all};
use disturbance::Disturbance;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the host is watched for what else runs on it.
const WATCH: Duration = Duration::from_millis(500);

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
        return answer(&options(&registered(), format));
    }
    // The host first: our own questions to the layers would look like somebody else's work.
    let host = disturbance::look(Path::new("/"), WATCH);
    let footing = Arc::new(Footing::open(globals)?);
    let layers = run_all(questions::about_all(&footing)?);
    // A check that was given up still holds the lab; then the reaper closes it when we are gone.
    if let Some(footing) = Arc::into_inner(footing) {
        footing.close(globals)?;
    }
    let surtax_version = env!("CARGO_PKG_VERSION");
    let diagnosis = Diagnosis { schema_version: 1, surtax_version, layers, host };
    answer(&text(&diagnosis, format, globals.colors_output())?)
}

fn text(diagnosis: &Diagnosis, format: Format, colors: bool) -> Result<String, Fault> {
    if format == Format::Json {
        return Ok(serde_json::to_string_pretty(diagnosis).doing("write JSON")? + "\n");
    }
    let mut layers = Rows::new(&["Layer", "Usable", "Ran on hardware", "What was found", "Remedy"]);
    for finding in &diagnosis.layers {
        let yes = |said: bool| String::from(if said { "yes" } else { "no" });
        layers.push(vec![
            finding.layer.clone(),
            yes(finding.usable),
            yes(finding.ran_on_hardware),
            finding.why.clone().unwrap_or_else(|| finding.facts_text()),
            finding.remedy.clone().unwrap_or_default(),
        ]);
    }
    let mut host = Rows::new(&["Host", "State", "What was found", "Advice"]);
    for seen in &diagnosis.host {
        let advice = seen.advice.clone().unwrap_or_default();
        host.push(vec![
            seen.code.to_owned(),
            seen.state.word().to_owned(),
            seen.finding.clone(),
            advice,
        ]);
    }
    let (layers, host) = (layers.text(format), host.text(format));
    Ok(match format {
        Format::Csv => layers + "\r\n" + &host,
        Format::Markdown => format!("{layers}\n{host}"),
        _ if colors => format!("{}\n{}\n{}", colored(&layers), colored(&host), legend(diagnosis)),
        _ => format!("{layers}\n{host}\n{}", legend(diagnosis)),
    })
}

/// The words that matter in green or red, in the columns where they stand alone.
fn colored(table: &str) -> String {
    let paint = |line: &str| {
        for (word, color) in
            [("  yes  ", 32), ("  no  ", 31), ("  disturbs  ", 31), ("  fine  ", 32)]
        {
            if let Some((before, after)) = line.split_once(word) {
                return format!("{before}\x1b[{color}m{word}\x1b[0m{after}");
            }
        }
        line.to_owned()
    };
    table.lines().map(paint).collect::<Vec<_>>().join("\n") + "\n"
}

fn legend(diagnosis: &Diagnosis) -> String {
    let usable = diagnosis.layers.iter().filter(|finding| finding.usable).count();
    let all = diagnosis.layers.len();
    format!(
        "{usable} of {all} layers are usable. `Ran on hardware` says whether surtax's authors ran the layer on the\n\
         hardware that it is made for, or only in emulation. `surtax doctor --options` lists what each takes.\n"
    )
}

fn options(cards: &[&'static Card], format: Format) -> String {
    let mut rows = Rows::new(&["Layer", "Option", "Values", "What it does"]);
    let mut known: Vec<&str> = Vec::new();
    for card in cards {
        if known.contains(&card.kind) {
            continue;
        }
        known.push(card.kind);
        rows.push(vec![
            card.kind.to_owned(),
            String::new(),
            String::new(),
            card.summary.to_owned(),
        ]);
        for choice in card.options {
            let values = if choice.values.is_empty() {
                String::from("any")
            } else {
                choice.values.join(" ")
            };
            rows.push(vec![
                card.kind.to_owned(),
                choice.key.to_owned(),
                values,
                choice.help.to_owned(),
            ]);
        }
        for limit in card.limits {
            let (key, values, help) = limit_text(*limit);
            rows.push(vec![
                card.kind.to_owned(),
                key.to_owned(),
                values.to_owned(),
                help.to_owned(),
            ]);
        }
        let roots = if card.kind == "native" {
            "overlay host dir:PATH oci:PATH"
        } else {
            "overlay dir:PATH oci:PATH"
        };
        let help =
            "where the root file system comes from; `overlay`, the default, is this machine's own";
        rows.push(vec![
            card.kind.to_owned(),
            String::from("root"),
            String::from(roots),
            String::from(help),
        ]);
    }
    rows.text(format)
}

fn limit_text(limit: Limit) -> (&'static str, &'static str, &'static str) {
    match limit {
        Limit::Cpus => {
            ("cpus", "2 0.5", "CPUs' worth of time; in a virtual machine the number of CPUs")
        }
        Limit::Cpuset => ("cpuset", "0-1;3", "this machine's CPUs that it may run on"),
        Limit::Memory => ("memory", "512M 2G", "the most memory; in a virtual machine its size"),
        Limit::Pids => ("pids", "100", "the most processes and threads"),
    }
}

#[cfg(test)]
mod tests;
