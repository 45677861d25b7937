//! Kin: the processes in our user namespace, or in one below it, which all come of us.
//!
//! Nobody is there but who was started there, and by whatever they have left a session, a root or a
//! parent, they are there still. So where there is no control group, this is how nobody is
//! forgotten. It holds as long as one of ours is there: after that the number of the namespace may
//! be another's.
//!
//! Source: `user_namespaces(7)`, `ioctl_nsfs(2)`.

use super::{is_in_a_namespace, parent};
use crate::fault::{Doing, Fault};
use crate::lab::processes;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Largest depth of user namespaces; the kernel's is 32.
const DEPTH_LIMIT: usize = 40;

/// Kills every process in our user namespace or below it but this one and that of `spared`. Says
/// who they were; nothing where we made no namespace.
///
/// # Errors
/// The machine's: processes cannot be listed, or do not die.
pub(in crate::lab) fn end(spared: Option<u32>) -> Result<Vec<String>, Fault> {
    if !is_in_a_namespace() {
        return Ok(Vec::new());
    }
    let ours = number(&File::open("/proc/self/ns/user").doing("look at our user namespace")?)
        .doing("tell our user namespace")?;
    let is_meant = |pid: u32| {
        pid != std::process::id() && Some(pid) != spared && lives(pid) && is_below(pid, ours)
    };
    processes::end_all("had outlived its trial", is_meant)
}

/// Tells whether a process has not ended: one that nobody has waited for yet keeps its number.
fn lives(pid: u32) -> bool {
    processes::field(pid, 3).is_some_and(|state| !["Z", "X", "x"].contains(&state.as_str()))
}

/// Tells whether a process is in this user namespace or in one below it.
fn is_below(pid: u32, ours: (u64, u64)) -> bool {
    // Whom we may not look at is outside.
    let Ok(theirs) = File::open(format!("/proc/{pid}/ns/user")) else { return false };
    let line = std::iter::successors(Some(theirs), |it| parent(it).ok());
    line.take(DEPTH_LIMIT).any(|it| number(&it).is_ok_and(|it| it == ours))
}

fn number(namespace: &File) -> std::io::Result<(u64, u64)> {
    namespace.metadata().map(|it| (it.dev(), it.ino()))
}
