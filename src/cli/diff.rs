//! `surtax diff`: what two runs of one question differ in.

use super::completions::candidates;
use super::{Format, Globals, answer, rows, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::diff::{Diff, diff, require_two};
use crate::finding::of_metric;
use crate::report::{diff as report, json};

/// Flags of `surtax diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/diff.txt"))]
pub struct Arguments {
    /// The earlier run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "BEFORE", add = candidates::run())]
    pub before: String,
    /// The later run.
    #[arg(value_name = "AFTER", default_value = "last", add = candidates::run())]
    pub after: String,
    /// Shows this metric, such as `cpu` or `start`; may be repeated [default: wall
    /// time, or what the workload measures].
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let (_, before) = run_and_report::findings(&arguments.before, globals)?;
    let (_, after) = run_and_report::findings(&arguments.after, globals)?;
    require_two(&before, &after)?;
    let mut found = diff(&before, &after)?;
    let is_of_workload = after.run.workload.is_some();
    of_metric::keep(&mut found.changes, |it| &it.metric, &arguments.metric)?;
    if arguments.metric.is_empty() && globals.is_for_people() {
        of_metric::keep_usual(&mut found.changes, |it| &it.metric, is_of_workload);
    }
    answer(&text(&found, globals)?)
}

fn text(found: &Diff, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format();
    if format == Format::Json {
        return json::pretty(found).doing("write the difference as JSON");
    }
    if format == Format::Csv {
        return Ok(report::csv(found));
    }
    let above = rows::above(&report::said(found), format, globals);
    Ok(above + &report::rows(found).text(format, globals.table_width()))
}
