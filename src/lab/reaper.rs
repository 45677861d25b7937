//! The reaper: a small process that undoes the journal when the main process dies.
//!
//! It is this binary again with a hidden first argument, in a session of its own, blocked on a pipe
//! whose other end the main process holds. However the main process dies, the pipe closes; the
//! reaper then takes over the lock of the journal, undoes what is left, and ends. If it is killed
//! too, the next start does the same.

use super::journal::Journal;
use super::{open_files, us};
use crate::fault::{Doing, Fault};
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The hidden first argument; the journal's path follows.
pub const ARGUMENT: &str = "__reaper";

/// A running reaper. Dropped, it is let go: it finds either no journal, or one to undo.
#[derive(Debug)]
pub(super) struct Reaper {
    /// Closed by the kernel if not by us.
    lifeline: Option<OwnedFd>,
    child: Child,
}

impl Reaper {
    /// Starts a reaper for a journal; `command_line` is what the journal's path is appended to.
    pub(super) fn start(command_line: &[OsString], journal: &Path) -> Result<Self, Fault> {
        let Some((program, arguments)) = command_line.split_first() else {
            return Err(Fault::bug("a reaper without a command line"));
        };
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .doing("make the reaper's pipe")?;
        #[expect(clippy::disallowed_methods, reason = "the reaper belongs to no room")]
        let mut command = Command::new(program);
        command.args(arguments).arg(journal).current_dir("/");
        command.stdin(Stdio::from(read)).stdout(Stdio::null());
        let told = us::told();
        command.envs(told.iter().map(|(name, value, _)| (name, value)));
        let witness = told.map(|(_, _, witness)| witness);
        let detach = move || {
            rustix::process::setsid()?;
            open_files::close_others_on_exec()?;
            if let Some(witness) = witness {
                // SAFETY: the number is an open descriptor of ours, which nobody closes.
                let witness = unsafe { BorrowedFd::borrow_raw(witness) };
                rustix::io::fcntl_setfd(witness, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: `detach` makes system calls only; it neither allocates nor takes a lock.
        unsafe { command.pre_exec(detach) };
        let child = command.spawn().doing("start the reaper")?;
        Ok(Self { lifeline: Some(write), child })
    }

    /// Returns its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it before it has done anything.
    pub(super) fn kill(&mut self) {
        // It fails only for one that has ended.
        let _ = self.child.kill();
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = self.child.wait();
    }
}

/// The main function of the reaper: to be called when the first argument is [`ARGUMENT`], with the
/// arguments that follow it.
pub fn reaper_main(mut arguments: impl Iterator<Item = OsString>) -> ! {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler is installed; what would end a program is ignored while we have work
        // to do.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = std::fs::write("/proc/self/comm", "surtax-reaper");
    let Some(journal) = arguments.next().map(PathBuf::from) else {
        std::process::exit(i32::from(Fault::bug("").exit_code()));
    };
    let mut nothing = Vec::new();
    // Nothing is ever written: reading ends when the main process does.
    let _ = std::io::stdin().lock().read_to_end(&mut nothing);
    let status = match inherit(&journal) {
        Ok(kept) if kept.is_empty() => 0,
        Ok(kept) => {
            say(&kept.join("\n"));
            3
        }
        Err(fault) => {
            say(&fault.to_string());
            i32::from(fault.exit_code())
        }
    };
    std::process::exit(status)
}

fn inherit(journal: &Path) -> Result<Vec<String>, Fault> {
    match Journal::inherit(journal)? {
        None => Ok(Vec::new()),
        Some(journal) => {
            // Whoever is left would make anew what is removed, and is in no group without root.
            // A main process that lives waits for us.
            let main = rustix::process::getppid();
            let ended = us::kin::end(main.map(|it| it.as_raw_nonzero().get().unsigned_abs()));
            let mut kept = super::sweep::undo(journal)?.kept;
            kept.extend(ended.err().map(|fault| fault.to_string()));
            Ok(kept)
        }
    }
}

/// The reaper's standard error is the dead main process's; nobody may be left to read it.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "surtax-reaper: {text}");
}
