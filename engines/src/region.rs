//! Memory straight from the kernel, which no allocator has touched before.
//!
//! Source: `mmap(2)`, `madvise(2)`.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs;
use std::io;
use std::ptr;
use surtax_instrument::counters;

/// The size of a huge page, in bytes, on the machines that have such pages.
pub const HUGE_PAGE: usize = 2 << 20;

/// Zeroed memory of its own; given back when dropped.
#[derive(Debug)]
pub struct Region {
    mapped: *mut u8,
    mapped_len: usize,
    begin: *mut u8,
    len: usize,
}

impl Region {
    /// Maps so many bytes, which begin at a multiple of a page. None of them is backed by memory
    /// yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(len: usize) -> io::Result<Self> {
        Self::aligned(len, 1)
    }

    /// The same, beginning at a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// The kernel's.
    pub fn aligned(len: usize, alignment: usize) -> io::Result<Self> {
        Self::mapped(len, alignment, MapFlags::PRIVATE)
    }

    /// Maps so many bytes that this process shares with those that it will have forked.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shared(len: usize) -> io::Result<Self> {
        Self::mapped(len, 1, MapFlags::SHARED)
    }

    fn mapped(len: usize, alignment: usize, flags: MapFlags) -> io::Result<Self> {
        let mapped_len = len.saturating_add(alignment - 1).max(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), mapped_len, access, flags) }?;
        let mapped = mapped.cast::<u8>();
        let offset = mapped.align_offset(alignment);
        // SAFETY: `alignment - 1` bytes were mapped in addition, and the offset is at most that.
        let begin = unsafe { mapped.add(offset) };
        Ok(Self { mapped, mapped_len, begin, len })
    }

    /// Returns the address at which the region begins.
    #[must_use]
    pub fn begin(&self) -> *mut u8 {
        self.begin
    }

    /// Returns the region's bytes.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are mapped, readable, writable, initialised by the kernel, and borrowed
        // from us.
        unsafe { std::slice::from_raw_parts_mut(self.begin, self.len) }
    }

    /// Returns the region's bytes as numbers; a rest that is smaller than one is left out.
    #[must_use]
    pub fn numbers(&mut self) -> &mut [f64] {
        // SAFETY: as for `bytes`; a mapping begins at a page, and all bits are a number.
        unsafe { std::slice::from_raw_parts_mut(self.begin.cast(), self.len / size_of::<f64>()) }
    }

    /// Asks for huge pages behind it, or for none of them.
    ///
    /// # Errors
    /// The kernel's, where it has no such pages.
    pub fn ask_for_huge_pages(&self, wanted: bool) -> io::Result<()> {
        let advice = if wanted { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the whole mapping is ours, and the advice does not change what it holds.
        Ok(unsafe { madvise(self.mapped.cast(), self.mapped_len, advice) }?)
    }

    /// Returns the number of its bytes that are huge pages, as the kernel says.
    ///
    /// Source: Linux `Documentation/filesystems/proc.rst`, `AnonHugePages` of `/proc/PID/smaps`.
    /// The file tells of mappings, and the kernel joins neighbours of the same kind into one.
    ///
    /// # Errors
    /// The kernel's, where it does not say.
    pub fn huge_bytes(&self) -> io::Result<usize> {
        let place = self.begin as usize;
        let map = fs::read_to_string("/proc/self/smaps")?;
        let mut is_here = false;
        for line in map.lines() {
            if let Some(bounds) = bounds(line) {
                is_here = bounds.contains(&place);
            } else if is_here && let Some(bytes) = counters::bytes(line, "AnonHugePages") {
                return usize::try_from(bytes).map_err(io::Error::other);
            }
        }
        Err(io::Error::other("the kernel does not say which pages are huge"))
    }
}

/// The addresses of a mapping, from the first line about it.
fn bounds(line: &str) -> Option<std::ops::Range<usize>> {
    let (begin, end) = line.split_whitespace().next()?.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    Some(number(begin)?..number(end)?)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever borrowed from it is gone.
        let _ = unsafe { munmap(self.mapped.cast(), self.mapped_len) };
    }
}

/// Refuses an amount of memory that is not there: to take it would end the process, not only the
/// price.
///
/// # Errors
/// Says how much there is.
pub fn require_memory(bytes: u64) -> io::Result<()> {
    let Some(available) = available_bytes() else { return Ok(()) };
    if bytes <= available / 4 * 3 {
        return Ok(());
    }
    let (wanted, there) = (bytes >> 20, available >> 20);
    Err(io::Error::other(format!(
        "{wanted} MiB of memory do not fit into the {there} MiB that are free"
    )))
}

/// Returns the number of bytes that may be taken here: what the kernel has, and no more than a
/// limit leaves.
///
/// Source: Linux `Documentation/filesystems/proc.rst`, `Documentation/admin-guide/cgroup-v2.rst`.
fn available_bytes() -> Option<u64> {
    let kernel = fs::read_to_string("/proc/meminfo").ok();
    let kernel = kernel.and_then(|text| counters::bytes(&text, "MemAvailable"));
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = groups.into_iter().filter_map(|(limit, usage)| {
        Some(number(limit)?.saturating_sub(number(usage).unwrap_or(0)))
    });
    limits.chain(kernel).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zeroed_writable_and_aligned() {
        let mut region = Region::aligned(3 * 4096, HUGE_PAGE).unwrap();
        assert_eq!(region.begin() as usize % HUGE_PAGE, 0);
        assert_eq!(region.bytes().len(), 3 * 4096);
        assert!(region.bytes().iter().all(|byte| *byte == 0));
        region.bytes().fill(7);
        assert_eq!(region.numbers().len(), 3 * 512);
    }

    #[test]
    fn small_pages_that_were_asked_for_are_not_huge() {
        let mut region = Region::aligned(2 * HUGE_PAGE, HUGE_PAGE).unwrap();
        region.ask_for_huge_pages(false).unwrap();
        region.bytes().fill(1);
        assert_eq!(region.huge_bytes().unwrap(), 0);
    }

    #[test]
    fn more_memory_than_there_is_is_refused_with_both_numbers() {
        require_memory(1).unwrap();
        let refusal = require_memory(1 << 60).unwrap_err().to_string();
        assert!(
            refusal.starts_with("1099511627776 MiB of memory do not fit into the "),
            "{refusal}"
        );
    }

    #[test]
    fn a_line_of_a_mapping_is_told_from_a_line_about_it() {
        assert_eq!(bounds("7f00-7fff rw-p 00000000 00:00 0"), Some(0x7f00..0x7fff));
        assert_eq!(bounds("AnonHugePages:      2048 kB"), None);
    }
}
