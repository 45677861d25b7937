//! Who works on a ledger: a lock on the file, which dies with its owner.
//!
//! It is `flock(2)`'s, which knows nothing of SQLite's own locks (`fcntl(2)`), and for which the file must be opened: who
//! may not read a ledger cannot keep its owner from it. To close any descriptor of the file drops SQLite's locks of this
//! process, so a hold outlives the connection that writes.

use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;

/// How long a hold is waited for: a child that is about to become another program still has a copy of its parent's, also
/// when that has let go; and whoever asks whether it is held has one for an instant.
const PATIENCE: Duration = Duration::from_millis(300);

/// Between two tries.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Nobody else can hold the same ledger as long as this lives.
#[derive(Debug)]
pub(super) struct Hold {
    _file: File,
}

/// Takes hold of a ledger.
///
/// # Errors
/// The user's, when a running surtax has it.
pub(super) fn take(path: &Path) -> Result<Hold, Fault> {
    let file = open(path, OFlags::RDWR).doing(doing(path))?;
    lock(file, path)
}

/// Takes hold of a ledger that has no name yet.
///
/// # Errors
/// As [`take`].
pub(super) fn take_of(file: &File, path: &Path) -> Result<Hold, Fault> {
    lock(file.try_clone().doing(doing(path))?, path)
}

fn lock(file: File, path: &Path) -> Result<Hold, Fault> {
    let began = monotonic_raw();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Hold { _file: file }),
            Err(TryLockError::WouldBlock)
                if monotonic_raw().since(began) < Nanoseconds::from(PATIENCE) =>
            {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(TryLockError::WouldBlock) => {
                let text = format!("a running surtax works on the ledger `{}`", path.display());
                return Err(Fault::user(text).hint(
                    "wait until it ends, or end it with Ctrl-C; `surtax show` can read meanwhile",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(error).doing(doing(path)),
        }
    }
}

/// Whether a process works on a ledger right now.
pub(super) fn is_held(path: &Path) -> bool {
    let held = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    open(path, OFlags::RDONLY).is_ok_and(held)
}

/// Waits for nobody, also where the name is a pipe's.
fn open(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn doing(path: &Path) -> String {
    format!("take hold of the ledger `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn a_ledger_has_one_holder_at_a_time_and_asking_takes_nothing() {
        let ledger = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_held(ledger.path()));
        let hold = take(ledger.path()).unwrap();
        assert!(is_held(ledger.path()) && is_held(ledger.path()));
        let fault = take(ledger.path()).unwrap_err();
        assert!(fault.message.starts_with("a running surtax works on"), "{fault}");
        drop(hold);
        assert!(!is_held(ledger.path()));
        let hold = take_of(ledger.as_file(), ledger.path()).unwrap();
        assert!(is_held(ledger.path()));
        drop(hold);
    }

    #[test]
    fn a_name_that_anybody_may_take_keeps_nobody_from_a_ledger() {
        let ledger = tempfile::NamedTempFile::new().unwrap();
        let file = ledger.as_file().metadata().unwrap();
        let name = format!("surtax-ledger-{:x}-{:x}", file.dev(), file.ino());
        let _squatter =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        assert!(!is_held(ledger.path()));
        take(ledger.path()).unwrap();
    }
}
