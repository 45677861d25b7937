//! CPU time of a process, its ended threads included, and of single threads; and what else the
//! kernel counts of them.
//!
//! | ours | the kernel's |
//! |---|---|
//! | CPU time of a process | its CPU clock, `clock_gettime(2)` |
//! | CPU time of a thread | `/proc/PID/task/TID/schedstat`, first field |
//! | wait of a thread for a CPU | the same, second field |
//! | its weights of user and system | `utime` and `stime` in `stat` |
//! | `memory_peak` | `VmHWM` of `/proc/PID/status` |
//! | memory at this moment | `rss` of `stat` |
//! | read from and written to disks | `read_bytes` and `write_bytes` of `io` |
//! | page faults, and those of them that read a disk | `minflt` and `majflt` of `stat` |
//! | context switches | `voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches` of `task/TID/status` |
//! | time of threads that have ended | its CPU clock without the first field of every `schedstat` |
//! | preemptions | the latter of these two, of which some were asked for (`sched_yield`) |
//!
//! - **Reads** nanoseconds in all; the split is a ratio of clock ticks, rough below a second of CPU
//!   time, and all user where there was no tick.
//! - **Costs** two system calls for the clock, and three and a short string per file, of which each
//!   thread has two.
//! - **Cannot see** children, but for what those that were waited for have read and written; nor
//!   single threads that have ended: their time stays in the process's, their context switches are
//!   in nobody's. So those of the process are unknown where a thread has ended meanwhile, of which
//!   one that was not there before is seen by its time: more than all who live can have had.
//! - **Reference** `clock_getcpuclockid(3)`, `proc_pid_stat(5)`, Linux
//!   `Documentation/scheduler/sched-stats.rst`.

use super::cpu_time::CpuTime;
use crate::amount::{
    Amounts, CONTEXT_SWITCHES, CPU_WAIT, DISK_READ, DISK_WRITTEN, MAJOR_FAULTS, MEMORY_PEAK,
    MEMORY_USED, PAGE_FAULTS, PREEMPTIONS,
};
use crate::clock::monotonic_raw;
use crate::counters;
use crate::quantity::Nanoseconds;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// Usage of a process or some of its threads since they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu: CpuTime,
    /// All else that the kernel says of them.
    pub amounts: Amounts,
    /// Threads that lived, where all threads of a process were asked.
    pub threads: BTreeSet<OsString>,
    /// CPU time of those that had ended, where all were asked: at least, and at most.
    pub of_ended: Option<(Nanoseconds, Nanoseconds)>,
}

/// Time by which the kernel is behind with what a running thread has used: a tick, at the slowest.
const TICK: u64 = 10_000_000;

impl Usage {
    /// Returns what was used since an earlier reading. Only threads that live tell their context
    /// switches: unknown where one has ended meanwhile.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Amounts {
        let amounts = self.amounts.since(&earlier.amounts);
        let all_live = earlier.threads.is_subset(&self.threads);
        let of_ended = earlier.of_ended.zip(self.of_ended);
        let has_ended = of_ended.is_some_and(|((_, most), (least, _))| least > most);
        let mut used = Self { amounts, ..Self::default() };
        used.forget_switches_unless(all_live && !has_ended);
        used.amounts
    }

    /// Leaves out what only threads that live tell, context switches and waiting, unless it is
    /// known.
    pub fn forget_switches_unless(&mut self, is_known: bool) {
        if !is_known {
            self.amounts.remove(CONTEXT_SWITCHES);
            self.amounts.remove(PREEMPTIONS);
            self.amounts.remove(CPU_WAIT);
        }
    }
}

/// Reads what a process with all its threads has used, those that have ended included.
///
/// # Errors
/// It has ended and been waited for, or is not ours to look at.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let total = cpu_clock(pid)?;
    let home = format!("/proc/{pid}");
    let stat = counters::text_of(format!("{home}/stat"))?;
    let tasks = Path::new(&home).join("task");
    let began = monotonic_raw();
    let threads: io::Result<BTreeSet<OsString>> =
        fs::read_dir(&tasks)?.map(|thread| Ok(thread?.file_name())).collect();
    let threads = threads?;
    // It speaks of the memory of all, and of the switches of the first thread.
    let status = counters::text_of(format!("{home}/status"));
    let first = OsString::from(pid.to_string());
    let mut of_threads = threads.iter().map(|name| match *name == first {
        true => living(&tasks.join(name), status.as_deref().ok()?),
        false => {
            living(&tasks.join(name), &counters::text_of(tasks.join(name).join("status")).ok()?)
        }
    });
    let all = of_threads.try_fold(Living::default(), |sum, one| one.map(|one| sum.plus(one)));
    let of_ended = all.and_then(|all| {
        let most = cpu_clock(pid).ok()?.0.saturating_sub(all.ran.0);
        // Each may have run on meanwhile.
        let meanwhile = monotonic_raw().since(began).0 * u64::try_from(threads.len()).ok()?;
        let least = most.saturating_sub(meanwhile + all.running * TICK);
        Some((Nanoseconds(least), Nanoseconds(most)))
    });
    let amounts = counted(Path::new(&home), &stat)
        .with(MEMORY_PEAK, status.as_deref().ok().and_then(memory_peak))
        // A kernel that does not count prints zeroes.
        .with(CPU_WAIT, all.filter(|all| all.ran.0 > 0).map(|all| all.waited.0));
    let amounts = with_switches(amounts, all.map(|all| all.switches));
    Ok(Usage { cpu: weighed(total, &stat)?, amounts, threads, of_ended })
}

