//! Latency histograms: any number of times in a bounded space, each known to a thousandth.
//!
//! Buckets widen with the value, so that three digits are kept from 1 ns to an hour: HDR
//! histograms, as Gil Tene defined them; the bytes are his V2 format, which other tools read
//! (<https://github.com/HdrHistogram/HdrHistogram>). A time outside that range is refused: clamped
//! to the end it would be a wrong number in the very tail that the histogram is kept for.

use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use std::fmt;

/// An hour. No single operation of a trial may take as long.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Decimal digits that a recorded value keeps.
const DIGITS: u8 = 3;

/// Marks V2 with counts of up to 9 bytes.
const COOKIE: u32 = 0x1c84_9303 | 0x10;

/// More than anyone can record; bytes that claim more are not believed, so that sums never
/// overflow.
const COUNT_MAX: u64 = 1 << 48;

/// Times in nanoseconds, counted by size.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

/// Without its thousands of buckets.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count()).finish_non_exhaustive()
    }
}

/// A time that is not between 1 ns and an hour, or was counted more often than anyone can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The time.
    pub value_ns: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.value_ns;
        if (1..=HIGHEST_NS).contains(&time) {
            return write!(f, "a time of {time} ns was counted more often than anyone can have");
        }
        write!(f, "a time of {time} ns is not between 1 ns and an hour")
    }
}

impl std::error::Error for OutOfRange {}

/// Reason why bytes are not one of our histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Their head is not that of V2 with our range and digits.
    #[error("this is no V2 histogram of 1 ns to an hour with 3 digits")]
    Head,
    /// They are more or fewer than their head says, or none of a head.
    #[error("a histogram's bytes are not as many as its head says")]
    Length,
    /// Their counts cannot be decoded, or lie outside the range, or are more than anyone recorded.
    #[error("a histogram's counts cannot be decoded")]
    Counts,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// One without values.
    ///
    /// ```
    /// use surtax_statistics::{Histogram, OutOfRange};
    ///
    /// let mut latencies = Histogram::new();
    /// for microseconds in 1..=1000 {
    ///     latencies.record(1000 * microseconds)?;
    /// }
    /// assert_eq!(latencies.count(), 1000);
    /// // 990 of the thousand are at most 990 µs, which is known to a thousandth.
    /// let p99_ns = latencies.quantile(0.99).unwrap();
    /// assert!((990_000..=990_990).contains(&p99_ns));
    /// assert_eq!(latencies.record(0), Err(OutOfRange { value_ns: 0 }));
    /// # Ok::<(), OutOfRange>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS);
        Self { counts: counts.expect("the bounds are apart and the digits at most five") }
    }

    /// Counts one time.
    ///
    /// # Errors
    /// The time, where it is zero or longer than an hour; nothing is counted then.
    pub fn record(&mut self, value_ns: u64) -> Result<(), OutOfRange> {
        if !(1..=HIGHEST_NS).contains(&value_ns) {
            return Err(OutOfRange { value_ns });
        }
        self.counts.record(value_ns).map_err(|_| OutOfRange { value_ns })
    }

    /// Counts a time as often as somebody else has seen it, such as a bin of a tool's own
    /// histogram.
    ///
    /// # Errors
    /// As [`record`](Self::record); and where it makes more times than anyone can have recorded.
    pub fn record_many(&mut self, value_ns: u64, count: u64) -> Result<(), OutOfRange> {
        let is_possible = COUNT_MAX.checked_sub(self.count()).is_some_and(|room| count <= room);
        if !is_possible || !(1..=HIGHEST_NS).contains(&value_ns) {
            return Err(OutOfRange { value_ns });
        }
        self.counts.record_n(value_ns, count).map_err(|_| OutOfRange { value_ns })
    }

    /// Adds all that the other one counted: exactly as if it had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("all of our histograms have one range");
    }

    /// Tells whether as many times were counted as anyone can have recorded, at most: no more are
    /// written and read again.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.count() <= COUNT_MAX
    }

    /// Returns how many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The least time in nanoseconds that a share of all does not exceed, at most a thousandth too
    /// large; `None` when nothing was counted.
    ///
    /// A share outside 0 to 1 is taken as the nearer end, a NaN as 0.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        (self.count() > 0).then(|| self.counts.value_at_quantile(share))
    }

    /// The histogram in the V2 format, not compressed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(&self.counts, &mut bytes);
        written.expect("counts are below 2^63 and a vector takes all that is written");
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. The bytes may come from a guest: nothing in
    /// them is trusted, and no more memory is taken than for a histogram and the bytes themselves.
    ///
    /// # Errors
    /// Which part of them is not as it must be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        // Cookie, length of what follows the head, then the rest of the head.
        let (cookie, after) = bytes.split_first_chunk().ok_or(Unreadable::Length)?;
        let (length, after) = after.split_first_chunk().ok_or(Unreadable::Length)?;
        let (head, payload) = after.split_first_chunk().ok_or(Unreadable::Length)?;
        if u32::from_be_bytes(*cookie) != COOKIE || *head != rest_of_head() {
            return Err(Unreadable::Head);
        }
        if usize::try_from(u32::from_be_bytes(*length)) != Ok(payload.len()) {
            return Err(Unreadable::Length);
        }
        if payload.windows(LEAST.len()).any(|bytes| bytes == LEAST) {
            return Err(Unreadable::Counts);
        }
        let counts: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &*bytes).map_err(|_| Unreadable::Counts)?;
        let is_ours = counts.len() <= COUNT_MAX
            && counts.iter_recorded().all(|it| {
                (1..=HIGHEST_NS).contains(&counts.lowest_equivalent(it.value_iterated_to()))
            });
        if is_ours { Ok(Self { counts }) } else { Err(Unreadable::Counts) }
    }
}

