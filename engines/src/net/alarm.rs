//! Ends waits in time, at no cost for a wait: a timer of the process interrupts whatever call
//! blocks.
//!
//! A deadline on each call (`SO_RCVTIMEO`) would arm and disarm a timer of the kernel for every
//! transaction. `SIGALRM` every few milliseconds does without: a call that blocks ends with
//! `EINTR`, and its caller looks at the clock. Source: `setitimer(2)`, `signal(7)`.

use std::time::Duration;

/// Interval at which a call that blocks is interrupted.
const TICK: Duration = Duration::from_millis(20);

/// Ticks as long as it lives.
pub(super) struct Alarm;

extern "C" fn nothing(_: libc::c_int) {}

impl Alarm {
    /// Begins to tick.
    pub(super) fn start() -> Self {
        // SAFETY: a zeroed action is valid: no flags, so that calls are interrupted, and an empty
        // mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the action is whole, and its handler does nothing.
        unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
        arm(TICK);
        Self
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        arm(Duration::ZERO);
    }
}

fn arm(every: Duration) {
    let tv_usec = libc::suseconds_t::from(every.subsec_micros());
    let value = libc::timeval { tv_sec: 0, tv_usec };
    let timer = libc::itimerval { it_interval: value, it_value: value };
    // SAFETY: the timer is a live local variable of the type that the call reads.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}
