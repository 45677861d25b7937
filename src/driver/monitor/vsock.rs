//! The way to the agent of a monitor's guest: the guest calls a port of the host's by virtio-vsock,
//! and the monitor passes the call on to a Unix socket beside its own, `SOCKET_PORT`, where we
//! listen.
//!
//! Source: `docs/vsock.md` of Firecracker 1.16 and of Cloud Hypervisor 53.

use crate::agent::{ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::lab::Process;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// The guest's own address: the least that is free. Several guests may have the same, because each
/// monitor has a socket of its own.
pub(super) const GUEST: u32 = 3;

/// The port that the agent calls.
pub(in crate::driver) const PORT: u32 = 1024;

/// Between two looks at who calls.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Returns the path of the socket at which the agent's calls arrive, beside the monitor's socket.
pub(in crate::driver) fn place(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(format!("_{PORT}"));
    PathBuf::from(name)
}

/// Listener for the agent's calls.
pub(in crate::driver) struct Listener {
    listener: UnixListener,
}

impl Listener {
    /// Listens beside the monitor's socket.
    ///
    /// # Errors
    /// The machine's: the path is too long, or taken.
    pub(in crate::driver) fn beside(socket: &Path) -> Result<Self, Fault> {
        let path = place(socket);
        let shown = path.display();
        let listener =
            UnixListener::bind(&path).doing(format_args!("listen for calls at `{shown}`"))?;
        listener.set_nonblocking(true).doing("wait for calls of a guest")?;
        Ok(Self { listener })
    }

    /// Waits for the call. The first frame has not been read; the stream beside the link is there
    /// to hang up by.
    ///
    /// # Errors
    /// The monitor has ended, or nobody calls in time; with the last words of the guest.
    pub(in crate::driver) fn accept(
        self,
        kind: &'static str,
        monitor: &mut Process,
        console: &ConsoleTail,
        deadline: Duration,
    ) -> Result<(Link, UnixStream), Fault> {
        let began = monotonic_raw();
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).doing("take the call of a guest"),
            }
            let why = match monitor.wait(LOOK_AGAIN)? {
                Some(status) => format!("the machine ended with {status}"),
                None if Duration::from(monotonic_raw().since(began)) < deadline => continue,
                None => format!("nobody called within {:.1} s", deadline.as_secs_f64()),
            };
            console.settle(LOOK_AGAIN);
            let words = console.quote();
            return Err(Fault::machine(format!("{kind}: no agent: {why}{words}")));
        };
        let copy = stream.try_clone().doing("copy the socket of a guest's call")?;
        Ok((Link::over_socket(kind, copy, console)?, stream))
    }
}
