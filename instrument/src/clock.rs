//! Reads time, and remembers which clock it read.
//!
//! Every timestamp in the ledger comes from this file. Clippy forbids `Instant::now` elsewhere, so
//! the question "which clock was this?" has one answer and one place to look for it.

use crate::quantity::Nanoseconds;
use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_MONOTONIC_RAW`: never stepped, never slewed by NTP.
///
/// On level 0 this is host time, the only time in which durations are reported. Inside a guest it
/// is guest time, and is only compared with itself.
///
/// Source: `clock_gettime(2)`.
#[must_use]
pub fn monotonic_raw() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::MonotonicRaw))
}

/// Reads `CLOCK_REALTIME`, as nanoseconds since 1970: for saying when, never for how long.
#[must_use]
pub fn wall() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

fn nanoseconds(time: rustix::time::Timespec) -> Nanoseconds {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanoseconds(seconds * 1_000_000_000 + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let earlier = monotonic_raw();
        let later = monotonic_raw();
        assert!(later >= earlier);
    }
}
