//! Quantiles against tables, and what must hold for every sample.

use super::*;
use proptest::prelude::*;

fn sample(values: &[f64]) -> Sample {
    Sample::new(values).unwrap()
}

#[test]
fn five_values_are_too_few_for_a_median_at_95_percent_and_the_error_says_six() {
    let values = sample(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    for (confidence, need) in [(Confidence::P95, 6), (Confidence::P99, 8)] {
        let refused = quantile_interval(&values, 0.5, confidence);
        assert_eq!(refused, Err(Unsupported { have: 5, need: Some(need) }));
    }
}

#[test]
fn ranks_of_the_median_are_those_of_the_printed_table() {
    // Le Boudec, Performance Evaluation, 2010, table A.1: ranks (from 1) and true confidence.
    for (count, low, high, confidence) in
        [(6, 1, 6, 0.969), (8, 1, 8, 0.992), (10, 2, 9, 0.979), (20, 6, 15, 0.959)]
    {
        let values: Vec<f64> = (1..=count).map(f64::from).collect();
        let interval = quantile_interval(&sample(&values), 0.5, Confidence::P95).unwrap();
        assert_eq!((interval.low, interval.high), (f64::from(low), f64::from(high)));
        assert!((interval.confidence - confidence).abs() < 6e-4, "{count}: {interval:?}");
    }
}

#[test]
fn a_sample_of_thousands_does_not_underflow() {
    let values: Vec<f64> = (1..=5000).map(f64::from).collect();
    let interval = quantile_interval(&sample(&values), 0.5, Confidence::P95).unwrap();
    // 2500 ± 1.96 × √5000 / 2.
    assert!((interval.low - 2431.0).abs() < 2.0 && (interval.high - 2570.0).abs() < 2.0);
}

#[test]
fn a_share_that_is_not_one_gives_an_end_of_the_sample() {
    let values = sample(&[1.0, 2.0]);
    for (share, expected) in [(-1.0, 1.0), (2.0, 2.0), (f64::NAN, 1.0), (f64::INFINITY, 2.0)] {
        assert!((quantile(&values, share) - expected).abs() < 1e-15);
    }
}

#[test]
fn a_tail_that_the_sample_does_not_reach_is_refused_with_what_it_takes() {
    // 0.95ⁿ ≤ 0.025 from 72 on, 0.99ⁿ from 368 on, 0.999ⁿ from 3688 on; a low tail is as far.
    for (p, need) in [(0.95, 72), (0.99, 368), (0.999, 3688), (0.01, 368)] {
        let values = |count: u32| sample(&(1..=count).map(f64::from).collect::<Vec<_>>());
        let refused = quantile_interval(&values(need - 1), p, Confidence::P95).unwrap_err();
        assert_eq!(refused.need, usize::try_from(need).ok(), "{p}");
        assert!(quantile_interval(&values(need), p, Confidence::P95).is_ok(), "{p}");
    }
    let refused = Unsupported { have: 40, need: Some(3688) };
    assert_eq!(refused.to_string(), "an interval of this quantile takes 3688 values, there are 40");
}

#[test]
fn nothing_encloses_the_least_or_the_greatest_value() {
    let values = sample(&[1.0; 50]);
    for p in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = quantile_interval(&values, p, Confidence::P95);
        assert_eq!(refused, Err(Unsupported { have: 50, need: None }));
    }
}

#[test]
fn ranks_of_a_quantile_are_those_of_the_binomial() {
    // P(B ≤ 83) = 0.0206 and P(B ≤ 84) = 0.0399; P(B ≥ 95) = 0.0576 and P(B ≥ 96) = 0.0237.
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    let interval = quantile_interval(&sample(&values), 0.9, Confidence::P95).unwrap();
    assert_eq!((interval.low, interval.high), (84.0, 96.0));
}

proptest! {
    #[test]
    fn the_interval_of_a_quantile_holds_it_and_turns_with_the_sample(
        values in prop::collection::vec(1e-3_f64..1e3, 40..90), p in 0.1_f64..0.9, share in 0.01_f64..0.95,
    ) {
        let confidence = Confidence::new(share).unwrap();
        let interval = quantile_interval(&sample(&values), p, confidence).unwrap();
        prop_assert!(interval.low <= interval.quantile && interval.quantile <= interval.high);
        prop_assert!(interval.confidence >= share - 1e-9);
        let turned: Vec<f64> = values.iter().map(|value| 2e3 - value).collect();
        let back = quantile_interval(&sample(&turned), 1.0 - p, confidence).unwrap();
        prop_assert!((2e3 - back.high - interval.low).abs() < 1e-6);
        prop_assert!((2e3 - back.low - interval.high).abs() < 1e-6);
    }

    #[test]
    fn a_quantile_lies_within_the_sample_and_grows_with_its_share(
        values in prop::collection::vec(1e-9_f64..1e9, 1..60),
        a in 0.0_f64..=1.0,
        b in 0.0_f64..=1.0,
    ) {
        let summary = Summary::of(&sample(&values));
        let (lower, upper) = (quantile(&sample(&values), a.min(b)), quantile(&sample(&values), a.max(b)));
        // Two products and a sum may round beyond an end by a few units in the last place.
        let slack = 1.0 + 1e-12;
        prop_assert!(summary.min <= lower * slack && upper <= summary.max * slack);
        prop_assert!(lower <= upper * slack);
    }

    #[test]
    fn the_interval_of_the_median_holds_the_median(
        values in prop::collection::vec(1e-9_f64..1e9, 6..80),
    ) {
        let interval = quantile_interval(&sample(&values), 0.5, Confidence::P95).unwrap();
        prop_assert!(interval.low <= interval.quantile && interval.quantile <= interval.high);
        prop_assert!(interval.confidence >= 0.95);
    }

    #[test]
    fn the_summary_scales_with_its_unit(values in prop::collection::vec(1e-3_f64..1e3, 1..40)) {
        let halves: Vec<f64> = values.iter().map(|value| value / 2.0).collect();
        let (whole, half) = (Summary::of(&sample(&values)), Summary::of(&sample(&halves)));
        prop_assert!((whole.median / 2.0 - half.median).abs() <= 1e-12 * whole.median);
        prop_assert!((whole.quartile_third / 2.0 - half.quartile_third).abs() <= 1e-12 * whole.max);
    }
}
