//! Fineness with which a workload prints its numbers.
//!
//! What a program rounds is not what it measured: `took 0.1 s` in two stacks says nothing of a
//! fifth of a second less. Between two numbers that were rounded to the same step lies up to one
//! step, so that share of the value is added to no interval, but nothing below it is called a
//! difference or its absence.
//!
//! The step is read from the numbers themselves: the last digit that any of them needs, in the unit
//! that the program prints. A whole number is taken as counted to one.

use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::{Signs, caution};
use crate::finding::estimate::Measure;
use crate::finding::number::percent;
use crate::finding::stacks::named;
use crate::finding::{Caution, MetricFindings};
use crate::workload::{Definition, quantile_name};
use std::collections::BTreeSet;
use std::iter;

/// More digits than these are those of a conversion.
const DIGITS: usize = 9;

/// A quantile is known to a thousandth by its histogram.
const QUANTILE_DIGITS: usize = 3;

/// Step that the numbers of one metric are rounded to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// In the metric's unit.
    pub(crate) size: f64,
    /// Largest distance between two values that are printed alike, as a share of them.
    pub(crate) share: f64,
}

impl Step {
    /// The step between two numbers, here a stack's and the baseline's.
    pub(crate) fn between(size: f64, one: f64, other: f64) -> Self {
        Self { size, share: size / 2.0 * (one.abs().recip() + other.abs().recip()) }
    }
}

/// The steps of a workload's metrics in their units, over all trials that count; nothing of what
/// its file does not name.
pub(crate) fn sizes(
    workload: Option<&Definition>,
    columns: &[ArmTrials<'_>],
    measures: &[Measure],
) -> Vec<Option<f64>> {
    let Some(workload) = workload else { return vec![None; measures.len()] };
    let printed_in = |metric: &str| {
        let own = workload.metrics.iter().find(|rule| rule.name == metric);
        let own = own.map(|rule| (rule.unit.factor, DIGITS));
        let is_of = |name: &str| metric.starts_with(&quantile_name(name, "p"));
        let histogram = workload.histograms.iter().find(|rule| is_of(&rule.name));
        own.or(histogram.map(|rule| (rule.unit.factor, QUANTILE_DIGITS)))
    };
    let size = |measure: &Measure| {
        let (factor, digits) = printed_in(&measure.metric)?;
        let trials = columns.iter().flat_map(|column| column.counted.iter());
        let values = trials.filter_map(|trial| Some(trial.sample(&measure.metric)?.value));
        finest(values.map(|value| value / factor), digits).map(|step| step * factor)
    };
    measures.iter().map(size).collect()
}

/// Metrics that are rounded to more than the margin, so that they cannot be found equivalent.
pub(crate) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let metrics = signs.arms.iter().flat_map(|arm| &arm.metrics);
    let share = |found: &MetricFindings| found.judgement.as_ref()?.step_share;
    let coarse = metrics.filter_map(|found| Some((found, share(found)?)));
    let coarse = coarse.filter(|(_, share)| *share > signs.margin && share.is_finite());
    let names: BTreeSet<&str> = coarse.clone().map(|(found, _)| found.metric.as_str()).collect();
    let (worst, share) = coarse.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let are = if names.len() == 1 { "is" } else { "are" };
    Some(caution(
        "coarse-numbers",
        format!(
            "{} {are} printed in steps above the margin of ±{}, so nothing is found equivalent: \
             one step of `{}` is {} of it",
            named(names),
            percent(signs.margin),
            worst.metric,
            percent(share)
        ),
        "let the program print more digits, or do more work in each trial",
    ))
}

/// The last place that any of these numbers needs: 0.01 of 0.5 and 0.25.
fn finest(printed: impl Iterator<Item = f64>, digits: usize) -> Option<f64> {
    let decimals = printed.map(|value| decimals(value, digits)).max()?;
    Some(iter::repeat_n(0.1, decimals).product())
}

