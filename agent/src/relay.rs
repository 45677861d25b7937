//! Passes bytes between the host and one process here: the starter of the next layer, or a shell.
//!
//! A starter gets pipes; a shell gets a terminal of its own, whose both directions are one file.
//! Nothing here waits: a process that does not read its input must still be able to print, and what
//! it has not read yet is kept, up to a limit beyond which the host has to wait.

use crate::run::{cannot_start, prepare, spawn, status, watch};
use crate::stream::Stream;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Cause, Command, Failure, INPUT_ROOM, Reply, Status, WireError};

/// Number of bytes kept of a relayed process's standard error.
const KEEP_STDERR: usize = 16 << 10;

/// Time that output is passed on after the process has ended, if others keep printing into it.
const DRAIN: Duration = Duration::from_secs(1);

/// Interval of looks at a process that is let end.
const PAUSE: Duration = Duration::from_millis(5);

/// Time that those who take away what it left may go on after it.
const REMAINS: Duration = Duration::from_secs(10);

/// A relayed process.
pub struct Relay {
    pid: Pid,
    pidfd: OwnedFd,
    input: Option<File>,
    /// Bytes that `input` has not taken yet.
    waiting: VecDeque<u8>,
    /// No more input will come: `input` is closed when nothing waits.
    closing: bool,
    output: Option<File>,
    stderr: Stream,
    terminal: bool,
    /// Status with which it ended, and when; it is reaped then.
    ended: Option<(Status, Nanoseconds)>,
}

impl Relay {
    /// Starts the process.
    pub fn start(command: &Command) -> Result<Self, Failure> {
        if command.terminal {
            Self::start_on_terminal(command)
        } else {
            Self::start_on_pipes(command)
        }
    }

