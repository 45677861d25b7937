//! Overlays: one over a directory, or one over each of its parts.
//!
//! In a user namespace the kernel refuses an overlay over a mount on which somebody outside has
//! mounted something: without that one would see what it covers. So the directories in it get an
//! overlay each, on one that is made new; what somebody mounted there is an empty directory, as it
//! is in an overlay over all of it.
//!
//! Source: Linux `fs/namespace.c`, `clone_private_mount()` and `has_locked_children()`;
//! `Documentation/filesystems/overlayfs.rst`, "userxattr".

use super::{look_like, look_like_one, make_read_only};
use crate::fault::{Doing, Fault};
use crate::lab::undo::TAG;
use crate::lab::us;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};
use std::ffi::CString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Deepest directory that is taken apart, below the one that was asked for.
const DEEPEST: usize = 40;

/// Mounts an overlay over a directory; its `upper` and `work` are made if absent.
///
/// # Errors
/// The user's: a path cannot be part of one. The machine's: it cannot be mounted.
pub(super) fn overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<(), Fault> {
    for path in [lower, upper, work] {
        if path.as_os_str().as_encoded_bytes().iter().any(|byte| b",:\\".contains(byte)) {
            let text = format!(
                "`{}` cannot be part of an overlay: `,`, `:` or `\\` in it",
                path.display()
            );
            return Err(Fault::user(text).hint("give it a plainer name with a symbolic link"));
        }
    }
    for directory in [upper, work] {
        fs::create_dir_all(directory)
            .doing(format_args!("make the overlay directory `{}`", directory.display()))?;
    }
    look_like(upper, lower)?;
    if us::is_in_a_namespace() {
        open_to_write(lower, upper)?;
    }
    let mounted = match mount((lower, upper, work), upper, target) {
        Err(Errno::INVAL) if us::is_in_a_namespace() => {
            return by_parts(lower, upper, work, target);
        }
        mounted => mounted,
    };
    mounted
        .doing(format_args!(
            "mount an overlay over `{}` at `{}`",
            lower.display(),
            target.display()
        ))
        .map_err(|fault| {
            fault.hint("`upper` and `work` must be on a tmpfs or a disk, not on another overlay")
        })
}

