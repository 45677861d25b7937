//! A few counters that processes share with those that they have forked.

use super::super::Refused;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ops::Index;
use std::ptr;
use std::sync::atomic::AtomicU64;

const COUNT: usize = 8;

/// Eight numbers, which begin at zero.
pub(super) struct Counters(*mut AtomicU64);

impl Counters {
    pub(super) fn new() -> Result<Self, Refused> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = COUNT * size_of::<AtomicU64>();
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::SHARED) };
        mapped
            .map(|at| Self(at.cast()))
            .map_err(|error| Refused::machine(format!("there is no memory to share: {error}")))
    }
}

impl Index<usize> for Counters {
    type Output = AtomicU64;

    fn index(&self, place: usize) -> &AtomicU64 {
        assert!(place < COUNT, "there are {COUNT} counters");
        // SAFETY: within the mapping, by the line above.
        let at = unsafe { self.0.add(place) };
        // SAFETY: aligned by the page, zeroed by the kernel, mapped as long as this value, and
        // atomic.
        unsafe { &*at }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever borrowed from it is gone.
        let _ = unsafe { munmap(self.0.cast(), COUNT * size_of::<AtomicU64>()) };
    }
}
