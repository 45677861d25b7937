//! Prices of memory: how long a load takes whose address is the load before it, and how fast much
//! is moved.
//!
//! Latency is measured as lmbench's `lat_mem_rd` does, in a random cycle over all lines, so that no
//! prefetcher helps; small pages make the translation of addresses show, in a virtual machine
//! twice. Bandwidth is that of one thread, by the kernels of STREAM (McCalpin,
//! <https://www.cs.virginia.edu/stream/>), and counted as there: what is read and what is written,
//! and not what a cache fetches to write into it.

use super::Setting;
use super::batch::{Measured, measure, timed};
use crate::region::{HUGE_PAGE, Region, require_memory};
use crate::stream::kernel::Width;
use std::io;
use std::ptr;

/// One line of a cache, which says which comes next.
#[repr(C, align(64))]
struct CacheLine {
    next: *const CacheLine,
}

/// Within so many KiB.
pub fn latency<const KIB: usize>(setting: &Setting) -> io::Result<Measured> {
    loads(setting, KIB << 10, Pages::Small)
}

pub fn latency_64_mib_huge(setting: &Setting) -> io::Result<Measured> {
    loads(setting, 64 << 20, Pages::Huge)
}

#[derive(PartialEq, Eq)]
enum Pages {
    Small,
    Huge,
}

fn loads(setting: &Setting, bytes: usize, pages: Pages) -> io::Result<Measured> {
    require_memory(bytes as u64)?;
    let region = Region::aligned(bytes, HUGE_PAGE)?;
    let asked = region.ask_for_huge_pages(pages == Pages::Huge);
    if pages == Pages::Huge {
        asked?;
    }
    let lines = region.begin().cast::<CacheLine>();
    link(lines, bytes / size_of::<CacheLine>());
    if pages == Pages::Huge && region.huge_bytes()? < bytes {
        let (got, asked) = (region.huge_bytes()? / HUGE_PAGE, bytes / HUGE_PAGE);
        return Err(io::Error::other(format!(
            "the kernel gave {got} huge pages of {asked} asked for"
        )));
    }
    let mut at = lines.cast_const();
    measure(setting.budget, u64::MAX, |count| {
        timed(|| {
            for _ in 0..count {
                // SAFETY: every line of the region leads to another one of it.
                at = unsafe { (*at).next };
            }
            at = std::hint::black_box(at);
            Ok(())
        })
    })
}

/// Links so many lines into one random cycle over all of them: Sattolo's algorithm, in which every
/// place is exchanged with an earlier one and never with itself.
fn link(lines: *mut CacheLine, count: usize) {
    let at = |number| lines.wrapping_add(number);
    for number in 0..count {
        // SAFETY: the caller's region has so many lines.
        unsafe { (*at(number)).next = at(number) };
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for number in (1..count).rev() {
        // Xorshift (Marsaglia 2003): the same cycle in every stack.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = usize::try_from(random % number as u64).unwrap_or(0);
        // SAFETY: a line of the region, which has more than `number`.
        let here = unsafe { &raw mut (*at(number)).next };
        // SAFETY: another line of it, since `other` is less.
        let there = unsafe { &raw mut (*at(other)).next };
        // SAFETY: both are aligned, initialised and nobody else's.
        unsafe { ptr::swap(here, there) };
    }
}

pub fn copy(setting: &Setting) -> io::Result<Measured> {
    stream(setting, 2, |[target, source, _]| target.copy_from_slice(source))
}

pub fn triad(setting: &Setting) -> io::Result<Measured> {
    let width = Width::of_this_cpu();
    stream(setting, 3, |[target, one, other]| width.triad(target, one, other, 3.0))
}

/// Moves whole arrays, of which `moved` are counted, and says what one KiB of it costs.
fn stream(setting: &Setting, moved: u64, kernel: impl Fn([&mut [f64]; 3])) -> io::Result<Measured> {
    require_memory(setting.array_bytes.saturating_mul(3))?;
    let length = usize::try_from(setting.array_bytes).map_err(io::Error::other)?;
    let mut regions = [Region::new(length)?, Region::new(length)?, Region::new(length)?];
    for (region, value) in regions.iter_mut().zip([0.0, 1.0, 2.0]) {
        region.numbers().fill(value);
    }
    let kibibytes = length as u64 * moved / 1024;
    if kibibytes == 0 {
        return Err(io::Error::other("arrays of so few bytes hold nothing to move"));
    }
    let measured = measure(setting.budget, 1, |_| {
        let [target, one, other] = &mut regions;
        timed(|| {
            kernel([target.numbers(), one.numbers(), other.numbers()]);
            Ok(())
        })
    })?;
    std::hint::black_box(&regions);
    Ok(measured.of_parts(kibibytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_one_cycle_over_all_of_them() {
        let count = 1000;
        let region = Region::new(count * size_of::<CacheLine>()).unwrap();
        let first = region.begin().cast::<CacheLine>();
        link(first, count);
        let mut at = first.cast_const();
        for step in 1..=count {
            // SAFETY: the region outlives this loop.
            at = unsafe { (*at).next };
            assert_eq!(at == first, step == count, "back after {step} steps");
        }
    }
}
