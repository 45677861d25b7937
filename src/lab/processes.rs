//! The processes of this machine, as `/proc` lists them.

use crate::fault::{Doing, Fault};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::counters;

/// Largest number of processes of a line that are looked at.
const DEPTH_LIMIT: usize = 64;

/// Largest number of passes over the list of processes: one forked during a pass is killed by the
/// next.
const PASS_LIMIT: u32 = 200;

/// Between two passes.
const PAUSE: Duration = Duration::from_millis(10);

/// Largest number of processes that are named, of however many there were.
const NAMED: usize = 10;

/// Directory of them all, for who asks about each.
///
/// # Errors
/// The machine's: it cannot be opened.
pub(super) fn directory() -> Result<File, Fault> {
    File::open("/proc").doing("look at the processes in `/proc`")
}

/// All that there are just now.
///
/// # Errors
/// The machine's: they cannot be listed.
pub(super) fn ids() -> Result<impl Iterator<Item = u32>, Fault> {
    let entries = fs::read_dir("/proc").doing("list processes in `/proc`")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// Lists those in `/proc`, or in the `task` of a process there: the name that each gives itself, if
/// it is text, and its number.
///
/// # Errors
/// The kernel's: the process is gone.
pub fn tasks(directory: impl AsRef<Path>) -> io::Result<Vec<(String, u32)>> {
    let named = fs::read_dir(directory)?.flatten().filter_map(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((name.trim_end().to_owned(), entry.file_name().to_str()?.parse().ok()?))
    });
    Ok(named.collect())
}

/// Returns whose a process is, by its directory in `/proc`: the user whom all its user IDs name;
/// `None` where these differ, as of a program that gives its caller another's rights, or it is
/// gone. A command line is anybody's choice.
pub fn user(process: &Path) -> Option<u32> {
    let status = counters::bytes_of(process.join("status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    // A line feed in a name is escaped.
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:\t"))?;
    let mut ids = ids.split('\t').map(|id| id.parse().ok());
    let first = ids.next()??;
    ids.all(|id| id == Some(first)).then_some(first)
}

/// Returns the name that a process gives itself, of which nothing acts on a terminal; empty where
/// it is gone.
pub(super) fn name(pid: u32) -> String {
    let name = counters::bytes_of(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\n').escape_debug().to_string()
}

/// Field `number` of `/proc/PID/stat`, counted from 1 as in `proc_pid_stat(5)`; after the name
/// only.
pub(super) fn field(pid: u32, number: usize) -> Option<String> {
    let stat = counters::bytes_of(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may contain anything, parentheses too.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.trim_end().split(' ').nth(number.checked_sub(3)?).map(String::from)
}

/// Tells whether a process is a thread of the kernel's own, whatever it is called: its flags say
/// so, in which nobody else has a hand.
///
/// Source: Linux `include/linux/sched.h`, `PF_KTHREAD`; `proc_pid_stat(5)`, field 9.
pub fn is_of_the_kernel(pid: u32) -> bool {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let flags = field(pid, 9).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// A process that is held: once its number is another's, no signal reaches either.
pub struct HeldProcess {
    number: Pid,
    /// None before Linux 5.3, where it goes by its number.
    handle: Option<OwnedFd>,
}

impl HeldProcess {
    /// Holds who has this number now; none where nobody has.
    pub fn of(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(handle) => Some(Self { number, handle: Some(handle) }),
            Err(Errno::NOSYS) => Some(Self { number, handle: None }),
            Err(_) => None,
        }
    }

    /// Returns its number.
    pub fn pid(&self) -> u32 {
        self.number.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal. That fails only for one that has ended meanwhile, or that nobody may kill.
    pub fn signal(&self, signal: Signal) {
        let _ = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(self.number, signal),
        };
    }
}

/// Kills a process if it is still the one that is meant, when it is held.
pub(super) fn kill(pid: u32, is_meant: impl Fn() -> bool) {
    if let Some(held) = HeldProcess::of(pid).filter(|_| is_meant()) {
        held.signal(Signal::KILL);
    }
}

/// Kills every process that is meant, and whom it forks meanwhile. Says who they were, each with
/// what it `had_done`.
///
/// # Errors
/// The machine's: they cannot be listed, or do not die.
pub(super) fn end_all(
    had_done: &str,
    is_meant: impl Fn(u32) -> bool,
) -> Result<Vec<String>, Fault> {
    let (mut named, mut seen) = (Vec::new(), HashSet::new());
    for _ in 0..PASS_LIMIT {
        let mut is_empty = true;
        for pid in ids()?.filter(|pid| is_meant(*pid)) {
            is_empty = false;
            if seen.insert(pid) && named.len() < NAMED {
                named.push(format!("process `{}` ({pid}) {had_done}", name(pid)));
            }
            kill(pid, || is_meant(pid));
        }
        if is_empty {
            let others = seen.len() - named.len();
            named.extend((others > 0).then(|| format!("{others} further processes, too")));
            return Ok(named);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Fault::machine(format!("{}, and {} in all do not die", named.join(", "), seen.len()))
        .hint("look for processes in state D with `ps -eo pid,stat,wchan,comm`"))
}

/// A process, its parent, and so on up to the first.
pub(super) fn line_of(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| field(*pid, 4)?.parse().ok().filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), parent).take(DEPTH_LIMIT)
}

/// Paths of the descriptors of a process, which lead to what it has open; none where it is gone or
/// may not be looked into.
pub(super) fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    let found = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    found.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_whose_all_its_user_ids_are() {
        let place = tempfile::tempdir().unwrap();
        let of = |ids: &str| {
            let status = format!("Name:\ta\\nUid:\t0\t0\t0\t0\nTgid:\t7\nUid:\t{ids}\nGid:\t0\n");
            fs::write(place.path().join("status"), status).unwrap();
            user(place.path())
        };
        assert_eq!([of("107\t107\t107\t107"), of("0\t0\t0\t0")], [Some(107), Some(0)]);
        for mixed in ["65534\t0\t0\t0", "0\t0\t0\t65534", "0\t65534\t0\t0", "", "x"] {
            assert_eq!(of(mixed), None, "{mixed}");
        }
        assert_eq!(user(Path::new("/proc/none")), None);
        assert_eq!(user(Path::new("/proc/self")), Some(rustix::process::getuid().as_raw()));
    }

    #[test]
    fn a_process_is_listed_and_has_its_fields_whatever_it_calls_itself() {
        let us = std::process::id();
        assert!(ids().unwrap().any(|pid| pid == us));
        assert!(tasks("/proc").unwrap().iter().any(|(_, pid)| *pid == us));
        assert!(tasks(format!("/proc/{us}/task")).unwrap().iter().any(|(_, tid)| *tid == us));
        assert!(tasks("/proc/none/task").is_err());
        let told = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            fs::write("/proc/thread-self/comm", b"a) \x1b[2J\xff (b").unwrap();
            (name(own), field(own, 3), field(own, 4))
        });
        let (name, state, parent) = told.join().unwrap();
        assert_eq!(name, "a) \\u{1b}[2J\u{fffd} (b");
        assert_eq!(state.as_deref(), Some("R"));
        assert!(parent.unwrap().parse::<u32>().is_ok());
        assert_eq!((field(us, 2), field(0, 3)), (None, None));
    }
}
