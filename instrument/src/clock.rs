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

/// Reads `CLOCK_MONOTONIC`, which NTP may slew: the clock that sleeps until a time are given in.
#[must_use]
pub fn monotonic() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Reads `CLOCK_REALTIME`, as nanoseconds since 1970: for saying when, never for how long.
#[must_use]
pub fn wall() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// How far `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`, in nanoseconds.
///
/// NTP slews both alike, so this changes only when somebody sets the clock: a step.
#[must_use]
pub fn wall_lead_ns() -> i64 {
    let once = || {
        let before = nanoseconds(clock_gettime(ClockId::Monotonic));
        let wall = nanoseconds(clock_gettime(ClockId::Realtime));
        let took = nanoseconds(clock_gettime(ClockId::Monotonic)).since(before);
        let lead = i128::from(wall.0) - i128::from(before.0) - i128::from(took.0 / 2);
        (took, i64::try_from(lead).unwrap_or(i64::MAX))
    };
    // Of a few tries the one that was interrupted least.
    let tries = [once(), once(), once()];
    tries.into_iter().min().map_or(0, |(_, lead)| lead)
}

/// CPU time of this process with all its threads, those that have ended included.
#[must_use]
pub fn process_cpu() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time of this thread.
#[must_use]
pub fn thread_cpu() -> Nanoseconds {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
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

    #[test]
    fn the_lead_of_the_wall_clock_is_steady_to_a_millisecond() {
        let before = wall_lead_ns();
        assert!(before.abs_diff(wall_lead_ns()) < 1_000_000);
        assert!(before > 0, "this is after 1970");
    }
}
