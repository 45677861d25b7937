//! `surtax diff`: what two runs of one question differ in.

use super::rows::{self, Rows};
use super::{Format, Globals, answer, of_metric, run_and_report};
use crate::fault::{Doing, Fault};
use crate::finding::diff::{Basis, ChangeVerdict, Diff, diff};
use crate::finding::number::GAP;
use crate::finding::threshold::typed_name;
use crate::finding::{foreign, number};
use crate::report::json;

/// Flags of `surtax diff`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each stack is compared by what it costs over its own run's native, so that what \
                  makes a whole day slower is in neither number. A change is one where its whole \
                  95 % interval lies on one side and it is larger than either run's noise floor; \
                  each verdict stands alone, and native's own time gets none.\n\nExamples\n  \
                  surtax diff monday tuesday\n  surtax diff old.surtax last --metric cpu\n  \
                  surtax diff monday last --format json"
)]
pub struct Arguments {
    /// The earlier run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "BEFORE")]
    pub before: String,
    /// The later run.
    #[arg(value_name = "AFTER", default_value = "last")]
    pub after: String,
    /// Shows this metric, such as `cpu` or `start`; may be repeated [default: wall
    /// time, or what the workload measures].
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let (_, before) = run_and_report::findings(&arguments.before, globals)?;
    let (_, after) = run_and_report::findings(&arguments.after, globals)?;
    if before.run.id == after.run.id {
        return Err(Fault::user("both are the same run")
            .hint("name two; `surtax list` shows those that are kept"));
    }
    let mut found = diff(&before, &after)?;
    let is_of_workload = after.run.workload.is_some();
    of_metric::keep(
        &mut found.changes,
        |it| &it.metric,
        &arguments.metric,
        is_of_workload,
        globals,
    )?;
    answer(&text(&found, globals)?)
}

fn text(found: &Diff, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format_or(Format::Table);
    if format == Format::Json {
        return json::pretty(found).doing("write the difference as JSON");
    }
    if format == Format::Csv {
        return Ok(csv(found));
    }
    let above = rows::above(&said(found), format, globals);
    let mut rows = Rows::new(&["Stack", "Metric", "Before", "After", "Change", "Verdict"]);
    for change in &found.changes {
        let own = match change.basis {
            Basis::Baseline => String::new(),
            Basis::Absolute => String::from(" itself"),
        };
        rows.push(vec![
            format!("{}{own}", change.stack),
            typed_name(&change.metric).into(),
            change.told(&change.before),
            change.told(&change.after),
            number::overhead(&change.change),
            change.verdict.map_or(GAP, ChangeVerdict::word).into(),
        ]);
    }
    Ok(above + &rows.text(format, globals.table_width()))
}

/// Says what may be concluded, and what stands in the way.
fn said(found: &Diff) -> Vec<String> {
    let mut lines = vec![format!("both were measured on {}", found.machine.words())];
    for change in &found.machine_changes {
        let [key, before, after] =
            [&change.key, &change.before, &change.after].map(|text| foreign::line(text));
        lines.push(format!("`{key}` was `{before}`, and is `{after}`"));
    }
    if found.before.cwd != found.after.cwd {
        let [one, other] = [&found.before.cwd, &found.after.cwd].map(|text| foreign::line(text));
        lines.push(format!(
            "the command was run in `{one}`, then in `{other}`: a path that begins there may be \
             another file"
        ));
    }
    for missing in &found.missing {
        let [stack, because] = [&missing.stack, &missing.because].map(|text| foreign::line(text));
        lines.push(format!("nothing is said of `{stack}`: {because}"));
    }
    for (which, run) in [("earlier", &found.before), ("later", &found.after)] {
        if let Some(worst) = run.cautions.first() {
            let count = number::count(run.cautions.len(), "caution");
            let finding = foreign::line(&worst.finding);
            lines.push(format!("the {which} run has {count}, first that {finding}"));
        }
    }
    lines
}

fn csv(found: &Diff) -> String {
    let mut rows = Rows::new(&[
        "stack",
        "metric",
        "unit",
        "basis",
        "before",
        "before low",
        "before high",
        "after",
        "after low",
        "after high",
        "change",
        "change low",
        "change high",
        "verdict",
    ]);
    for change in &found.changes {
        let (basis, unit) = match change.basis {
            Basis::Baseline => ("baseline", "ratio"),
            Basis::Absolute => ("absolute", change.unit.as_str()),
        };
        let mut row = vec![
            change.stack.clone(),
            change.metric.clone(),
            String::from(unit),
            String::from(basis),
        ];
        for it in [&change.before, &change.after, &change.change] {
            row.extend([it.ratio, it.low, it.high].map(|value| value.to_string()));
        }
        row.push(change.verdict.map_or("", ChangeVerdict::word).into());
        rows.push(row);
    }
    rows.text(Format::Csv, None)
}
