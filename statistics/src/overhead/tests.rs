//! Properties that must hold for every set of blocks.

use super::*;
use proptest::prelude::*;

/// Baseline, baseline again, arm.
type Times = (f64, f64, f64);

fn estimate(times: &[Times]) -> Estimate {
    let blocks: Vec<Block> =
        times.iter().map(|&(a, b, arm)| Block::new(&[a, b], &[arm]).unwrap()).collect();
    overhead(&blocks).unwrap()
}

impl Estimate {
    /// The baseline over the arm.
    pub(crate) fn inverse(&self) -> Self {
        Self { ratio: 1.0 / self.ratio, low: 1.0 / self.high, high: 1.0 / self.low, ..*self }
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn times() -> impl Strategy<Value = Vec<Times>> {
    let time = || 1e-3_f64..1e3;
    prop::collection::vec((time(), time(), time()), 3..40)
}

#[test]
fn two_blocks_are_too_few_and_the_error_says_three() {
    let block = Block::new(&[1.0], &[2.0]).unwrap();
    assert_eq!(overhead(&[]), Err(TooFew { have: 0, need: 3 }));
    assert_eq!(overhead(&[block; 2]), Err(TooFew { have: 2, need: 3 }));
}

#[test]
fn ranks_take_over_as_soon_as_no_single_block_can_move_an_end() {
    let method = |count: usize, confidence| {
        overhead_at(&vec![Block::new(&[1.0], &[2.0]).unwrap(); count], confidence).unwrap().method
    };
    assert_eq!(method(12, Confidence::P95), Method::Student);
    assert_eq!(method(13, Confidence::P95), Method::SignedRank);
    assert_eq!(method(16, Confidence::P99), Method::Student);
    assert_eq!(method(17, Confidence::P99), Method::SignedRank);
}

#[test]
fn thirteen_blocks_give_the_fourteenth_walsh_average_from_each_end() {
    // Of 2¹³ signs 88 make a sum of ranks of at most 13, and 109 of at most 14: 1.07 and 1.33 %, of
    // which 1.25 % may be spent. The averages of 1 to 13 are 1, 1.5, two each of 2 and 2.5, three
    // each of 3 and 3.5, then 4.
    let blocks: Vec<Block> = (1..=13)
        .map(|ln_ratio| Block::new(&[1.0], &[f64::from(ln_ratio).exp()]).unwrap())
        .collect();
    let found = overhead(&blocks).unwrap();
    assert!(close(found.low.ln(), 4.0) && close(found.high.ln(), 10.0), "{found:?}");
    assert!(close(found.ratio.ln(), 7.0));
}

#[test]
fn blocks_that_are_alike_while_the_baseline_is_not_have_an_interval_all_the_same() {
    // The baseline is e^±s around 1 and the ratio always 1: no scatter of its own. Within, a
    // variance of 2 s² for one value, 3 s² for the ratio; pooled over 2 + 3 degrees of freedom 1.8
    // s².
    let s = 0.1_f64;
    let block = Block::new(&[s.exp(), (-s).exp()], &[1.0]).unwrap();
    let found = overhead(&[block; 3]).unwrap();
    // t for 2 degrees of freedom at 96 % is 4.849.
    let half = 4.8487 * s * (1.8_f64 / 3.0).sqrt();
    assert!(
        (found.high.ln() - half).abs() < 1e-4 && close(found.low, 1.0 / found.high),
        "{found:?}"
    );
}

#[test]
fn one_burst_does_not_widen_the_interval_of_twenty_blocks() {
    let mut times: Vec<Times> =
        (0..20).map(|i| (1.0, 1.0, 1.07 + 0.001 * f64::from(i % 5))).collect();
    let calm = estimate(&times);
    times[7].2 = 50.0;
    let disturbed = estimate(&times);
    assert!(disturbed.half_width() < 1.5 * calm.half_width(), "{calm:?} {disturbed:?}");
}

#[test]
fn drift_that_a_block_shares_cancels() {
    let times: Vec<Times> = (0..10).map(|i| 1.1_f64.powi(i)).map(|d| (d, d, 1.07 * d)).collect();
    let found = estimate(&times);
    assert!(close(found.low, 1.07) && close(found.high, 1.07), "{found:?}");
}

#[test]
fn absurd_but_finite_times_end_in_an_interval_and_not_in_a_panic() {
    let block = Block::new(&[f64::MIN_POSITIVE], &[f64::MAX]).unwrap();
    let found = overhead(&[block; 20]).unwrap();
    assert!(found.ratio.is_infinite() && found.holds(found.ratio));
    assert!(found.inverse().ratio.abs() < 1e-300);
}

proptest! {
    #[test]
    fn the_unit_does_not_matter(times in times(), unit in 1e-6_f64..1e6) {
        let scaled: Vec<Times> =
            times.iter().map(|&(a, b, arm)| (a * unit, b * unit, arm * unit)).collect();
        let (one, other) = (estimate(&times), estimate(&scaled));
        prop_assert!(close(one.ratio, other.ratio));
        prop_assert!(close(one.low, other.low) && close(one.high, other.high));
    }

    #[test]
    fn twice_the_time_is_twice_the_ratio(times in times()) {
        let slower: Vec<Times> = times.iter().map(|&(a, b, arm)| (a, b, 2.0 * arm)).collect();
        let (one, other) = (estimate(&times), estimate(&slower));
        prop_assert!(close(2.0 * one.ratio, other.ratio) && close(2.0 * one.high, other.high));
    }

    #[test]
    fn swapping_the_roles_inverts_the_ratio(times in times()) {
        let turned: Vec<Block> =
            times.iter().map(|&(a, b, arm)| Block::new(&[arm], &[a, b]).unwrap()).collect();
        let (found, back) = (overhead(&turned).unwrap().inverse(), estimate(&times));
        prop_assert!(close(found.ratio, back.ratio));
        prop_assert!(close(found.low, back.low) && close(found.high, back.high));
    }

    #[test]
    fn the_order_of_the_blocks_does_not_reach_the_last_bit(
        (times, shuffled) in times().prop_flat_map(|t| (Just(t.clone()), Just(t).prop_shuffle())),
    ) {
        prop_assert_eq!(estimate(&times), estimate(&shuffled));
    }

    #[test]
    fn the_interval_holds_its_estimate_at_any_confidence(times in times(), share in 0.01_f64..0.999) {
        let blocks: Vec<Block> =
            times.iter().map(|&(a, b, arm)| Block::new(&[a, b], &[arm]).unwrap()).collect();
        let found = overhead_at(&blocks, Confidence::new(share).unwrap()).unwrap();
        prop_assert!(found.holds(found.ratio), "{:?}", found);
        let wider = overhead_at(&blocks, Confidence::new(share.sqrt()).unwrap()).unwrap();
        let same_method = wider.method == found.method;
        prop_assert!(!same_method || wider.half_width() >= found.half_width() * (1.0 - 1e-9));
    }

    #[test]
    fn no_float_at_all_makes_a_block_panic(
        baseline in prop::collection::vec(any::<f64>(), 0..3), arm in prop::collection::vec(any::<f64>(), 0..3),
    ) {
        let usable = |side: &[f64]| !side.is_empty() && side.iter().all(|v| v.is_finite() && *v > 0.0);
        prop_assert_eq!(Block::new(&baseline, &arm).is_ok(), usable(&baseline) && usable(&arm));
    }
}