/// Mounts an overlay. In a namespace of ours its source is `named`, by which whoever has it as a
/// root is found: the path of its upper directory may be that of a descriptor.
fn mount(
    (lower, upper, work): (&Path, &Path, &Path),
    named: &Path,
    target: &Path,
) -> rustix::io::Result<()> {
    let mut data = Vec::new();
    for (key, path) in [("lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)] {
        data.extend_from_slice(key.as_bytes());
        data.extend_from_slice(path.as_os_str().as_encoded_bytes());
    }
    if us::is_in_a_namespace() {
        data.extend_from_slice(b",userxattr");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let source = if us::is_in_a_namespace() { named } else { Path::new(TAG) };
    rustix::mount::mount(source, target, "overlay", MountFlags::empty(), data.as_c_str())
}

/// Puts together at `target` what an overlay over `lower` would show, from overlays over its parts.
///
/// # Errors
/// The machine's: a part cannot be mounted or made.
fn by_parts(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<(), Fault> {
    let at = target.display();
    rustix::mount::mount(upper, target, "tmpfs", MountFlags::empty(), None)
        .doing(format_args!("mount memory at `{at}`"))?;
    look_like(target, lower)?;
    let doing = format!("look at `{}`", lower.display());
    let held = Held::open(lower).doing(&doing)?;
    let device = rustix::fs::fstat(&held.0).doing(&doing)?.st_dev;
    parts((&held, lower, device), upper, work, (target, 0))
}

/// A directory that is held, whatever its name leads to meanwhile: another user may have made it,
/// and given it any name.
struct Held(OwnedFd);

impl Held {
    /// Holds a directory, and nothing that a link leads to.
    fn open(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(Self)
    }

    /// A path of it, in which there is nothing that a list of mount options takes for its own.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Mounts the parts of a directory, which is `shown` by this name; `upper` and `work` are ours.
fn parts(
    (lower, shown, device): (&Held, &Path, u64),
    upper: &Path,
    work: &Path,
    (target, depth): (&Path, usize),
) -> Result<(), Fault> {
    let doing = |what: &str, path: &Path| format!("{what} `{}`", path.display());
    let listed = match fs::read_dir(lower.path()) {
        // Nobody below us can list it either; what is mounted in it keeps it from being shown.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        listed => listed.doing(doing("list", shown))?,
    };
    for entry in listed {
        let name = entry.doing(doing("list", shown))?.file_name();
        let (below, shown) = (lower.path().join(&name), shown.join(&name));
        let [above, beside, there] = [upper, work, target].map(|it| it.join(&name));
        // What somebody removes meanwhile, or exchanges, is not there.
        let Ok(found) = fs::symlink_metadata(&below) else { continue };
        if found.is_symlink() {
            let Ok(to) = fs::read_link(&below) else { continue };
            std::os::unix::fs::symlink(to, &there).doing(doing("make the link", &there))?;
        } else if found.is_dir() {
            make(&there)?;
            look_like_one(&there, &found, &shown)?;
            // What is concealed of it is there already.
            for directory in [&above, &beside] {
                make(directory)?;
            }
            look_like_one(&above, &found, &shown)?;
            if found.dev() == device {
                part((&below, &shown, device), [&above, &beside], (&there, depth))?;
            }
        } else if found.is_file() {
            show(if above.exists() { &above } else { &below }, &shown, &there)?;
        }
    }
    Ok(())
}

/// Mounts an overlay over one directory, or over its parts again.
fn part(
    (below, shown, device): (&Path, &Path, u64),
    [above, beside]: [&Path; 2],
    (there, depth): (&Path, usize),
) -> Result<(), Fault> {
    let doing = format!("mount an overlay over `{}`", shown.display());
    // One that was exchanged for something else meanwhile is none.
    let Ok(lower) = Held::open(below) else { return Ok(()) };
    let [upper, work] = [above, beside].map(Held::open);
    let (upper, work) = (upper.doing(&doing)?, work.doing(&doing)?);
    match mount((&lower.path(), &upper.path(), &work.path()), above, there) {
        Err(Errno::INVAL) if depth < DEEPEST => {
            parts((&lower, shown, device), above, beside, (there, depth + 1))
        }
        // Nobody below us can look into it either.
        Err(Errno::ACCESS) => Ok(()),
        mounted => mounted.doing(doing),
    }
}

/// Has the directories in which whoever runs us may write lie in the upper layer, with all above
/// them. To change one the kernel copies it up with its owner, and root's is none in a namespace.
fn open_to_write(lower: &Path, upper: &Path) -> Result<(), Fault> {
    let named = ["HOME", "TMPDIR"].map(std::env::var_os).into_iter().flatten().map(PathBuf::from);
    let usual = ["/tmp", "/var/tmp", "/var/lock", "/var/crash"].map(PathBuf::from);
    for place in usual.into_iter().chain(named).chain(std::env::current_dir()) {
        let Ok(below) = place.strip_prefix(lower) else { continue };
        if below.components().any(|part| !matches!(part, Component::Normal(_))) {
            continue;
        }
        let (mut from, mut to) = (lower.to_path_buf(), upper.to_path_buf());
        for part in below.components() {
            from.push(part);
            to.push(part);
            if !fs::symlink_metadata(&from).is_ok_and(|it| it.is_dir()) {
                break;
            }
            make(&to)?;
            look_like(&to, &from)?;
        }
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), Fault> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).doing(format_args!("make the directory `{}`", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Shows a file at a place where there is none, read-only.
fn show(file: &Path, shown: &Path, at: &Path) -> Result<(), Fault> {
    fs::write(at, "").doing(format_args!("make the file to mount over `{}`", at.display()))?;
    let tree = rustix::mount::open_tree(
        CWD,
        file,
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW,
    );
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    // A file was found, and what is mounted over one must be no directory: both may be gone by now.
    let is_of_a_file = |tree: &OwnedFd| {
        rustix::fs::fstat(tree)
            .is_ok_and(|it| FileType::from_raw_mode(it.st_mode) != FileType::Directory)
    };
    let tree = match tree {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => None,
        tree => Some(tree.doing(format_args!("show `{}`", shown.display()))?),
    };
    let Some(tree) = tree.filter(is_of_a_file) else {
        return fs::remove_file(at).doing(format_args!("take `{}` away again", at.display()));
    };
    rustix::mount::move_mount(tree, "", CWD, at, flags).doing(format_args!(
        "show `{}` at `{}`",
        shown.display(),
        at.display()
    ))?;
    make_read_only(at, false)
}
