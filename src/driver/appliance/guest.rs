//! The machine of an appliance as its proxy sees it: let go, counted, and heard when it ends.

use crate::fault::Fault;
use crate::vm::qmp::Qmp;
use std::fs;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use surtax_instrument::probe::process::{Usage, usage_of_threads};
use surtax_instrument::quantity::Bytes;

/// Whose time the command's is, and who lets it go.
pub(super) trait Guest: Send {
    /// Returns what its virtual CPUs have used; `None` where they are gone.
    fn usage(&self) -> Option<Usage>;

    /// Returns how much of its memory it has touched, in bytes; `None` where it is gone.
    fn touched(&self) -> Option<Bytes>;

    /// Lets one go that stands still.
    ///
    /// # Errors
    /// Who makes it does not answer.
    fn let_go(&self) -> Result<(), Fault>;

    /// Returns the status with which one that ended has ended, as far as that can be known.
    fn status(&self) -> i32;

    /// Returns a socket on which something comes when the machine ends; `None` where its console
    /// ends with it.
    fn bell(&self) -> Option<&UnixStream>;

    /// Tells whether the machine was heard to have ended, without waiting.
    ///
    /// # Errors
    /// Who makes it is gone itself, or says what nobody understands.
    fn has_ended(&self) -> Result<bool, Fault>;
}

/// An appliance in a machine of QEMU's.
pub(super) struct InQemu {
    pub(super) pid: u32,
    /// The virtual CPUs.
    pub(super) tids: Vec<u32>,
    pub(super) qmp: Arc<Mutex<Qmp>>,
    /// A copy of the conversation's socket: QEMU tells there that the machine ended.
    pub(super) bell: UnixStream,
}

impl Guest for InQemu {
    fn usage(&self) -> Option<Usage> {
        usage_of_threads(self.pid, &self.tids).ok()
    }

    fn touched(&self) -> Option<Bytes> {
        touched(self.pid)
    }

    fn let_go(&self) -> Result<(), Fault> {
        self.qmp.lock().unwrap_or_else(PoisonError::into_inner).resume()
    }

    /// It tells none.
    fn status(&self) -> i32 {
        0
    }

    fn bell(&self) -> Option<&UnixStream> {
        Some(&self.bell)
    }

    fn has_ended(&self) -> Result<bool, Fault> {
        self.qmp.lock().unwrap_or_else(PoisonError::into_inner).has_shut_down()
    }
}

/// Returns how many bytes of its memory a guest has touched: the shared memory of its QEMU, which
/// shares nothing else; `None` where it is gone.
fn touched(pid: u32) -> Option<Bytes> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(Bytes(kibibytes << 10))
}
