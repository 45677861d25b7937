//! Stopping: when an interval is narrow enough that no more blocks are needed.
//!
//! The rule looks at the width and never at what the interval holds: who stops as soon as 1 is
//! excluded finds differences between equals. Yet a rule that looks after every block stops rather
//! where the interval is narrow by luck, and such an interval holds the truth less often: from 8
//! blocks on, with no more care, in two of 100 runs fewer. Multiplying the width by a constant does
//! not help, it only asks for another precision; nor do two looks in a row or fewer looks. What
//! helps is to ask more of the early looks, where the width is known worst, and almost nothing of
//! the late ones: see [`allowance`].
//!
//! Sources: Chow and Robbins, "On the Asymptotic Theory of Fixed-Width Sequential Confidence
//! Intervals for the Mean", Annals of Mathematical Statistics 36(2), 1965, for the rule; Simons,
//! "On the Cost of not Knowing the Variance when Making a Fixed-Width Confidence Interval for the
//! Mean", ibid. 39(6), 1968, for what it costs; O'Brien and Fleming, "A Multiple Testing Procedure
//! for Clinical Trials", Biometrics 35(3), 1979, for stricter looks the earlier they are. The
//! numbers are from `tests/simulation/stopping.rs`, which measures the coverage at the block where
//! the rule stops.

use crate::overhead::Estimate;
use crate::power::blocks_until;

/// The first number of blocks at which the rule may stop.
///
/// Not among the first with ranks: there an interval covers a little too seldom where the machine
/// has a slow mode, and the rule would add to that.
pub const LOOK_FROM: usize = 16;

/// At so many blocks the width must be half of what is asked.
const TWICE_AT: f64 = 24.0;

/// Half the interval's width as a share of the ratio: 0.02 is ±2 %.
///
/// ```
/// use surtax_statistics::{Block, overhead, relative_half_width};
///
/// // Of the log-ratios 1 to 13 the interval runs from 4 to 10, about 7.
/// let mut blocks = Vec::new();
/// for ln_ratio in 1..=13 {
///     blocks.push(Block::new(&[1.0], &[f64::from(ln_ratio).exp()])?);
/// }
/// let expected = (10_f64.exp() - 4_f64.exp()) / 2.0 / 7_f64.exp();
/// assert!((relative_half_width(&overhead(&blocks)?) - expected).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn relative_half_width(estimate: &Estimate) -> f64 {
    estimate.half_width() / estimate.ratio
}

/// Says whether the interval is narrow enough to stop, at a look after every block.
///
/// It is when its [`relative_half_width`], with an allowance for a width that is small by luck, is
/// at most `precision` (0.02 for ±2 %) and there are at least [`LOOK_FROM`] blocks. Then a 95 %
/// interval holds the true ratio in at least 95 of 100 runs.
///
/// ```
/// use surtax_statistics::{Block, LOOK_FROM, is_narrow_enough, overhead};
///
/// // No scatter, no width: narrow enough as soon as anyone may look.
/// let block = Block::new(&[1.0], &[1.1])?;
/// assert!(!is_narrow_enough(&overhead(&[block; LOOK_FROM - 1])?, 0.02));
/// assert!(is_narrow_enough(&overhead(&[block; LOOK_FROM])?, 0.02));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn is_narrow_enough(estimate: &Estimate, precision: f64) -> bool {
    // A width or a precision that is not a number is never enough.
    estimate.block_count >= LOOK_FROM
        && relative_half_width(estimate) * allowance(estimate.block_count) <= precision
}

/// Returns how many blocks more it will take, by the width seen so far; 0 if it is narrow enough
/// already.
///
/// A forecast like [`blocks_needed`](crate::blocks_needed). `None` when a million blocks would not
/// do, or the precision is not above zero.
///
/// ```
/// use surtax_statistics::{Block, LOOK_FROM, blocks_to_precision, overhead};
///
/// let cost = overhead(&[Block::new(&[1.0], &[1.1])?; 10])?;
/// assert_eq!(blocks_to_precision(&cost, 0.02), Some(LOOK_FROM - 10));
/// assert_eq!(blocks_to_precision(&cost, 0.0), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn blocks_to_precision(estimate: &Estimate, precision: f64) -> Option<usize> {
    let width = relative_half_width(estimate);
    // Written so that a NaN on either side is refused.
    if !(precision > 0.0 && width.is_finite()) {
        return None;
    }
    blocks_until(estimate, |block_count, narrowing| {
        block_count >= LOOK_FROM && width * narrowing * allowance(block_count) <= precision
    })
}

