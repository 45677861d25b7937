//! Prices of pages: the first touch of a small and of a huge one, and a mapping.

use super::Setting;
use super::batch::{Measured, measure, timed};
use crate::region::{HUGE_PAGE, Region};
use std::io;

/// Most small pages that are touched in one batch: 4 MiB.
const SMALL_PAGES_MAX: u64 = 1024;

/// Most huge pages that are touched in one batch: 8 MiB.
const HUGE_PAGES_MAX: u64 = 4;

/// Memory that no file stands behind; the kernel zeroes a page and maps it.
pub fn minor_fault(setting: &Setting) -> io::Result<Measured> {
    let size = rustix::param::page_size();
    measure(setting.budget, SMALL_PAGES_MAX, |count| {
        let mut region = pages(count, size)?;
        // Without transparent huge pages there are none to do without.
        let _ = region.ask_for_huge_pages(false);
        timed(|| {
            touch(&mut region, size);
            Ok(())
        })
    })
}

/// A price only where the kernel says that the pages were huge.
pub fn huge_fault(setting: &Setting) -> io::Result<Measured> {
    measure(setting.budget, HUGE_PAGES_MAX, |count| {
        let mut region = pages(count, HUGE_PAGE)?;
        region.ask_for_huge_pages(true)?;
        let took = timed(|| {
            touch(&mut region, HUGE_PAGE);
            Ok(())
        })?;
        let (asked, got) = (region.bytes().len() / HUGE_PAGE, region.huge_bytes()? / HUGE_PAGE);
        if got < asked {
            return Err(io::Error::other(format!("the kernel gave {got} huge pages of {asked}")));
        }
        Ok(took)
    })
}

fn pages(count: u64, size: usize) -> io::Result<Region> {
    let count = usize::try_from(count).map_err(io::Error::other)?;
    Region::aligned(count * size, size)
}

/// Writes one byte into each page.
fn touch(region: &mut Region, size: usize) {
    for page in region.bytes().chunks_exact_mut(size) {
        page[0] = 1;
        std::hint::black_box(&page);
    }
}

/// Nothing of it is touched, so that no page table is filled.
pub fn map(setting: &Setting) -> io::Result<Measured> {
    let size = rustix::param::page_size();
    setting.each(|| Region::new(size).map(drop))
}
