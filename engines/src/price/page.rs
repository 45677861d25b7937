//! Prices of pages: the first touch of a small and of a huge one, and a mapping.

use super::Setting;
use super::batch::{Measured, measure, measure_once, timed};
use super::file::Root;
use crate::region::{HUGE_PAGE, Region};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::PathBuf;

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

/// Pages of a file of the root that is mapped for the first time, 64 KiB apart: so much a kernel
/// maps at once.
pub fn file_fault(setting: &Setting) -> io::Result<Measured> {
    let mut kept = Vec::new();
    let files = Root::look()?.large(TOUCHES * TOGETHER)?;
    let map = |path: &PathBuf| Mapping::of(&File::open(path)?, TOUCHES * TOGETHER);
    let measured =
        measure_once(setting.budget, (files.as_slice(), MAPPED_AT_ONCE), map, |mapped| {
            mapped.touch();
            kept.push(mapped);
            Ok(())
        })?;
    Ok(measured.of_parts(TOUCHES as u64))
}

/// Number of places of a file that are touched, how far they are apart, and how many files are
/// mapped before.
const TOUCHES: usize = 4;
const TOGETHER: usize = 64 << 10;
const MAPPED_AT_ONCE: usize = 4;

/// The begin of a file, mapped to be read.
struct Mapping {
    begin: *mut c_void,
    length: usize,
}

impl Mapping {
    fn of(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: nothing is there yet, and what is mapped is only read, as bytes.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)
        };
        Ok(Self { begin: mapped?, length })
    }

    fn touch(&self) {
        for at in (0..self.length).step_by(TOGETHER) {
            let byte = self.begin.cast::<u8>().wrapping_add(at);
            // SAFETY: within what is mapped, of a file that is longer.
            std::hint::black_box(unsafe { byte.read_volatile() });
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is our own, and nobody has a part of it any more.
        let _ = unsafe { munmap(self.begin, self.length) };
    }
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
