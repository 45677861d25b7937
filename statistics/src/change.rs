//! The change between two runs: what an overhead was, and what it is now.
//!
//! Each run has its own baseline, so that what differs between two days is in neither overhead. The
//! two are independent, and their intervals say how far each may be off; what their ratio may be
//! off follows by the method of variance estimates recovery (MOVER), which takes intervals as they
//! are, asymmetric ones too: Zou and Donner, "Construction of confidence limits about effect
//! measures", Statistics in Medicine 27(10), 2008, equations 4 and 5, on the logarithms.

use crate::overhead::Estimate;

/// The later estimate over the earlier one, with the interval of the less confident of the two.
///
/// ```
/// use surtax_statistics::{Block, change, overhead};
///
/// let of = |ratio: f64| Block::new(&[1.0], &[ratio]).map(|block| overhead(&[block; 3]));
/// // Neither has any scatter: 1.2 after 1.1 is 1.2 / 1.1, and that is all.
/// let found = change(&of(1.1)??, &of(1.2)??);
/// assert!((found.ratio - 1.2 / 1.1).abs() < 1e-12);
/// assert!((found.high - found.low).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn change(before: &Estimate, after: &Estimate) -> Estimate {
    let below = |estimate: &Estimate| (estimate.ratio / estimate.low).ln();
    let above = |estimate: &Estimate| (estimate.high / estimate.ratio).ln();
    let centre = (after.ratio / before.ratio).ln();
    let less_sure =
        if after.confidence.share() < before.confidence.share() { after } else { before };
    Estimate {
        ratio: centre.exp(),
        low: (centre - below(after).hypot(above(before))).exp(),
        high: (centre + above(after).hypot(below(before))).exp(),
        confidence: less_sure.confidence,
        block_count: after.block_count.min(before.block_count),
        method: less_sure.method,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Method};
    use proptest::prelude::*;

    fn estimate(ratio: f64, low: f64, high: f64) -> Estimate {
        let confidence = Confidence::P95;
        Estimate { ratio, low, high, confidence, block_count: 10, method: Method::SignedRank }
    }

    #[test]
    fn two_intervals_alike_are_wider_together_by_the_root_of_two() {
        let half = 0.02_f64;
        let one = estimate(1.1, 1.1 * (-half).exp(), 1.1 * half.exp());
        let found = change(&one, &one);
        assert!((found.ratio - 1.0).abs() < 1e-12);
        assert!((found.high.ln() - half * 2.0_f64.sqrt()).abs() < 1e-12);
        assert!((found.low.ln() + half * 2.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn an_end_that_is_far_away_widens_the_side_that_it_leaves_open() {
        // The earlier one may have been much larger: then the change is much smaller.
        let found = change(&estimate(1.0, 0.99, 1.5), &estimate(1.0, 0.99, 1.01));
        assert!(found.low < 0.67 && found.high < 1.02, "{found:?}");
    }

    proptest! {
        #[test]
        fn a_change_holds_its_estimate_and_the_way_back_is_its_inverse(
            a in 0.1..10.0_f64, b in 0.1..10.0_f64,
            widths in prop::array::uniform4(0.0..0.5_f64),
        ) {
            let one = estimate(a, a * (-widths[0]).exp(), a * widths[1].exp());
            let other = estimate(b, b * (-widths[2]).exp(), b * widths[3].exp());
            let (there, back) = (change(&one, &other), change(&other, &one).inverse());
            prop_assert!(there.low <= there.ratio && there.ratio <= there.high);
            prop_assert!((there.low / back.low - 1.0).abs() < 1e-9);
            prop_assert!((there.high / back.high - 1.0).abs() < 1e-9);
        }
    }
}
