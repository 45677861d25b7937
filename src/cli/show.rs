//! `surtax show`: the results of a run, on the terminal.

use super::completions::candidates;
use super::export::Exports;
use super::results::{GateArguments, hold};
use super::{Globals, answer, exit_code, note, run_and_report};
use crate::fault::Fault;
use crate::finding::RunFacts;
use crate::finding::caution::compared;
use crate::finding::threshold::Metrics;
use crate::plan::shell_line;
use crate::workload::metric::RESERVED;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// Flags of `surtax show`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub run: String,
    #[command(flatten)]
    exports: Exports,
    #[command(flatten)]
    gate: GateArguments,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    arguments.exports.require_places()?;
    arguments.gate.require_looks(None)?;
    let (_, mut findings) = run_and_report::findings(&arguments.run, globals)?;
    let metrics = findings.arms.iter().flat_map(|arm| &arm.metrics);
    let names: BTreeSet<String> = metrics.map(|metric| metric.metric.clone()).collect();
    let is_of_workload = |name: &String| !RESERVED.contains(&name.as_str());
    let names: Vec<String> = names.into_iter().filter(is_of_workload).collect();
    let compared: Vec<String> = compared(&findings.arms).map(|arm| arm.stack.clone()).collect();
    let is_of_fixed_time = findings.run.is_of_fixed_time;
    let metrics = Metrics { of_workload: &names, is_of_fixed_time };
    let RunFacts { cwd, baseline, .. } = &findings.run;
    arguments.gate.require_among(metrics, &compared, (Path::new(cwd), baseline))?;
    hold(&arguments.gate, &mut findings);
    arguments.exports.write(&findings)?;
    if !arguments.exports.take_standard_output() {
        answer(&run_and_report::text(&findings, globals.format(), globals.look()))?;
    }
    if findings.run.state == "interrupted" {
        let run = shell_line([arguments.run.as_str()]);
        note(&format!("the run was interrupted: `surtax resume {run}` continues it"), globals);
    }
    Ok(exit_code::of_thresholds(&findings, arguments.gate.undecided))
}
