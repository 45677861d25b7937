//! Reads time, and remembers which clock it read.
//!
//! Every timestamp in the ledger comes from this file. Clippy forbids `Instant::now` elsewhere, so
//! the question "which clock was this?" has one answer and one place to look for it.

use crate::quantity::Nanoseconds;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// File in which the kernel names this boot; no other boot's clocks are compared with its own.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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

/// Returns how far `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`, in nanoseconds.
///
/// NTP slews both alike, so this changes only when somebody sets the clock: a step.
#[must_use]
pub fn wall_lead_ns() -> i64 {
    let once = || {
        let (before, wall) = (monotonic(), wall());
        let took = monotonic().since(before);
        let lead = i128::from(wall.0) - i128::from(before.0) - i128::from(took.0 / 2);
        (took, i64::try_from(lead).unwrap_or(i64::MAX))
    };
    // Of a few tries the one that was interrupted least.
    let tries = [once(), once(), once()];
    tries.into_iter().min().map_or(0, |(_, lead)| lead)
}

/// Largest distance between two answers of [`kernel_begin_ns`] on one kernel, in nanoseconds: each
/// is read between two interruptions.
const BEGIN_SLACK_NS: u64 = 10_000_000;

/// The time of day, in nanoseconds since 1970, at which `CLOCK_MONOTONIC` of this kernel was zero:
/// it tells one kernel from another, also where a tool has mounted a `boot_id` of its own over the
/// kernel's.
///
/// A time namespace shifts the clock by an offset that it tells, which is taken out. A guest's
/// kernel, and gVisor's, has begun when it was started. Source: `time_namespaces(7)`.
#[must_use]
pub fn kernel_begin_ns() -> i64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    wall_lead_ns().saturating_add(monotonic_offset_ns(&offsets))
}

/// Tells whether two answers of [`kernel_begin_ns`] are of one kernel.
#[must_use]
pub fn is_one_kernel(one: i64, other: i64) -> bool {
    one.abs_diff(other) <= BEGIN_SLACK_NS
}

/// By how much a time namespace has moved the clock ahead.
fn monotonic_offset_ns(text: &str) -> i64 {
    let of_clock = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        // Kernels before 5.7 have written the clock's number.
        let is_it = words.next().is_some_and(|word| word == "monotonic" || word == "1");
        let [seconds, rest] = [words.next()?, words.next()?].map(|word| word.parse::<i64>().ok());
        is_it.then_some(seconds?.checked_mul(1_000_000_000)?.checked_add(rest?)?)
    };
    text.lines().find_map(of_clock).unwrap_or(0)
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

/// Looks, with a pause between two looks, until something is found or the limit is over; once at
/// least.
pub fn look_until<T>(
    limit: Duration,
    pause: Duration,
    mut find: impl FnMut() -> Option<T>,
) -> Option<T> {
    let began = monotonic_raw();
    loop {
        let found = find();
        if found.is_some() || Duration::from(monotonic_raw().since(began)) >= limit {
            return found;
        }
        std::thread::sleep(pause);
    }
}

/// Returns the first time after `now` of those that lie `every` apart from `due` on: a look that
/// was missed is not made up for.
#[must_use]
pub fn next_due(due: Nanoseconds, every: Nanoseconds, now: Nanoseconds) -> Nanoseconds {
    if due > now {
        return due;
    }
    let missed = now.since(due).0.checked_div(every.0).unwrap_or(0);
    due + Nanoseconds(every.0.saturating_mul(missed + 1))
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
    fn what_is_looked_for_is_found_when_it_comes_and_given_up_when_it_does_not() {
        let pause = Duration::from_millis(1);
        let mut looks = 0_u32..;
        let third = || looks.next().filter(|look| *look == 2);
        assert_eq!(look_until(Duration::from_secs(60), pause, third), Some(2));
        assert_eq!(look_until(Duration::ZERO, pause, || looks.next().filter(|_| false)), None);
        assert_eq!(looks.next(), Some(4), "it looks once");
    }

    #[test]
    fn the_next_look_is_after_now_and_none_is_made_up_for() {
        let next = |due, now| next_due(Nanoseconds(due), Nanoseconds(10), Nanoseconds(now)).0;
        assert_eq!(
            [next(5, 4), next(5, 5), next(5, 14), next(5, 15), next(5, 99)],
            [5, 15, 15, 25, 105]
        );
    }

    #[test]
    fn the_lead_of_the_wall_clock_is_steady_to_a_millisecond() {
        let before = wall_lead_ns();
        assert!(before.abs_diff(wall_lead_ns()) < 1_000_000);
        assert!(before > 0, "this is after 1970");
    }

    #[test]
    fn a_kernel_is_told_by_when_it_began_whatever_a_time_namespace_adds() {
        let begin = kernel_begin_ns();
        assert!(is_one_kernel(begin, kernel_begin_ns()));
        assert!(!is_one_kernel(begin, begin + 1_000_000_000), "another one began a second later");
        let offsets =
            "monotonic        3600         500000000\nboottime           7200         0\n";
        assert_eq!(monotonic_offset_ns(offsets), 3_600_500_000_000);
        assert_eq!(monotonic_offset_ns("monotonic -2 5\n"), -1_999_999_995);
        for text in ["", "monotonic\n", "boottime 1 0\n", "monotonic x y\n"] {
            assert_eq!(monotonic_offset_ns(text), 0, "{text}");
        }
    }
}
