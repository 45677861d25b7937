//! Programs at trace points: an event that nobody reads carries each, and takes it away with
//! itself.
//!
//! Source: `perf_event_open(2)`; Linux `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const TRACE_POINT: u32 = 2;
const ENABLE: u64 = 0x2400;
const SET_BPF: u64 = 0x4004_2408;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The first version of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// A program at a trace point, until this is dropped.
pub(super) struct Attached {
    _event: OwnedFd,
}

/// Has the kernel run a program whenever the trace point of this number is reached, on any CPU.
///
/// # Errors
/// The kernel's: the event or the program may not be.
pub(super) fn attach(trace_point: u64, program: &OwnedFd) -> io::Result<Attached> {
    let size = u32::try_from(size_of::<Attributes>()).unwrap_or(0);
    let attributes =
        Attributes { kind: TRACE_POINT, size, config: trace_point, ..Attributes::default() };
    let (everybody, first_cpu, alone) = (-1, 0, -1);
    // SAFETY: the kernel reads the attributes, whose size they say themselves.
    let number = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everybody,
            first_cpu,
            alone,
            CLOSE_ON_EXEC,
        )
    };
    let number = libc::c_int::try_from(number).ok().filter(|number| *number >= 0);
    let number = number.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just opened it for us, and nobody else knows of it.
    let event = unsafe { OwnedFd::from_raw_fd(number) };
    control(&event, SET_BPF, program.as_raw_fd())?;
    control(&event, ENABLE, 0)?;
    Ok(Attached { _event: event })
}

fn control(event: &OwnedFd, what: u64, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: both requests take a number, and no pointer.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), what as _, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
