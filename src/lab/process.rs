//! Processes: the only place in surtax where one is started.

use crate::fault::Fault;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// What to start, and where.
#[derive(Debug, Default)]
pub struct Program {
    /// Program and arguments; the program is looked up in this process's `PATH`.
    pub argv: Vec<String>,
    /// The whole environment if given, else this process's.
    pub environment: Option<Vec<(String, String)>>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Standard input, output and error; `/dev/null` where absent.
    pub stdio: [Option<OwnedFd>; 3],
    /// Descriptors to hand down at these numbers.
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// The group it is put into before `exec`; the room's own where absent.
    pub group: Option<PathBuf>,
    /// The mount namespace it enters before `exec`.
    pub mount_namespace: Option<OwnedFd>,
    /// Where in that namespace its root is (`chroot`), before `exec`.
    pub root: Option<PathBuf>,
    /// A session of its own, so that Ctrl-C at our terminal does not reach it; true for all but `enter`.
    pub foreground: bool,
}

/// A program that was started. It dies with this process (`PR_SET_PDEATHSIG`). Dropped, it is killed and reaped.
#[derive(Debug)]
pub struct Process {
    /* private */
}

impl Process {
    pub fn pid(&self) -> u32 { todo!() }
    /// Waits at most so long; `None` when it still runs.
    pub fn wait(&mut self, deadline: Duration) -> Result<Option<std::process::ExitStatus>, Fault> { todo!() }
    pub fn kill(&mut self) -> Result<(), Fault> { todo!() }
}
