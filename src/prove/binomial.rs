//! Bounds of a count: what a rate allows in so many tries.
//!
//! A quick campaign is too short to show a rate, so its bar is what a surtax that has the promised
//! rate exceeds once in a thousand campaigns.

/// Probability with which a bar may be missed by luck alone.
const RISK: f64 = 1e-3;

/// The most that a share of `rate` gives in `tries`, but for once in a thousand times.
pub(super) fn at_most(tries: u32, rate: f64) -> u32 {
    let mut below = 0.0;
    for (found, share) in shares(tries, rate) {
        below += share;
        if 1.0 - below <= RISK {
            return found;
        }
    }
    tries
}

/// The fewest, likewise.
pub(super) fn at_least(tries: u32, rate: f64) -> u32 {
    tries - at_most(tries, 1.0 - rate)
}

/// Returns each count and its probability. Computed in logarithms, because the first of them may be
/// below every number.
fn shares(tries: u32, rate: f64) -> impl Iterator<Item = (u32, f64)> {
    let odds = rate.ln() - (1.0 - rate).ln();
    let mut ln_share = f64::from(tries) * (1.0 - rate).ln();
    (0..=tries).map(move |found| {
        let share = ln_share.exp();
        ln_share += f64::from(tries - found).ln() - f64::from(found + 1).ln() + odds;
        (found, share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_coin_are_known() {
        let shares: Vec<f64> = shares(4, 0.5).map(|(_, share)| share * 16.0).collect();
        for (share, expected) in shares.iter().zip([1.0, 4.0, 6.0, 4.0, 1.0]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn a_bound_is_about_three_deviations_above_the_rate() {
        // Mean 500, deviation 15.8: 3.09 deviations are 49.
        assert!((546..=552).contains(&at_most(1000, 0.5)), "{}", at_most(1000, 0.5));
        assert_eq!(at_least(1000, 0.5), 1000 - at_most(1000, 0.5));
        assert_eq!((at_most(10, 0.0), at_least(10, 1.0)), (0, 10));
    }
}
