//! Prices of what one thread asks of its CPU and its kernel: a call, an exit, a signal, a timer.

use super::Setting;
use super::batch::{Measured, measure, repeat};
use crate::cpu::sleep_precisely;
use crate::timer::sleep_until;
use rustix::process::getpid;
use rustix::thread::{current_timer_slack, gettid, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Time ahead at which a timer is set. Shorter ones may expire before the CPU has begun to wait.
const AHEAD: Nanoseconds = Nanoseconds(100_000);

/// `getppid` enters the kernel, reads two pointers there and leaves: as little as a call can do
/// that no library answers by itself.
pub fn system_call(setting: &Setting) -> io::Result<Measured> {
    setting.each(|| {
        // SAFETY: the call takes nothing and changes nothing.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
        Ok(())
    })
}

/// Source: AMD64 Architecture Programmer's Manual 2, 15.9 "Instruction Intercepts"; Intel SDM 3C,
/// 26.1.2 "Instructions That Cause VM Exits Unconditionally".
#[cfg(target_arch = "x86_64")]
pub fn cpuid(setting: &Setting) -> io::Result<Measured> {
    setting.each(|| {
        std::hint::black_box(std::arch::x86_64::__cpuid(0));
        Ok(())
    })
}

/// Other processors have no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub fn cpuid(_: &Setting) -> io::Result<Measured> {
    Err(io::Error::other("this processor has no instruction `cpuid`"))
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Sent to this very thread, so that it is handled before the call returns.
pub fn signal(setting: &Setting) -> io::Result<Measured> {
    let before = set_handler(handle as *const () as libc::sighandler_t)?;
    let priced = measure(setting.budget, u64::MAX, |count| {
        let handled = HANDLED.load(Ordering::Relaxed);
        let took = repeat(count, signal_this_thread)?;
        let handled = HANDLED.load(Ordering::Relaxed) - handled;
        if handled != count {
            let what = format!("of {count} signals, {handled} were handled at once");
            return Err(io::Error::other(what));
        }
        Ok(took)
    });
    set_handler(before)?;
    priced
}

/// Source: `tgkill(2)`.
fn signal_this_thread() -> io::Result<()> {
    let process = getpid().as_raw_nonzero().get();
    let thread = gettid().as_raw_nonzero().get();
    // SAFETY: takes numbers only; the signal has a handler.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets who handles `SIGUSR1`, and gives back who did before.
fn set_handler(handler: libc::sighandler_t) -> io::Result<libc::sighandler_t> {
    // SAFETY: the handler is the function above, which does no more than it may in a handler, or
    // what was set before.
    let before = unsafe { libc::signal(libc::SIGUSR1, handler) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(before) }
}

/// The slack by which a kernel may delay timers of ordinary threads is set to 1 ns meanwhile, so
/// that the price is the kernel's and not a policy's. A kernel that knows no slack has none.
pub fn timer(setting: &Setting) -> io::Result<Measured> {
    let before = current_timer_slack().ok();
    sleep_precisely();
    // Of each sleep only the lateness counts, so each is a batch of its own.
    let priced = measure(setting.budget, 1, |_| {
        let until = clock::monotonic() + AHEAD;
        sleep_until(until)?;
        Ok(clock::monotonic().since(until))
    });
    let _ = set_current_timer_slack(before.and_then(NonZeroU64::new));
    priced
}
