//! The way to the agent of a monitor's guest: the guest calls a port of the host's by virtio-vsock,
//! and the monitor passes the call on to a Unix socket beside its own, `SOCKET_PORT`, where we
//! listen.
//!
//! Source: `docs/vsock.md` of Firecracker 1.16 and of Cloud Hypervisor 53.

use crate::agent::{Call, ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::lab::Process;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Waits for the guest's call. The stream beside the link is there to hang up by.
///
/// # Errors
/// The monitor has ended, or nobody calls in time; with the last words of the guest.
pub(in crate::driver) fn take(
    call: &Call,
    kind: &'static str,
    monitor: &mut Process,
    console: &ConsoleTail,
    deadline: Duration,
) -> Result<(Link, UnixStream), Fault> {
    let taken = call.take(deadline, || {
        Ok(monitor.wait(LOOK_AGAIN)?.map(|status| format!("ended with {status}")))
    });
    let stream = taken?.map_err(|why| {
        console.settle(LOOK_AGAIN);
        Fault::machine(format!("{kind}: the machine {why}")).saying(&console.quote())
    })?;
    let copy = stream.try_clone().doing("copy the socket of a guest's call")?;
    Ok((Link::over_socket(kind, copy, console)?, stream))
}
