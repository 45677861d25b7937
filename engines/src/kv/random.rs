//! Random numbers that a seed repeats: quick enough to draw a request while others are on their
//! way.
//!
//! Source: G. L. Steele, D. Lea, C. H. Flood, *Fast Splittable Pseudorandom Number Generators*,
//! OOPSLA 2014 (SplitMix64).

/// Between two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of them.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub(super) fn of(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state)
    }

    /// One of the numbers below `count`, each as likely as another to within `count` / 2^64.
    #[inline]
    pub(super) fn below(&mut self, count: u32) -> u32 {
        let product = (u128::from(self.bits()) * u128::from(count)) >> 64;
        #[expect(clippy::cast_possible_truncation, reason = "it is below `count`")]
        let number = product as u32;
        number
    }

    /// A share: above 0 and below 1.
    #[inline]
    pub(super) fn share(&mut self) -> f64 {
        share_of(self.bits())
    }
}

/// The random bits that belong to a number.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    let once = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

/// The middle of the 2^52nd of the way from 0 to 1 that the bits name: never either end.
#[inline]
pub(super) fn share_of(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        // The first three of the generator's published C version for the seed 1234567.
        let mut random = Random::of(1_234_567);
        let drawn = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shares_are_never_an_end_and_numbers_stay_below_their_limit() {
        assert!(share_of(0) > 0.0 && share_of(u64::MAX) < 1.0);
        let mut random = Random::of(1);
        let mut counts = [0_u32; 5];
        (0..5000).for_each(|_| counts[random.below(5) as usize] += 1);
        // Each has 1000 ± 28; five standard deviations.
        assert!(counts.iter().all(|count| (860..1140).contains(count)), "{counts:?}");
    }
}
