//! The price list: what each primitive costs in each stack, one row for each.
//!
//! It stands in the place of the table of metrics, and of the one of wall time: the engine measures
//! each primitive for as long as it is told, so its own time says nothing.

use crate::finding::number::{self, GAP};
use crate::finding::stacks::grouped;
use crate::finding::{ArmFindings, Findings, Interval, MetricFindings, Verdict};
use surtax_engines::price::PRICES;
use surtax_statistics::departure;

/// The workload whose metrics are prices.
pub const WORKLOAD: &str = "prices";

/// Prices by primitive and stack.
pub(crate) struct List<'a> {
    /// The stacks, the baseline first, once.
    pub(crate) arms: Vec<&'a ArmFindings>,
    /// The primitives, in the order in which they are measured.
    pub(crate) rows: Vec<Row<'a>>,
}

/// One primitive.
pub(crate) struct Row<'a> {
    pub(crate) name: &'static str,
    /// Operation that the price is of, in words.
    pub(crate) operation: &'static str,
    /// One for each stack.
    pub(crate) cells: Vec<Cell<'a>>,
}

/// Price of a primitive in one stack.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'a> {
    Price(&'a MetricFindings),
    /// There is no price, and the reason if the stack was measured at all.
    Gap(Option<&'a str>),
}

/// The list of a run, where the run measured prices and has some.
pub(crate) fn list(findings: &Findings) -> Option<List<'_>> {
    let typed = findings.run.workload.as_deref()?;
    if typed.split_once(':').map_or(typed, |(name, _)| name) != WORKLOAD {
        return None;
    }
    let arms: Vec<&ArmFindings> = findings.arms.iter().filter(|arm| !arm.is_again()).collect();
    let rows = PRICES.iter().map(|price| Row {
        name: price.name,
        operation: price.operation,
        cells: arms.iter().map(|arm| cell(arm, price.name)).collect(),
    });
    let rows: Vec<Row<'_>> = rows.filter(Row::is_measured).collect();
    (!rows.is_empty()).then_some(List { arms, rows })
}

fn cell<'a>(arm: &'a ArmFindings, name: &str) -> Cell<'a> {
    match arm.metric(name) {
        Some(found) => Cell::Price(found),
        None => {
            let absent = arm.absences.iter().find(|absence| absence.metric == name);
            Cell::Gap(absent.map(|absence| absence.why.as_str()))
        }
    }
}

impl Row<'_> {
    /// Tells whether any stack has a price for it, or a reason why not: a run may have measured
    /// some only.
    fn is_measured(&self) -> bool {
        self.cells.iter().any(|cell| !matches!(cell, Cell::Gap(None)))
    }
}

impl Cell<'_> {
    /// `44.9 ns`, or the gap.
    pub(crate) fn price(&self) -> String {
        match self {
            Self::Price(found) => number::price(found.median),
            Self::Gap(_) => GAP.into(),
        }
    }

    /// Returns the overhead of a price that is shown to differ.
    pub(crate) fn shown(&self) -> Option<&Interval> {
        let Self::Price(MetricFindings { overhead: Some(overhead), judgement, .. }) = self else {
            return None;
        };
        let verdict = judgement.as_ref().map(|judged| &judged.verdict);
        (verdict == Some(&Verdict::Differs)).then_some(overhead)
    }

    /// `87× [85, 90]`, marked where it is not shown to differ; nothing of the baseline and of a
    /// gap.
    pub(crate) fn overhead(&self) -> Option<String> {
        let Self::Price(MetricFindings { overhead: Some(overhead), judgement, .. }) = self else {
            return None;
        };
        let mark = match judgement.as_ref().map(|judged| &judged.verdict) {
            Some(Verdict::Equivalent) => " =",
            Some(Verdict::Differs) => "",
            _ => " ?",
        };
        Some(number::overhead(overhead) + mark)
    }
}

impl List<'_> {
    /// Returns the answer in a sentence for each stack that differs in a price, and one for those
    /// that do not: what is shown, and no more.
    pub(crate) fn headline(&self) -> String {
        let (mut sentences, mut alike) = (Vec::new(), Vec::new());
        for (place, arm) in self.arms.iter().enumerate().filter(|(_, arm)| arm.is_compared()) {
            let cells =
                || self.rows.iter().filter_map(|row| Some((row.name, row.cells.get(place)?)));
            let priced = cells().filter(|(_, cell)| cell.overhead().is_some()).count();
            let shown = || cells().filter_map(|(name, cell)| Some((name, cell.shown()?)));
            let most = shown().max_by(|(_, one), (_, other)| {
                departure(one.ratio).total_cmp(&departure(other.ratio))
            });
            match most {
                Some((name, found)) => sentences.push(format!(
                    "{}: {} of {priced} prices differ, most of all {name}, {}",
                    arm.name,
                    shown().count(),
                    number::rough(found.ratio)
                )),
                None if arm.trial_count > 0 => alike.push(arm.name.as_str()),
                None => {}
            }
        }
        if !alike.is_empty() {
            sentences.push(format!("{}: none shown to differ", alike.join(", ")));
        }
        match sentences.is_empty() {
            true => String::from("What primitives cost"),
            false => sentences.join(". "),
        }
    }

    /// Returns how many prices are compared with the baseline's.
    pub(crate) fn comparison_count(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.filter(|cell| cell.overhead().is_some()).count()
    }

    /// Explains the marks, and says what is compared.
    pub(crate) fn legend(&self) -> String {
        let baseline = self.arms.first().map_or("the baseline", |arm| arm.stack.as_str());
        format!(
            "medians for one operation, and the ratio to `{baseline}` with its interval; `=` is \
             equivalent, `?` could not be told"
        )
    }

    /// Returns the reasons for gaps: each reason once for each stack, with its primitives.
    pub(crate) fn gaps(&self) -> Vec<(String, String)> {
        let mut gaps = Vec::new();
        for row in &self.rows {
            for (arm, cell) in self.arms.iter().zip(&row.cells) {
                let Cell::Gap(Some(why)) = cell else { continue };
                gaps.push(((arm.name.as_str(), *why), row.name));
            }
        }
        let said = |((stack, why), names): ((&str, &str), Vec<&str>)| {
            (format!("{stack}, {}", names.join(", ")), why.to_owned())
        };
        grouped(gaps).into_iter().map(said).collect()
    }
}

#[cfg(test)]
mod tests;
