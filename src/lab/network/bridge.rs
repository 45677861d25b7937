//! Bridges and taps of this thread's network namespace, by the calls of the kernel.

use super::{BRIDGE, TUN};
use crate::fault::{Doing, Fault};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use surtax_instrument::link;

/// Requests that `libc` does not name. Source: Linux `uapi/linux/sockios.h`, `uapi/linux/if_tun.h`.
const SIOCBRADDBR: libc::Ioctl = 0x89a0;
const SIOCBRADDIF: libc::Ioctl = 0x89a2;
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
pub(super) const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;

/// One queue of a tap of this name in this thread's namespace.
pub(super) fn tap(name: &str, queues: u32) -> Result<OwnedFd, Fault> {
    let tun = File::options()
        .read(true)
        .write(true)
        .open(TUN)
        .doing(format_args!("open `{TUN}`"))
        .map_err(|fault| fault.hint("modprobe tun"))?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let made = link::request(name).and_then(|mut request| {
        request.ifr_ifru.ifru_flags = link::short(flags);
        // SAFETY: the descriptor is open and `request` is a live `ifreq`, as this request wants.
        link::said(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF, &raw mut request) })
    });
    made.doing("make a tap")?;
    Ok(tun.into())
}

/// Makes the bridge in this thread's namespace.
pub(super) fn make_bridge() -> std::io::Result<()> {
    let (socket, request) = (link::socket()?, link::request(BRIDGE)?);
    // SAFETY: this request reads a name that ends with a zero byte, and `ifr_name` is one.
    link::said(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCBRADDBR, request.ifr_name.as_ptr()) })
}

/// The number of a link of this thread's namespace, if it has one of that name.
pub(super) fn index_of(name: &str) -> Option<libc::c_int> {
    let request = link::request(name).ok()?;
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(request.ifr_name.as_ptr()) };
    libc::c_int::try_from(index).ok().filter(|index| *index > 0)
}

/// Makes a link of this thread's namespace a port of the bridge.
pub(super) fn plug_in(name: &str) -> Result<(), Fault> {
    let index = index_of(name).unwrap_or_default();
    link::send(SIOCBRADDIF, BRIDGE, |request| request.ifr_ifru.ifru_ifindex = index)
        .doing(format_args!("make `{name}` a port of the bridge"))
}
