//! Questions that are asked of an arm's findings, its payers and its levels.

use super::{ArmFindings, LevelEvidence, MetricFindings, PayerFindings, Verdict};
use crate::finding::number;
use crate::plan::ArmPart;
use surtax_instrument::amount::{QUANTITIES, Quantity};

impl ArmFindings {
    /// Tells whether it is compared with the baseline, and not a part of that.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.part == ArmPart::Compared.word()
    }

    /// Tells whether it is the baseline once more.
    #[must_use]
    pub fn is_again(&self) -> bool {
        self.part == ArmPart::BaselineAgain.word()
    }

    /// Tells whether no number of it counts.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self.verdict, Verdict::Invalid { .. })
    }

    /// The metric of this name, where any trial that counts has it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricFindings> {
        self.metrics.iter().find(|metric| metric.metric == name)
    }

    /// The median of a metric in its unit, or the gap where no trial that counts has it.
    #[must_use]
    pub fn median(&self, name: &str) -> String {
        let shown = |found: &MetricFindings| number::amount(found.median, &found.unit);
        self.metric(name).map_or_else(|| number::GAP.into(), shown)
    }

    /// CPU time of the command itself, where it is known.
    #[must_use]
    pub fn command_cpu_ns(&self) -> Option<f64> {
        let of_command = self.payers.iter().filter(|payer| payer.role == "workload");
        of_command.map(|payer| payer.cpu_ns).reduce(|sum, ns| sum + ns)
    }

    /// CPUs that the command kept busy, at least one: so much of a cost is in its wall time.
    #[must_use]
    pub fn spread_over(&self) -> Option<f64> {
        let wall = self.metric("wall_ns")?.median;
        let cpus = self.command_cpu_ns()? / wall;
        Some(cpus).filter(|cpus| cpus.is_finite()).map(|cpus| cpus.max(1.0))
    }

    /// A part of the command's wall time, in nanoseconds, where it is divided.
    #[must_use]
    pub fn time_part(&self, part: &str) -> Option<f64> {
        self.time_parts.iter().find(|it| it.part == part).map(|it| it.ns)
    }

    /// The same for a table, with the number to sort by; where only the sum is known, that it is at
    /// most so much.
    #[must_use]
    pub fn command_cpu(&self) -> Option<(String, f64)> {
        if let Some(ns) = self.command_cpu_ns() {
            return Some((number::time(ns), ns));
        }
        self.bill_gap.as_ref()?;
        let total = self.metric("cpu_total_ns")?.median;
        Some((format!("≤ {}", number::time(total)), total))
    }
}

impl PayerFindings {
    /// The quantities that have a column in a table of these payers: of which at least one knows
    /// its amount.
    #[must_use]
    pub fn columns<'a>(payers: impl Iterator<Item = &'a Self> + Clone) -> Vec<&'static Quantity> {
        let is_known =
            |it: &&Quantity| payers.clone().any(|payer| payer.amounts.get(it.key).is_some());
        QUANTITIES.iter().filter(|it| it.heading.is_some()).filter(is_known).collect()
    }

    /// The headings of such a table; a `#` stands before those of numbers.
    #[must_use]
    pub fn headings(columns: &[&Quantity]) -> Vec<String> {
        let own = columns.iter().filter_map(|it| Some(format!("#{}", it.heading?)));
        ["Stack", "Payer", "Role", "#Level", "#CPU"]
            .map(String::from)
            .into_iter()
            .chain(own)
            .collect()
    }

    /// Returns the payer's name, with a word where it serves all trials.
    #[must_use]
    pub fn name(&self) -> String {
        match self.is_shared {
            true => format!("{} (shared by all trials)", self.payer),
            false => self.payer.clone(),
        }
    }
}

impl LevelEvidence {
    /// The value of a fact about it.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.key == key).map(|fact| fact.value.as_str())
    }
}
