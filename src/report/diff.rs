//! Difference of two runs in text.

use super::rows::{Rows, RowsForm};
use crate::finding::diff::{Basis, ChangeVerdict, Diff};
use crate::finding::number::GAP;
use crate::finding::same_machine::FactChange;
use crate::finding::trial_metric::typed;
use crate::finding::{foreign, number};

/// One row for each change, for people.
#[must_use]
pub fn rows(found: &Diff) -> Rows {
    let mut rows = Rows::new(&["Stack", "Metric", "Before", "After", "Change", "Verdict"]);
    for change in &found.changes {
        let own = match change.basis {
            Basis::Baseline => String::new(),
            Basis::Absolute => String::from(" itself"),
        };
        rows.push(vec![
            format!("{}{own}", change.stack),
            typed(&change.metric).into(),
            change.told(&change.before),
            change.told(&change.after),
            number::overhead(&change.change),
            change.verdict.map_or(GAP, ChangeVerdict::word).into(),
        ]);
    }
    rows
}

/// Says what may be concluded, and what stands in the way.
#[must_use]
pub fn said(found: &Diff) -> Vec<String> {
    let mut lines = vec![format!("both were measured on {}", found.machine.words())];
    let of_itself = found.changes.iter().find(|it| it.basis == Basis::Absolute);
    lines.extend(of_itself.map(|change| {
        format!(
            "the time of `{}` itself is the centre of its blocks; a report has the median of its \
             trials",
            foreign::line(&change.stack)
        )
    }));
    lines.extend(found.machine_changes.iter().chain(&found.question_changes).map(changed));
    for stack in &found.stack_changes {
        let name = foreign::line(&stack.stack);
        lines.extend(stack.changes.iter().map(|it| format!("of `{name}`, {}", changed(it))));
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

fn changed(change: &FactChange) -> String {
    let [key, before, after] =
        [&change.key, &change.before, &change.after].map(|text| foreign::line(text));
    format!("{key} was `{before}`, and is `{after}`")
}

/// Every change with its intervals, as comma-separated values.
#[must_use]
pub fn csv(found: &Diff) -> String {
    let mut rows = Rows::new(&[
        "stack", "metric", "unit", "basis", "before", "before low", "before high", "after",
        "after low", "after high", "change", "change low", "change high", "verdict",
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
    rows.text(RowsForm::Csv, None)
}
