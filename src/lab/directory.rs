//! Removes a directory of ours, and never anything else.
//!
//! The removal walks by descriptors, follows no symbolic link and enters no mount (`openat2` with
//! `RESOLVE_NO_XDEV`, which knows bind mounts too), so that what a workload left there cannot lead
//! it to a place outside. Mounts in its way are taken off. Where a workload made something
//! immutable (`chattr +i`) that is taken back, of what is removed alone.

use super::exclusive::{c_path, unguessable};
use super::{exclusive, unmount};
use crate::fault::{Doing, Fault};
use rustix::fs::{AtFlags, CWD, FileType, IFlags, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Directories nested deeper than this are first moved up, so that depth costs no descriptors.
const DEPTH_LIMIT: usize = 64;

/// Largest number of passes of a removal, each after something was moved up or appeared meanwhile.
const PASS_LIMIT: usize = 100_000;

/// Tells whether a path is on a file system that a reboot empties.
pub(super) fn is_in_memory(path: &Path) -> bool {
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let kind = rustix::fs::statfs(existing).map(|facts| facts.f_type).unwrap_or(0);
    matches!(u32::try_from(kind), Ok(TMPFS | RAMFS))
}

/// Tells whether a program that lies in a directory may be started.
pub(super) fn may_execute(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|facts| !facts.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Returns the mount point of the file system that a path is on.
pub(super) fn mount_point(path: &Path) -> &Path {
    let device = |path: &Path| rustix::fs::stat(path).map(|facts| facts.st_dev).ok();
    let here = device(path);
    path.ancestors().take_while(|above| device(above) == here).last().unwrap_or(path)
}

const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// Takes a directory and all that is in it away. What had to be unmounted by force is returned.
pub(super) fn remove(path: &Path) -> Result<Vec<String>, Fault> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else {
        return Err(Fault::bug(format!("`{}` is not a directory to remove", path.display())));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match rustix::fs::open(parent, flags, Mode::empty()) {
        Ok(parent) => parent,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).doing(format_args!("open the parent of `{}`", path.display()));
        }
    };
    let name = c_path(Path::new(name))?;
    let mut upward = Upward::new()?;
    let mut removed = remove_child(parent.as_fd(), &name, &mut upward);
    let mut found = Vec::new();
    // Most often nothing is, and the table of mounts is long. Where a mount lies over something
    // immutable, the kernel says that it is not permitted.
    if let Err(Errno::XDEV | Errno::BUSY | Errno::PERM) = removed {
        found = unmount::unmount_below(path)?;
        removed = remove_child(parent.as_fd(), &name, &mut upward);
    }
    removed.doing(format_args!("remove `{}`", path.display())).map_err(|fault| {
        fault.hint("see with `lsof` or `findmnt` who uses it, then run `surtax gc`")
    })?;
    Ok(found)
}

/// The same for what a journal names: what belongs to somebody else was not made by us and is left
/// alone.
pub(super) fn remove_ours(path: &Path) -> Result<Vec<String>, Fault> {
    match exclusive::foreign_owner(path) {
        None => remove(path),
        Some(owner) => {
            Ok(vec![format!("`{}` belongs to user {owner}, and was left alone", path.display())])
        }
    }
}

