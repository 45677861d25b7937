//! Numbers that know their unit: [`Bytes`], [`Nanoseconds`].
//!
//! Used while computing. In everything written down the unit ends the field's name instead.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A duration or a point in time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanoseconds(pub u64);

/// An amount of memory or data, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Rounds down to a whole number: 0 below it, and the largest one beyond that.
#[must_use]
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, as is said here"
)]
pub fn whole(number: f64) -> u64 {
    number as u64
}

impl Nanoseconds {
    /// The time in seconds, for people.
    #[must_use]
    pub fn seconds(self) -> f64 {
        Duration::from(self).as_secs_f64()
    }

    /// This time minus an earlier one, or zero where `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanoseconds {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanoseconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl From<Duration> for Nanoseconds {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanoseconds> for Duration {
    fn from(time: Nanoseconds) -> Self {
        Self::from_nanos(time.0)
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} µs", seconds * 1e6),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", seconds * 1e3),
            _ => write!(f, "{seconds:.3} s"),
        }
    }
}

impl Bytes {
    /// Reads `512`, `64K`, `512M`, `2G` or `1T`, in powers of 1024; a trailing `iB` or `B` is
    /// allowed.
    ///
    /// # Errors
    /// The text, when it is not a whole number with one of these suffixes or does not fit.
    ///
    /// ```
    /// use surtax_instrument::quantity::Bytes;
    /// assert_eq!(Bytes::parse("2G"), Ok(Bytes(2 << 30)));
    /// assert_eq!(Bytes::parse("64KiB"), Ok(Bytes(64 << 10)));
    /// assert!(Bytes::parse("two").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = || format!("`{text}` is not a size such as `512M` or `2G`");
        let trimmed = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
        let (digits, shift) = match trimmed.chars().last() {
            Some('K' | 'k') => (&trimmed[..trimmed.len() - 1], 10),
            Some('M' | 'm') => (&trimmed[..trimmed.len() - 1], 20),
            Some('G' | 'g') => (&trimmed[..trimmed.len() - 1], 30),
            Some('T' | 't') => (&trimmed[..trimmed.len() - 1], 40),
            _ => (trimmed, 0),
        };
        let number: u64 = digits.parse().map_err(|_| refuse())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(refuse)
    }

    /// The amount in whole mebibytes, rounded up.
    #[must_use]
    pub fn mebibytes(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = |shift: u32| self.0 as f64 / f64::from(1u32 << shift);
        match self.0 {
            0..0x400 => write!(f, "{} B", self.0),
            0x400..0x10_0000 => write!(f, "{:.1} KiB", scaled(10)),
            0x10_0000..0x4000_0000 => write!(f, "{:.1} MiB", scaled(20)),
            _ => write!(f, "{:.2} GiB", scaled(30)),
        }
    }
}
