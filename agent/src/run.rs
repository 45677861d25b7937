//! Starts the command, times it, reaps it, and keeps the end of what it printed.
//!
//! Timed from just before `fork` to just after `wait`. Its output is hashed whole and kept only at
//! its end, so that a command which floods its output costs time but no memory.

use crate::engine::OWN_FILE;
use crate::serve::watched;
use crate::stops::Watcher;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, waitpid,
};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::engine::OURSELVES;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Command, Failure, Outcome, Output, Status, WireError};
use xxhash_rust::xxh3::Xxh3Default;

/// How long output is awaited after the command has ended and all it left behind was killed.
const DRAIN: Duration = Duration::from_secs(1);

/// How many buffers are read at once: a pipe holds four.
const READ_LIMIT: u32 = 64;

/// How often what a command left is killed, with 2 ms between: a bomb forks while it is killed.
const KILL_ROUNDS: u32 = 500;

/// How many dead children are reaped between two such rounds.
const REAP_LIMIT: u32 = 100_000;

/// A command that runs.
pub struct Running {
    pid: Pid,
    pidfd: OwnedFd,
    began: Nanoseconds,
    deadline: Nanoseconds,
    stdout: Stream,
    stderr: Stream,
    stops: Option<Watcher>,
    killed: Option<Status>,
    reaped: bool,
}

