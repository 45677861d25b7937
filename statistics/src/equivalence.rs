//! The verdict: differs, equivalent, or neither can be said.
//!
//! - **Differs** when the interval excludes 1 and the ratio is farther from 1 than the noise floor,
//!   the largest difference that the two baseline arms leave possible between equals. The interval
//!   alone calls up to 3 of 100 equal arms different; comparing with the *found* difference of the
//!   baselines barely helps, since that is itself near zero by luck often enough. The end of its
//!   interval brings it below 1 of 100 at every size and noise simulated, and a reader can check
//!   the verdict with the numbers that the report prints. The price is power at few blocks: 5 %
//!   under 3 % noise is found in 33 of 100 runs of 6 blocks, in 70 of 10 blocks.
//! - **Equivalent** when the whole interval lies within 1 ± margin: two one-sided tests
//!   (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987). TOST at 5 % asks
//!   this of the 90 % interval; ours of 95 % is the stricter test at 2.5 %.
//! - **Inconclusive** otherwise. A wide interval around 1 is never a zero.
//!
//! A difference can be certain and yet within the margin. It is then said to differ, because that
//! is known; [`Estimate::within`] tells that it does not matter. Each verdict stands alone: among
//! twenty equal arms a false one is twenty times as likely.

use crate::noise::{NoiseFloor, departure};
use crate::overhead::Estimate;

/// Verdict on an arm whose trials are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Above the noise floor, and the interval excludes 1.
    Differs,
    /// The whole interval lies within the margin.
    Equivalent,
    /// Neither.
    Inconclusive,
}

/// The verdict on an overhead; `margin` is a share: 0.03 means that 3 % more or less is the same.
///
/// A margin that is not a positive number is never kept, so nothing is equivalent then.
///
/// ```
/// use surtax_statistics::{Block, Verdict, noise_floor, overhead, verdict};
///
/// let arm = |ratio: f64| Block::new(&[1.0], &[ratio]).map(|block| overhead(&[block; 3]));
/// // The baselines differ by 2 %: the floor is 0.02.
/// let noise = noise_floor(&[Block::new(&[1.0], &[1.02])?; 3])?;
/// assert_eq!(verdict(&arm(1.07)??, &noise, 0.05), Verdict::Differs);
/// assert_eq!(verdict(&arm(1.01)??, &noise, 0.05), Verdict::Equivalent);
/// assert_eq!(verdict(&arm(1.01)??, &noise, 0.005), Verdict::Inconclusive);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn verdict(estimate: &Estimate, noise: &NoiseFloor, margin: f64) -> Verdict {
    if !estimate.holds(1.0) && departure(estimate.ratio) > noise.floor {
        Verdict::Differs
    } else if is_equivalent(estimate, margin) {
        Verdict::Equivalent
    } else {
        Verdict::Inconclusive
    }
}

/// Says whether the whole interval lies within 1 ± `margin`; never of a margin that is not a
/// positive number.
#[must_use]
pub fn is_equivalent(estimate: &Estimate, margin: f64) -> bool {
    margin > 0.0 && estimate.within(margin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::Confidence;
    use crate::overhead::Method;
    use proptest::prelude::*;

    fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
        let (confidence, method) = (Confidence::P95, Method::SignedRank);
        Estimate { ratio, low, high, confidence, block_count: 10, method }
    }

    fn noise(floor: f64) -> NoiseFloor {
        NoiseFloor { estimate: estimate(1.0 - floor, 1.0, 1.0 + floor), floor }
    }

    #[test]
    fn a_difference_below_the_noise_floor_is_not_reported() {
        let slower = estimate(1.01, 1.02, 1.03);
        assert_eq!(verdict(&slower, &noise(0.01), 0.005), Verdict::Differs);
        assert_eq!(verdict(&slower, &noise(0.025), 0.005), Verdict::Inconclusive);
    }

    #[test]
    fn faster_is_judged_as_slower_is() {
        assert_eq!(verdict(&estimate(0.79, 0.8, 0.81), &noise(0.24), 0.0), Verdict::Differs);
        assert_eq!(verdict(&estimate(0.79, 0.8, 0.81), &noise(0.26), 0.0), Verdict::Inconclusive);
    }

    #[test]
    fn a_wide_interval_around_one_is_inconclusive_and_not_equivalent() {
        assert_eq!(verdict(&estimate(0.9, 1.0, 1.1), &noise(0.01), 0.03), Verdict::Inconclusive);
        assert_eq!(verdict(&estimate(0.98, 1.0, 1.02), &noise(0.01), 0.03), Verdict::Equivalent);
    }

    #[test]
    fn a_margin_that_is_no_number_makes_nothing_equivalent() {
        for margin in [f64::NAN, -1.0, 0.0] {
            assert_eq!(
                verdict(&estimate(1.0, 1.0, 1.0), &noise(0.1), margin),
                Verdict::Inconclusive
            );
        }
    }

    proptest! {
        #[test]
        fn what_contains_one_never_differs(
            below in 0.0_f64..0.5, above in 0.0_f64..0.5, floor in 0.0_f64..0.1, margin in 0.0_f64..1.0,
        ) {
            let around = estimate(1.0 - below, 1.0 + (above - below) / 2.0, 1.0 + above);
            prop_assert_ne!(verdict(&around, &noise(floor), margin), Verdict::Differs);
        }

        #[test]
        fn a_wider_margin_never_takes_equivalence_back(
            low in 0.5_f64..1.5, width in 0.0_f64..0.5, margin in 0.0_f64..0.5, more in 0.0_f64..0.5,
        ) {
            let found = estimate(low, low + width / 2.0, low + width);
            if verdict(&found, &noise(0.02), margin) == Verdict::Equivalent {
                prop_assert_eq!(verdict(&found, &noise(0.02), margin + more), Verdict::Equivalent);
            }
        }
    }
}