/// Threads that live.
#[derive(Clone, Copy, Default)]
struct Living {
    /// Context switches: given up, and taken.
    switches: (u64, u64),
    /// CPU time as far as the kernel has written it down.
    ran: Nanoseconds,
    /// Time in which they were ready to run and had no CPU.
    waited: Nanoseconds,
    /// Number of those that run now, or wait for a CPU.
    running: u64,
}

impl Living {
    fn plus(self, other: Self) -> Self {
        Self {
            switches: (self.switches.0 + other.switches.0, self.switches.1 + other.switches.1),
            ran: self.ran + other.ran,
            waited: self.waited + other.waited,
            running: self.running + other.running,
        }
    }
}

/// Reads of a thread what is in its `schedstat`, and in the text of its `status`.
fn living(thread: &Path, status: &str) -> Option<Living> {
    let (ran, waited) = scheduled(&counters::text_of(thread.join("schedstat")).ok()?).ok()?;
    let running = u64::from(status.lines().any(|line| line.starts_with("State:\tR")));
    Some(Living { switches: switches_in(status)?, ran, waited, running })
}

/// Reads what these threads of a process have used. They have no memory of their own: that of the
/// process is counted once, with its other threads.
///
/// # Errors
/// The process is gone, or one of them: what it used is its process's, and no thread's any more.
pub fn usage_of_threads(pid: u32, tids: &[u32]) -> io::Result<Usage> {
    fs::metadata(format!("/proc/{pid}"))?;
    let mut threads = tids.iter().map(|tid| thread(pid, *tid));
    let Some(first) = threads.next() else { return Ok(Usage::default()) };
    threads.try_fold(first?, |sum, thread| {
        let thread = thread?;
        let amounts = sum.amounts.plus(&thread.amounts);
        Ok(Usage { cpu: sum.cpu.plus(thread.cpu), amounts, ..sum })
    })
}

/// Reads what all threads of a process but these have used, those that have ended included.
///
/// # Errors
/// The process is gone, or one of these.
pub fn usage_of_other_threads(pid: u32, except: &[u32]) -> io::Result<Usage> {
    let excepted = usage_of_threads(pid, except)?;
    let all = usage(pid)?;
    let amounts = all.amounts.since(&excepted.amounts);
    Ok(Usage { cpu: all.cpu.without(excepted.cpu), amounts, ..all })
}

/// Reads of a process what is worth a look again and again: CPU time with that of threads that have
/// ended, page faults, and what is resident.
///
/// # Errors
/// It has ended and been waited for, or is not ours to look at.
pub fn moment(pid: u32) -> io::Result<Usage> {
    let total = cpu_clock(pid)?;
    let stat = counters::text_of(format!("/proc/{pid}/stat"))?;
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let resident = field(&stat, 24).map(|pages| pages.saturating_mul(page));
    let amounts = faults(&stat).with(MEMORY_USED, resident);
    Ok(Usage { cpu: weighed(total, &stat)?, amounts, ..Usage::default() })
}

/// Reads the same of all threads of a process but these. What is resident is all theirs together,
/// and in nobody's.
///
/// # Errors
/// As [`moment`]; or one of these is gone.
pub fn moment_of_other_threads(pid: u32, except: &[u32]) -> io::Result<Usage> {
    let excepted = moment_of_threads(pid, except)?;
    let all = moment(pid)?;
    let mut amounts = all.amounts.since(&excepted.amounts);
    amounts.remove(MEMORY_USED);
    Ok(Usage { cpu: all.cpu.without(excepted.cpu), amounts, ..all })
}