/// The least number that the format has, which the reader of counts negates before it looks at it.
/// No count and no run of nothing comes near it, wherever in the bytes it begins.
const LEAST: [u8; 9] = [0xff; 9];

/// Normalizing offset, digits, least and greatest value, and a ratio that integers do not need.
fn rest_of_head() -> [u8; 32] {
    let mut head = [0; 32];
    head[4..8].copy_from_slice(&u32::from(DIGITS).to_be_bytes());
    head[8..16].copy_from_slice(&1_u64.to_be_bytes());
    head[16..24].copy_from_slice(&HIGHEST_NS.to_be_bytes());
    head[24..32].copy_from_slice(&1.0_f64.to_be_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &value_ns in values {
            histogram.record(value_ns).unwrap();
        }
        histogram
    }

    /// Times of every size, as many of one order of magnitude as of another.
    fn time() -> impl Strategy<Value = u64> {
        (0_u32..42, any::<u64>())
            .prop_map(|(bits, any)| ((1 << bits) | (any % (1 << bits))).min(HIGHEST_NS))
    }

    #[test]
    fn what_is_out_of_range_is_refused_and_not_clamped() {
        let mut histogram = of(&[1, HIGHEST_NS]);
        for value_ns in [0, HIGHEST_NS + 1, u64::MAX] {
            assert_eq!(histogram.record(value_ns), Err(OutOfRange { value_ns }));
        }
        assert_eq!(histogram.count(), 2);
        assert_eq!(
            OutOfRange { value_ns: 0 }.to_string(),
            "a time of 0 ns is not between 1 ns and an hour"
        );
    }

    #[test]
    fn an_empty_one_has_no_quantile_and_survives_its_bytes() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.quantile(0.5)), (0, None));
        assert_eq!(Histogram::from_bytes(&empty.to_bytes()), Ok(empty));
    }

    #[test]
    fn a_share_that_is_not_one_gives_an_end() {
        let histogram = of(&[10, 20]);
        for (share, expected) in [(-1.0, 10), (f64::NAN, 10), (0.5, 10), (0.51, 20), (2.0, 20)] {
            assert_eq!(histogram.quantile(share), Some(expected), "{share}");
        }
    }

    #[test]
    fn bytes_of_another_range_or_length_are_refused_before_anything_is_allocated() {
        let bytes = of(&[5, 70_000]).to_bytes();
        let mut huge = bytes.clone();
        huge[15] = 5;
        assert_eq!(Histogram::from_bytes(&huge), Err(Unreadable::Head));
        let mut endless = bytes.clone();
        endless[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Histogram::from_bytes(&endless), Err(Unreadable::Length));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Histogram::from_bytes(&longer), Err(Unreadable::Length));
        for end in 0..bytes.len() {
            assert_eq!(Histogram::from_bytes(&bytes[..end]), Err(Unreadable::Length), "{end}");
        }
    }

    #[test]
    fn counts_that_nobody_recorded_are_refused() {
        let with = |payload: &[u8]| {
            let mut bytes = Histogram::new().to_bytes();
            bytes.truncate(40);
            bytes[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
            bytes.extend(payload);
            Histogram::from_bytes(&bytes)
        };
        // Zigzag: 2 is one time of the first bucket, which is 0 ns; 1 skips a bucket.
        assert_eq!(with(&[2]), Err(Unreadable::Counts));
        assert_eq!(with(&[1, 2]), Ok(of(&[1])));
        // Nine bytes of the greatest count, and a time after more buckets than there are.
        assert_eq!(
            with(&[1, 254, 255, 255, 255, 255, 255, 255, 255, 255]),
            Err(Unreadable::Counts)
        );
        assert_eq!(with(&[255, 255, 255, 255, 15, 2]), Err(Unreadable::Counts));
        // So many buckets of nothing that their number has no opposite.
        assert_eq!(
            with(&[1, 2, 255, 255, 255, 255, 255, 255, 255, 255, 255]),
            Err(Unreadable::Counts)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merging_equals_recording_everything_in_one(
            one in prop::collection::vec(time(), 0..60), other in prop::collection::vec(time(), 0..60),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(&merged, &of(&[one, other].concat()));
        }

        #[test]
        fn a_quantile_is_one_of_the_values_to_a_thousandth(
            mut values in prop::collection::vec(time(), 1..60), share in 0.0_f64..=1.0,
        ) {
            let found = of(&values).quantile(share).unwrap();
            values.sort_unstable();
            prop_assert!(values.iter().any(|&it| it <= found && found <= it + it / 1000 + 1));
            prop_assert!(of(&values).quantile(1.0).unwrap() >= values[values.len() - 1]);
        }

        #[test]
        fn bytes_come_back_as_the_same_histogram(values in prop::collection::vec(time(), 0..60)) {
            let histogram = of(&values);
            prop_assert_eq!(Histogram::from_bytes(&histogram.to_bytes()), Ok(histogram));
        }

        #[test]
        fn no_bytes_at_all_make_it_panic(payload in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut bytes = Histogram::new().to_bytes();
            bytes.truncate(40);
            bytes[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
            bytes.extend(&payload);
            if let Ok(histogram) = Histogram::from_bytes(&bytes) {
                prop_assert_eq!(Histogram::from_bytes(&histogram.to_bytes()), Ok(histogram));
            }
            let _ = Histogram::from_bytes(&payload);
        }
    }
}
