//! Families: many comparisons in one report, and the chance that any of them is false.
//!
//! Twenty equal arms, each judged at 5 %, give at least one false difference in two of three
//! reports. Each comparison therefore gets a p-value, and Holm's adjustment of all of them keeps
//! the chance of any false rejection below the level asked for, however the comparisons depend on
//! one another: they share a baseline. Source: Holm, "A Simple Sequentially Rejective Multiple Test
//! Procedure", Scandinavian Journal of Statistics 6(2), 1979.
//!
//! The p-value is of the test that the interval inverts: it is below 0.05 exactly where the 95 %
//! interval of [`overhead`](crate::overhead) excludes 1. A family asks for far smaller ones, and
//! there that test is not to be trusted where the machine has a slow mode: a ratio of one value to
//! the median of two is skewed, and of twenty equal arms any was called different in 9 of 100
//! families of 20 blocks. The ratio of one value to one is symmetric whatever the noise, if both
//! arms are alike (Lehmann and Romano, Testing Statistical Hypotheses, 3rd edition, 2005, section
//! 5.8), so below 0.05 the greater p-value of the two counts; that leaves 1 of 100.
//! `tests/simulation/family.rs` has the shares.
//!
//! Fewer than 13 blocks have Student's t, whose error takes account of what the baseline differs
//! from itself within a block. Without that, a slow mode called any of twenty different in 7 of 100
//! families of 6 blocks, and in 12 of 3.
//!
//! As an interval is made to spend only a part of the error that it promises, so its p-value is
//! that of the test divided by this part ([`Method::spent`](crate::Method::spent)).

use crate::confidence::Confidence;
use crate::overhead::{BLOCKS_MIN, Block, Method, ascending, method_of, skew_shift, within};
use crate::sample::TooFew;
use crate::{signed_rank, student};

/// Level at which the p-value and the 95 % interval must agree.
const LEVEL: f64 = 0.05;

/// The chance of an overhead at least so far from none, were there none; two-sided.
///
/// ```
/// use surtax_statistics::{Block, p_value};
///
/// // 13 blocks, all slower: only 2 of the 2¹³ ways to give them signs are as extreme, and of the error
/// // a half may be spent.
/// let blocks = (1..=13).map(|percent| Block::new(&[100.0], &[100.0 + f64::from(percent)]));
/// let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(p_value(&blocks)?, 2.0 / 8192.0 / 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// How many blocks are needed, when there are fewer.
pub fn p_value(blocks: &[Block]) -> Result<f64, TooFew> {
    if blocks.len() < BLOCKS_MIN {
        return Err(TooFew { have: blocks.len(), need: BLOCKS_MIN });
    }
    let sorted = ascending(blocks, Block::ln_ratio);
    let centre = signed_rank::hodges_lehmann(&sorted);
    // The same rounding as where the interval is made, or a tie with 1 could fall to either side.
    let shift = skew_shift(blocks, centre);
    let method = method_of(blocks.len(), Confidence::P95);
    let of_promise = |p: f64| (p / method.spent()).min(1.0);
    if method == Method::Student {
        return Ok(of_promise(student::p_value(&sorted, within(blocks), centre + shift)));
    }
    let ratio = |average: f64| (average + shift).exp();
    let of_interval = signed_rank::p_value(
        &sorted,
        |average| ratio(average) < 1.0,
        |average| ratio(average) <= 1.0,
    );
    let first = ascending(blocks, Block::ln_first_ratio);
    let of_first = signed_rank::p_value(&first, |average| average < 0.0, |average| average <= 0.0);
    Ok(of_promise(of_interval).max(of_promise(of_first).min(LEVEL.next_down())))
}

