//! `surtax history`: what each stack cost in all runs of one question, and since when.

use super::completions::candidates;
use super::{Format, Globals, answer, note, rows, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::gathered::Gathered;
use crate::finding::history::{History, Series, history};
use crate::finding::{Findings, of_metric};
use crate::ledger::shelf;
use crate::report::{history as report, json};

/// Flags of `surtax history`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/history.txt"))]
pub struct Arguments {
    /// One run: all that are kept and ask the same. Several: these. Each is a file, a part of a
    /// name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub runs: Vec<String>,
    /// Shows this metric, such as `cpu` or `start`; may be repeated [default: wall
    /// time, or what the workload measures].
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let runs = match &arguments.runs[..] {
        [one] => of_one_question(one, globals)?,
        several => {
            let found = several.iter().map(|run| run_and_report::findings(run, globals));
            found.map(|found| Ok(found?.1)).collect::<Result<Vec<_>, Fault>>()?
        }
    };
    let is_of_workload = runs.iter().any(|it| it.run.workload.is_some());
    let mut found = history(runs)?;
    of_metric::keep(&mut found.series, |it| &it.metric, &arguments.metric)?;
    if arguments.metric.is_empty() && globals.is_for_people() {
        of_metric::keep_usual(&mut found.series, |it| &it.metric, is_of_workload);
    }
    answer(&text(&found, globals)?)
}

/// A run, and all that are kept and ask the same.
fn of_one_question(run: &str, globals: &Globals) -> Result<Vec<Findings>, Fault> {
    let path = shelf::find(&shelf::directories()?, run)?;
    let directories = run_and_report::shelf_directories(globals)?;
    let gathered = Gathered::of(&path, &directories, usize::MAX)?;
    gathered.notes.iter().for_each(|text| note(text, globals));
    Ok(gathered.runs)
}

fn text(found: &History, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format();
    if format == Format::Json {
        return json::pretty(found).doing("write the history as JSON");
    }
    if format == Format::Csv {
        return Ok(report::csv(found));
    }
    let above = rows::above(&report::said(found), format, globals);
    if format == Format::Markdown {
        return Ok(above + &report::rows(found).text(format, None));
    }
    // A stack's name may be long: it stands above its own table.
    let table = |series: &Series| {
        let rows = report::series_rows(found, series).text(format, globals.table_width());
        format!("{}\n{rows}", report::series_name(series))
    };
    Ok(found.series.iter().map(table).collect::<Vec<_>>().join("\n"))
}
