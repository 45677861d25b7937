//! Turns of surtaxes that measure on one machine: who else works here, and waiting until nobody
//! does.
//!
//! Those that wait stand in line at a lock, so that two of them do not begin together when a third
//! ends. Who does not wait takes no lock.

use super::{exclusive, journal, others, processes};
use crate::fault::{Doing, Fault};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, File, TryLockError};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Name of the lock, in the directory of the journals.
pub(super) const FILE: &str = "turn";

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Number of words of a command line that are told: the program and what it does. What follows may
/// be the value of a variable.
const WORDS: usize = 2;

/// Another surtax that works on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Number of the process.
    pub pid: u32,
    /// The first words of its command line, as it says itself.
    pub line: String,
}

/// The surtaxes of others that work here now, by their numbers.
///
/// # Errors
/// The machine's: processes cannot be listed.
pub fn workers() -> Result<Vec<Worker>, Fault> {
    let worker = |pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split('\0').take(WORDS).collect();
        Worker { pid, line: words.join(" ") }
    };
    Ok(others::owners()?.into_iter().map(worker).collect())
}

/// A surtax that works on a run, whatever becomes of its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// Time since the machine's start when it began, in ticks.
    began: String,
}

/// Asks the surtax of somebody else that works on a run to end it, as a first Ctrl-C would: it
/// finishes the running trial first, however often it is asked. `None`: nobody works on it, or
/// nobody who can be seen.
///
/// # Errors
/// The user's: it is not theirs to end, or it does not listen, and would die of the signal. The
/// machine's: processes cannot be listed.
pub fn end(run: &Path) -> Result<Option<Owner>, Fault> {
    let Some((owner, handle)) = held_owner(run)? else { return Ok(None) };
    if !catches(owner.pid, Signal::USR1) {
        let pid = owner.pid;
        return Err(Fault::user(format!("the surtax with process id {pid} does not listen yet"))
            .hint("ask again in a moment; one of an older version ends with Ctrl-C"));
    }
    let sent = pidfd_send_signal(handle, Signal::USR1);
    sent.doing(format!("end the surtax with process id {}", owner.pid))?;
    Ok(Some(owner))
}

/// Tells whether a process does something of its own where a signal comes.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// The surtax of somebody else that works on a run, as far as it can be seen.
///
/// # Errors
/// The machine's: processes cannot be listed.
pub fn owner(run: &Path) -> Result<Option<Owner>, Fault> {
    Ok(held_owner(run)?.map(|(owner, _)| owner))
}

/// The same with a handle: whoever has it signals nobody else, should the number be another's.
fn held_owner(run: &Path) -> Result<Option<(Owner, OwnedFd)>, Fault> {
    let shown = run.display();
    let file = fs::symlink_metadata(run).doing(format_args!("look at the run `{shown}`"))?;
    for pid in others::owners()? {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
        let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { continue };
        if has_open(pid, &file) {
            let began = processes::field(pid, 22).unwrap_or_default();
            return Ok(Some((Owner { pid, began }, handle)));
        }
    }
    Ok(None)
}

fn has_open(pid: u32, file: &fs::Metadata) -> bool {
    let mut open = processes::descriptors(pid).filter_map(|it| fs::metadata(it).ok());
    open.any(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
}

/// A turn: as long as it is kept, nobody else who waits for one has it.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits until no other surtax works here, and nobody who came before waits. `told` is called
    /// with those that are waited for when they are others than before: with nobody where it is one
    /// that waits, too.
    ///
    /// # Errors
    /// The machine's: the lock cannot be opened, or processes cannot be listed.
    pub fn wait(mut told: impl FnMut(&[Worker])) -> Result<Self, Fault> {
        let lock = exclusive::lock_file(&journal::state_directory()?.join(FILE))?;
        let mut known = None;
        loop {
            let is_first = match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(error).doing("take a turn"),
            };
            let workers = workers()?;
            if is_first && workers.is_empty() {
                return Ok(Self { _lock: lock });
            }
            if known.as_ref() != Some(&workers) {
                told(&workers);
            }
            known = Some(workers);
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
