//! Memory that a guest needs, and how much of what it was given it may keep from its processes.

use std::ops::RangeInclusive;

/// The least memory in which a distribution's kernel reaches user space.
pub(crate) const LEAST_MIB: u64 = 192;

/// Memory that a guest's kernel may keep for itself and its image: a part, and a fixed amount.
const OVERHEAD: (u64, u64) = (10, 96 << 20);

/// Returns the memory, in bytes, that a guest may report: of `asked` bytes it was left `most`.
pub(crate) fn plausible(asked: u64, most: u64) -> RangeInclusive<u64> {
    let (part, fixed) = OVERHEAD;
    most.saturating_sub(asked / part + fixed)..=most
}

/// Tells whether a guest may report `seen` bytes of memory: of `asked` bytes it was left `most`.
pub(crate) fn has_memory(asked: u64, most: u64, seen: &str) -> bool {
    seen.parse().is_ok_and(|seen| plausible(asked, most).contains(&seen))
}
