//! Who works on a ledger: an abstract socket named after the file, which dies with its owner.
//!
//! Not a lock on the file itself: closing any descriptor of it would drop SQLite's own locks of
//! this process. Two machines that share a network file system do not see each other's holds; WAL
//! does not work there either.

use crate::fault::{Doing, Fault};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

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
    let doing = || format!("take hold of the ledger `{}`", path.display());
    match UnixDatagram::bind_addr(&address(path).doing(doing())?) {
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
    let (Ok(address), Ok(socket)) = (address(path), UnixDatagram::unbound()) else {
        return false;
    };
    socket.connect_addr(&address).is_ok()
}

fn address(path: &Path) -> io::Result<SocketAddr> {
    let file = std::fs::metadata(path)?;
    SocketAddr::from_abstract_name(format!("surtax-ledger-{:x}-{:x}", file.dev(), file.ino()))
}
