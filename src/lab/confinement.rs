//! State of a program before its first instruction: whom it runs as, and the little that it may.
//!
//! Source: `capabilities(7)`, `PR_SET_NO_NEW_PRIVS(2const)`.

use super::us;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
pub use rustix::thread::CapabilitySet;
use rustix::thread::{self, CapabilitySets};

/// State of a program before its first instruction: whom it runs as, and the little that it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The user and the group, with no other groups.
    pub user: u32,
    /// The capabilities that it keeps, and beyond which nothing it starts can get any.
    pub capabilities: CapabilitySet,
}

impl Confinement {
    /// Gives up all else; between `fork` and `exec`. Nothing but system calls.
    pub(super) fn enter(&self) -> Result<(), Errno> {
        for capability in CapabilitySet::all().iter() {
            if !self.capabilities.contains(capability) {
                match thread::remove_capability_from_bounding_set(capability) {
                    // One that this kernel does not know.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        thread::set_keep_capabilities(true)?;
        become_user(self.user)?;
        let kept = self.capabilities;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
        thread::set_capabilities(None, sets)?;
        for capability in kept.iter() {
            thread::configure_capability_in_ambient_set(capability, true)?;
        }
        thread::set_no_new_privs(true)
    }
}

/// Becomes a user and the group of the same number, and nobody else. System calls of this thread
/// alone: what the C library does for all threads is nothing to do after `fork`.
pub(super) fn become_user(user: u32) -> Result<(), Errno> {
    let (group, user) = (Gid::from_raw(user), Uid::from_raw(user));
    // Where nobody may, there are none but our own.
    if !us::is_in_a_namespace() {
        thread::set_thread_groups(&[])?;
    }
    thread::set_thread_res_gid(group, group, group)?;
    thread::set_thread_res_uid(user, user, user)
}

pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
