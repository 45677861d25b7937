//! Home of a journal's owner: this kernel, an earlier boot of this machine, or another kernel.
//!
//! The lock of a journal tells a living owner only to those who see the same file by the same
//! mount: not through an overlay, which has an inode of its own for it, and not to another kernel,
//! which shares the directory by virtiofs, 9p or NFS. Such a journal may belong to somebody alive,
//! and is left alone.

use super::first_line;
use crate::fault::{Doing, Fault};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File systems that one kernel has for itself: ext, XFS, Btrfs, F2FS, ZFS, bcachefs, and those in
/// memory. What another kernel writes to one of them came in by a file system that is not among
/// these. Source: Linux `include/uapi/linux/magic.h`, OpenZFS `zfs_vfsops.h`.
const LOCAL: [u32; 8] = [
    0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E, 0x0102_1994,
    0x8584_58F6,
];

/// A journal as its owner saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::lab) struct Seen {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// True if no other kernel can have the file system.
    pub is_local: bool,
}

impl Seen {
    pub(super) fn of(file: &File) -> std::io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Self { device: facts.dev(), inode: facts.ino(), is_local: is_local(file) })
    }
}

fn is_local(file: &File) -> bool {
    let kind = rustix::fs::fstatfs(file).map(|facts| facts.f_type).unwrap_or(0);
    u32::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind))
}

/// That a free lock means that the owner of this journal is gone.
///
/// # Errors
/// The machine's: it may live where this lock says nothing.
pub(super) fn require(file: &File, path: &Path, boot: &str) -> Result<(), Fault> {
    let at = path.display();
    let here = Seen::of(file).doing(format_args!("see `{at}`"))?;
    let header = first_line(path);
    let (theirs, seen) = match &header {
        Some(header) => (Some(header.boot.as_str()), header.seen),
        None => (None, None),
    };
    let why = match (theirs, seen) {
        // Seen through an overlay it is another inode, and its lock another lock.
        (Some(theirs), Some(seen)) if theirs == boot => {
            let is_same = (seen.device, seen.inode) == (here.device, here.inode);
            (!is_same).then_some("its owner sees it by another mount")
        }
        (Some(theirs), None) if theirs == boot => None,
        (Some(_), Some(seen)) if !seen.is_local => {
            Some("another kernel wrote it, to files that it shares")
        }
        _ => {
            (!here.is_local).then_some("another kernel may have written it: these files are shared")
        }
    };
    match why {
        None => Ok(()),
        Some(why) => Err(Fault::machine(format!("the journal `{at}` was left alone: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::journal::{Header, Journal};
    use std::path::PathBuf;

    /// Returns what is said of a journal with this header, written over what its owner says.
    fn said(state: &Path, change: impl FnOnce(&mut Header)) -> Option<String> {
        let header = Header::of_this_process().unwrap();
        let lab = header.lab.clone();
        let mut header = Journal::create(state, header).unwrap().header().clone();
        change(&mut header);
        let path = state.join(lab).with_extension("journal");
        let line = serde_json::to_string(&super::super::JournalLine::Lab(header)).unwrap();
        std::fs::write(&path, line + "\n").unwrap();
        let boot = crate::lab::sweep::boot_id().unwrap();
        let file = File::open(&path).unwrap();
        let said = require(&file, &path, &boot).err().map(|fault| fault.message);
        let orphans = Journal::orphans(state).unwrap();
        assert_eq!(said.is_none(), orphans.elsewhere.is_empty(), "{orphans:?}");
        assert_eq!(orphans.found.len(), usize::from(said.is_none()));
        std::fs::remove_file(path).unwrap();
        said
    }

    fn place() -> tempfile::TempDir {
        // In memory on every machine.
        tempfile::tempdir_in("/dev/shm").unwrap()
    }

    #[test]
    fn a_journal_of_this_boot_is_undone_only_by_who_sees_the_same_file() {
        let state = place();
        assert_eq!(said(state.path(), |_| {}), None);
        let other_mount = |header: &mut Header| header.seen.as_mut().unwrap().device += 1;
        assert!(said(state.path(), other_mount).unwrap().contains("by another mount"));
        assert_eq!(said(state.path(), |header| header.seen = None), None, "an earlier version's");
    }

    #[test]
    fn a_journal_of_another_boot_is_undone_unless_another_kernel_may_have_written_it() {
        let state = place();
        let earlier = |header: &mut Header| header.boot = String::from("another");
        assert_eq!(said(state.path(), earlier), None);
        let renumbered = |header: &mut Header| {
            earlier(header);
            header.seen.as_mut().unwrap().device += 1;
        };
        assert_eq!(said(state.path(), renumbered), None, "a disk may get another number");
        let shared = |header: &mut Header| {
            earlier(header);
            header.seen.as_mut().unwrap().is_local = false;
        };
        assert!(said(state.path(), shared).unwrap().contains("another kernel wrote it"));
    }

    #[test]
    fn a_journal_on_files_that_kernels_share_is_undone_in_its_own_boot_alone() {
        // Neither has a disk of its own below it.
        let shared = File::open("/proc/self/status").unwrap();
        assert!(!is_local(&shared));
        let path = PathBuf::from("/proc/self/status");
        let fault = require(&shared, &path, "any").unwrap_err();
        assert!(fault.message.contains("these files are shared"), "{fault}");
    }
}