/// Reads the same of these threads of a process, and how long they waited for a CPU.
///
/// # Errors
/// The process is gone, or one of them.
pub fn moment_of_threads(pid: u32, tids: &[u32]) -> io::Result<Usage> {
    let mut sum = Usage::default();
    for (place, tid) in tids.iter().enumerate() {
        let home = format!("/proc/{pid}/task/{tid}");
        let (total, waited) = scheduled(&counters::text_of(format!("{home}/schedstat"))?)?;
        let stat = counters::text_of(format!("{home}/stat"))?;
        let amounts = faults(&stat).with(CPU_WAIT, Some(waited.0).filter(|_| total.0 > 0));
        sum.amounts = if place == 0 { amounts } else { sum.amounts.plus(&amounts) };
        sum.cpu = sum.cpu.plus(weighed(total, &stat)?);
    }
    Ok(sum)
}

/// Reads for how long the first thread of a process was ready to run and had no CPU, in its life.
///
/// # Errors
/// It has ended, or this kernel does not say.
pub fn waited_for_cpu(pid: u32) -> io::Result<Nanoseconds> {
    waited(&counters::text_of(format!("/proc/{pid}/task/{pid}/schedstat"))?)
}

/// Sums the same over all threads of this process that live and have run.
///
/// # Errors
/// There is no `/proc`.
pub fn all_waited_for_cpu() -> io::Result<Nanoseconds> {
    let threads = fs::read_dir("/proc/self/task")?.flatten();
    let of_thread = |thread: fs::DirEntry| {
        waited(&counters::text_of(thread.path().join("schedstat")).ok()?).ok()
    };
    Ok(threads.filter_map(of_thread).fold(Nanoseconds(0), |sum, waited| sum + waited))
}

/// A kernel that does not count prints zeroes, as one does of a thread that has not run yet.
fn waited(schedstat: &str) -> io::Result<Nanoseconds> {
    match scheduled(schedstat)? {
        (Nanoseconds(1..), waited) => Ok(waited),
        _ => Err(malformed()),
    }
}

/// The first two fields of a `schedstat`: for how long a thread ran, and waited for a CPU.
fn scheduled(schedstat: &str) -> io::Result<(Nanoseconds, Nanoseconds)> {
    let mut fields = schedstat.split(' ').map_while(|word| word.parse().ok()).map(Nanoseconds);
    fields.next().zip(fields.next()).ok_or_else(malformed)
}

fn thread(pid: u32, tid: u32) -> io::Result<Usage> {
    let home = format!("/proc/{pid}/task/{tid}");
    let (total, waited) = scheduled(&counters::text_of(format!("{home}/schedstat"))?)?;
    let stat = counters::text_of(format!("{home}/stat"))?;
    let home = Path::new(&home);
    let waited = Some(waited.0).filter(|_| total.0 > 0);
    let amounts = counted(home, &stat).with(CPU_WAIT, waited);
    let amounts = with_switches(amounts, switches(home));
    Ok(Usage { cpu: weighed(total, &stat)?, amounts, ..Usage::default() })
}

/// Reads what `io` and `stat` say of a process or a thread.
fn counted(home: &Path, stat: &str) -> Amounts {
    let io = counters::text_of(home.join("io")).unwrap_or_default();
    let bytes = |key: &str| io.lines().find_map(|line| line.strip_prefix(key)?.parse::<u64>().ok());
    faults(stat).with(DISK_READ, bytes("read_bytes: ")).with(DISK_WRITTEN, bytes("write_bytes: "))
}

/// Reads the page faults that a `stat` tells of.
fn faults(stat: &str) -> Amounts {
    let major = field(stat, 12);
    let all = field(stat, 10).zip(major).map(|(minor, major)| minor.saturating_add(major));
    Amounts::default().with(PAGE_FAULTS, all).with(MAJOR_FAULTS, major)
}

/// Adds context switches, of which some gave a CPU up and some had it taken, where they are known.
fn with_switches(amounts: Amounts, switches: Option<(u64, u64)>) -> Amounts {
    let all = switches.map(|(given, taken)| given + taken);
    amounts.with(CONTEXT_SWITCHES, all).with(PREEMPTIONS, switches.map(|(_, taken)| taken))
}

/// Reads how often a thread gave its CPU up, and how often it was taken from it.
fn switches(thread: &Path) -> Option<(u64, u64)> {
    switches_in(&counters::text_of(thread.join("status")).ok()?)
}

