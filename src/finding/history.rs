//! History: what each stack cost in all runs of one question, and from which run on it costs
//! something else.
//!
//! As in the difference of two runs, a cost is one over the run's own baseline, so that a slow day
//! is in no number. What else changed between two runs is told beside it, and whether that was the
//! cause is not.

use crate::fault::Fault;
use crate::finding::caution::compared;
use crate::finding::diff::{self, RunOfDiff};
use crate::finding::estimate::interval;
use crate::finding::question;
use crate::finding::same_machine::{self, FactChange, SameMachine};
use crate::finding::trial_metric::WALL;
use crate::finding::{ArmFindings, Findings, Interval};
use serde::Serialize;
use std::collections::BTreeSet;
use surtax_statistics::{Estimate, shifts};

/// Raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Fewest runs in which a shift can be seen, two on each side.
pub const RUNS_MIN: usize = 4;

/// Runs of one question, and what they say together.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct History {
    /// Raised when a field changes its meaning.
    pub schema_version: u32,
    /// The runs, the oldest first.
    pub runs: Vec<RunOfDiff>,
    /// A series for each stack and metric that has an overhead in a run.
    pub series: Vec<Series>,
}

/// Costs of one stack by one metric.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Series {
    /// Name of the stack.
    pub stack: String,
    /// The metric.
    pub metric: String,
    /// One for each run that has the number, the oldest first.
    pub points: Vec<SeriesPoint>,
}

/// Cost of a stack in one run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SeriesPoint {
    /// Index of the run.
    pub run: usize,
    /// Cost over the run's own baseline.
    pub cost: Interval,
    /// Step to a new level over the one before it; `None` where none begins.
    pub shift: Option<Interval>,
    /// Degree to which the machine is that of the point before; `None` for the first.
    pub machine: Option<SameMachine>,
    /// Facts that are not as in the point before: facts about the machine, surtax's version,
    /// the working directory, and versions, images and accelerators of the stack's levels.
    pub changes: Vec<FactChange>,
}

/// Lays runs of one question side by side, in the order in which they were begun, and those of one
/// second in the order in which they come.
///
/// # Errors
/// The user's: two of them ask something else, or none has a number.
pub fn history(mut runs: Vec<Findings>) -> Result<History, Fault> {
    let mut seen = BTreeSet::new();
    runs.retain(|run| seen.insert(run.run.id.clone()));
    // RFC 3339 in UTC sorts as the times do.
    runs.sort_by(|one, other| one.run.began_at.cmp(&other.run.began_at));
    for pair in runs.windows(2) {
        question::require_one(&pair[0], &pair[1])?;
    }
    let series = series(&runs);
    if series.is_empty() {
        return Err(Fault::user("no stack has an overhead in any of the runs")
            .hint("compare runs of three blocks at least, in which their stacks count"));
    }
    let runs = runs.iter().map(RunOfDiff::of).collect();
    Ok(History { schema_version: SCHEMA_VERSION, runs, series })
}

/// The series of all stacks, in the order of the newest run and then of older ones.
fn series(runs: &[Findings]) -> Vec<Series> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (arm, metric) in runs.iter().rev().flat_map(costs) {
        let name = (arm.stack.clone(), metric.0.to_owned());
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    let one = |(stack, metric): (String, String)| {
        let of_run = |(index, run)| {
            let found = costs(run).find(|(arm, it)| arm.stack == stack && it.0 == metric);
            found.map(|(arm, (_, cost))| (index, arm, cost))
        };
        let found: Vec<_> = runs.iter().enumerate().filter_map(of_run).collect();
        let estimates: Vec<Estimate> = found.iter().map(|it| diff::estimate(&it.2)).collect();
        let point = |(index, (run, arm, cost)): (usize, &(usize, &ArmFindings, Interval))| {
            let before = index.checked_sub(1).map(|before| &found[before]);
            let changed = before.map(|(before, earlier, _)| {
                changes((&runs[*before], *earlier), (&runs[*run], *arm))
            });
            let (machine, changes) = changed.unzip();
            let changes = changes.unwrap_or_default();
            SeriesPoint { run: *run, cost: *cost, shift: None, machine, changes }
        };
        let mut points: Vec<SeriesPoint> = found.iter().enumerate().map(point).collect();
        for shift in shifts(&estimates) {
            points[shift.at].shift = Some(interval(&shift.step));
        }
        Series { stack, metric, points }
    };
    names.into_iter().map(one).collect()
}

/// Every cost in a run over its baseline, by stack and metric.
fn costs(run: &Findings) -> impl Iterator<Item = (&ArmFindings, (&str, Interval))> {
    let is_fixed = run.run.is_of_fixed_time;
    compared(&run.arms).filter(|arm| !arm.is_invalid()).flat_map(move |arm| {
        let has_meaning = move |metric: &str| !(is_fixed && metric == WALL);
        let of = |it: &'_ crate::finding::MetricFindings| it.overhead;
        let metrics = arm.metrics.iter().filter(move |it| has_meaning(&it.metric));
        metrics.filter_map(move |it| Some((arm, (it.metric.as_str(), of(it)?))))
    })
}

