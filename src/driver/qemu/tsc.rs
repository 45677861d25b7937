//! The time stamp counter: how fast this level's runs.
//!
//! Under TCG a guest reads its host's counter. It has little to calibrate that against, and on a
//! microvm nothing at all: its kernel then waits for ever. So it is told.

use std::sync::OnceLock;
use std::time::Duration;
use surtax_instrument::clock;

/// File in which some kernels say the rate, in kHz.
const SAID: &str = "/sys/devices/system/cpu/cpu0/tsc_freq_khz";

/// File in which the kernel says which clock it trusts.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Time over which the rate is measured where the kernel does not say it.
const SPAN: Duration = Duration::from_millis(20);

/// Number of times that both clocks are read at each end; the reading with the narrowest gap is
/// kept.
const READINGS: usize = 20;

/// The counter's rate in kHz; nothing when this level's kernel itself does not trust the counter.
pub(super) fn khz() -> Option<u64> {
    static KHZ: OnceLock<Option<u64>> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let said = std::fs::read_to_string(SAID).ok().and_then(|text| text.trim().parse().ok());
        said.or_else(measure)
    })
}

/// Compares the counter with `CLOCK_MONOTONIC_RAW`, which a kernel that trusts it derives from it.
fn measure() -> Option<u64> {
    let clocksource = std::fs::read_to_string(CLOCKSOURCE).ok()?;
    if !matches!(clocksource.trim(), "tsc" | "kvm-clock") {
        return None;
    }
    let (counter_before, time_before) = read_both();
    std::thread::sleep(SPAN);
    let (counter_after, time_after) = read_both();
    let ticks = u128::from(counter_after.checked_sub(counter_before)?);
    let nanoseconds = u128::from(time_after.checked_sub(time_before)?);
    u64::try_from((ticks * 1_000_000).checked_div(nanoseconds)?).ok()
}

/// The counter, and the time in the middle of a narrow gap around reading it.
fn read_both() -> (u64, u64) {
    let readings = (0..READINGS).map(|_| {
        let before = clock::monotonic_raw().0;
        let counter = counter();
        let gap = clock::monotonic_raw().0 - before;
        (gap, counter, before + gap / 2)
    });
    let best = readings.min_by_key(|(gap, ..)| *gap);
    best.map_or((0, 0), |(_, counter, time)| (counter, time))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux never forbids it by default.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Other processors have none, and no clock source of its name.
#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree_within_a_thousandth() {
        let (Some(first), Some(second)) = (measure(), measure()) else { return };
        assert!(first.abs_diff(second) * 1000 < first, "{first} kHz, then {second} kHz");
    }
}
