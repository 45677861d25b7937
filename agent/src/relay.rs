//! Passes bytes between the host and one process here: the starter of the next layer, or a shell.
//!
//! A starter gets pipes; a shell gets a terminal of its own, whose both directions are one file.

use crate::run::{Stream, cannot_start, prepare, status, watch};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use surtax_instrument::wire::{Command, Failure, Reply, WireError, write_reply};

/// How much of a relayed process's standard error is kept, in bytes.
const KEEP_STDERR: usize = 16 << 10;

/// A relayed process.
pub struct Relay {
    pid: Pid,
    pidfd: OwnedFd,
    input: Option<File>,
    output: Option<File>,
    stderr: Stream,
    terminal: bool,
    reaped: bool,
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
        let mut child = process.spawn().map_err(|error| cannot_start(command, &error))?;
        let input = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let output = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), KEEP_STDERR);
        let (pid, pidfd) = watch(&child)?;
        Ok(Self { pid, pidfd, input, output, stderr, terminal: false, reaped: false })
    }

    fn start_on_terminal(command: &Command) -> Result<Self, Failure> {
        let cannot = |what: &str, error: rustix::io::Errno| Failure {
            errno: error.raw_os_error(),
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
        let child = process.spawn().map_err(|error| cannot_start(command, &error))?;
        let output = File::from(ours);
        let input = output.try_clone().map_err(|error| cannot_start(command, &error))?;
        let (pid, pidfd) = watch(&child)?;
        let stderr = Stream::new(None, 0);
        Ok(Self {
            pid,
            pidfd,
            input: Some(input),
            output: Some(output),
            stderr,
            terminal: true,
            reaped: false,
        })
    }

    /// What `poll` must watch. Its output first: the end is only looked at when that is drained.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let output = self.output.as_ref().map(AsFd::as_fd);
        let end = output.is_none().then(|| self.pidfd.as_fd());
        [output, self.stderr.descriptor(), end].into_iter().flatten()
    }

    /// Passes on what is there; false when the process has ended and the host was told.
    pub fn turn(&mut self, replies: &mut File) -> Result<bool, WireError> {
        self.stderr.read_available()?;
        self.pass_output(replies)?;
        if self.output.is_some() {
            return Ok(true);
        }
        let Ok(Some((_, ended))) = waitpid(Some(self.pid), WaitOptions::NOHANG) else {
            return Ok(true);
        };
        self.reaped = true;
        self.stderr.read_available()?;
        let stderr = self.stderr.output().tail;
        write_reply(replies, &Reply::RelayEnded { status: status(ended.as_raw()), stderr })?;
        Ok(false)
    }

    fn pass_output(&mut self, replies: &mut File) -> Result<(), WireError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut ready = [rustix::event::PollFd::new(output, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut ready, Some(&now)).unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut buffer = vec![0; surtax_instrument::wire::CHUNK];
        match output.read(&mut buffer) {
            // A terminal whose other side is closed by everybody says EIO.
            Ok(0) => self.output = None,
            Err(error) if error.raw_os_error() == Some(libc::EIO) => self.output = None,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
            Ok(count) => {
                buffer.truncate(count);
                write_reply(replies, &Reply::Data(buffer))?;
            }
        }
        Ok(())
    }

    /// Bytes for its standard input. A process that does not read any more is no error.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.input.as_mut().is_some_and(|input| input.write_all(bytes).is_err()) {
            self.input = None;
        }
    }

    /// Closes its standard input; on a terminal that is the end-of-file character.
    pub fn close(&mut self) {
        if self.terminal {
            self.feed(&[4]);
        } else {
            self.input = None;
        }
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
        if !self.reaped {
            self.input = None;
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}
