//! The way to a directory: a link on it is followed only where nobody else could have put it there.

use super::require_ours;
use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Opens a directory, one name after the other; a relative one begins in `beginning`.
///
/// # Errors
/// The user's: a link on the way is somebody else's, or a process's own; the machine's: there is no
/// such directory.
pub(super) fn open(beginning: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Fault> {
    let doing = || format!("open its directory `{}`", path.display());
    let mut links = 0;
    let mut here: Option<OwnedFd> = None;
    // What is still to be gone, the next last.
    let mut rest = backwards(path);
    while let Some(name) = rest.pop() {
        let from = here.as_ref().map_or(beginning, AsFd::as_fd);
        let next =
            File::from(rustix::fs::openat(from, &name, ACCESS, Mode::empty()).doing(doing())?);
        let about = next.metadata().doing(doing())?;
        if about.is_symlink() {
            require_ours(path, "link on the way to", &about)?;
            require_plain(&next, &name, path)?;
            links += 1;
            if links > super::LINK_LIMIT {
                return Err(Errno::LOOP).doing(doing());
            }
            let words = rustix::fs::readlinkat(&next, "", Vec::new()).doing(doing())?;
            rest.extend(backwards(&PathBuf::from(OsString::from_vec(words.into_bytes()))));
        } else if about.is_dir() {
            here = Some(next.into());
        } else {
            return Err(Errno::NOTDIR).doing(doing());
        }
    }
    match here {
        Some(here) => Ok(here),
        None => rustix::fs::openat(beginning, ".", ACCESS, Mode::empty()).doing(doing()),
    }
}

/// That a link is its text and no more. Those that `/proc` has of a process lead to what it has
/// open, whatever their text.
///
/// # Errors
/// The user's: it is one of a process.
pub(super) fn require_plain(link: &File, name: &OsStr, path: &Path) -> Result<(), Fault> {
    let about = rustix::fs::fstatfs(link).doing("look at a file system")?;
    if about.f_type != PROC || PLAIN.iter().any(|plain| name == *plain) {
        return Ok(());
    }
    Err(Fault::user(format!("`{}` leads through what a process has open", path.display()))
        .hint("name the directory itself"))
}

/// The file system of processes, and its links that are text. Source: `PROC_SUPER_MAGIC` of Linux
/// `uapi/linux/magic.h`.
const PROC: rustix::fs::FsWord = 0x9fa0;
const PLAIN: [&str; 4] = ["self", "thread-self", "mounts", "net"];

/// Nothing is opened but the name itself, a link too.
const ACCESS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The names of a path, the last first; its beginning is a name of its own.
fn backwards(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Prefix(_) | Component::CurDir => None,
        Component::RootDir => Some(OsString::from("/")),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Normal(name) => Some(OsStr::to_owned(name)),
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    fn open(path: &Path) -> Result<OwnedFd, Fault> {
        super::open(rustix::fs::CWD, path)
    }

    fn inode(directory: &OwnedFd) -> u64 {
        rustix::fs::fstat(directory).unwrap().st_ino
    }

    #[test]
    fn links_of_our_own_are_followed_up_down_and_to_the_root() {
        let place = tempfile::tempdir().unwrap();
        let (real, up) = (place.path().join("a/real"), place.path().join("a/up"));
        fs::create_dir_all(&real).unwrap();
        symlink("../a/real", &up).unwrap();
        symlink(&up, place.path().join("all")).unwrap();
        let expected = fs::metadata(&real).unwrap().ino();
        for way in ["a/real", "a/up", "all", "all/../real", "./a//real/."] {
            assert_eq!(inode(&open(&place.path().join(way)).unwrap()), expected, "{way}");
        }
        for way in ["/proc/self/root/tmp", "/proc/self/cwd", "/proc/thread-self/root"] {
            let fault = open(Path::new(way)).unwrap_err();
            assert!(fault.message.contains("what a process has open"), "{fault}");
        }
        assert!(open(Path::new("/proc/self/task")).is_ok() && open(Path::new(".")).is_ok());
        symlink("turn", place.path().join("turn")).unwrap();
        for way in ["turn", "nothing", "all/nothing"] {
            assert!(open(&place.path().join(way)).is_err(), "{way}");
        }
    }

    #[test]
    fn a_link_that_somebody_else_put_on_the_way_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: only root can give a link away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir_all(real.join("deep")).unwrap();
        symlink(&real, &link).unwrap();
        assert!(open(&link.join("deep")).is_ok());
        lchown(&link, Some(65_534), Some(65_534)).unwrap();
        let fault = open(&link.join("deep")).unwrap_err();
        assert!(fault.message.contains("belongs to user 65534"), "{fault}");
    }
}
