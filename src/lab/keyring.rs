//! The kernel's keyring of a session, which a program inherits from whoever started it.
//!
//! It may have keys that open this machine's encrypted directories, and tickets of its user: with
//! it, they would be those of a container's command. Source: `session-keyring(7)`, `keyctl(2)`.

use super::confinement::last_errno;
use rustix::io::Errno;

/// `KEYCTL_JOIN_SESSION_KEYRING` of `linux/keyctl.h`.
const JOIN: libc::c_int = 1;

/// Begins an empty one, which is nobody else's. Where the kernel has none, or a filter of this
/// level forbids them, there is nothing to keep back. One system call, for use after `fork`.
pub(super) fn begin_session() -> Result<(), Errno> {
    let unnamed = std::ptr::null::<libc::c_char>();
    // SAFETY: the call takes a number and a name, and none means a new keyring without a name.
    if unsafe { libc::syscall(libc::SYS_keyctl, JOIN, unnamed) } >= 0 {
        return Ok(());
    }
    match last_errno() {
        Errno::NOSYS | Errno::PERM => Ok(()),
        error => Err(error),
    }
}
