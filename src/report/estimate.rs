//! From trials to estimates: pairs them by block and asks the statistics.
//!
//! A block pairs when the arm and at least one of the two baseline arms have a trial that counts in
//! it. A metric that is zero somewhere has no ratio, so it gets no overhead rather than a wrong one.

use super::{Interval, MetricFindings};
use crate::ledger::StoredTrial;
use std::collections::BTreeMap;
use surtax_statistics::{
    Block, Estimate, NoiseFloor, Sample, Summary, TooFew, noise_floor, overhead,
};

/// The metrics of a report in its order, with their units. In all of them less is better.
const METRICS: [(&str, &str); 9] = [
    ("wall_ns", "ns"),
    ("cpu_user_ns", "ns"),
    ("cpu_system_ns", "ns"),
    ("cpu_others_ns", "ns"),
    ("cpu_total_ns", "ns"),
    ("memory_peak_bytes", "bytes"),
    ("memory_others_peak_bytes", "bytes"),
    ("start_ns", "ns"),
    ("stop_ns", "ns"),
];

/// The trials that count of the baseline's two arms.
#[derive(Clone, Copy)]
pub(super) struct Baseline<'a> {
    /// Arm 0.
    pub(super) first: &'a [&'a StoredTrial],
    /// Arm 1.
    pub(super) again: &'a [&'a StoredTrial],
}

impl Baseline<'_> {
    /// The overhead of an arm on one metric; `None` where a ratio has no meaning.
    pub(super) fn overhead(
        &self,
        arm: &[&StoredTrial],
        metric: &str,
    ) -> Option<Result<Estimate, TooFew>> {
        let baseline = by_block(self.first.iter().chain(self.again), metric);
        let blocks = paired(&baseline, &by_block(arm.iter(), metric))?;
        Some(overhead(&blocks))
    }

    /// How much the baseline differs from itself on wall time.
    pub(super) fn noise_floor(&self) -> Option<NoiseFloor> {
        let first = by_block(self.first.iter(), "wall_ns");
        let again = by_block(self.again.iter(), "wall_ns");
        noise_floor(&paired(&first, &again)?).ok()
    }
}

/// Every metric that the arm has, summed up; with overheads if it is compared with a baseline.
pub(super) fn metrics(arm: &[&StoredTrial], baseline: Option<Baseline<'_>>) -> Vec<MetricFindings> {
    let mut found = Vec::new();
    for (metric, unit) in METRICS {
        let values: Vec<f64> =
            arm.iter().filter_map(|trial| Some(trial.sample(metric)?.value)).collect();
        let Ok(sample) = Sample::counts(&values) else { continue };
        let summary = Summary::of(&sample);
        let overhead = baseline.and_then(|it| it.overhead(arm, metric)?.ok());
        found.push(MetricFindings {
            metric: metric.into(),
            unit: unit.into(),
            better: String::from("lower"),
            median: summary.median,
            min: summary.min,
            max: summary.max,
            quartiles: (summary.quartile_first, summary.quartile_third),
            overhead: overhead.as_ref().map(interval),
        });
    }
    found
}

/// An estimate as a report says it.
pub(super) fn interval(estimate: &Estimate) -> Interval {
    let Estimate { ratio, low, high, .. } = *estimate;
    Interval { ratio, low, high, confidence: estimate.confidence.share() }
}

/// The median; `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Sample::counts(values).ok().map(|sample| Summary::of(&sample).median)
}

/// A count as a number to compute with; exact up to 2^53, which is 104 days in nanoseconds.
pub(super) fn float(value: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "exact for every amount that we meet")]
    let value = value as f64;
    value
}

fn by_block<'a>(
    trials: impl Iterator<Item = &'a &'a StoredTrial>,
    metric: &str,
) -> BTreeMap<u32, Vec<f64>> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        if let Some(sample) = trial.sample(metric) {
            blocks.entry(trial.id.block).or_default().push(sample.value);
        }
    }
    blocks
}

/// The blocks that both have; `None` when one holds what has no ratio.
fn paired(baseline: &BTreeMap<u32, Vec<f64>>, arm: &BTreeMap<u32, Vec<f64>>) -> Option<Vec<Block>> {
    let both = arm.iter().filter_map(|(block, values)| Some((baseline.get(block)?, values)));
    both.map(|(baseline, arm)| Block::new(baseline, arm).ok()).collect()
}
