//! Amounts at successive times, as compact bytes.
//!
//! Each value is a number of seven bits to a byte, the lowest first, of which all but the last byte
//! have the eighth set: 0 where it is unknown, and else one more than the zigzag of its difference
//! from the last that was known, the first from 0. A value that does not change is one byte.
//!
//! Source of both codes: Protocol Buffers, "Encoding", base-128 varints and `sint64`.

/// Largest value that can be kept.
pub const LARGEST: u64 = i64::MAX.cast_unsigned();

/// Most bytes that one value takes.
const VALUE_MAX_BYTES: usize = 10;

/// Values of one quantity at successive times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    bytes: Vec<u8>,
    count: usize,
    last: u64,
}

impl Series {
    /// Adds a value; `None`, and one beyond [`LARGEST`], is unknown.
    pub fn push(&mut self, value: Option<u64>) {
        self.count += 1;
        let Some(value) = value.filter(|value| *value <= LARGEST) else {
            self.bytes.push(0);
            return;
        };
        let difference = value.cast_signed() - self.last.cast_signed();
        let zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        let mut rest = zigzag + 1;
        while rest >= 0x80 {
            self.bytes.push(low_bits(rest) | 0x80);
            rest >>= 7;
        }
        self.bytes.push(low_bits(rest));
        self.last = value;
    }

    /// Adds values that are unknown until there are so many.
    pub fn fill(&mut self, count: usize) {
        while self.count < count {
            self.push(None);
        }
    }

    /// Counts the values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The values as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads them again.
    #[must_use]
    pub fn values(&self) -> Vec<Option<u64>> {
        parse(&self.bytes, self.count).unwrap_or_default()
    }
}

impl FromIterator<Option<u64>> for Series {
    fn from_iter<T: IntoIterator<Item = Option<u64>>>(values: T) -> Self {
        let mut series = Self::default();
        values.into_iter().for_each(|value| series.push(value));
        series
    }
}

/// Reads so many values from bytes that anybody may have written; `None` where they are not just
/// these.
#[must_use]
pub fn parse(bytes: &[u8], count: usize) -> Option<Vec<Option<u64>>> {
    // Each takes a byte at least, so a larger count cannot be true.
    if count > bytes.len() {
        return None;
    }
    let (mut rest, mut last) = (bytes, 0_u64);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(zigzag) = take(&mut rest)?.checked_sub(1) else {
            values.push(None);
            continue;
        };
        let difference = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        last = last.checked_add_signed(difference).filter(|value| *value <= LARGEST)?;
        values.push(Some(last));
    }
    rest.is_empty().then_some(values)
}

/// Takes one number from the bytes that are left.
fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for place in 0..VALUE_MAX_BYTES {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        let bits = u64::from(byte & 0x7f);
        let shift = u32::try_from(7 * place).ok()?;
        let shifted = bits.checked_shl(shift)?;
        if shifted >> shift != bits {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    #[test]
    fn a_value_looks_as_documented() {
        let series: Series = [Some(5), Some(5), None, Some(3), Some(300)].into_iter().collect();
        // 5 − 0 is zigzag 10, no change 0, 3 − 5 is 3, and 300 − 3 is 594.
        assert_eq!(series.bytes(), [11, 1, 0, 4, 0xd3, 0x04]);
        assert_eq!(series.values(), [Some(5), Some(5), None, Some(3), Some(300)]);
    }

    #[test]
    fn the_ends_of_what_can_be_kept_are_kept_and_what_is_beyond_is_unknown() {
        let values = [Some(LARGEST), Some(0), Some(LARGEST), Some(u64::MAX), Some(1)];
        let series: Series = values.into_iter().collect();
        assert_eq!(series.values(), [Some(LARGEST), Some(0), Some(LARGEST), None, Some(1)]);
    }

    #[test]
    fn bytes_that_nobody_of_us_wrote_are_refused() {
        let refused: [(&[u8], usize); 6] = [
            (&[], 1),
            (&[1, 1], 1),
            (&[0x80], 1),
            (&[0xff; 11], 1),
            (&[2], 1), // below zero
            (&[1], usize::MAX),
        ];
        for (bytes, count) in refused {
            assert_eq!(parse(bytes, count), None, "{bytes:?} {count}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(values in vec(option::of(0..=LARGEST), 0..99)) {
            let series: Series = values.iter().copied().collect();
            prop_assert_eq!(series.values(), values);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..60), count in 0..60_usize) {
            let _ = parse(&bytes, count);
        }
    }
}
