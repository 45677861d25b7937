//! Mounts of what others own, and may exchange or take away at any moment.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Binds what may be gone, or in a directory of another user's, who may put anything there at any
/// moment: no link is followed, and what cannot be bound is not seen.
pub(super) fn bind(source: &Path, target: &Path) {
    let bound = || {
        let (source, target) = (held(source)?, held(target)?);
        let copy = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = rustix::mount::open_tree(&source, "", copy)?;
        let both =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&tree, "", &target, "", both)
    };
    let _unseen: Result<(), Errno> = bound();
}

/// Holds what a path names, without following a link anywhere on the way.
fn held(path: &Path) -> Result<OwnedFd, Errno> {
    // One that is a link itself is refused, and not held, as it would be with `O_NOFOLLOW`.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
}
