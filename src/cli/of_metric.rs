//! Choice of metrics: of those that runs have in common, what is shown.

use super::{Format, Globals};
use crate::fault::Fault;
use crate::finding::estimate::{WALL, is_of_every_trial};
use crate::finding::threshold::typed_name;
use crate::layer::instead;
use std::collections::BTreeSet;

/// Keeps what is of the metrics that were asked for. Unless one is named, people see wall time, or
/// what a workload measures, and JSON and CSV have all.
///
/// # Errors
/// The user's: there is no such metric.
pub(super) fn keep<T>(
    all: &mut Vec<T>,
    metric: impl Fn(&T) -> &str,
    asked: &[String],
    is_of_workload: bool,
    globals: &Globals,
) -> Result<(), Fault> {
    let known: BTreeSet<&str> = all.iter().map(|it| typed_name(metric(it))).collect();
    if let Some(unknown) = asked.iter().find(|asked| !known.contains(typed_name(asked))) {
        let shown = unknown.escape_debug();
        return Err(Fault::user(format!("there is no metric `{shown}`")).hint(instead(
            unknown,
            "metrics",
            known.iter().copied(),
        )));
    }
    let is_for_people =
        matches!(globals.format_or(Format::Table), Format::Table | Format::Markdown);
    let is_usual = |it: &T| match is_of_workload {
        true => !is_of_every_trial(metric(it)),
        false => metric(it) == WALL,
    };
    let has_usual = all.iter().any(is_usual);
    all.retain(|it| match asked.is_empty() {
        true => !is_for_people || !has_usual || is_usual(it),
        false => asked.iter().any(|asked| typed_name(asked) == typed_name(metric(it))),
    });
    Ok(())
}
