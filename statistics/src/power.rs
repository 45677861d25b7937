//! Power: what a run of this size can see, and how many more blocks an answer would take.
//!
//! An interval narrows with the square root of the blocks and with Student's t for them, so what
//! was seen says what is to come (Cochran, Sampling Techniques, 3rd edition, 1977, section 4.7).
//! With few blocks the noise itself is known badly and the forecast with it: ask again when it is
//! reached.

use crate::normal;
use crate::overhead::{Estimate, Method, method_of};
use crate::student::critical_value;

/// Nobody waits for more.
const BLOCKS_MAX: usize = 1_000_000;

/// Chance with which the smallest detectable effect is to be found.
const POWER: f64 = 0.8;

/// The smallest true overhead that a run of this size and noise calls different from none, its
/// interval excluding 1, in 80 of 100 cases; a share: 0.02 is 2 %.
///
/// The interval says how large the standard error is, the noncentral t distribution how many of
/// them it takes (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.10). A
/// width of ranks is rather too small than too large; it is taken as much larger as makes it too
/// small as often as too large (median of chi-square: Wilson and Hilferty, Proceedings of the
/// National Academy of Sciences 17(12), 1931). That of t is the greater of two, so rather too
/// large: its median is 1.03 and its mean 1.05 times the true one, for every number of blocks that
/// has it, and its variance is two thirds of a single one's (30,000 draws of chi-square for 3 to 12
/// blocks). The number as a part of every report: Bloom, "Minimum Detectable Effects", Evaluation
/// Review 19(5), 1995.
///
/// Like [`NoiseFloor::floor`](crate::NoiseFloor::floor) it counts from the smaller side; a verdict
/// needs the overhead to be above that floor, too. Noise that is far from lognormal moves the 80.
///
/// ```
/// use surtax_statistics::{Block, detectable_effect, overhead};
///
/// // Log-ratios 0, 0 and ±0.1: standard error 0.1 √(2/3) / 2 = 0.0408, half of such errors are below
/// // 1.03 of the true one. For 3 degrees of freedom t at 96 % is 3.482, so it takes
/// // 1.05 × 3.482 + 0.8416 √(1 + 0.65 × 3.482² / 6) = 4.936 of them.
/// let (up, down) = (0.1_f64.exp(), (-0.1_f64).exp());
/// let mut blocks = Vec::new();
/// for ratio in [1.0, 1.0, up, down] {
///     blocks.push(Block::new(&[1.0], &[ratio])?);
/// }
/// let expected = (0.040_825 * 4.936_1 / 1.03_f64).exp() - 1.0;
/// assert!((detectable_effect(&overhead(&blocks)?) - expected).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn detectable_effect(estimate: &Estimate) -> f64 {
    let degrees_of_freedom = u32::try_from(estimate.block_count).unwrap_or(u32::MAX).max(2) - 1;
    let level = estimate.confidence.spending(estimate.method.spent());
    let t = critical_value(degrees_of_freedom, level);
    let degrees_of_freedom = f64::from(degrees_of_freedom);
    let standard_error = (estimate.high / estimate.low).ln() / 2.0 / t;
    // What a standard error found is of the true one: median, mean, and the part of its variance.
    let (median, mean, part) = match estimate.method {
        Method::Student => (1.03, 1.05, 0.65),
        Method::SignedRank => {
            let median = (1.0 - 2.0 / (9.0 * degrees_of_freedom)).powf(1.5);
            (median, 1.0 - 0.25 / degrees_of_freedom, 1.0)
        }
    };
    let errors = t * mean
        + normal::quantile(POWER) * (1.0 + part * t * t / (2.0 * degrees_of_freedom)).sqrt();
    (standard_error / median * errors).exp() - 1.0
}

/// Returns how many blocks more would bring the interval to ± `target_half_width`; 0 if it is there
/// already.
///
/// The target is a ratio, 0.01 for ±1 percentage point of the baseline. `None` when no number of
/// blocks up to a million would do, or the target is not above zero.
///
/// ```
/// use surtax_statistics::{Block, blocks_needed, overhead};
///
/// // Many blocks: half the width needs four times as many of them.
/// let mut blocks = Vec::new();
/// for index in 0..1200 {
///     blocks.push(Block::new(&[1.0], &[1.1 + 0.0001 * f64::from(index)])?);
/// }
/// let cost = overhead(&blocks)?;
/// assert_eq!(blocks_needed(&cost, cost.half_width()), Some(0));
/// let more = blocks_needed(&cost, cost.half_width() / 2.0);
/// assert_eq!(more, Some(4 * 1200 - 1200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn blocks_needed(estimate: &Estimate, target_half_width: f64) -> Option<usize> {
    let half_width = estimate.half_width();
    // Written so that a NaN on either side is refused.
    if !(target_half_width > 0.0 && half_width.is_finite()) {
        return None;
    }
    blocks_until(estimate, |_, narrowing| half_width * narrowing <= target_half_width)
}