impl Running {
    /// Starts it, in a process group of its own.
    pub fn start(command: &Command) -> Result<Self, Failure> {
        let mut process = prepare(command)?;
        process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let stops = Watcher::open();
        let began = clock::monotonic_raw();
        let mut child = process.spawn().map_err(|error| cannot_start(command, &error))?;
        let keep = usize::try_from(command.keep_bytes).unwrap_or(0);
        let stdout = Stream::new(child.stdout.take().map(OwnedFd::from), keep);
        let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), keep);
        let (pid, pidfd) = watch(&child)?;
        let stops = stops.map(|stops| stops.begin(pid));
        let deadline = command.deadline;
        Ok(Self { pid, pidfd, began, deadline, stdout, stderr, stops, killed: None, reaped: false })
    }

    /// What `poll` must watch.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let signals = self.stops.as_ref().map(Watcher::descriptor);
        [Some(self.pidfd.as_fd()), signals, watched(&self.stdout.file), watched(&self.stderr.file)]
            .into_iter()
            .flatten()
    }

    /// How long `poll` may wait; `None` is for ever.
    pub fn time_left(&self) -> Option<Duration> {
        let is_limited = self.deadline > Nanoseconds(0) && self.killed.is_none();
        is_limited.then(|| (self.deadline - clock::monotonic_raw().since(self.began)).into())
    }

    /// Kills it because we were asked to.
    pub fn cancel(&mut self) {
        self.kill(Status::Cancelled);
    }

    /// Reads what is there; the outcome, when it has ended.
    pub fn turn(&mut self) -> Result<Option<Outcome>, WireError> {
        if self.time_left().is_some_and(|left| left.is_zero()) {
            self.kill(Status::Deadline);
        }
        let Some((status, usage)) = wait(self.pid)? else {
            if let Some(stops) = &mut self.stops {
                stops.look();
            }
            self.stdout.read_available()?;
            self.stderr.read_available()?;
            return Ok(None);
        };
        let wall = clock::monotonic_raw().since(self.began);
        self.reaped = true;
        let stops = self.stops.take().map(Watcher::end);
        let _ = kill_process_group(self.pid, Signal::KILL);
        kill_leftovers();
        let until = clock::monotonic_raw() + DRAIN.into();
        self.stdout.drain(until)?;
        self.stderr.drain(until)?;
        Ok(Some(Outcome {
            status: self.killed.unwrap_or(status),
            wall,
            cpu_user: time(usage.ru_utime),
            cpu_system: time(usage.ru_stime),
            memory_peak: Bytes(u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10),
            stops,
            stdout: self.stdout.output(),
            stderr: self.stderr.output(),
        }))
    }

    fn kill(&mut self, why: Status) {
        self.killed.get_or_insert(why);
        let _ = kill_process_group(self.pid, Signal::KILL);
        // It may have moved itself into the group of one of its children.
        let _ = kill_process(self.pid, Signal::KILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill(Status::Cancelled);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// A process as the user typed it: nothing inherited but what the request says.
pub fn prepare(command: &Command) -> Result<std::process::Command, Failure> {
    let (program, arguments) = command.argv.split_first().ok_or_else(|| Failure {
        errno: 0,
        what: "the command is empty".into(),
        hint: String::new(),
    })?;
    let cwd = Path::new(OsStr::from_bytes(&command.cwd));
    if let Err(error) = std::fs::metadata(cwd) {
        return Err(Failure {
            errno: error.raw_os_error().unwrap_or(0),
            what: format!("the working directory `{}` is not there: {error}", cwd.display()),
            hint: String::from("run from a directory that the stack's root file system has"),
        });
    }
    #[expect(clippy::disallowed_methods, reason = "the agent's one place where processes start")]
    let mut process = std::process::Command::new(file(program));
    process.arg0(OsStr::from_bytes(program));
    process.args(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    process.env_clear();
    process.envs(command.env.iter().map(|(k, v)| (OsStr::from_bytes(k), OsStr::from_bytes(v))));
    process.current_dir(cwd);
    Ok(process)
}

/// The file behind a command's first word: this very binary for `@surtax`.
pub fn file(program: &[u8]) -> &OsStr {
    if program == OURSELVES.as_bytes() { OsStr::new(OWN_FILE) } else { OsStr::from_bytes(program) }
}

/// Says why a command could not be started, in words.
pub fn cannot_start(command: &Command, error: &io::Error) -> Failure {
    let name = command.argv.first().map_or("", |name| std::str::from_utf8(name).unwrap_or("?"));
    let hint = match error.kind() {
        ErrorKind::NotFound if name == OURSELVES => String::from("mount `/proc` in this stack"),
        ErrorKind::NotFound => format!("install `{name}` in this stack's root file system"),
        ErrorKind::PermissionDenied => format!("make `{name}` executable"),
        _ => String::new(),
    };
    let errno = error.raw_os_error().unwrap_or(0);
    Failure { errno, what: format!("cannot start `{name}`: {error}"), hint }
}

/// A child's process id, and a descriptor that becomes readable when it has ended.
pub fn watch(child: &Child) -> Result<(Pid, OwnedFd), Failure> {
    let pid = Pid::from_child(child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd)),
        Err(error) => {
            let _ = kill_process_group(pid, Signal::KILL);
            let what = format!("cannot watch process {pid}: {error}");
            Err(Failure { errno: error.raw_os_error(), what, hint: String::new() })
        }
    }
}

/// Reaps a child if it has ended, with what it and its waited-for descendants used.
///
/// Source: `wait4(2)`, `getrusage(2)`.
fn wait(pid: Pid) -> Result<Option<(Status, libc::rusage)>, WireError> {
    let mut raw = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let number = pid.as_raw_nonzero().get();
    // SAFETY: both pointers are to live local variables of the types that wait4 writes.
    let answer = unsafe { libc::wait4(number, &raw mut raw, libc::WNOHANG, usage.as_mut_ptr()) };
    match answer {
        0 => Ok(None),
        -1 => Err(WireError::Io(io::Error::last_os_error())),
        _ => {
            // SAFETY: a zeroed rusage is valid, and wait4 has filled it.
            let usage = unsafe { usage.assume_init() };
            Ok(Some((status(raw), usage)))
        }
    }
}

/// A wait status in our words.
pub fn status(raw: i32) -> Status {
    if libc::WIFSIGNALED(raw) {
        Status::Signal(libc::WTERMSIG(raw))
    } else {
        Status::Exit(libc::WEXITSTATUS(raw))
    }
}

/// Kills and reaps whatever the command left running; all of it, where we are PID 1.
pub fn kill_leftovers() {
    let me = rustix::process::getpid();
    for _ in 0..KILL_ROUNDS {
        if me.is_init() {
            // SAFETY: kill takes no pointers; -1 is every process of this PID namespace but us.
            unsafe { libc::kill(-1, libc::SIGKILL) };
        } else {
            for child in children(me) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        // A killed process hands us its own orphans; go on until we have no child.
        for _ in 0..REAP_LIMIT {
            match waitpid(None, WaitOptions::NOHANG) {
                Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until no child is left, at most so long.
pub fn await_children(deadline: Duration) {
    let began = clock::monotonic_raw();
    while Duration::from(clock::monotonic_raw().since(began)) < deadline {
        match waitpid(None, WaitOptions::NOHANG) {
            Err(_) => return,
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let number = parent.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}

fn time(value: libc::timeval) -> Nanoseconds {
    let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
    let micros = u64::try_from(value.tv_usec).unwrap_or(0);
    Nanoseconds(seconds * 1_000_000_000 + micros * 1_000)
}

/// One output stream: hashed whole, kept at its end.
pub struct Stream {
    file: Option<File>,
    hash: Xxh3Default,
    length: u64,
    tail: VecDeque<u8>,
    keep: usize,
}

impl Stream {
    /// A stream that keeps the last `keep` bytes.
    pub fn new(file: Option<OwnedFd>, keep: usize) -> Self {
        let file = file.map(File::from);
        if let Some(file) = &file {
            let _ = rustix::io::ioctl_fionbio(file, true);
        }
        let tail = VecDeque::new();
        Self { file, hash: Xxh3Default::new(), length: 0, tail, keep }
    }

    /// For `poll`.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        watched(&self.file)
    }

    /// Reads at most one buffer of what is there.
    pub fn read_available(&mut self) -> Result<(), WireError> {
        let mut buffer = [0; 16 << 10];
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.read(&mut buffer) {
            Ok(0) => self.file = None,
            Ok(count) => self.take(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads what is there, one buffer after another.
    pub fn read_all_available(&mut self) -> Result<(), WireError> {
        for _ in 0..READ_LIMIT {
            let before = self.length;
            self.read_available()?;
            if self.length == before {
                break;
            }
        }
        Ok(())
    }

    /// Reads to the end, or until that time.
    fn drain(&mut self, until: Nanoseconds) -> Result<(), WireError> {
        while self.file.is_some() && clock::monotonic_raw() < until {
            let before = self.length;
            self.read_available()?;
            if self.length == before && self.file.is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        self.tail.extend(bytes);
        let excess = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..excess);
    }

    /// What came.
    pub fn output(&self) -> Output {
        Output {
            hash: self.hash.digest128(),
            length: Bytes(self.length),
            tail: self.tail.iter().copied().collect(),
        }
    }
}
