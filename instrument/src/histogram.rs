//! Records latencies where they are measured: without allocation, each known to a thousandth.
//!
//! The bins are those of HDR histograms with three digits, as Gil Tene defined them, and the same
//! as those of the crate `surtax-statistics`: exact up to 2,047 ns, then 1,024 to each power of two
//! (<https://github.com/HdrHistogram/HdrHistogram>). A latency outside 1 ns to 60 s is counted
//! apart and never clamped: in the very tail that the histogram is kept for it would be a wrong
//! number.

/// A minute: the longest latency that has a bin.
pub const HIGHEST_NS: u64 = 60_000_000_000;

/// Below this each nanosecond has a bin of its own; above, a power of two has half as many.
const EXACT: u64 = 2048;

/// Number of bins of a power of two, as an exponent of 2.
const HALF_BITS: u32 = 10;

/// Number of bins in all.
const BIN_COUNT: usize = bin_of(HIGHEST_NS) + 1;

/// Number of latencies that must lie on either side of a quantile for it to be told.
const SUPPORT: f64 = 10.0;

/// The shares whose quantiles are told, where the latencies are enough for them, by their names.
pub const SHARES: [(&str, f64); 10] = [
    ("p1", 0.01),
    ("p5", 0.05),
    ("p10", 0.1),
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
    ("p99_999", 0.99999),
];

/// Latencies in nanoseconds, counted by size. About 220 KB, all taken at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    sum_ns: u128,
    lowest_ns: u64,
    highest_ns: u64,
    outside_count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// One without latencies. Its memory is touched here, so that recording never waits for a page.
    ///
    /// ```
    /// use surtax_instrument::histogram::Histogram;
    ///
    /// let mut latencies = Histogram::new();
    /// for microseconds in 1..=1000 {
    ///     latencies.record(1000 * microseconds);
    /// }
    /// assert_eq!(latencies.count(), 1000);
    /// // 990 of the thousand are at most 990 µs; a bin is known by its lower bound.
    /// let p99_ns = latencies.quantile(0.99).unwrap();
    /// assert!((989_010..=990_000).contains(&p99_ns));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let mut counts = vec![1; BIN_COUNT].into_boxed_slice();
        std::hint::black_box(&mut counts).fill(0);
        Self { counts, sum_ns: 0, lowest_ns: u64::MAX, highest_ns: 0, outside_count: 0 }
    }

    /// Counts one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        match self.counts.get_mut(bin_of(latency_ns)) {
            Some(count) if latency_ns > 0 => {
                *count += 1;
                self.sum_ns += u128::from(latency_ns);
                self.lowest_ns = self.lowest_ns.min(latency_ns);
                self.highest_ns = self.highest_ns.max(latency_ns);
            }
            _ => self.outside_count += 1,
        }
    }

    /// Adds all that the other one counted: exactly as if it had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
        self.lowest_ns = self.lowest_ns.min(other.lowest_ns);
        self.highest_ns = self.highest_ns.max(other.highest_ns);
        self.outside_count += other.outside_count;
    }

    /// Returns how many latencies have a bin.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how many latencies were 0, or longer than a minute: they have no bin.
    #[must_use]
    pub fn outside_count(&self) -> u64 {
        self.outside_count
    }

    /// The shortest latency, exact.
    #[must_use]
    pub fn lowest_ns(&self) -> Option<u64> {
        (self.highest_ns > 0).then_some(self.lowest_ns)
    }

    /// The longest latency, exact.
    #[must_use]
    pub fn highest_ns(&self) -> Option<u64> {
        (self.highest_ns > 0).then_some(self.highest_ns)
    }

    /// The sum of all latencies with a bin, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Lower bound and count of every bin that is not empty, ascending.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let bins = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        bins.map(|(bin, count)| (lower_bound(bin), *count))
    }

    /// The lower bound of the bin that holds the least latency which a share of all does not
    /// exceed: at most a thousandth too small. `None` when nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0);
        let mut passed = 0.0;
        let mut bins = self.bins();
        bins.find_map(|(bound, count)| {
            passed += count as f64;
            (passed >= wanted).then_some(bound)
        })
    }

    /// Tells whether ten latencies lie on either side of a quantile: else it is one of a few, and
    /// chance.
    #[must_use]
    pub fn supports(&self, share: f64) -> bool {
        let count = self.count() as f64;
        // A share as written, such as 0.999, is not exactly that number.
        count * share.min(1.0 - share) >= SUPPORT * (1.0 - 1e-9)
    }
}

