//! One process of a command: its two streams while it runs, and what it used when it has ended.

use crate::run::{wait, watch};
use crate::stream::Stream;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdout};
use surtax_instrument::amount::{
    Amounts, CONTEXT_SWITCHES, MAJOR_FAULTS, PAGE_FAULTS, PREEMPTIONS,
};
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Failure, Instance, Status, WireError};

/// A process that was started in a group of its own. Dropped before it has ended, it is killed.
pub struct Started {
    /// Process id.
    pub pid: Pid,
    pidfd: OwnedFd,
    stdout: Stream,
    stderr: Stream,
    /// Number of bytes of standard output that are kept.
    keep: usize,
    ended: Option<Ended>,
}

struct Ended {
    status: Status,
    wall: Nanoseconds,
    usage: libc::rusage,
}

impl Started {
    /// Takes over a child, of whose standard output and standard error so much is kept.
    pub fn of(mut child: Child, [keep, keep_error]: [usize; 2]) -> Result<Self, Failure> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take().map(OwnedFd::from));
        let mut started = Self::unheard(&child, Stream::new(stderr, keep_error), keep)?;
        started.hear(stdout);
        Ok(started)
    }

    /// The same of a child whose standard output somebody else reads first.
    pub fn unheard(child: &Child, stderr: Stream, keep: usize) -> Result<Self, Failure> {
        let (pid, pidfd) = watch(child)?;
        Ok(Self { pid, pidfd, stdout: Stream::new(None, keep), stderr, keep, ended: None })
    }

    /// Reads standard output from now on.
    pub fn hear(&mut self, stdout: Option<ChildStdout>) {
        self.stdout = Stream::new(stdout.map(OwnedFd::from), self.keep);
    }

    /// Lists the descriptors that `poll` must watch.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // That of a process which has ended would be ready for ever.
        let own = self.ended.is_none().then(|| self.pidfd.as_fd());
        [own, self.stdout.descriptor(), self.stderr.descriptor()].into_iter().flatten()
    }

    /// Reads what is there; whether it has ended. Its time counts from `began`.
    pub fn turn(&mut self, began: Nanoseconds, killed: Option<Status>) -> Result<bool, WireError> {
        if self.ended.is_none()
            && let Some((status, usage)) = wait(self.pid)?
        {
            let wall = clock::monotonic_raw().since(began);
            self.ended = Some(Ended { status: killed.unwrap_or(status), wall, usage });
            return Ok(true);
        }
        self.stdout.read_available()?;
        self.stderr.read_available()?;
        Ok(self.ended.is_some())
    }

    /// Kills its group. It may have moved itself into the group of one of its children.
    pub fn kill(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        if self.ended.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    /// Returns its status and what it used; `None` while it runs. Its streams are read to their
    /// end, or until that time.
    pub fn end(&mut self, until: Nanoseconds) -> Result<Option<Instance>, WireError> {
        let Some(Ended { status, wall, usage }) = &self.ended else { return Ok(None) };
        self.stdout.drain(until)?;
        self.stderr.drain(until)?;
        Ok(Some(Instance {
            status: *status,
            wall: *wall,
            cpu_user: time(usage.ru_utime),
            cpu_system: time(usage.ru_stime),
            memory_peak: Bytes(u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10),
            counts: counts(usage),
            stdout: self.stdout.output(),
            stderr: self.stderr.output(),
        }))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// Returns what the kernel counted of a process and of those for whom it has waited. No process
/// runs without a page fault: a kernel that says so counts nothing of the kind.
fn counts(usage: &libc::rusage) -> Amounts {
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    let (minor, major) = (count(usage.ru_minflt), count(usage.ru_majflt));
    let (given, taken) = (count(usage.ru_nvcsw), count(usage.ru_nivcsw));
    let faults = minor.saturating_add(major);
    if faults == 0 {
        return Amounts::NONE;
    }
    Amounts::NONE
        .with(PAGE_FAULTS, faults)
        .with(MAJOR_FAULTS, major)
        .with(CONTEXT_SWITCHES, given.saturating_add(taken))
        .with(PREEMPTIONS, taken)
}

/// A time of a kernel's counters.
pub fn time(value: libc::timeval) -> Nanoseconds {
    let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
    let micros = u64::try_from(value.tv_usec).unwrap_or(0);
    Nanoseconds(seconds * 1_000_000_000 + micros * 1_000)
}
