//! Users of a room: a user namespace whose users are nobody on this machine.
//!
//! It is held by a descriptor without a process, as a mount namespace is, and serves to map the
//! files of a root: what belongs to this machine's root belongs to the container's. The tool that
//! starts the container makes one of its own with the same map.
//!
//! Source: `user_namespaces(7)`, `mount_setattr(2)` on `MOUNT_ATTR_IDMAP`.

pub use super::user_numbers::{COUNT, FIRST};
use super::{Program, Room};
use crate::fault::{Doing, Fault};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Time limit for the namespace to be made.
const DEADLINE: Duration = Duration::from_secs(10);

/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A user namespace, in which user and group 0 are [`FIRST`] here.
#[derive(Debug)]
pub struct Users {
    namespace: OwnedFd,
}

impl Room {
    /// Makes a user namespace. A process that makes it is needed only while it is mapped.
    ///
    /// # Errors
    /// The machine's: there is no `unshare`, or the kernel lets nobody make one.
    pub fn users(&self) -> Result<Users, Fault> {
        let words = ["unshare", "--user", "sleep", "infinity"];
        let argv = words.map(String::from).to_vec();
        let mut holder = self.spawn(Program { argv, ..Program::default() })?;
        let theirs = Path::new("/proc").join(holder.pid().to_string());
        let link = |path: &Path| fs::read_link(path).doing("look at a user namespace");
        let ours = link(Path::new("/proc/self/ns/user"))?;
        let began = monotonic_raw();
        while link(&theirs.join("ns/user")).is_ok_and(|link| link == ours) {
            let is_late = Duration::from(monotonic_raw().since(began)) > DEADLINE;
            if holder.wait(LOOK_AGAIN)?.is_some() || is_late {
                return Err(Fault::machine("no user namespace can be made")
                    .hint("sysctl user.max_user_namespaces"));
            }
        }
        for name in ["uid_map", "gid_map"] {
            let file = theirs.join(name);
            fs::write(&file, format!("0 {FIRST} {COUNT}"))
                .doing(format_args!("map users by `{}`", file.display()))?;
        }
        let namespace = File::open(theirs.join("ns/user")).doing("hold a user namespace")?;
        Ok(Users { namespace: namespace.into() })
    }
}

impl Users {
    /// The namespace as a file, as long as this is kept.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd()))
    }
}
