//! Overlays: one over a directory, or one over each of its parts.
//!
//! In a user namespace the kernel refuses an overlay over a mount on which somebody outside has
//! mounted something: without that one would see what it covers. So the directories in it get an
//! overlay each, on one that is made new; what somebody mounted there is an empty directory, as it
//! is in an overlay over all of it.
//!
//! Source: Linux `fs/namespace.c`, `clone_private_mount()` and `has_locked_children()`;
//! `Documentation/filesystems/overlayfs.rst`, "userxattr".

use super::{look_like, make_read_only};
use crate::fault::{Doing, Fault};
use crate::lab::us;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Deepest directory that is taken apart, below the one that was asked for.
const DEEPEST: usize = 4;

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
    let mounted = match mount(lower, upper, work, target) {
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

fn mount(lower: &Path, upper: &Path, work: &Path, target: &Path) -> rustix::io::Result<()> {
    let mut data = Vec::new();
    for (key, path) in [("lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)] {
        data.extend_from_slice(key.as_bytes());
        data.extend_from_slice(path.as_os_str().as_encoded_bytes());
    }
    if us::is_in_a_namespace() {
        data.extend_from_slice(b",userxattr");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount("surtax", target, "overlay", MountFlags::empty(), data.as_c_str())
}

/// Puts together at `target` what an overlay over `lower` would show, from overlays over its parts.
///
/// # Errors
/// The machine's: a part cannot be mounted or made.
fn by_parts(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<(), Fault> {
    let at = target.display();
    rustix::mount::mount("surtax", target, "tmpfs", MountFlags::empty(), None)
        .doing(format_args!("mount memory at `{at}`"))?;
    look_like(target, lower)?;
    let device = fs::metadata(lower).doing(format_args!("look at `{}`", lower.display()))?.dev();
    parts((lower, device), upper, work, (target, 0))
}

fn parts(
    (lower, device): (&Path, u64),
    upper: &Path,
    work: &Path,
    (target, depth): (&Path, usize),
) -> Result<(), Fault> {
    let doing = |what: &str, path: &Path| format!("{what} `{}`", path.display());
    let listed = fs::read_dir(lower).doing(doing("list", lower))?;
    for entry in listed {
        let entry = entry.doing(doing("list", lower))?;
        let (name, below) = (entry.file_name(), entry.path());
        let [above, beside, there] = [upper, work, target].map(|it| it.join(&name));
        let found = entry.metadata().doing(doing("look at", &below))?;
        if found.is_symlink() {
            let to = fs::read_link(&below).doing(doing("read the link", &below))?;
            std::os::unix::fs::symlink(to, &there).doing(doing("make the link", &there))?;
        } else if found.is_dir() {
            make(&there)?;
            look_like(&there, &below)?;
            if found.dev() != device {
                continue;
            }
            // What is concealed of it is there already.
            for directory in [&above, &beside] {
                make(directory)?;
            }
            look_like(&above, &below)?;
            match mount(&below, &above, &beside, &there) {
                Err(Errno::INVAL) if depth < DEEPEST => {
                    parts((&below, device), &above, &beside, (&there, depth + 1))?;
                }
                // Nobody below us can look into it either.
                Err(Errno::ACCESS) => {}
                mounted => mounted.doing(doing("mount an overlay over", &below))?,
            }
        } else if found.is_file() {
            let shown = if above.exists() { &above } else { &below };
            show(shown, &there)?;
        }
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), Fault> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).doing(format_args!("make the directory `{}`", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Shows a file at a place where there is none, read-only.
fn show(file: &Path, at: &Path) -> Result<(), Fault> {
    fs::write(at, "").doing(format_args!("make the file to mount over `{}`", at.display()))?;
    let tree = rustix::mount::open_tree(
        CWD,
        file,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    );
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    tree.and_then(|tree| rustix::mount::move_mount(tree, "", CWD, at, flags))
        .doing(format_args!("show `{}` at `{}`", file.display(), at.display()))?;
    make_read_only(at, false)
}