/// Removes everything in a directory, which may be where something is mounted.
pub(super) fn clear(path: &Path) -> Result<(), Fault> {
    let doing = format!("empty `{}`", path.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::open(path, flags, Mode::empty()).doing(&doing)?;
    let mut upward = Upward::new()?;
    for _ in 0..PASS_LIMIT {
        let before = upward.count;
        empty(top.as_fd(), top.as_fd(), DEPTH_LIMIT, &mut upward).doing(&doing)?;
        if upward.count == before {
            return Ok(());
        }
    }
    Err(Fault::machine(format!("`{}` fills as fast as it is emptied", path.display())))
}

/// Names for directories that one removal moves up. Nobody can have taken them before: neither a
/// command, nor a removal that was killed.
struct Upward {
    tag: String,
    count: u64,
}

impl Upward {
    fn new() -> Result<Self, Fault> {
        Ok(Self { tag: unguessable()?, count: 0 })
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!(".surtax-deep-{}-{}", self.tag, self.count)
    }
}

/// Removes the directory `name` of `parent` without ever leaving its file system.
fn remove_child(parent: BorrowedFd<'_>, name: &CString, upward: &mut Upward) -> Result<(), Errno> {
    let top = match enter(parent, name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let unlink = || rustix::fs::unlinkat(parent, name, AtFlags::empty());
            return unlocked(unlink, || unlock_entry(parent, name));
        }
        Err(error) => return Err(error),
    };
    for _ in 0..PASS_LIMIT {
        empty(top.as_fd(), top.as_fd(), DEPTH_LIMIT, upward)?;
        let unlink = || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        match unlocked(unlink, || unlock(top.as_fd())) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes everything in `directory`; what is deeper than `depth` is moved to `top` instead.
fn empty(
    directory: BorrowedFd<'_>,
    top: BorrowedFd<'_>,
    depth: usize,
    upward: &mut Upward,
) -> Result<(), Errno> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let unlink = |flags| {
            let both = || (unlock(directory), unlock_entry(directory, name));
            unlocked(|| rustix::fs::unlinkat(directory, name, flags), both)
        };
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match unlink(AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // A file system that does not tell types in its listings.
                Err(Errno::ISDIR) if entry.file_type() == FileType::Unknown => {}
                Err(error) => return Err(error),
            }
        }
        if depth == 0 {
            let place = upward.name();
            let all = || (unlock(top), unlock(directory), unlock_entry(directory, name));
            unlocked(|| rustix::fs::renameat(directory, name, top, place.as_str()), all)?;
            continue;
        }
        match enter(directory, name) {
            Ok(child) => empty(child.as_fd(), top, depth - 1, upward)?,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error),
        }
        match unlink(AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Does something; where it is not permitted, once more when what forbids it has been taken away.
fn unlocked<T>(
    act: impl Fn() -> Result<(), Errno>,
    unlock: impl FnOnce() -> T,
) -> Result<(), Errno> {
    match act() {
        Err(Errno::PERM) => {
            unlock();
            act()
        }
        other => other,
    }
}

/// Takes the flags from a file or a directory that forbid root to remove it and what is in it.
/// Where they cannot be taken, the removal says so.
fn unlock(file: BorrowedFd<'_>) {
    let locks = IFlags::IMMUTABLE | IFlags::APPEND;
    if let Ok(flags) = rustix::fs::ioctl_getflags(file)
        && flags.intersects(locks)
    {
        let _ = rustix::fs::ioctl_setflags(file, flags - locks);
    }
}

/// The same, of an entry of a directory. Nothing else but files and directories is opened: nobody
/// has such flags on a link or a pipe, and to open a device may do something. Who serves a mount
/// over it is not asked: nobody may answer.
fn unlock_entry(directory: BorrowedFd<'_>, name: &CStr) {
    let open = |flags: OFlags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(directory, name, flags, Mode::empty(), INSIDE)
    };
    let kind = open(OFlags::PATH)
        .and_then(|entry| rustix::fs::fstat(&entry))
        .map(|facts| FileType::from_raw_mode(facts.st_mode));
    if !matches!(kind, Ok(FileType::RegularFile | FileType::Directory)) {
        return;
    }
    if let Ok(file) = open(OFlags::RDONLY | OFlags::NONBLOCK) {
        unlock(file.as_fd());
    }
}

/// Way to an entry that leads neither into a mount nor along a link.
const INSIDE: ResolveFlags =
    ResolveFlags::NO_XDEV.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::BENEATH);

fn enter(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(parent, name, flags, Mode::empty(), INSIDE) {
        Err(Errno::ACCESS) => {
            // Somebody took the permission away from us; the owner may give it back.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat2(parent, name, flags, Mode::empty(), INSIDE)
        }
        other => other,
    }
}

/// Lists what is in a directory, in order of the names; nothing where it cannot be read.
pub(super) fn entries(path: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Tells whether anything is at this path.
pub(super) fn exists(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[cfg(test)]
mod tests;