/// The number of the bin that holds a latency.
const fn bin_of(latency_ns: u64) -> usize {
    // How often it has to be halved until it is below 2048.
    let halvings = (latency_ns | (EXACT - 1)).ilog2() - HALF_BITS;
    #[expect(clippy::cast_possible_truncation, reason = "it is below 2048")]
    let within = (latency_ns >> halvings) as usize;
    ((halvings as usize) << HALF_BITS) + within
}

/// The least latency of a bin.
fn lower_bound(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < EXACT {
        return bin;
    }
    let halvings = (bin >> HALF_BITS) - 1;
    (bin - (halvings << HALF_BITS)) << halvings
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(latencies: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &latency_ns in latencies {
            histogram.record(latency_ns);
        }
        histogram
    }

    /// Latencies of every size, as many of one order of magnitude as of another.
    fn latency() -> impl Strategy<Value = u64> {
        (0_u32..36, any::<u64>())
            .prop_map(|(bits, any)| ((1 << bits) | (any % (1 << bits))).min(HIGHEST_NS))
    }

    #[test]
    fn what_is_out_of_range_is_counted_apart_and_not_clamped() {
        let histogram = of(&[0, 1, HIGHEST_NS, 2 * HIGHEST_NS, u64::MAX]);
        assert_eq!((histogram.count(), histogram.outside_count()), (2, 3));
        assert_eq!((histogram.lowest_ns(), histogram.highest_ns()), (Some(1), Some(HIGHEST_NS)));
        assert_eq!(histogram.bins().count(), 2);
    }

    #[test]
    fn one_without_latencies_has_no_numbers() {
        let histogram = Histogram::default();
        let numbers = [histogram.lowest_ns(), histogram.highest_ns(), histogram.quantile(0.5)];
        assert_eq!(numbers, [None; 3]);
    }

    #[test]
    fn a_quantile_needs_ten_latencies_on_either_side() {
        let thousand: Vec<u64> = (1..=1000).collect();
        let histogram = of(&thousand);
        let told = SHARES.iter().filter(|(_, share)| histogram.supports(*share));
        let told: Vec<&str> = told.map(|(name, _)| *name).collect();
        assert_eq!(told, ["p1", "p5", "p10", "p50", "p90", "p95", "p99"]);
    }

    proptest! {
        #[test]
        fn the_bins_are_those_of_the_reference_implementation(latency_ns in latency()) {
            let mut reference = hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 3).unwrap();
            reference.record(latency_ns).unwrap();
            let (bound, count) = of(&[latency_ns]).bins().next().unwrap();
            prop_assert_eq!((bound, count), (reference.lowest_equivalent(latency_ns), 1));
            prop_assert!(latency_ns - bound <= latency_ns / 1000);
        }

        #[test]
        fn merging_equals_recording_everything_in_one(
            one in prop::collection::vec(latency(), 0..40), other in prop::collection::vec(latency(), 0..40),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(&merged, &of(&[one, other].concat()));
        }

        #[test]
        fn a_quantile_is_the_bound_of_the_nearest_rank(
            mut values in prop::collection::vec(latency(), 1..60), share in 0.0_f64..=1.0,
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let wanted = share * values.len() as f64;
            let exact = values.iter().zip(1_u32..).find(|(_, rank)| f64::from(*rank) >= wanted);
            let exact = *exact.unwrap().0;
            let found = histogram.quantile(share).unwrap();
            prop_assert!(found <= exact && exact - found <= exact / 1000, "{found} for {exact}");
            prop_assert_eq!(histogram.sum_ns(), values.iter().map(|it| u128::from(*it)).sum::<u128>());
        }
    }
}
