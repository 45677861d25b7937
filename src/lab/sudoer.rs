//! User who typed `sudo`: whoever root works for, and what they are let read.
//!
//! What surtax writes as root stays root's, also where it is for that user to see: a file in a
//! directory of theirs could be exchanged under root's hands. They get an entry in its access
//! list instead.

use super::{exclusive, state};
use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, XattrFlags, fsetxattr, lsetxattr};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Attribute with the access list of a file.
const LIST: &str = "system.posix_acl_access";

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
    (super::us::is_machines_root() && typed != 0 && typed != NOBODY).then_some(typed)
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
    for way in [Path::new(state::OF_ROOT), &Path::new(state::OF_ROOT).join(FOR_USERS)] {
        let way = exclusive::ensure(way, 0o711)?;
        let opened = exclusive::open_directory(&way)?;
        let doing = || format!("let others pass through `{}`", way.display());
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened).doing(doing())?.st_mode);
        if !mode.contains(PASS) {
            rustix::fs::fchmod(&opened, mode.union(PASS)).doing(doing())?;
        }
    }
    for directory in [folder.clone(), folder.join(name)] {
        let opened = exclusive::open_directory(&exclusive::ensure(&directory, 0o700)?)?;
        let doing = format!("let user {user} look into `{}`", directory.display());
        match fsetxattr(&opened, LIST, &list(7, 5, user), XattrFlags::empty()) {
            // Where there are no access lists, what is kept is root's alone.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error).doing(doing),
        }
    }
    Ok(())
}

/// Lets a user read a file that is open, beside its owner and nobody else.
///
/// # Errors
/// The kernel's: `EOPNOTSUPP` where the file system keeps no access lists.
pub fn let_read(file: impl AsFd, user: u32) -> Result<(), Errno> {
    fsetxattr(file, LIST, &list(6, 4, user), XattrFlags::empty())
}

/// Lets a user read a file at a path that nobody else can exchange; a link is not followed.
///
/// # Errors
/// As [`let_read`].
pub fn let_read_at(path: &Path, user: u32) -> Result<(), Errno> {
    lsetxattr(path, LIST, &list(6, 4, user), XattrFlags::empty())
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
        let nobody = [255; 4];
        let entries: [([u8; 4], [u8; 4]); 5] = [
            ([1, 0, 6, 0], nobody),
            ([2, 0, 4, 0], [0xe8, 3, 0, 0]),
            ([4, 0, 0, 0], nobody),
            ([16, 0, 4, 0], nobody),
            ([32, 0, 0, 0], nobody),
        ];
        let expected = entries.iter().flat_map(|(tag, id)| [*tag, *id].concat());
        assert_eq!(list, [2, 0, 0, 0].into_iter().chain(expected).collect::<Vec<u8>>());
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
