//! Who works on a ledger: an abstract socket named after the file, which dies with its owner.
//!
//! Not a lock on the file itself: closing any descriptor of it would drop SQLite's own locks of
//! this process. Two machines that share a network file system do not see each other's holds; WAL
//! does not work there either.

use crate::fault::{Doing, Fault};
use std::fs::{File, Metadata};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;

/// How long a hold is waited for: a child that is about to become another program still has a copy of
/// its parent's, also when that has let go.
const PATIENCE: Duration = Duration::from_millis(300);

/// Between two tries.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Nobody else can hold the same ledger as long as this lives.
#[derive(Debug)]
pub(super) struct Hold {
    _socket: UnixDatagram,
}

/// Takes hold of a ledger.
///
/// # Errors
/// The user's, when a running surtax has it.
pub(super) fn take(path: &Path) -> Result<Hold, Fault> {
    let file = std::fs::metadata(path).and_then(|file| address(&file));
    take_address(&file.doing(format_args!("find who holds the ledger `{}`", path.display()))?, path)
}

/// Takes hold of a ledger that has no name yet.
///
/// # Errors
/// As [`take`].
pub(super) fn take_of(file: &File, path: &Path) -> Result<Hold, Fault> {
    let file = file.metadata().and_then(|file| address(&file));
    take_address(
        &file.doing(format_args!("find who holds `{}`, which is new", path.display()))?,
        path,
    )
}

fn take_address(address: &SocketAddr, path: &Path) -> Result<Hold, Fault> {
    let doing = || format!("take hold of the ledger `{}`", path.display());
    let began = monotonic_raw();
    let mut bound = UnixDatagram::bind_addr(address);
    while bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        && monotonic_raw().since(began) < Nanoseconds::from(PATIENCE)
    {
        std::thread::sleep(LOOK_AGAIN);
        bound = UnixDatagram::bind_addr(address);
    }
    match bound {
        Ok(socket) => Ok(Hold { _socket: socket }),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(Fault::user(format!("a running surtax works on the ledger `{}`", path.display()))
                .hint(
                    "wait until it ends, or end it with Ctrl-C; `surtax show` can read meanwhile",
                ))
        }
        Err(error) => Err(error).doing(doing()),
    }
}

/// Whether a process works on a ledger right now.
pub(super) fn is_held(path: &Path) -> bool {
    let file = std::fs::metadata(path).and_then(|file| address(&file));
    let (Ok(address), Ok(socket)) = (file, UnixDatagram::unbound()) else {
        return false;
    };
    socket.connect_addr(&address).is_ok()
}

fn address(file: &Metadata) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("surtax-ledger-{:x}-{:x}", file.dev(), file.ino()))
}
