//! A few counters that processes share with those that they have forked.

use super::super::Refused;
use crate::region::Region;
use std::ops::Index;
use std::sync::atomic::AtomicU64;

const COUNT: usize = 8;

/// Eight numbers, which begin at zero.
pub(super) struct Counters(Region);

impl Counters {
    pub(super) fn new() -> Result<Self, Refused> {
        let shared = Region::shared(COUNT * size_of::<AtomicU64>());
        shared
            .map(Self)
            .map_err(|error| Refused::machine(format!("there is no memory to share: {error}")))
    }
}

impl Index<usize> for Counters {
    type Output = AtomicU64;

    fn index(&self, place: usize) -> &AtomicU64 {
        assert!(place < COUNT, "there are {COUNT} counters");
        // SAFETY: within the mapping, by the line above.
        let at = unsafe { self.0.begin().cast::<AtomicU64>().add(place) };
        // SAFETY: aligned by the page, zeroed by the kernel, mapped as long as this value, and
        // atomic.
        unsafe { &*at }
    }
}
