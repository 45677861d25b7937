//! The way to a directory: a link on it is followed only where nobody else could have put it there.

use super::require_ours;
use crate::fault::{Doing, Fault};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Opens a directory, one name after the other.
///
/// # Errors
/// The user's: a link on the way is somebody else's; the machine's: there is no such directory.
pub(super) fn open(path: &Path) -> Result<OwnedFd, Fault> {
    let doing = || format!("open its directory `{}`", path.display());
    let mut links = 0;
    let mut here = rustix::fs::openat(CWD, ".", ACCESS, Mode::empty()).doing(doing())?;
    // What is still to be gone, the next last.
    let mut rest = backwards(path);
    while let Some(name) = rest.pop() {
        let from = if name == "/" { CWD } else { here.as_fd() };
        let next = rustix::fs::openat(from, &name, ACCESS, Mode::empty()).doing(doing())?;
        let about = File::from(next.try_clone().doing(doing())?).metadata().doing(doing())?;
        if about.is_symlink() {
            require_ours(path, "link on the way to", &about)?;
            links += 1;
            if links > super::LINK_LIMIT {
                return Err(Errno::LOOP).doing(doing());
            }
            let words = rustix::fs::readlinkat(&next, "", Vec::new()).doing(doing())?;
            rest.extend(backwards(&PathBuf::from(OsString::from_vec(words.into_bytes()))));
        } else if about.is_dir() {
            here = next;
        } else {
            return Err(Errno::NOTDIR).doing(doing());
        }
    }
    Ok(here)
}

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