/// Returns how many decimals a number needs that is known to so many digits.
fn decimals(value: f64, digits: usize) -> usize {
    let text = format!("{:.*e}", digits - 1, value);
    let Some((mantissa, exponent)) = text.split_once('e') else { return 0 };
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    let needed = i64::try_from(fraction.trim_end_matches('0').len()).unwrap_or(0);
    let exponent: i64 = exponent.parse().unwrap_or(0);
    usize::try_from(needed - exponent).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::finding::step::*;
    use crate::finding::{Findings, Verdict, compare};
    use crate::ledger::Ledger;
    use crate::ledger::fixture::{add, done, id, plan};
    use crate::plan::Plan;
    use crate::trial::TrialResult;
    use crate::workload::{Better, Metric, Workload};

    /// Ten blocks in which a workload prints `took 0.1 s`, or what `seconds` has for a block.
    fn measured(seconds: impl Fn(u32) -> f64) -> Findings {
        let shelf = tempfile::tempdir().unwrap();
        let text = "about = \"x\"\ncommand = [\"x\"]\n[[metric]]\nname = \"took\"\nunit = \
                    \"s\"\nbetter = \"lower\"\nregex = '(\\d+)'\nmin = 0\nmax = 9\n";
        let workload = Workload { name: "x".into(), parameters: Vec::new(), text: text.into() };
        let plan = Plan { workload: Some(workload), ..plan(&["native", "runc"]) };
        let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
        for (block, arm) in (0..10).flat_map(|block| (0..3).map(move |arm| (block, arm))) {
            let wobble = u64::from((block * 7 + arm) % 5) * 400_000;
            let mut record = done(id(block, arm), 1_000_000_000 + wobble);
            let TrialResult::Done(measured) = &mut record.result else { continue };
            measured.workload.metrics = vec![Metric {
                name: "took".into(),
                unit: "ns",
                better: Better::Lower,
                value: seconds(block) * 1e9,
            }];
            add(&mut ledger, &record);
        }
        compare(&ledger).unwrap()
    }

    #[test]
    fn numbers_that_are_rounded_away_are_not_found_equivalent() {
        for (seconds, verdict, is_warned_of) in
            [(0.1, Verdict::Inconclusive, true), (0.123_456, Verdict::Equivalent, false)]
        {
            let findings = measured(|_| seconds);
            let took = findings.arms[2].metrics.iter().find(|it| it.metric == "took").unwrap();
            let judged = took.judgement.as_ref().unwrap();
            assert_eq!(judged.verdict, verdict, "{}", judged.because);
            assert!(!judged.because.contains("difference of 0 %"), "{}", judged.because);
            let has_caution = findings.cautions.iter().any(|it| it.code == "coarse-numbers");
            assert_eq!(has_caution, is_warned_of, "{:?}", findings.cautions);
        }
        let findings = measured(|_| 0.1);
        let judged = &findings.arms[2].metrics.iter().find_map(|it| it.judgement.as_ref()).unwrap();
        assert_eq!(
            judged.because,
            "alike as it is printed, but that is in steps of 100.0 ms, 100 % of it, and the margin \
             is ±3 %"
        );
        // One trial that needs more digits shows that the program has them.
        let findings = measured(|block| if block == 3 { 0.100_001 } else { 0.1 });
        let judged = findings.arms[2].metrics.iter().find_map(|it| it.judgement.as_ref()).unwrap();
        assert_eq!(judged.verdict, Verdict::Equivalent, "{}", judged.because);
    }

    #[test]
    fn the_last_digit_that_any_number_needs_is_the_step() {
        let step = |values: &[f64]| finest(values.iter().copied(), DIGITS);
        for (values, wanted) in [
            (&[0.1, 0.1][..], 0.1),
            (&[0.5, 0.25], 0.01),
            (&[0.163 * 1e9 / 1e9, 2.0], 0.001),
            (&[10_000.0, 3.0], 1.0),
            (&[0.0], 1.0),
            (&[1234.5], 0.1),
            (&[2.5e-5], 1e-6),
        ] {
            let found = step(values).unwrap();
            assert!((found / wanted - 1.0).abs() < 1e-9, "{values:?}: {found}");
        }
        assert_eq!(step(&[]), None);
        assert_eq!(decimals(6.003, QUANTILE_DIGITS), 0);
        assert_eq!(decimals(12.345, QUANTILE_DIGITS), 1);
    }

    #[test]
    fn two_rounded_numbers_may_be_a_step_apart() {
        let step = Step::between(100.0, 100.0, 100.0);
        assert!((step.share - 1.0).abs() < 1e-12);
        let step = Step::between(1.0, 50.0, 100.0);
        assert!((step.share - 0.015).abs() < 1e-12);
    }
}
