//! The noise floor: by how much the baseline differs from itself.
//!
//! Every plan runs the baseline as two arms. Whatever separates them (chance, place in the order, a
//! neighbour) separates other arms as well, so no difference smaller than this is worth a name. Its
//! interval is made at the level that it promises, without the guard of an overhead's: it is no
//! statement about a cost, and a wider one would hide costs without making a verdict wrong less
//! often than is asked. The A/A comparison as a check of the instrument: Kohavi, Tang and Xu,
//! Trustworthy Online Controlled Experiments, 2020, chapter 19.

use crate::confidence::Confidence;
use crate::overhead::{Block, Estimate, Guard, estimate};
use crate::sample::TooFew;

/// Distance between the two baseline arms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseFloor {
    /// Baseline-again over baseline.
    pub estimate: Estimate,
    /// The largest departure from 1 that the interval still contains, as a share: 0.02 is 2 %.
    ///
    /// Counted from the smaller side, so that it does not matter which arm is called the first.
    pub floor: f64,
}

/// The noise floor from pairs: in each [`Block`] the first baseline arm's value and, as the arm,
/// the second's.
///
/// ```
/// use surtax_statistics::{Block, noise_floor};
///
/// let pairs = [
///     Block::new(&[100.0], &[102.0])?,
///     Block::new(&[100.0], &[102.0])?,
///     Block::new(&[100.0], &[102.0])?,
/// ];
/// let noise = noise_floor(&pairs)?;
/// // No scatter at all: the interval is the estimate, and 1.02 departs from 1 by 0.02.
/// assert!((noise.estimate.ratio - 1.02).abs() < 1e-12);
/// assert!((noise.floor - 0.02).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// How many pairs are needed, when there are fewer.
pub fn noise_floor(pairs: &[Block]) -> Result<NoiseFloor, TooFew> {
    let estimate = estimate(pairs, Confidence::P95, Guard::Dropped)?;
    let floor = departure(estimate.low).max(departure(estimate.high));
    Ok(NoiseFloor { estimate, floor })
}

/// Returns the distance of a ratio from 1, the same for a ratio and its inverse: 0.25 for 1.25 and
/// for 0.8.
#[must_use]
pub fn departure(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_pairs_are_too_few_and_the_error_says_three() {
        let pair = Block::new(&[1.0], &[1.0]).unwrap();
        assert_eq!(noise_floor(&[pair; 2]), Err(TooFew { have: 2, need: 3 }));
    }

    #[test]
    fn a_ratio_and_its_inverse_depart_alike() {
        assert!((departure(1.25) - 0.25).abs() < 1e-12 && (departure(0.8) - 0.25).abs() < 1e-12);
        assert!(departure(0.0).is_infinite() && departure(f64::INFINITY).is_infinite());
    }

    proptest! {
        #[test]
        fn the_floor_does_not_depend_on_which_arm_is_called_the_first(
            pairs in prop::collection::vec((1e-3_f64..1e3, 1e-3_f64..1e3), 3..30),
        ) {
            let of = |side: fn(&(f64, f64)) -> (f64, f64)| {
                let blocks: Vec<Block> = pairs.iter().map(side)
                    .map(|(a, b)| Block::new(&[a], &[b]).unwrap()).collect();
                noise_floor(&blocks).unwrap().floor
            };
            let (one, other) = (of(|&(a, b)| (a, b)), of(|&(a, b)| (b, a)));
            prop_assert!((one - other).abs() <= 1e-9 * (1.0 + one));
            prop_assert!(one >= 0.0);
        }
    }
}
