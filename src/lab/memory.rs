//! The lab's memory: a tmpfs of its own below its directory, that nobody else can reach into.
//!
//! It is the one mount in the host's own namespace. An engine's daemon must see what lies there,
//! and the places in memory that all machines have are open to every user. It is made before
//! anything else is started, so that every mount namespace that copies the host's has it; and it is
//! emptied before it is taken off, because a copy elsewhere would keep its files.

use super::places::MEMORY_DIRECTORY;
use super::{directory, exclusive, unmount};
use crate::fault::{Doing, Fault};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::path::Path;

/// Mount point of the memory in the lab's directory; no room has such a name.
pub(super) const NAME: &str = ".memory";

/// At most half of the memory, and nothing in it is a device or raises privileges. Its mode is
/// ours.
const OPTIONS: &std::ffi::CStr = c"mode=0700,size=50%";

/// Mounts it; `None` where this process may mount nothing.
///
/// # Errors
/// The machine's: the mount point cannot be made, or the kernel refuses for another reason.
pub(super) fn mount(path: &Path) -> Result<Option<()>, Fault> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    exclusive::make(path, 0o700)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    match rustix::mount::mount("surtax", path, "tmpfs", flags, OPTIONS) {
        Ok(()) => {}
        // A container without the right to mount, or a filter that refuses it.
        Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::NODEV) => {
            rustix::fs::rmdir(path)
                .doing(format_args!("remove the mount point `{}`", path.display()))?;
            return Ok(None);
        }
        Err(error) => {
            return Err(error).doing(format_args!("mount memory at `{}`", path.display()));
        }
    }
    // What is mounted below it is nobody else's to see.
    rustix::mount::mount_change(path, MountPropagationFlags::PRIVATE)
        .doing(format_args!("keep mounts below `{}` to this namespace", path.display()))?;
    Ok(Some(()))
}

/// Tells whether memory without a mount of its own is to be looked for outside of the lab's
/// directory: not if that is in memory already and programs may be started there, or if there is no
/// other place.
pub(super) fn elsewhere(lab: &Path) -> bool {
    let memory = Path::new(MEMORY_DIRECTORY);
    let suffices = directory::is_in_memory(lab) && directory::may_execute(lab);
    !suffices && memory.is_dir() && directory::is_in_memory(memory)
}

/// Empties it and takes it off. What is not mounted is no error.
///
/// # Errors
/// The machine's: something in it cannot be removed.
pub(super) fn unmount(path: &Path) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let points = unmount::below(path)?;
    if !points.iter().any(|point| point == path) {
        return Ok(found);
    }
    for point in points.iter().rev().filter(|point| *point != path) {
        found.extend(unmount::unmount_one(point)?);
    }
    directory::clear(path)?;
    for _ in points.iter().filter(|point| *point == path) {
        // Who works in it still keeps an empty one.
        match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => {
                return Err(error).doing(format_args!("take off the memory `{}`", path.display()));
            }
        }
    }
    Ok(found)
}
