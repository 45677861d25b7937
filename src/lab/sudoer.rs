//! User who typed `sudo`: whoever root works for, and what they are let read.
//!
//! What surtax writes as root stays root's, also where it is for that user to see: a file in a
//! directory of theirs could be exchanged under root's hands. They get an entry in its access
//! list instead.

use super::{exclusive, state};
use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, OFlags, XattrFlags, fsetxattr};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Attribute with the access list of a file, and with the one that new files of a directory get.
const LIST: &str = "system.posix_acl_access";
const LIST_OF_NEW: &str = "system.posix_acl_default";

/// Folder of root's with one folder per user of `sudo`.
const FOR_USERS: &str = "users";

/// Permission to pass through a directory, of everybody.
const PASS: Mode = Mode::XUSR.union(Mode::XGRP).union(Mode::XOTH);

/// Version of the format, and the number of an entry that names nobody.
///
/// Source: Linux, `include/uapi/linux/posix_acl_xattr.h`.
const VERSION: u32 = 2;
const NOBODY: u32 = u32::MAX;

/// Tags of entries, in the order that the kernel demands.
///
/// Source: Linux, `include/uapi/linux/posix_acl.h`.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// User who typed `sudo`; `None` where this process is not root, or root typed it.
#[must_use]
pub fn uid() -> Option<u32> {
    let typed = std::env::var("SUDO_UID").ok()?.parse().ok()?;
    (rustix::process::geteuid().is_root() && typed != 0 && typed != NOBODY).then_some(typed)
}

/// Group of the user who typed `sudo`.
#[must_use]
pub fn group() -> Option<u32> {
    uid().and_then(|_| std::env::var("SUDO_GID").ok()?.parse().ok())
}

/// Path of the folder that root keeps for a user; it need not exist yet.
#[must_use]
pub fn folder(user: u32) -> PathBuf {
    Path::new(state::OF_ROOT).join(FOR_USERS).join(user.to_string())
}

/// Makes a directory in the folder for a user, if absent, and the folder: root's, into which they
/// may look.
///
/// # Errors
/// The machine's: it cannot be made, or somebody else could exchange it.
pub fn ensure(user: u32, name: &str) -> Result<(), Fault> {
    let folder = folder(user);
    // On the way there everybody may pass, and sees nothing.
    for way in folder.ancestors().skip(1).take(2) {
        let way = exclusive::ensure(way, 0o711)?;
        let opened = opened(&way)?;
        let doing = || format!("let others pass through `{}`", way.display());
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened).doing(doing())?.st_mode);
        if !mode.contains(PASS) {
            rustix::fs::fchmod(&opened, mode.union(PASS)).doing(doing())?;
        }
    }
    for directory in [folder.clone(), folder.join(name)] {
        let opened = opened(&exclusive::ensure(&directory, 0o700)?)?;
        let doing = format!("let user {user} look into `{}`", directory.display());
        match let_look_into(&opened, user) {
            // Where there are no access lists, what is kept is root's alone.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error).doing(doing),
        }
    }
    Ok(())
}

fn opened(directory: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .doing(format_args!("open the directory `{}`", directory.display()))
}

/// Lets a user read a file that is open, beside its owner and nobody else.
///
/// # Errors
/// The kernel's: `EOPNOTSUPP` where the file system keeps no access lists.
pub fn let_read(file: impl AsFd, user: u32) -> Result<(), Errno> {
    fsetxattr(file, LIST, &list(6, 4, user), XattrFlags::empty())
}

/// Lets a user look into a directory that is open, and read what is made in it from now on, beside
/// its owner and nobody else.
///
/// # Errors
/// As [`let_read`].
fn let_look_into(directory: impl AsFd, user: u32) -> Result<(), Errno> {
    let list = list(7, 5, user);
    fsetxattr(&directory, LIST, &list, XattrFlags::empty())?;
    fsetxattr(&directory, LIST_OF_NEW, &list, XattrFlags::empty())
}

/// Tells whether a file has an entry by which this user may read it.
#[must_use]
pub fn may_read(path: &Path, user: u32) -> bool {
    let mut list = [0; 1024];
    let length = rustix::fs::lgetxattr(path, LIST, &mut list).unwrap_or(0);
    let entries = list[..length].get(4..).unwrap_or_default().chunks_exact(8);
    let named = |entry: &[u8]| entry[..2] == USER.to_le_bytes() && entry[4..] == user.to_le_bytes();
    entries.into_iter().any(|entry| named(entry) && entry[2] & 4 != 0)
}

/// Builds an access list: permissions of the owner and of one user, none of anybody else.
fn list(owner: u16, user: u16, uid: u32) -> Vec<u8> {
    let entries = [
        (OWNER, owner, NOBODY),
        (USER, user, uid),
        (GROUP, 0, NOBODY),
        (MASK, user, NOBODY),
        (OTHER, 0, NOBODY),
    ];
    let bytes = entries.iter().flat_map(|(tag, permissions, id)| {
        [tag.to_le_bytes(), permissions.to_le_bytes()].concat().into_iter().chain(id.to_le_bytes())
    });
    VERSION.to_le_bytes().into_iter().chain(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_list_has_its_entries_in_the_kernels_order() {
        let list = list(6, 4, 1000);
        assert_eq!(list.len(), 4 + 5 * 8);
        assert_eq!(list[..4], [2, 0, 0, 0]);
        assert_eq!(list[4..12], [1, 0, 6, 0, 255, 255, 255, 255]);
        assert_eq!(list[12..20], [2, 0, 4, 0, 0xe8, 3, 0, 0]);
        let tags: Vec<u8> = list[4..].iter().step_by(8).copied().collect();
        assert!(tags.is_sorted(), "{tags:?}");
    }

    #[test]
    fn nobody_but_the_one_user_may_read_what_is_let_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = File::create(&path).unwrap();
        let_read(&file, 54_321).unwrap();
        // The bits of the group are the mask then; the group itself has none.
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o640);
        assert_eq!([54_321, 54_320, 0].map(|user| may_read(&path, user)), [true, false, false]);
    }
}
