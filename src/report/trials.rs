//! Trials as a table: a row for each, a column for each of its values, for programs that compute.
//!
//! CSV and Parquet are two ways of writing it. Each row says of which run and of which machine it
//! is, so that tables of several runs can be put one below the other. What is unknown has no value:
//! it is never zero. Names of columns are promised; one more stands behind the others, and before
//! those of a workload.

use crate::finding::{ArmFindings, Findings, TrialPoint};
use std::collections::BTreeSet;

/// A column: one value of every trial.
pub(super) struct Column {
    /// Name, which ends with the unit.
    pub(super) name: String,
    /// Values in the order of the rows.
    pub(super) cells: Cells,
}

/// Values of one kind; `None` where there is none.
pub(super) enum Cells {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Count(Vec<Option<u64>>),
    /// Any numbers.
    Number(Vec<Option<f64>>),
    /// Answers.
    Flag(Vec<Option<bool>>),
}

/// A trial, with whose it is.
#[derive(Clone, Copy)]
struct Row<'a> {
    arm: &'a ArmFindings,
    trial: &'a TrialPoint,
}

/// Origin of a column's values.
enum Of {
    Text(fn(&Row<'_>) -> String),
    Count(fn(&Row<'_>) -> Option<u64>),
    Flag(fn(&Row<'_>) -> bool),
    /// The same text in every row.
    Run(fn(&Findings) -> &str),
}

/// Columns of every run.
const COLUMNS: [(&str, Of); 24] = [
    ("arm", Of::Count(|it| Some(it.arm.arm.into()))),
    ("stack", Of::Text(|it| it.arm.stack.clone())),
    ("part", Of::Text(|it| it.arm.part.clone())),
    ("block", Of::Count(|it| Some(it.trial.block.into()))),
    ("position", Of::Count(|it| Some(it.trial.position.into()))),
    ("attempt", Of::Count(|it| Some(it.trial.attempt.into()))),
    ("at_ns", Of::Count(|it| Some(it.trial.at_ns))),
    ("state", Of::Text(|it| it.trial.state.clone())),
    ("wall_ns", Of::Count(|it| it.trial.wall_ns)),
    ("start_ns", Of::Count(|it| it.trial.start_ns)),
    ("why", Of::Text(|it| it.trial.why.clone())),
    ("disturbed", Of::Text(|it| it.trial.disturbed())),
    ("cpu_user_ns", Of::Count(|it| it.trial.usage.cpu_user_ns)),
    ("cpu_system_ns", Of::Count(|it| it.trial.usage.cpu_system_ns)),
    ("cpu_others_ns", Of::Count(|it| it.trial.usage.cpu_others_ns)),
    ("memory_peak_bytes", Of::Count(|it| it.trial.usage.memory_peak_bytes)),
    ("memory_others_peak_bytes", Of::Count(|it| it.trial.usage.memory_others_peak_bytes)),
    (
        "memory_others_page_cache_bytes",
        Of::Count(|it| it.trial.usage.memory_others_page_cache_bytes),
    ),
    ("memory_shared_peak_bytes", Of::Count(|it| it.trial.usage.memory_shared_peak_bytes)),
    ("is_counted", Of::Flag(|it| it.trial.is_counted())),
    ("run_id", Of::Run(|it| &it.run.id)),
    ("run_title", Of::Run(|it| &it.run.title)),
    ("run_began_at", Of::Run(|it| &it.run.began_at)),
    ("machine_hash", Of::Run(|it| it.machine_hash().unwrap_or_default())),
];

/// Returns the table of a run, in the order of arms and time, with the trials that do not count.
pub(super) fn columns(findings: &Findings) -> Vec<Column> {
    let arms = findings.arms.iter();
    let rows: Vec<Row<'_>> =
        arms.flat_map(|arm| arm.trials.iter().map(move |trial| Row { arm, trial })).collect();
    let fixed = COLUMNS.iter().map(|(name, of)| Column {
        name: (*name).to_owned(),
        cells: match of {
            Of::Text(of) => Cells::Text(rows.iter().map(|row| known(of(row))).collect()),
            Of::Count(of) => Cells::Count(rows.iter().map(of).collect()),
            Of::Flag(of) => Cells::Flag(rows.iter().map(|row| Some(of(row))).collect()),
            Of::Run(of) => Cells::Text(vec![known(of(findings).to_owned()); rows.len()]),
        },
    });
    let metrics = rows.iter().flat_map(|row| row.trial.metrics.keys());
    let metrics: BTreeSet<&String> = metrics.collect();
    let own = metrics.iter().map(|name| Column {
        name: named(name, &metrics),
        cells: Cells::Number(
            rows.iter().map(|row| row.trial.metrics.get(*name).copied()).collect(),
        ),
    });
    fixed.chain(own).collect()
}

/// Returns a text; `None` of one that says nothing.
fn known(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the name of a workload's column: that of its metric, unless every run has one of it.
fn named(metric: &String, all: &BTreeSet<&String>) -> String {
    let is_of_every_run = |name: &str| COLUMNS.iter().any(|(known, _)| *known == name);
    let mut name = metric.clone();
    while is_of_every_run(&name) || (name != *metric && all.contains(&name)) {
        name.insert_str(0, "metric_");
    }
    name
}

impl Column {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Text(cells) => cells.len(),
            Cells::Count(cells) => cells.len(),
            Cells::Number(cells) => cells.len(),
            Cells::Flag(cells) => cells.len(),
        }
    }

    /// Returns the value of a row as a text; an empty one where there is none.
    pub(super) fn text(&self, row: usize) -> String {
        fn of<T: ToString>(cells: &[Option<T>], row: usize) -> String {
            let cell = cells.get(row).and_then(Option::as_ref);
            cell.map_or_else(String::new, ToString::to_string)
        }
        match &self.cells {
            Cells::Text(cells) => of(cells, row),
            Cells::Count(cells) => of(cells, row),
            Cells::Number(cells) => of(cells, row),
            Cells::Flag(cells) => of(cells, row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn a_metric_of_a_name_that_every_run_has_is_another_column() {
        let mut findings = example(6, |_| {});
        let trial = &mut findings.arms[0].trials[0];
        let own = [("block", 7.0), ("metric_block", 8.0), ("rate", 2.5)];
        trial.metrics = own.map(|(name, it)| (name.into(), it)).into();
        let columns = columns(&findings);
        let texts = |name: &str| {
            let found: Vec<&Column> = columns.iter().filter(|it| it.name == name).collect();
            let [column] = &*found else { panic!("{} columns `{name}`", found.len()) };
            [column.text(0), column.text(1)]
        };
        assert_eq!(texts("block"), ["0", "1"]);
        assert_eq!(texts("metric_metric_block"), ["7", ""]);
        assert_eq!(texts("metric_block"), ["8", ""]);
        assert_eq!(texts("rate"), ["2.5", ""]);
    }

    #[test]
    fn every_row_says_of_which_run_and_machine_it_is_and_whether_it_counts() {
        let findings = example(6, |_| {});
        let columns = columns(&findings);
        let rows = columns[0].len();
        assert!(rows > 18 && columns.iter().all(|column| column.len() == rows));
        let of = |name: &str| columns.iter().find(|column| column.name == name).unwrap();
        for row in 0..rows {
            assert_eq!(of("run_id").text(row), findings.run.id);
            assert_eq!(of("run_began_at").text(row), findings.run.began_at);
            let is_done = of("state").text(row) == "done";
            assert_eq!(of("is_counted").text(row), is_done.to_string());
        }
        assert!((0..rows).any(|row| of("is_counted").text(row) == "false"));
    }
}
