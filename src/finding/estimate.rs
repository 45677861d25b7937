//! From trials to estimates: pairs them by block and asks the statistics.
//!
//! A block pairs when the arm and at least one of the two baseline arms have a trial that counts in
//! it. A metric that is zero somewhere has no ratio, so it gets no overhead rather than a wrong
//! one.

use crate::finding::trial_metric::{ENERGY, OTHERS_MEMORY, TRIAL_METRICS, TrialMetric, WALL};
use crate::finding::{ArmFindings, Interval, MetricFindings, QuantileFindings, Verdict, ticks};
use crate::ledger::StoredTrial;
use crate::workload::Better;
use crate::workload::metric::is_of_a_meter;
use std::cell::RefCell;
use std::collections::HashMap;
use surtax_statistics::{
    Block, ByBlock, Confidence, Estimate, NoiseFloor, Sample, Summary, critical_value, noise_floor,
    overhead, overhead_at, quantile_interval, relative_half_width,
};

/// The quantiles of wall time that are reported as far as the trials support them.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// A metric as it is compared.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
}

impl Measure {
    /// Wall time.
    pub(crate) fn wall() -> Self {
        Self::of_every_trial(&TRIAL_METRICS[0])
    }

    fn of_every_trial(metric: &TrialMetric) -> Self {
        Self { metric: metric.name.into(), unit: metric.unit.into(), better: Better::Lower }
    }
}

/// Costs by block that a baseline has on each metric, once somebody has asked; `None` on one where
/// it has no say.
type Cached = RefCell<HashMap<String, Option<ByBlock>>>;

/// The trials that count of the baseline's two arms.
pub(crate) struct Baseline<'a> {
    /// Arm 0.
    pub(crate) first: &'a [&'a StoredTrial],
    /// Arm 1.
    pub(crate) again: &'a [&'a StoredTrial],
    /// Confidence of the intervals that thresholds are held against, of a run that may look at
    /// them more than once.
    at_look: Option<Confidence>,
    cached: Cached,
}

impl<'a> Baseline<'a> {
    pub(crate) fn of(first: &'a [&'a StoredTrial], again: &'a [&'a StoredTrial]) -> Self {
        Self { first, again, at_look: None, cached: Cached::default() }
    }

    /// The same, of a run whose thresholds are held at this confidence.
    pub(crate) fn held_at(self, at_look: Option<Confidence>) -> Self {
        Self { at_look, ..self }
    }

    /// The blocks of an arm on one metric, in their order; `None` where a ratio has no meaning.
    pub(crate) fn blocks(&self, arm: &[&StoredTrial], measure: &Measure) -> Option<Vec<Block>> {
        self.blocks_of(&values(arm.iter(), &measure.metric), measure)
    }

    /// The same, of an arm whose values are these.
    fn blocks_of(&self, arm: &[(u32, f64)], measure: &Measure) -> Option<Vec<Block>> {
        let mut cached = self.cached.borrow_mut();
        let own = cached.entry(measure.metric.clone()).or_insert_with(|| self.costs(measure));
        Block::paired(own.as_ref()?, &costs(arm, measure))
    }

    fn costs(&self, measure: &Measure) -> Option<ByBlock> {
        let trials = self.first.iter().chain(self.again);
        let values = values(trials.clone(), &measure.metric);
        speaks_for(trials, values.len(), &measure.metric).then(|| costs(&values, measure))
    }

    /// The blocks of the second baseline arm against the first.
    pub(crate) fn own_blocks(&self, measure: &Measure) -> Option<Vec<Block>> {
        let of = |arm: &[&StoredTrial]| costs(&values(arm.iter(), &measure.metric), measure);
        Block::paired(&of(self.first), &of(self.again))
    }

    /// The median of both arms.
    pub(crate) fn median(&self, measure: &Measure) -> Option<f64> {
        let values = values(self.first.iter().chain(self.again), &measure.metric);
        median(&values.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
    }

    /// Returns how much the baseline differs from itself.
    pub(crate) fn noise_floor(&self, measure: &Measure) -> Option<NoiseFloor> {
        noise_floor(&self.own_blocks(measure)?).ok()
    }
}

/// Every metric that the arm has, summed up; with overheads if it is compared with a baseline.
pub(crate) fn metrics(
    arm: &[&StoredTrial],
    baseline: Option<&Baseline<'_>>,
    of_workload: &[Measure],
) -> Vec<MetricFindings> {
    let mut found = Vec::new();
    for measure in TRIAL_METRICS.each_ref().map(Measure::of_every_trial).iter().chain(of_workload) {
        let metric = measure.metric.as_str();
        let in_blocks = values(arm.iter(), metric);
        let values: Vec<f64> = in_blocks.iter().map(|(_, value)| *value).collect();
        let Ok(sample) = Sample::counts(&values) else { continue };
        if !speaks_for(arm.iter(), values.len(), metric) {
            continue;
        }
        let summary = Summary::of(&sample);
        let blocks = baseline.and_then(|baseline| baseline.blocks_of(&in_blocks, measure));
        let strict = baseline.and_then(|baseline| baseline.at_look);
        let at_look = strict.zip(blocks.as_ref());
        let at_look = at_look.and_then(|(strict, blocks)| overhead_at(blocks, strict).ok());
        let overhead = blocks.and_then(|blocks| overhead(&blocks).ok());
        let quantiles = if metric == WALL { quantiles(&sample) } else { Vec::new() };
        found.push(MetricFindings {
            metric: metric.into(),
            unit: measure.unit.clone(),
            better: measure.better.word().into(),
            median: summary.median,
            min: summary.min,
            max: summary.max,
            quartiles: (summary.quartile_first, summary.quartile_third),
            quantiles,
            overhead: overhead.as_ref().map(interval),
            overhead_at_look: at_look.as_ref().map(interval),
            judgement: None,
            claimed_by: None,
        });
    }
    found
}