/// Holm's adjusted p-values, in the order given: below 0.05 are those that may be called different
/// with a chance of at most 5 % that any of them is not.
///
/// What is not a number is taken as 1, what lies outside 0 to 1 as the nearer end.
///
/// ```
/// use surtax_statistics::holm;
///
/// // The least by 4, the next by 3, and none below the one before it: 0.03 × 2, then 0.06 again.
/// let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
/// let expected = [0.03, 0.06, 0.06, 0.02];
/// assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
/// ```
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let p = |index: usize| {
        let p: f64 = p_values[index];
        if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }
    };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p(a).total_cmp(&p(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut so_far = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        so_far = so_far.max(p(index) * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = so_far;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::overhead;
    use proptest::prelude::*;

    fn of(ratios: &[f64]) -> f64 {
        let blocks: Vec<Block> =
            ratios.iter().map(|&ratio| Block::new(&[1.0], &[ratio]).unwrap()).collect();
        p_value(&blocks).unwrap()
    }

    #[test]
    fn two_blocks_have_no_p_value_and_the_error_says_three() {
        let block = Block::new(&[1.0], &[1.0]).unwrap();
        assert_eq!(p_value(&[block; 2]), Err(TooFew { have: 2, need: 3 }));
    }

    #[test]
    fn few_blocks_give_the_p_value_of_students_t() {
        // Log-ratios 1, 2, 3: t = 2 √3 = 3.464 with 2 degrees of freedom; R's t.test says 0.07418,
        // of which 0.8 is spent.
        assert!((of(&[1_f64.exp(), 2_f64.exp(), 3_f64.exp()]) - 0.074_179_9 / 0.8).abs() < 1e-6);
    }

    #[test]
    fn ranks_give_the_p_values_that_one_can_count() {
        // Of the ranks 1 to 13 the third is negative. As small a sum have ∅, {1}, {2}, {3} and {1,
        // 2}: five of 2¹³ ways, to either side.
        let ratios: Vec<f64> = (1..=13)
            .map(|rank| if rank == 3 { -3.0 } else { f64::from(rank) })
            .map(|ln_ratio: f64| (ln_ratio / 100.0).exp())
            .collect();
        assert!((of(&ratios) - 2.0 * 5.0 / 8192.0 / 0.5).abs() < 1e-12, "{}", of(&ratios));
    }

    #[test]
    fn no_difference_at_all_is_no_evidence_and_no_scatter_is_certainty() {
        for count in [3, 7, 20, 100] {
            assert!((of(&vec![1.0; count]) - 1.0).abs() < 1e-12, "{count}");
        }
        assert!(of(&[1.1; 4]).abs() < 1e-12);
        assert!(of(&[1.1; 100]) < 1e-9);
    }

    #[test]
    fn the_normal_approximation_takes_over_without_a_step() {
        let ratios = |count: i32| -> Vec<f64> {
            (0..count).map(|i| (0.01 * f64::from((i * 37) % 101 - 43)).exp()).collect()
        };
        let (exact, approximate) = (of(&ratios(64)), of(&ratios(65)));
        assert!((exact - approximate).abs() < 0.1, "{exact} {approximate}");
    }

    #[test]
    fn what_is_no_p_value_rejects_nothing() {
        let adjusted = holm(&[f64::NAN, 2.0, -1.0]);
        assert!(adjusted.iter().zip([1.0, 1.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn p_is_below_5_percent_exactly_where_the_interval_excludes_1(
            // Whole numbers give ties, and differences of exactly nothing.
            times in prop::collection::vec((1_u8..6, 1_u8..6, 1_u8..8), 3..90), scale in 0.0_f64..1.0,
        ) {
            let blocks: Vec<Block> = times.iter().map(|&(a, b, arm)| {
                let time = |it: u8| f64::from(it).powf(scale);
                Block::new(&[time(a), time(b)], &[time(arm)]).unwrap()
            }).collect();
            let (found, p) = (overhead(&blocks).unwrap(), p_value(&blocks).unwrap());
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert_eq!(p < 0.05, !found.holds(1.0), "{} {:?}", p, found);
        }

        #[test]
        fn adjusting_keeps_the_order_and_lowers_nothing(
            p_values in prop::collection::vec(0.0_f64..=1.0, 0..40),
        ) {
            let adjusted = holm(&p_values);
            for (a, &p) in p_values.iter().enumerate() {
                prop_assert!(p <= adjusted[a] && adjusted[a] <= 1.0);
                for (b, &other) in p_values.iter().enumerate() {
                    prop_assert!(p > other || adjusted[a] <= adjusted[b]);
                }
            }
        }
    }
}