/// Tells how far the machine is the same, and what else is not as it was.
fn changes(
    (before, earlier): (&Findings, &ArmFindings),
    (after, later): (&Findings, &ArmFindings),
) -> (SameMachine, Vec<FactChange>) {
    let (machine, mut changes) = same_machine::of_runs(before, after);
    let [one, other] = [&before.run.cwd, &after.run.cwd].map(String::clone);
    let cwd = (one != other).then(|| FactChange { key: "cwd".into(), before: one, after: other });
    changes.extend(cwd);
    changes.extend(question::changes(before, after));
    changes.extend(question::changes_of_levels(earlier, later));
    (machine, changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::diff::tests::run;

    /// Runs of one question, a day apart, whose `runc` costs so much more than in the example.
    fn runs(costs: &[f64]) -> Vec<Findings> {
        let day = |(index, cost): (usize, &f64)| {
            // Every second day is slower by half, which is no change of a cost.
            let mut findings = run(*cost, if index % 2 == 0 { 1.0 } else { 1.5 });
            findings.run.began_at = format!("2026-01-{:02}T00:00:00Z", index + 1);
            findings.run.id = format!("run {index}");
            findings
        };
        costs.iter().enumerate().map(day).collect()
    }

    fn wall<'a>(found: &'a History, stack: &str) -> &'a Series {
        let is_it = |it: &&Series| it.stack == stack && it.metric == WALL;
        found.series.iter().find(is_it).unwrap()
    }

    /// Index of the run, and the step.
    fn steps(series: &Series) -> Vec<(usize, f64)> {
        let points = series.points.iter();
        points.filter_map(|it| Some((it.run, it.shift.as_ref()?.ratio))).collect()
    }

    #[test]
    fn the_run_from_which_a_stack_is_dearer_is_found_whatever_order_the_runs_come_in() {
        let mut all = runs(&[1.0, 1.003, 0.998, 1.001, 1.05, 1.052, 1.049]);
        all.reverse();
        let found = history(all).unwrap();
        let [(at, step)] = steps(wall(&found, "runc"))[..] else { panic!("{found:?}") };
        assert_eq!(at, 4);
        assert!((step - 1.05).abs() < 0.01, "{step}");
        assert_eq!(found.runs.len(), 7);
        let still = history(runs(&[1.0, 1.003, 0.998, 1.001, 1.002, 0.999])).unwrap();
        assert_eq!(steps(wall(&still, "runc")), []);
    }

    #[test]
    fn the_same_run_twice_is_one_and_another_question_is_refused() {
        let mut twice = runs(&[1.0, 1.0]);
        // Of one second, so that the two are no neighbours.
        twice[1].run.began_at = twice[0].run.began_at.clone();
        twice.push(twice[0].clone());
        assert_eq!(history(twice).unwrap().runs.len(), 2);
        let mut other = runs(&[1.0, 1.0]);
        other[1].run.command.clear();
        assert!(history(other).unwrap_err().message.contains("the command was"));
        let mut none = runs(&[1.0]);
        none[0].arms.clear();
        assert!(history(none).unwrap_err().message.contains("no stack has an overhead"));
    }

    #[test]
    fn a_version_that_is_not_that_of_the_run_before_is_told_where_it_changed() {
        let mut all = runs(&[1.0, 1.0, 1.0]);
        let version = |findings: &mut Findings, to: &str| {
            let arm = findings.arms.iter_mut().find(|arm| arm.stack == "runc").unwrap();
            arm.evidence = vec![crate::finding::LevelEvidence {
                layer: "runc".into(),
                facts: vec![crate::finding::KeyValue {
                    key: "runtime_version".into(),
                    value: to.into(),
                    source: String::new(),
                }],
            }];
        };
        for (findings, to) in all.iter_mut().zip(["1.1", "1.2", "1.2"]) {
            version(findings, to);
        }
        let found = history(all.clone()).unwrap();
        let changes = |run: usize| &wall(&found, "runc").points[run].changes;
        assert!(changes(0).is_empty() && changes(2).is_empty());
        assert_eq!(changes(1)[0].after, "1.2");
        // Against the run before in which the stack has a number.
        version(&mut all[1], "1.3");
        all[1].arms.iter_mut().find(|arm| arm.stack == "runc").unwrap().metrics.clear();
        all[2].run.cwd = String::from("/elsewhere");
        let found = history(all).unwrap();
        let last = wall(&found, "runc").points.last().unwrap();
        let keys: Vec<&str> = last.changes.iter().map(|it| it.key.as_str()).collect();
        assert_eq!((last.run, keys), (2, vec!["cwd", "runtime_version"]));
    }
}
