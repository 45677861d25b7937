//! Keeps the agent out of reach of what it starts: its memory, its descriptors, and its channel.
//!
//! Not dumpable, it can be traced, read, or have its descriptors taken (`ptrace`, `/proc/PID/mem`,
//! `/proc/PID/fd`, `pidfd_getfd`) only by who has `CAP_SYS_PTRACE` over it: in `runc`, `crun`,
//! `docker`, `podman` and `gvisor` that is nobody; `namespaces`, `bubblewrap`, `lxc` and `nspawn`
//! leave it to their commands, and a guest's root has it. What it starts is dumpable again, because
//! a new program is. Root beside it, as in `native`, has that capability; what bears no seal of its
//! is told by the seal, and what it could do with the key is said in decision 32.
//!
//! Source: `PR_SET_DUMPABLE` in `prctl(2)`, "Ptrace access mode checking" in `ptrace(2)`.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Above what a command is likely to be given, and below what it is allowed in all but strange
/// places.
const HIGH: i32 = 500;

/// Shuts this process's memory and descriptors to whoever has no right over all processes.
pub fn close_to_others() {
    // A kernel that cannot do it is one of an old sandbox; the seal does not rest on this.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Takes standard input and output for the channel, and leaves others in their place.
pub fn take_stdio() -> io::Result<(File, File)> {
    let requests = apart(std::io::stdin())?;
    let replies = apart(std::io::stdout())?;
    // Where there is no such device they stay, and are closed when the command begins.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        dup2_stdin(&nothing)?;
        // What is printed by mistake shall be seen, and not be among the frames.
        dup2_stdout(stderr())?;
    }
    Ok((File::from(requests), File::from(replies)))
}

/// The same file under a number of its own, which is closed where a program begins.
fn apart(file: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(&file, HIGH).or_else(|_| fcntl_dupfd_cloexec(&file, 3))?)
}
