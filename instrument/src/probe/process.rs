//! CPU time and peak memory of a process, its ended threads included, and of single threads.
//!
//! | ours | the kernel's |
//! |---|---|
//! | CPU time of a process | its CPU clock, `clock_gettime(2)` |
//! | CPU time of a thread | `/proc/PID/task/TID/schedstat`, first field |
//! | its weights of user and system | `utime` and `stime` in `stat` |
//! | `memory_peak` | `VmHWM` of `/proc/PID/status` |
//!
//! - **Reads** nanoseconds in all; the split is a ratio of clock ticks, rough below a second of CPU
//!   time, and all user where there was no tick.
//! - **Costs** one system call for the clock, and three and a short string per file.
//! - **Cannot see** children, nor single threads that have ended: their time stays in the process's.
//! - **Reference** `clock_getcpuclockid(3)`, `proc_pid_stat(5)`, Linux `Documentation/scheduler/sched-stats.rst`.

use super::cpu_time::CpuTime;
use crate::quantity::{Bytes, Nanoseconds};
use std::fs;
use std::io;

/// What a process or some of its threads have used since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu: CpuTime,
    /// The most memory at once, of the whole process; `None` where the kernel does not say.
    pub memory_peak: Option<Bytes>,
}

/// What a process with all its threads has used, those that have ended included.
///
/// # Errors
/// It has ended and been waited for, or is not ours to look at.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let total = cpu_clock(pid)?;
    let cpu = weighed(total, &fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
    Ok(Usage { cpu, memory_peak: memory_peak(pid) })
}

/// What these threads of a process have used. One that has ended counts no more. They have no memory
/// of their own: that of the process is counted once, with its other threads.
///
/// # Errors
/// The process is gone.
pub fn usage_of_threads(pid: u32, tids: &[u32]) -> io::Result<Usage> {
    let mut usage = Usage::default();
    for tid in tids {
        let Ok(thread) = thread(pid, *tid) else { continue };
        usage.cpu = usage.cpu.plus(thread);
    }
    // An ended thread is no error, an ended process is.
    fs::metadata(format!("/proc/{pid}")).map(|_| usage)
}

/// What all threads of a process but these have used, those that have ended included.
///
/// # Errors
/// The process is gone.
pub fn usage_of_other_threads(pid: u32, except: &[u32]) -> io::Result<Usage> {
    let excepted = usage_of_threads(pid, except)?;
    let all = usage(pid)?;
    Ok(Usage { cpu: all.cpu.without(excepted.cpu), memory_peak: all.memory_peak })
}

fn thread(pid: u32, tid: u32) -> io::Result<CpuTime> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"))?;
    let total = text.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
    weighed(Nanoseconds(total), &fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"))?)
}

/// The CPU clock of another process: all CPU time of all its threads, ended ones included.
fn cpu_clock(pid: u32) -> io::Result<Nanoseconds> {
    let pid = i32::try_from(pid).map_err(|_| malformed())?;
    // `clock_getcpuclockid(3)`: the complement of the pid, and 2 for the scheduler's clock.
    let clock: libc::clockid_t = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result and outlives the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).map_err(|_| malformed())?;
    let rest = u64::try_from(time.tv_nsec).map_err(|_| malformed())?;
    Ok(Nanoseconds(seconds * 1_000_000_000 + rest))
}

/// CPU time with its weights: fields 14 and 15 of `stat`, in clock ticks. The name before them may contain
/// anything, parentheses too.
fn weighed(total: Nanoseconds, stat: &str) -> io::Result<CpuTime> {
    let ticks = || {
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11);
        let mut number = || fields.next()?.parse().ok();
        Some((number()?, number()?))
    };
    let (user, system) = ticks().ok_or_else(malformed)?;
    Ok(CpuTime { total, user, system })
}

fn memory_peak(pid: u32) -> Option<Bytes> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024).map(Bytes)
}

fn malformed() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 30 10 0 0 20 0 1 0 99";
        let total = Nanoseconds(1);
        assert_eq!(weighed(total, stat).unwrap(), CpuTime { total, user: 30, system: 10 });
        assert!(weighed(total, "7 (a) S 1").is_err());
    }

    #[test]
    fn the_time_of_an_ended_thread_stays_with_its_process() {
        let pid = std::process::id();
        let before = usage(pid).unwrap().cpu.total;
        let spin = || {
            let begin = crate::clock::monotonic_raw();
            while crate::clock::monotonic_raw().since(begin) < Nanoseconds(50_000_000) {}
        };
        std::thread::spawn(spin).join().unwrap();
        let used = usage(pid).unwrap().cpu.total.since(before);
        // On a busy machine the thread may have had a part of its 50 ms only.
        assert!(used > Nanoseconds(2_000_000), "{used}");
        assert!(usage(pid).unwrap().memory_peak.unwrap() > Bytes(1 << 16));
    }

    #[test]
    fn all_threads_but_one_have_used_less_than_all() {
        let pid = std::process::id();
        let one = usage_of_threads(pid, &[pid]).unwrap();
        let others = usage_of_other_threads(pid, &[pid]).unwrap();
        let all = usage(pid).unwrap();
        assert!(others.cpu.total <= all.cpu.total);
        assert_eq!(one.memory_peak, None);
        assert!(others.memory_peak <= all.memory_peak, "a peak never falls");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_not_a_zero() {
        assert!(usage(0x3fff_fff0).is_err());
        assert!(usage_of_threads(0x3fff_fff0, &[1]).is_err());
    }
}