fn switches_in(status: &str) -> Option<(u64, u64)> {
    let count = |key: &str| {
        // They are the last two of many.
        let line = status.lines().rev().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse::<u64>().ok()
    };
    Some((count("voluntary_ctxt_switches:")?, count("nonvoluntary_ctxt_switches:")?))
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

/// CPU time with its weights, in clock ticks.
fn weighed(total: Nanoseconds, stat: &str) -> io::Result<CpuTime> {
    let (user, system) = field(stat, 14).zip(field(stat, 15)).ok_or_else(malformed)?;
    Ok(CpuTime { total, user, system })
}

/// A field of `stat` by its number in `proc_pid_stat(5)`, from 3 on. The name before them may
/// contain anything, parentheses too.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?)?.trim_end().parse().ok()
}

fn memory_peak(status: &str) -> Option<u64> {
    counters::bytes(status, "VmHWM")
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
        assert_eq!((field(stat, 10), field(stat, 12)), (Some(7), Some(9)));
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
        assert!(usage(pid).unwrap().amounts.get(MEMORY_PEAK).unwrap() > 1 << 16);
    }

    /// Variable that makes a test the program that it looks at.
    const CHILD: &str = "SURTAX_TEST_THREAD_ENDS";

    /// Only a program without other threads of its own can tell: that is this test, alone.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test runs itself in a process of its own")]
    fn switches_of_a_thread_that_came_and_went_are_nobodys_and_so_unknown() {
        let spin = |milliseconds: u64| {
            let begin = crate::clock::monotonic_raw();
            while crate::clock::monotonic_raw().since(begin).0 < milliseconds * 1_000_000 {}
        };
        if std::env::var_os(CHILD).is_some() {
            let pid = std::process::id();
            let known = |before: &Usage| usage(pid).unwrap().since(before).get(CONTEXT_SWITCHES);
            let before = usage(pid).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(known(&before).is_some_and(|count| count > 0), "nobody came or went");
            let before = usage(pid).unwrap();
            std::thread::spawn(move || spin(400)).join().unwrap();
            assert_eq!(known(&before), None);
            return;
        }
        let name = "probe::process::tests::switches_of_a_thread_that_came_and_went_are_nobodys_and_\
                    so_unknown";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--test-threads=1"]).env(CHILD, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn two_who_share_a_cpu_wait_for_each_other() {
        let both_are_there = std::sync::Barrier::new(2);
        let spin = |duration: Nanoseconds| {
            let own =
                || waited(&counters::text_of("/proc/thread-self/schedstat").unwrap()).unwrap();
            let before = own();
            let begin = crate::clock::monotonic_raw();
            while crate::clock::monotonic_raw().since(begin) < duration {}
            own().since(before)
        };
        let pinned = || {
            let mut one = rustix::thread::CpuSet::new();
            let all = rustix::thread::sched_getaffinity(None).unwrap();
            let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
            one.set(first);
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            both_are_there.wait();
            spin(Nanoseconds(400_000_000))
        };
        let both = std::thread::scope(|scope| {
            let both = [scope.spawn(pinned), scope.spawn(pinned)];
            both.into_iter().map(|it| it.join().unwrap().0).sum::<u64>()
        });
        assert!(both > 200_000_000, "{both}");
        assert!(all_waited_for_cpu().unwrap() > Nanoseconds(0));
        assert!(waited_for_cpu(std::process::id()).is_ok() && waited_for_cpu(0).is_err());
        assert!(["1 x 3", "1", "0 0 0\n"].iter().all(|text| waited(text).is_err()));
        assert_eq!(waited("17 4 2\n").unwrap(), Nanoseconds(4));
    }

    #[test]
    fn all_threads_but_one_have_used_less_than_all() {
        let pid = std::process::id();
        let one = usage_of_threads(pid, &[pid]).unwrap();
        let others = usage_of_other_threads(pid, &[pid]).unwrap();
        let all = usage(pid).unwrap();
        assert!(others.cpu.total <= all.cpu.total);
        let peak = |usage: &Usage| usage.amounts.get(MEMORY_PEAK);
        assert_eq!(peak(&one), None);
        assert!(peak(&others).is_some() && peak(&others) <= peak(&all), "a peak never falls");
    }

    #[test]
    fn faults_and_switches_of_a_process_are_found_and_belong_to_the_thread_that_had_them() {
        let pid = std::process::id();
        let (before, tid) = (usage(pid).unwrap(), rustix::thread::gettid().as_raw_nonzero().get());
        let tid = u32::try_from(tid).unwrap();
        let own_before = usage_of_threads(pid, &[tid]).unwrap();
        // Every page of it is touched for the first time, and every sleep gives the CPU up.
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let own = usage_of_threads(pid, &[tid]).unwrap().amounts.since(&own_before.amounts);
        let all = usage(pid).unwrap().amounts.since(&before.amounts);
        assert_eq!(touched[0], 1);
        assert!(own.get(CONTEXT_SWITCHES).unwrap() >= 20, "{own:?}");
        assert!(
            own.get(PREEMPTIONS).unwrap() <= own.get(CONTEXT_SWITCHES).unwrap() - 20,
            "{own:?}"
        );
        // A huge page takes the place of 512 small ones.
        assert!(own.get(PAGE_FAULTS).unwrap() >= 32, "{own:?}");
        assert!(all.get(PAGE_FAULTS) >= own.get(PAGE_FAULTS), "{all:?} {own:?}");
    }

    #[test]
    fn threads_that_share_a_cpu_take_it_from_each_other() {
        let pid = std::process::id();
        let spin = |_| {
            std::thread::spawn(move || {
                let allowed = rustix::thread::sched_getaffinity(None).unwrap();
                let mut one = rustix::thread::CpuSet::new();
                one.set((0..).find(|cpu| allowed.is_set(*cpu)).unwrap());
                rustix::thread::sched_setaffinity(None, &one).unwrap();
                let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
                let before = usage_of_threads(pid, &[tid]).unwrap().amounts;
                let begin = crate::clock::monotonic_raw();
                while crate::clock::monotonic_raw().since(begin).0 < 300_000_000 {
                    std::hint::spin_loop();
                }
                usage_of_threads(pid, &[tid]).unwrap().amounts.since(&before)
            })
        };
        let both: Vec<_> = (0..2).map(spin).collect();
        for used in both.into_iter().map(|thread| thread.join().unwrap()) {
            assert!(used.get(PREEMPTIONS).unwrap() >= 5, "{used:?}");
            assert!(used.get(PREEMPTIONS) <= used.get(CONTEXT_SWITCHES), "{used:?}");
            // While one of them ran the other one waited, for half of the time.
            assert!(used.get(CPU_WAIT).unwrap() >= 50_000_000, "{used:?}");
        }
    }

    #[test]
    fn the_switches_of_a_process_are_unknown_where_a_thread_that_had_some_has_ended() {
        let reading = |threads: &[&str], switches| Usage {
            amounts: Amounts::default()
                .with(CONTEXT_SWITCHES, switches)
                .with(PREEMPTIONS, switches)
                .with(CPU_WAIT, switches)
                .with(PAGE_FAULTS, switches),
            threads: threads.iter().map(OsString::from).collect(),
            ..Usage::default()
        };
        let before = reading(&["1", "2"], 600);
        let used = |threads: &[&str]| reading(threads, 900).since(&before);
        // One that began meanwhile is known whole.
        assert_eq!(used(&["1", "2", "3"]).get(CONTEXT_SWITCHES), Some(300));
        assert_eq!(used(&["1", "3"]).get(CONTEXT_SWITCHES), None);
        assert_eq!(used(&["1", "3"]).get(PREEMPTIONS), None);
        assert_eq!(used(&["1", "3"]).get(CPU_WAIT), None);
        assert_eq!(used(&["1", "3"]).get(PAGE_FAULTS), Some(300), "the process keeps those");

        let pid = std::process::id();
        let (tell_end, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || end.recv());
        let before = usage(pid).unwrap();
        tell_end.send(()).unwrap();
        thread.join().unwrap().unwrap();
        let begin = crate::clock::monotonic_raw();
        let is_known = || usage(pid).unwrap().since(&before).get(CONTEXT_SWITCHES).is_some();
        while is_known() && crate::clock::monotonic_raw().since(begin).0 < 5_000_000_000 {
            std::thread::yield_now();
        }
        assert!(!is_known());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_not_a_zero() {
        assert!(usage(0x3fff_fff0).is_err());
        assert!(usage_of_threads(0x3fff_fff0, &[1]).is_err());
    }

    /// Without it, the sum of the others falls, and that of the rest has what it used since it
    /// began.
    #[test]
    fn a_thread_that_has_ended_is_an_error_and_not_a_zero() {
        let own = || u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let ended = std::thread::spawn(own).join().unwrap();
        let pid = std::process::id();
        let is_known = || usage_of_threads(pid, &[own(), ended]).is_ok();
        // It can still be seen for a moment when its end has been waited for.
        let begin = crate::clock::monotonic_raw();
        while is_known() && crate::clock::monotonic_raw().since(begin).0 < 5_000_000_000 {
            std::thread::yield_now();
        }
        assert!(!is_known());
        assert!(usage_of_other_threads(pid, &[ended]).is_err());
        assert!(usage_of_threads(pid, &[own()]).is_ok() && usage_of_threads(pid, &[]).is_ok());
    }
}
