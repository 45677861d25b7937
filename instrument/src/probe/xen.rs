//! CPU time and memory of a domain, as Xen itself counts them.
//!
//! | ours | Xen's `xen_domctl_getdomaininfo` |
//! |---|---|
//! | `cpu` | `cpu_time`: nanoseconds for which its virtual CPUs ran |
//! | `memory` | `tot_pages`: what it has now, in pages of 4 KiB |
//!
//! - **Reads** the counters of one domain, by a hypercall through `/dev/xen/privcmd`, which only
//!   Dom0 may make.
//! - **Costs** one `ioctl` per reading; the page that Xen writes to is locked when the probe is
//!   opened.
//! - **Cannot see** how much of it was the domain's kernel and how much its programs.
//! - **Reference** Xen `xen/include/public/domctl.h`, Linux `include/uapi/xen/privcmd.h`.

use crate::quantity::{Bytes, Nanoseconds};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Device through which Xen is asked, by those who may open it.
const DEVICE: &str = "/dev/xen/privcmd";

/// `_IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))`.
const IOCTL_PRIVCMD_HYPERCALL: libc::c_ulong = 0x0030_5000;

/// `__HYPERVISOR_domctl`.
const HYPERCALL_DOMCTL: u64 = 36;

/// `XEN_DOMCTL_getdomaininfo`.
const GET_DOMAIN_INFO: u32 = 5;

/// `XEN_DOMCTL_INTERFACE_VERSION` of Xen 4.17 and of those around it in which what is read here
/// stands at the same place. Xen refuses any but its own.
const INTERFACES: [u32; 3] = [0x15, 0x16, 0x17];

/// Memory that Xen reads and writes is one page.
const PAGE: usize = 4096;

/// Offsets in the answer, in bytes: of a domain's number, its flags, its pages, and its time.
const AT_DOMAIN: usize = 16;
const AT_FLAGS: usize = 20;
const AT_PAGES: usize = 24;
const AT_CPU_TIME: usize = 72;

/// `XEN_DOMINF_shutdown`: it has ended by itself; and where the reason stands.
const SHUTDOWN: u32 = 1 << 2;
const REASON_SHIFT: u32 = 16;

/// CPU time that a domain has used, and memory that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time since it was made.
    pub cpu: Nanoseconds,
    /// Memory that it has now.
    pub memory: Bytes,
}

/// The counters of one domain.
#[derive(Debug)]
pub struct Domain {
    device: File,
    id: u16,
    interface: u32,
    page: Page,
}

impl Domain {
    /// Finds the version of Xen's interface and reads the counters once.
    ///
    /// # Errors
    /// This is not Dom0, there is no such domain, or Xen is of a version that is not known here.
    pub fn open(id: u16) -> io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        let mut domain = Self { device, id, interface: 0, page: Page::locked()? };
        for interface in INTERFACES {
            domain.interface = interface;
            match domain.read() {
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(domain),
            }
        }
        Err(Error::new(ErrorKind::Unsupported, "Xen's interface is of another version"))
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// The domain is gone.
    pub fn read(&self) -> io::Result<Usage> {
        usage(&self.ask()?, self.id)
    }

    /// Returns why it has ended, if it has: 0 is by its own will, 3 by a crash (`SHUTDOWN_*` in
    /// Xen's `sched.h`).
    ///
    /// # Errors
    /// The domain is gone.
    pub fn end(&self) -> io::Result<Option<u8>> {
        end(&self.ask()?, self.id)
    }

    fn ask(&self) -> io::Result<[u8; PAGE]> {
        let mut request = [0; PAGE];
        request[..4].copy_from_slice(&GET_DOMAIN_INFO.to_ne_bytes());
        request[4..8].copy_from_slice(&self.interface.to_ne_bytes());
        request[8..10].copy_from_slice(&self.id.to_ne_bytes());
        self.page.write(&request);
        let call = [HYPERCALL_DOMCTL, self.page.address(), 0, 0, 0, 0];
        // SAFETY: the structure is that of this `ioctl`, and Xen writes to our page alone.
        let done =
            unsafe { libc::ioctl(self.device.as_raw_fd(), IOCTL_PRIVCMD_HYPERCALL, call.as_ptr()) };
        if done < 0 {
            return Err(Error::last_os_error());
        }
        Ok(self.page.read())
    }
}

/// That an answer is about this domain, and no other.
fn require(answer: &[u8; PAGE], id: u16) -> io::Result<()> {
    let told = u16::from_ne_bytes([answer[AT_DOMAIN], answer[AT_DOMAIN + 1]]);
    if told != id {
        return Err(Error::new(ErrorKind::NotFound, format!("Xen has no domain {id}")));
    }
    Ok(())
}

/// Returns why this domain has ended, as an answer says it; `None` where it has not.
fn end(answer: &[u8; PAGE], id: u16) -> io::Result<Option<u8>> {
    require(answer, id)?;
    let flags = answer[AT_FLAGS..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let reason = (flags >> REASON_SHIFT).to_le_bytes()[0];
    Ok((flags & SHUTDOWN != 0).then_some(reason))
}

/// Returns what an answer says of this domain.
fn usage(answer: &[u8; PAGE], id: u16) -> io::Result<Usage> {
    let long = |at: usize| answer[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    require(answer, id)?;
    Ok(Usage { cpu: Nanoseconds(long(AT_CPU_TIME)), memory: Bytes(long(AT_PAGES) << 12) })
}

/// A page that stays where it is.
#[derive(Debug)]
struct Page(NonNull<[u8; PAGE]>);

// SAFETY: it is plain memory that nobody else has.
unsafe impl Send for Page {}

impl Page {
    fn locked() -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::LOCKED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where it is.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, flags) }?;
        let page = Self(NonNull::new(mapped.cast()).ok_or(ErrorKind::OutOfMemory)?);
        // A page that a child shares is read-only until somebody writes to it, and Xen does not
        // wait for that. SAFETY: it was mapped just now with this length.
        unsafe { madvise(mapped, PAGE, Advice::LinuxDontFork) }?;
        Ok(page)
    }

    fn address(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }

    fn write(&self, bytes: &[u8; PAGE]) {
        // SAFETY: it is mapped, writable and aligned, and nobody else has it.
        unsafe { self.0.as_ptr().write_volatile(*bytes) }
    }

    fn read(&self) -> [u8; PAGE] {
        // SAFETY: as above.
        unsafe { self.0.as_ptr().read_volatile() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and is not used after.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_another_domain_is_none() {
        let mut answer = [0; PAGE];
        answer[AT_DOMAIN] = 3;
        answer[AT_PAGES..AT_PAGES + 8].copy_from_slice(&65_536_u64.to_ne_bytes());
        answer[AT_CPU_TIME..AT_CPU_TIME + 8].copy_from_slice(&5_000_000_000_u64.to_ne_bytes());
        let read = usage(&answer, 3).unwrap();
        assert_eq!((read.cpu, read.memory), (Nanoseconds(5_000_000_000), Bytes(256 << 20)));
        assert!(usage(&answer, 4).is_err());
        assert_eq!(end(&answer, 3).unwrap(), None);
        answer[AT_FLAGS..AT_FLAGS + 4].copy_from_slice(&(SHUTDOWN | 3 << 16).to_ne_bytes());
        assert_eq!(end(&answer, 3).unwrap(), Some(3));
    }

    #[test]
    fn without_xen_there_is_nothing_to_ask() {
        if !std::path::Path::new(DEVICE).exists() {
            assert!(Domain::open(0).is_err());
        }
    }
}
