//! A call to the host over virtio-vsock.
//!
//! Source: `vsock(7)`, Linux `include/uapi/linux/vm_sockets.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The errors of a machine whose device is not there yet.
const NOT_YET: [i32; 2] = [libc::ENODEV, libc::EAFNOSUPPORT];

/// Calls a port of the host; nothing while there is no device to call by.
///
/// # Errors
/// Nobody listens there, or the host hung up.
pub fn call(port: u32) -> io::Result<Option<File>> {
    // SAFETY: `socket` takes no pointer.
    let made = unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if made < 0 {
        return not_yet(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us alone.
    let socket = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: all zeroes are a valid `sockaddr_vm`.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).unwrap_or_default();
    address.svm_cid = libc::VMADDR_CID_HOST;
    address.svm_port = port;
    let size = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: the address is `size` bytes long and outlives the call.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if done < 0 {
        return not_yet(io::Error::last_os_error());
    }
    Ok(Some(File::from(socket)))
}

fn not_yet(error: io::Error) -> io::Result<Option<File>> {
    let is_known = error.raw_os_error().is_some_and(|errno| NOT_YET.contains(&errno));
    if is_known { Ok(None) } else { Err(error) }
}