    fn start_on_pipes(command: &Command) -> Result<Self, Failure> {
        let mut process = prepare(command)?;
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = spawn(&mut process, command)?;
        let input = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let output = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), KEEP_STDERR);
        let (pid, pidfd) = watch(&child)?;
        Ok(Self::of(pid, pidfd, [input, output], stderr, false))
    }

    fn of(
        pid: Pid,
        pidfd: OwnedFd,
        [input, output]: [Option<File>; 2],
        stderr: Stream,
        terminal: bool,
    ) -> Self {
        if let Some(input) = &input {
            let _ = ioctl_fionbio(input, true);
        }
        let (waiting, closing, ended) = (VecDeque::new(), false, None);
        Self { pid, pidfd, input, waiting, closing, output, stderr, terminal, ended }
    }

    fn start_on_terminal(command: &Command) -> Result<Self, Failure> {
        let cannot = |what: &str, error: rustix::io::Errno| Failure {
            cause: Cause::of_errno(error.raw_os_error()),
            what: format!("cannot {what}: {error}"),
            hint: String::from("mount `devpts` in this stack's root file system"),
        };
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .and_then(|ours| grantpt(&ours).and_then(|()| unlockpt(&ours)).map(|()| ours))
            .map_err(|error| cannot("open a terminal", error))?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let theirs = ioctl_tiocgptpeer(&ours, flags)
            .map_err(|error| cannot("open the other side of a terminal", error))?;
        let clone = |file: &OwnedFd| {
            file.try_clone().map(Stdio::from).map_err(|error| cannot_start(command, &error))
        };
        let mut process = prepare(command)?;
        process.stdin(clone(&theirs)?).stdout(clone(&theirs)?).stderr(clone(&theirs)?);
        // SAFETY: both calls are single system calls, allowed between fork and exec.
        unsafe {
            process.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = spawn(&mut process, command)?;
        let output = File::from(ours);
        let input = output.try_clone().map_err(|error| cannot_start(command, &error))?;
        let (pid, pidfd) = watch(&child)?;
        let stderr = Stream::new(None, 0);
        Ok(Self::of(pid, pidfd, [Some(input), Some(output)], stderr, true))
    }

    /// Lists the descriptors that `poll` must watch for something to read.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let output = self.output.as_ref().map(AsFd::as_fd);
        [output, self.stderr.descriptor(), Some(self.pidfd.as_fd())].into_iter().flatten()
    }

    /// Returns its input, if something waits for it to take more.
    pub fn full_input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.waiting.is_empty()).map(AsFd::as_fd)
    }

    /// Tells whether more input may come.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < INPUT_ROOM
    }

    /// Passes on what is there; false when the process has ended and the host was told.
    pub fn turn(
        &mut self,
        mut say: impl FnMut(Reply) -> Result<(), WireError>,
    ) -> Result<bool, WireError> {
        self.pour();
        self.stderr.read_available()?;
        let has_printed = self.pass_output(&mut say)?;
        let Some((status, at)) = self.ended else {
            self.ended = self.reap();
            return Ok(true);
        };
        // What it had printed itself is passed on; others may hold its output open for ever.
        let is_late = Duration::from(clock::monotonic_raw().since(at)) > DRAIN;
        if has_printed && !is_late {
            return Ok(true);
        }
        self.stderr.read_all_available()?;
        let stderr = self.stderr.output().tail;
        say(Reply::RelayEnded { status, stderr })?;
        Ok(false)
    }

    fn reap(&self) -> Option<(Status, Nanoseconds)> {
        let (_, ended) = waitpid(Some(self.pid), WaitOptions::NOHANG).ok()??;
        Some((status(ended.as_raw()), clock::monotonic_raw()))
    }

    /// Passes on one buffer of output, if there is one; says whether there was.
    fn pass_output(
        &mut self,
        say: &mut impl FnMut(Reply) -> Result<(), WireError>,
    ) -> Result<bool, WireError> {
        let Some(output) = &mut self.output else { return Ok(false) };
        let mut ready = [rustix::event::PollFd::new(output, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut ready, Some(&now)).unwrap_or(0) == 0 {
            return Ok(false);
        }
        let mut buffer = vec![0; surtax_instrument::wire::CHUNK];
        match output.read(&mut buffer) {
            // A terminal whose other side is closed by everybody says EIO.
            Ok(0) => self.output = None,
            Err(error) if error.raw_os_error() == Some(libc::EIO) => self.output = None,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => {
                buffer.truncate(count);
                say(Reply::Data(buffer))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bytes for its standard input. A process that does not read any more is no error.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.input.is_some() {
            self.waiting.extend(bytes);
            self.pour();
        }
    }

    /// Closes its standard input; on a terminal that is the end-of-file character.
    pub fn close(&mut self) {
        if self.terminal {
            self.feed(&[4]);
        } else {
            self.closing = true;
            self.pour();
        }
    }

    /// Writes as much of what waits as its input takes without waiting.
    fn pour(&mut self) {
        while let (Some(input), false) = (&mut self.input, self.waiting.is_empty()) {
            match input.write(self.waiting.as_slices().0) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.input = None;
                    self.waiting.clear();
                }
            }
        }
        if self.closing {
            self.input = None;
        }
    }

    /// Closes its input and lets it end by itself, at most so long, and those whom it leaves to us;
    /// what it says is lost.
    pub fn finish(mut self, deadline: Duration) {
        self.waiting.clear();
        self.input = None;
        let began = clock::monotonic_raw();
        let passed = || Duration::from(clock::monotonic_raw().since(began));
        while self.ended.is_none() && passed() < deadline {
            // What keeps printing to nobody must not wait for us.
            let _ = self.pass_output(&mut |_| Ok(()));
            let _ = self.stderr.read_available();
            self.ended = self.reap();
            std::thread::sleep(PAUSE);
        }
        drop(self);
        crate::run::await_children(REMAINS);
    }

    /// Tells its terminal the size of ours.
    pub fn resize(&self, rows: u16, columns: u16) {
        if let (true, Some(output)) = (self.terminal, &self.output) {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            let _ = tcsetwinsize(output, size);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.input = None;
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}