/// Tells whether so many trials that have a metric speak for all of these.
fn speaks_for<'a>(
    trials: impl Iterator<Item = &'a &'a StoredTrial> + Clone,
    have_it: usize,
    metric: &str,
) -> bool {
    match metric {
        OTHERS_MEMORY | ENERGY => speaks(have_it, trials.count()),
        _ if is_of_a_meter(metric) => speaks(have_it, trials.count()),
        _ if TrialMetric::of(metric).is_some_and(|it| it.is_split) => {
            is_typical(trials.clone(), have_it) && !ticks::are_too_coarse(trials, metric)
        }
        _ => true,
    }
}

/// Tells whether trials whose CPU time could be divided speak for the arm: at least nine of ten of
/// those of which the sum is known. Which claims fit is no accident, so that the others are not
/// like them, and parts of some are none of the whole of all.
pub(crate) fn is_typical<'a>(
    trials: impl Iterator<Item = &'a &'a StoredTrial>,
    divided: usize,
) -> bool {
    let mut place = 0;
    let has_sum = |trial: &&&StoredTrial| trial.sample_near("cpu_total_ns", &mut place).is_some();
    let known = trials.filter(has_sum).count();
    speaks(divided, known)
}

/// Tells whether so many trials speak for all: at least nine of ten.
pub(crate) fn speaks(some: usize, all: usize) -> bool {
    10 * some >= 9 * all
}

/// The quantiles of a sample, each as far as it supports one.
fn quantiles(sample: &Sample) -> Vec<QuantileFindings> {
    let of = |p: f64| match quantile_interval(sample, p, Confidence::P95) {
        Ok(found) => QuantileFindings {
            p,
            value: Some(found.quantile),
            low: Some(found.low),
            high: Some(found.high),
            confidence: Some(found.confidence),
            why: None,
        },
        Err(refused) => {
            let why = Some(refused.to_string());
            QuantileFindings { p, value: None, low: None, high: None, confidence: None, why }
        }
    };
    QUANTILES.map(of).into()
}

/// An estimate as a report says it.
pub(crate) fn interval(estimate: &Estimate) -> Interval {
    let Estimate { ratio, low, high, .. } = *estimate;
    Interval { ratio, low, high, confidence: estimate.confidence.share() }
}

/// Half the interval's width as a share of the ratio, as so many blocks with such noise would give
/// it.
///
/// It falls with the square root of the blocks and with Student's t for them.
pub(crate) fn half_width_with(estimate: &Estimate, block_count: usize) -> f64 {
    let errors = |block_count: usize| {
        let blocks = u32::try_from(block_count).unwrap_or(u32::MAX).max(2);
        critical_value(blocks - 1, estimate.confidence) / f64::from(blocks).sqrt()
    };
    relative_half_width(estimate) * errors(block_count) / errors(estimate.block_count)
}

/// The median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    Sample::counts(values).ok().map(|sample| Summary::of(&sample).median)
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let count = float(u64::try_from(values.len()).ok()?);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

/// The standard deviation of a sample; `None` of fewer than two.
pub(crate) fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let freedom = float(u64::try_from(values.len().checked_sub(1)?).ok()?);
    (freedom > 0.0).then(|| (squares / freedom).sqrt())
}

/// The ratio of an arm's median wall time to the baseline's, where there are too few blocks for an
/// interval: an estimate of which nobody knows how good it is. `None` where there is one, or no
/// number.
pub(crate) fn rough_ratio(arms: &[ArmFindings], arm: &ArmFindings) -> Option<f64> {
    let wall = |arm: &ArmFindings| arm.metric(WALL).map(|metric| metric.median);
    let baseline: Vec<f64> =
        arms.iter().filter(|arm| !arm.is_compared()).filter_map(wall).collect();
    let has_none = arm.is_compared() && arm.overhead.is_none() && arm.more_blocks.is_some();
    let is_of_few = has_none && matches!(arm.verdict, Verdict::Inconclusive);
    Some(wall(arm).filter(|_| is_of_few)? / median(&baseline).filter(|it| *it > 0.0)?)
}

/// A count as a number to compute with; exact up to 2^53, which is 104 days in nanoseconds.
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// Lists what trials have of a metric, each with the number of its block.
fn values<'a>(trials: impl Iterator<Item = &'a &'a StoredTrial>, metric: &str) -> Vec<(u32, f64)> {
    let mut place = 0;
    let value =
        |trial: &&StoredTrial| Some((trial.id.block, trial.sample_near(metric, &mut place)?.value));
    trials.filter_map(value).collect()
}

/// Returns such values as costs; of what is better when it is more, such as a rate, the inverse.
fn costs(values: &[(u32, f64)], measure: &Measure) -> ByBlock {
    let cost = |value: f64| match measure.better {
        Better::Lower => value,
        Better::Higher => value.recip(),
    };
    values.iter().map(|(block, value)| (*block, cost(*value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_a_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert!((deviation(&values, 5.0).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((mean(&[]), deviation(&[1.0], 1.0)), (None, None));
    }
}