/// By what the width is multiplied before it is compared: 4.4 at 16 blocks, 2 at 24, 1.1 at 50.
///
/// The third power makes the hurdle fall so fast that a run rather passes it when it is due than by
/// luck before, and leaves a long run alone. Beside it, first looks at 20 and 30 blocks with no
/// allowance covered less (by 0.4 of 100 in their worst cell) and a quiet machine waited for
/// nothing.
fn allowance(block_count: usize) -> f64 {
    1.0 + (TWICE_AT / block_count as f64).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::Confidence;
    use crate::overhead::Method;
    use proptest::prelude::*;

    fn estimate(block_count: usize, ratio: f64, share: f64) -> Estimate {
        let (confidence, method) = (Confidence::P95, Method::SignedRank);
        let (low, high) = (ratio * (1.0 - share), ratio * (1.0 + share));
        Estimate { ratio, low, high, confidence, block_count, method }
    }

    #[test]
    fn no_interval_is_narrow_enough_before_the_first_look() {
        assert!(!is_narrow_enough(&estimate(LOOK_FROM - 1, 1.0, 0.0), 0.02));
        assert!(is_narrow_enough(&estimate(LOOK_FROM, 1.0, 0.0), 0.02));
    }

    #[test]
    fn at_24_blocks_the_width_must_be_half_of_what_is_asked() {
        assert!(is_narrow_enough(&estimate(24, 1.3, 0.0099), 0.02));
        assert!(!is_narrow_enough(&estimate(24, 1.3, 0.0101), 0.02));
        // At 240 blocks the allowance is a thousandth.
        assert!(is_narrow_enough(&estimate(240, 1.3, 0.01997), 0.02));
        assert!(!is_narrow_enough(&estimate(240, 1.3, 0.01999), 0.02));
    }

    #[test]
    fn what_the_interval_holds_does_not_matter() {
        for ratio in [0.5, 1.0, 7.0] {
            assert!(is_narrow_enough(&estimate(100, ratio, 0.019), 0.02));
            assert!(!is_narrow_enough(&estimate(100, ratio, 0.021), 0.02));
        }
    }

    #[test]
    fn what_is_no_number_is_never_narrow_enough() {
        for precision in [f64::NAN, -0.1] {
            assert!(!is_narrow_enough(&estimate(100, 1.0, 0.01), precision));
            assert_eq!(blocks_to_precision(&estimate(100, 1.0, 0.01), precision), None);
        }
        let endless = Estimate { high: f64::INFINITY, ..estimate(100, 1.0, 0.01) };
        assert!(!is_narrow_enough(&endless, 0.02));
        assert_eq!(blocks_to_precision(&endless, 0.02), None);
        assert_eq!(blocks_to_precision(&estimate(20, 1.0, 0.1), 1e-9), None);
    }

    proptest! {
        #[test]
        fn no_blocks_are_forecast_exactly_where_the_rule_stops(
            block_count in 3_usize..300, share in 0.0_f64..0.05, precision in 1e-3_f64..0.05,
        ) {
            let found = estimate(block_count, 1.1, share);
            let more = blocks_to_precision(&found, precision);
            prop_assert_eq!(is_narrow_enough(&found, precision), more == Some(0));
        }

        #[test]
        fn a_finer_precision_never_takes_fewer_blocks(
            block_count in 3_usize..300, precision in 2e-3_f64..0.05, part in 0.1_f64..1.0,
        ) {
            let found = estimate(block_count, 1.1, 0.03);
            let (coarse, fine) =
                (blocks_to_precision(&found, precision), blocks_to_precision(&found, precision * part));
            prop_assert!(coarse.zip(fine).is_none_or(|(coarse, fine)| coarse <= fine));
        }
    }
}
