//! Finds what holds a directory: the file system on which what is written to it finally lies.
//!
//! A mount is told from another by its number, which is one for the whole kernel, whatever hides
//! below another mount and whoever asks. Above an overlay nothing lies but what its upper directory
//! holds, and that is a path of whoever mounted it; so it is looked for in the roots of all who
//! might have. Source: `statx(2)`, `proc_pid_mountinfo(5)`, Linux
//! `Documentation/filesystems/overlayfs.rst`.

use crate::counters;
use crate::mountinfo::{self, Mounted};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Overlays that stand on one another.
const DEPTH_LIMIT: usize = 8;

/// Word for storage whose data is gone with the power.
pub const MEMORY: &str = "memory";

/// Word for storage whose data is not gone with the power.
pub const DISK: &str = "disk";

/// A file system that holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Kind of the file system, as the kernel names it: `ext4`, `tmpfs`.
    pub kind: String,
    /// Source that it was mounted from: `/dev/vda`, or any word.
    pub source: String,
    /// The numbers of its device; the first is 0 where it has none of its own.
    pub device: (u32, u32),
}

impl Backing {
    /// Tells whether its data is gone with the power.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["tmpfs", "ramfs", "rootfs", "devtmpfs"].contains(&self.kind.as_str())
    }

    /// Returns what its data is in, as evidence says it: `memory`, or `disk`.
    #[must_use]
    pub fn lies_in(&self) -> &'static str {
        if self.is_memory() { MEMORY } else { DISK }
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_memory() {
            true => write!(f, "{} (memory)", self.kind),
            false => write!(f, "{} from `{}`", self.kind, self.source),
        }
    }
}

/// Finds what holds the directory at `path`, as a process sees it. The upper directory of an
/// overlay may be seen by that one or by others, who are asked first. All are given by their
/// directories in `/proc`.
///
/// Nothing where it is not told: an overlay whose upper directory nobody sees, or a kernel before
/// 5.8.
#[must_use]
pub fn by(process: &Path, path: &Path, others: &[PathBuf]) -> Option<Backing> {
    let mut mounted = mount_of(process, path)?;
    for _ in 0..DEPTH_LIMIT {
        let Some(upper) = mounted.upper() else {
            let Mounted { kind, source, device, .. } = mounted;
            // Nothing can be written to one that has none.
            return (kind != "overlay").then_some(Backing { kind, source, device });
        };
        let mut all = others.iter().map(PathBuf::as_path).chain([process]);
        mounted = all.find_map(|process| mount_of(process, &upper))?;
    }
    None
}

/// The mount that holds a path below the root of a process, as its `mountinfo` has it.
fn mount_of(process: &Path, path: &Path) -> Option<Mounted> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, process.join("root"), flags, Mode::empty()).ok()?;
    let relative = path.strip_prefix("/").ok().filter(|it| !it.as_os_str().is_empty());
    let relative = relative.unwrap_or(Path::new(".")).as_os_str().as_bytes();
    // A link in there leads to a place in there.
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let place = rustix::fs::openat2(&root, relative, flags, Mode::empty(), inside).ok()?;
    numbered(process, mount_number(place.as_fd())?)
}

fn mount_number(file: BorrowedFd<'_>) -> Option<u64> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// The mount of that number among those that a process sees.
fn numbered(process: &Path, number: u64) -> Option<Mounted> {
    let table = counters::bytes_of(process.join("mountinfo")).ok()?;
    mountinfo::parse(&table).into_iter().find(|mounted| mounted.id == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_place_of_this_machine_is_what_the_kernel_says_of_it() {
        let own = Path::new("/proc/self");
        let proc = by(own, own, &[]).unwrap();
        assert_eq!(proc.kind, "proc");
        assert!(!proc.is_memory());
        assert_eq!(by(own, Path::new("/surtax/is/not/here"), &[]), None);
        assert_eq!(by(Path::new("/proc/surtax"), own, &[]), None, "nobody sees it");
    }
}
