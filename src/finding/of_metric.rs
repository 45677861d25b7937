//! Choice of metrics: of those that runs have in common, what is shown.

use super::trial_metric::{WALL, is_of_every_trial, typed};
use crate::fault::Fault;
use crate::layer::instead;
use std::collections::BTreeSet;

/// Keeps what is of the metrics that were asked for; where none is named, all.
///
/// # Errors
/// The user's: there is no such metric.
pub fn keep<T>(
    all: &mut Vec<T>,
    metric: impl Fn(&T) -> &str,
    asked: &[String],
) -> Result<(), Fault> {
    let known: BTreeSet<&str> = all.iter().map(|it| typed(metric(it))).collect();
    if let Some(unknown) = asked.iter().find(|asked| !known.contains(typed(asked))) {
        let shown = unknown.escape_debug();
        return Err(Fault::user(format!("there is no metric `{shown}`")).hint(instead(
            unknown,
            "metrics",
            known.iter().copied(),
        )));
    }
    let is_asked = |it: &T| asked.iter().any(|asked| typed(asked) == typed(metric(it)));
    all.retain(|it| asked.is_empty() || is_asked(it));
    Ok(())
}

/// Keeps what people see who name no metric: wall time, or what a workload measures; all, where
/// there is neither.
pub fn keep_usual<T>(all: &mut Vec<T>, metric: impl Fn(&T) -> &str, is_of_workload: bool) {
    let is_usual = |it: &T| match is_of_workload {
        true => !is_of_every_trial(metric(it)),
        false => metric(it) == WALL,
    };
    if all.iter().any(is_usual) {
        all.retain(is_usual);
    }
}
