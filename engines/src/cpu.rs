//! The CPUs that an engine may use, and holding a thread to one of them.
//!
//! Source: `sched_setaffinity(2)`.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;

/// The numbers of the CPUs that this thread may run on, lowest first.
///
/// # Errors
/// The kernel's.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Holds the calling thread, and those that it starts from now on, to one CPU.
///
/// # Errors
/// The kernel's, where that CPU may not be used.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    // The kernel refuses a set without any.
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets sleeps of the calling thread end when they are due: of threads without real-time priority a
/// kernel may gather timers for 50 µs. One that does not know this setting does not.
pub fn sleep_precisely() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Runs something on one of the CPUs that may be used, the last of them, and lets go of it
/// afterwards: two threads on one CPU must be switched, two on two CPUs need not be.
///
/// # Errors
/// The kernel's, and that of what is run.
pub fn on_one<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    // The first CPU is where a kernel does most of its own work.
    let last = allowed()?.last().copied().ok_or_else(|| io::Error::other("no CPU may be used"))?;
    pin(last)?;
    let ran = run();
    sched_setaffinity(None, &before)?;
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_held_to_one_cpu_and_let_go_again() {
        let before = allowed().unwrap();
        let during = on_one(allowed).unwrap();
        assert_eq!(during, [*before.last().unwrap()]);
        assert_eq!(allowed().unwrap(), before);
    }
}