/// The fewest blocks more with which `is_enough`, which is given their number with those there are
/// and by what the width is expected to be multiplied then, and which stays true once it is.
pub(crate) fn blocks_until(
    estimate: &Estimate,
    is_enough: impl Fn(usize, f64) -> bool,
) -> Option<usize> {
    let have = estimate.block_count;
    let errors_with = |count: usize, method: Method| -> Option<f64> {
        let count = u32::try_from(count).ok()?;
        let level = estimate.confidence.spending(method.spent());
        let t = critical_value(count.saturating_sub(1), level);
        Some(t / f64::from(count).sqrt())
    };
    // Where ranks take over from t the width does not shrink for a block or two. A forecast must
    // not grow, so t is forecast never to be narrower than the first ranks.
    let ranks_from =
        (0..).find(|&count| method_of(count, estimate.confidence) == Method::SignedRank)?;
    let first_ranks = errors_with(ranks_from, Method::SignedRank)?;
    let errors_per_deviation = |count: usize| -> Option<f64> {
        if count >= ranks_from {
            return errors_with(count, Method::SignedRank);
        }
        Some(errors_with(count, Method::Student)?.max(first_ranks))
    };
    let now = errors_per_deviation(have)?;
    // A hair of slack, or an exact multiple would ask for one block more.
    let narrowing = |count| Some(errors_per_deviation(count)? / now * (1.0 - 1e-12));
    if is_enough(have, 1.0) {
        return Some(0);
    }
    let (mut too_few, mut enough) = (have, BLOCKS_MAX.max(have));
    if !is_enough(enough, narrowing(enough)?) {
        return None;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle, narrowing(middle)?) { enough = middle } else { too_few = middle }
    }
    Some(enough - have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::Confidence;
    use crate::overhead::Method;
    use proptest::prelude::*;

    fn estimate(block_count: usize, half_width: f64) -> Estimate {
        let (confidence, method) = (Confidence::P95, Method::Student);
        let (low, high) = (1.1 - half_width, 1.1 + half_width);
        Estimate { ratio: 1.1, low, high, confidence, block_count, method }
    }

    #[test]
    fn three_blocks_gain_more_than_the_square_root_because_t_falls_too() {
        // At 96 %, t₂ / √3 = 2.800; half of it is 1.400, t₃ / √4 is 1.741, and t₄ / √5 = 1.341.
        assert_eq!(blocks_needed(&estimate(3, 0.1), 0.05), Some(2));
    }

    #[test]
    fn what_cannot_be_reached_is_none_and_not_a_huge_number() {
        assert_eq!(blocks_needed(&estimate(5, 0.1), 1e-9), None);
        for target in [0.0, -1.0, f64::NAN] {
            assert_eq!(blocks_needed(&estimate(5, 0.1), target), None);
        }
        assert_eq!(blocks_needed(&estimate(5, f64::INFINITY), 0.1), None);
    }

    #[test]
    fn no_noise_hides_nothing_and_a_width_without_end_everything() {
        assert!(detectable_effect(&estimate(5, 0.0)).abs() < 1e-12);
        let endless = Estimate { high: f64::INFINITY, ..estimate(5, 0.1) };
        assert!(detectable_effect(&endless).is_infinite());
    }

    proptest! {
        #[test]
        fn an_effect_is_detectable_beyond_the_intervals_half_width_and_grows_with_it(
            have in 3_usize..200, wide in 0.001_f64..0.5, part in 0.1_f64..1.0,
        ) {
            let (wider, narrower) = (estimate(have, wide), estimate(have, wide * part));
            prop_assert!(detectable_effect(&narrower) <= detectable_effect(&wider));
            prop_assert!(detectable_effect(&wider) > wide / 1.1);
            // Whichever arm is called the first.
            let turned = detectable_effect(&wider.inverse());
            prop_assert!((turned - detectable_effect(&wider)).abs() < 1e-9);
        }

        #[test]
        fn a_narrower_target_never_needs_fewer_blocks(
            have in 3_usize..200, wide in 0.001_f64..0.2, share in 0.1_f64..1.0,
        ) {
            let seen = estimate(have, 0.1);
            let (less, more) = (blocks_needed(&seen, wide), blocks_needed(&seen, wide * share));
            prop_assert!(less.zip(more).is_none_or(|(less, more)| less <= more));
        }
    }
}
