//! The keys of a measurement and their values: the same ones whenever the same is asked for.
//!
//! A key is its number in digits, with zeros before it up to its length. Its value is a piece of
//! one pattern, which begins where the key's number says; so what comes back can be compared, and
//! nothing of it has to be kept.

use super::random::{Random, mixed};
use super::size::Size;
use crate::Refused;
use crate::region::require_memory;

/// At how many places of the pattern a value may begin: a power of two.
const PLACES: usize = 1 << 16;

/// Number of random streams of each key, so that lengths of keys and values are independent of each
/// other.
const STREAMS: u64 = 4;

/// All keys.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<u8>,
    /// Offset in `names` at which each name ends.
    ends: Vec<u32>,
    value_lengths: Vec<u32>,
    pattern: Vec<u8>,
    begin: u64,
    /// The length of the longest value.
    pub(super) longest: usize,
}

impl Keys {
    /// Makes so many, with lengths of these distributions.
    ///
    /// # Errors
    /// The machine's: they do not fit into its memory.
    pub(super) fn new(count: u32, key: Size, value: Size, seed: u64) -> Result<Self, Refused> {
        // A name, its end and the length of its value.
        require_memory(u64::from(count) * 64).map_err(|error| {
            Refused::machine(format!("{count} keys cannot be had: {error}"))
                .hint("ask for fewer (`--keys`)")
        })?;
        let begin = mixed(seed);
        let number = |key: u32, stream| begin.wrapping_add(u64::from(key) * STREAMS + stream);
        let mut keys = Self {
            names: Vec::new(),
            ends: Vec::with_capacity(count as usize),
            value_lengths: Vec::with_capacity(count as usize),
            pattern: Vec::new(),
            begin,
            longest: 0,
        };
        let fewest = (count - 1).checked_ilog10().map_or(1, |digits| digits as usize + 1);
        for one in 0..count {
            let length = key.of(number(one, 0)).max(fewest);
            keys.names.extend_from_slice(format!("{one:0length$}").as_bytes());
            // At most 250 bytes each of ten million.
            keys.ends.push(small(keys.names.len()));
            let length = value.of(number(one, 1));
            keys.value_lengths.push(small(length));
            keys.longest = keys.longest.max(length);
        }
        let mut random = Random::of(seed);
        let letter = |_| b'A' + u8::try_from(random.below(50)).unwrap_or(0);
        keys.pattern = (0..PLACES + keys.longest).map(letter).collect();
        Ok(keys)
    }

    /// Returns the number of keys.
    pub(super) fn count(&self) -> u32 {
        small(self.ends.len())
    }

    /// The name of one.
    #[inline]
    pub(super) fn name(&self, key: u32) -> &[u8] {
        let key = key as usize;
        let begin = if key == 0 { 0 } else { self.ends[key - 1] as usize };
        &self.names[begin..self.ends[key] as usize]
    }

    /// The value of one.
    #[inline]
    pub(super) fn value(&self, key: u32) -> &[u8] {
        let place = mixed(self.begin ^ u64::from(key)) % PLACES as u64;
        let begin = usize::try_from(place).unwrap_or(0);
        &self.pattern[begin..begin + self.value_lengths[key as usize] as usize]
    }

    /// Bytes of all keys and values.
    pub(super) fn bytes(&self) -> u64 {
        let values = self.value_lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        self.names.len() as u64 + values
    }
}

/// A number that limits have kept below 2^32.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names_of_their_own_and_values_that_tell_them_apart() {
        let keys = Keys::new(1000, Size::EtcKey, Size::Fixed(20), 5).unwrap();
        let mut names: Vec<&[u8]> = (0..1000).map(|key| keys.name(key)).collect();
        assert!(names.iter().all(|name| (3..=250).contains(&name.len())));
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), keys.count()), (1000, 1000));
        let mut values: Vec<&[u8]> = (0..1000).map(|key| keys.value(key)).collect();
        values.sort_unstable();
        values.dedup();
        // Of a thousand drawn from 65,536 places, seven or eight pairs are the same.
        assert!(values.len() > 960, "{}", values.len());
        let sum = (0..1000).map(|key| keys.name(key).len() + 20).sum::<usize>();
        assert_eq!(keys.bytes(), sum as u64);
    }

    #[test]
    fn the_same_seed_makes_the_same_keys_and_one_key_is_enough() {
        let of = |seed| Keys::new(50, Size::EtcKey, Size::EtcValue, seed).unwrap();
        let (one, same, other) = (of(1), of(1), of(2));
        assert!((0..50).all(|key| one.value(key) == same.value(key)));
        assert!((0..50).any(|key| one.value(key) != other.value(key)));
        let single = Keys::new(1, Size::Fixed(1), Size::Fixed(0), 1).unwrap();
        assert_eq!((single.name(0), single.value(0)), (b"0".as_slice(), b"".as_slice()));
    }
}
