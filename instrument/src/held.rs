//! What holds a directory: the file system on which what is written to it finally lies.
//!
//! A mount is told from another by its number, which is one for the whole kernel, whatever hides below another mount
//! and whoever asks. Above an overlay nothing lies but what its upper directory holds, and that is a path of whoever
//! mounted it; so it is looked for in the roots of all who might have. Source: `statx(2)`, `proc_pid_mountinfo(5)`,
//! Linux `Documentation/filesystems/overlayfs.rst`.

use crate::probe::cgroup::unescape;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Overlays that stand on one another.
const DEPTH_LIMIT: usize = 8;

/// A file system that holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its kind, as the kernel names it: `ext4`, `tmpfs`.
    pub kind: String,
    /// What it was mounted from: `/dev/vda`, or any word.
    pub source: String,
    /// The numbers of its device; the first is 0 where it has none of its own.
    pub device: (u32, u32),
}

impl Held {
    /// Whether it is gone with the power.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["tmpfs", "ramfs", "rootfs", "devtmpfs"].contains(&self.kind.as_str())
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_memory() {
            true => write!(f, "{} (memory)", self.kind),
            false => write!(f, "{} from `{}`", self.kind, self.source),
        }
    }
}

/// What holds the directory at `path`, as a process sees it. The upper directory of an overlay may be seen by that one
/// or by others, who are asked first. All are given by their directories in `/proc`.
///
/// Nothing where it is not told: an overlay whose upper directory nobody sees, or a kernel before 5.8.
#[must_use]
pub fn by(process: &Path, path: &Path, others: &[PathBuf]) -> Option<Held> {
    let mut line = line_of(process, path)?;
    for _ in 0..DEPTH_LIMIT {
        let mounted = Mounted::parse(&line)?;
        let Some(upper) = mounted.upper() else {
            // Nothing can be written to one that has none.
            return (mounted.held.kind != "overlay").then_some(mounted.held);
        };
        let mut all = others.iter().map(PathBuf::as_path).chain([process]);
        line = all.find_map(|process| line_of(process, &upper))?;
    }
    None
}

/// A line of `mountinfo`.
struct Mounted {
    held: Held,
    options: String,
}

impl Mounted {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
        let mut words = after.splitn(3, ' ');
        let kind = words.next()?.to_owned();
        let source = unescape(words.next()?.as_bytes()).to_string_lossy().into_owned();
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self {
            held: Held { kind, source, device },
            options: words.next().unwrap_or_default().to_owned(),
        })
    }

    /// The upper directory of an overlay.
    fn upper(&self) -> Option<PathBuf> {
        if self.held.kind != "overlay" {
            return None;
        }
        let mut options = self.options.split(',');
        let upper = options.find_map(|option| option.strip_prefix("upperdir="))?;
        Some(unescape(upper.as_bytes()))
    }
}

/// The mount that holds a path below the root of a process, as its `mountinfo` has it.
fn line_of(process: &Path, path: &Path) -> Option<String> {
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
fn numbered(process: &Path, number: u64) -> Option<String> {
    let text = fs::read(process.join("mountinfo")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let is_it = |line: &&str| line.split(' ').next().is_some_and(|word| word == number.to_string());
    text.lines().find(is_it).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_an_overlay_names_what_is_above_it() {
        let line = "47 30 0:43 / / rw,relatime - overlay surtax rw,lowerdir=/,upperdir=/dev/shm/a\\040b/0/upper,workdir=/w";
        let mounted = Mounted::parse(line).unwrap();
        assert_eq!(mounted.upper(), Some(PathBuf::from("/dev/shm/a b/0/upper")));
        let read_only = Mounted::parse("47 30 0:43 / / ro - overlay x ro,lowerdir=/a:/b").unwrap();
        assert_eq!(read_only.upper(), None);
        let disk =
            Mounted::parse("22 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw,upperdir=no").unwrap();
        assert_eq!(disk.upper(), None);
        let held = Held { kind: "ext4".into(), source: "/dev/vda1".into(), device: (254, 1) };
        assert_eq!(disk.held, held);
        assert!(!disk.held.is_memory());
        assert!(Mounted::parse("nonsense").is_none());
    }

    #[test]
    fn what_holds_a_place_of_this_machine_is_what_the_kernel_says_of_it() {
        let own = Path::new("/proc/self");
        let proc = by(own, own, &[]).unwrap();
        assert_eq!(proc.kind, "proc");
        assert_eq!(by(own, Path::new("/surtax/is/not/here"), &[]), None);
        assert_eq!(by(Path::new("/proc/surtax"), own, &[]), None, "nobody sees it");
    }
}
