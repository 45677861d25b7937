//! Mounts of a private namespace, and what each of them is to be.
//!
//! Nothing but a lab's memory is mounted in the host's own namespace: [`make`] is called by the
//! holder, in a private one.

mod seen;

mod overlay;

use super::conceal::{Owners, conceal};
use super::exclusive::c_path;
use super::{unmount, us};
use crate::fault::{Doing, Fault};
use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::Hierarchies;

/// One mount of a private namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A tmpfs of at most half of the memory.
    Tmpfs {
        /// Mount point.
        target: PathBuf,
    },
    /// `lower` with a throw-away `upper` and `work` (made if absent, on tmpfs or a disk) above it.
    Overlay {
        /// Lower layer, which is seen until it is written over.
        lower: PathBuf,
        /// Upper layer, to which writes go.
        upper: PathBuf,
        /// On the same file system as `upper`.
        work: PathBuf,
        /// Mount point.
        target: PathBuf,
    },
    /// `source` seen at `target`; with everything mounted below it if `recursive`.
    Bind {
        /// A file or a directory.
        source: PathBuf,
        /// Mount point.
        target: PathBuf,
        /// With the mounts below `source`.
        recursive: bool,
        /// The mounts below included.
        read_only: bool,
    },
    /// `source`, which is somebody else's, seen at `target` without what is mounted below it;
    /// nothing where that cannot be.
    Seen {
        /// A file, a directory or a socket.
        source: PathBuf,
        /// Mount point.
        target: PathBuf,
    },
    /// `source` seen at `target`, without what is mounted below it, and with its owners mapped.
    Mapped {
        /// A file or a directory, on a file system that can be mapped.
        source: PathBuf,
        /// Mount point.
        target: PathBuf,
        /// The user namespace that has the map, as a file.
        users: PathBuf,
        /// True if it cannot be written.
        read_only: bool,
    },
    /// A mount made before becomes what is seen at `target`, also at `/` itself, with what is below
    /// it.
    Move {
        /// Mount point at which it was made.
        source: PathBuf,
        /// Mount point from now on.
        target: PathBuf,
    },
    /// A directory, for what is below `target` to be written to; it is no mount.
    Directory {
        /// Path of the directory, below something that is ours.
        target: PathBuf,
        /// Permission bits of the directory.
        mode: u32,
    },
    /// Nothing that is mounted anywhere can be written from now on, but what is below `except`; it
    /// is no mount.
    ReadOnly {
        /// A mount, read-only itself.
        except: PathBuf,
    },
    /// A file or directory of `lower` is not seen in the overlay over it that will have this
    /// `upper`; it is no mount.
    Concealed {
        /// The lower layer, where it is on this level.
        lower: PathBuf,
        /// The upper layer, made if absent.
        upper: PathBuf,
        /// Path of the file or directory that is not seen, below `lower`.
        name: PathBuf,
        /// Content that is seen of a file instead.
        bytes: Vec<u8>,
        /// Whose the upper layer's files are.
        owners: Owners,
    },
    /// A device of this level, at another place and for one user alone; below a fresh tmpfs.
    Device {
        /// The device.
        source: PathBuf,
        /// Path at which the device is made.
        target: PathBuf,
        /// User who may read and write it.
        owner: u32,
    },
    /// A fresh `proc`, `sysfs`, `devpts`, …: `mount -t kind kind target`.
    Fresh {
        /// The file system's name.
        kind: String,
        /// Mount point.
        target: PathBuf,
        /// As `mount -o` takes them.
        options: String,
    },
}

impl Mount {
    /// A file or directory seen at `target`, without what is mounted below it.
    pub fn bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        let (source, target) = (source.into(), target.into());
        Self::Bind { source, target, recursive: false, read_only: false }
    }

    /// As [`Mount::bind`], not to be written.
    pub fn bind_read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        let (source, target) = (source.into(), target.into());
        Self::Bind { source, target, recursive: false, read_only: true }
    }

    /// As [`Mount::bind`], with everything that is mounted below it.
    pub fn bind_all(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        let (source, target) = (source.into(), target.into());
        Self::Bind { source, target, recursive: true, read_only: false }
    }

    /// A file system of this kind, with `options` as `mount -o` takes them.
    pub fn fresh(kind: &str, target: impl Into<PathBuf>, options: impl Into<String>) -> Self {
        Self::Fresh { kind: kind.to_owned(), target: target.into(), options: options.into() }
    }

    /// Returns the path at which it is made.
    #[must_use]
    pub fn target(&self) -> &Path {
        match self {
            Self::Tmpfs { target }
            | Self::Overlay { target, .. }
            | Self::Bind { target, .. }
            | Self::Seen { target, .. }
            | Self::Mapped { target, .. }
            | Self::Move { target, .. }
            | Self::Directory { target, .. }
            | Self::Device { target, .. }
            | Self::Fresh { target, .. } => target,
            Self::ReadOnly { except } => except,
            Self::Concealed { upper, .. } => upper,
        }
    }
}

/// Makes one mount in the caller's namespace. A target that is absent is made only below one of
/// `ours`, where it goes away again with the mount or the room.
pub(super) fn make(mount: &Mount, ours: &[PathBuf]) -> Result<(), Fault> {
    let target = mount.target();
    if let Mount::Seen { source, .. } = mount {
        seen::bind(source, target);
        return Ok(());
    }
    let is_file = match mount {
        Mount::Device { .. } => true,
        // A socket, too.
        Mount::Bind { source, .. } | Mount::Mapped { source, .. } => !source.is_dir(),
        _ => false,
    };
    prepare_target(target, is_file, ours)?;
    let at = target.display();
    match mount {
        Mount::Tmpfs { .. } => rustix::mount::mount(
            "surtax",
            target,
            "tmpfs",
            MountFlags::empty(),
            c"mode=0755,size=50%",
        )
        .doing(format_args!("mount a tmpfs at `{at}`")),
        Mount::Overlay { lower, upper, work, .. } => overlay::overlay(lower, upper, work, target),
        Mount::Bind { source, recursive, read_only, .. } => {
            let from = source.display();
            let bound = match recursive {
                true => rustix::mount::mount_bind_recursive(source, target),
                false => rustix::mount::mount_bind(source, target),
            };
            bound.doing(format_args!("bind `{from}` at `{at}`"))?;
            if *read_only { make_read_only(target, *recursive) } else { Ok(()) }
        }
        // Above.
        Mount::Seen { .. } => Ok(()),
        Mount::Mapped { source, users, read_only, .. } => {
            bind_mapped(source, target, users)
                .doing(format_args!("bind `{}` at `{at}` with mapped owners", source.display()))
                .map_err(|fault| {
                    fault.hint("use Linux 5.19 or later, and a file system that can be mapped")
                })?;
            if *read_only { make_read_only(target, false) } else { Ok(()) }
        }
        Mount::Directory { mode, .. } => {
            fs::set_permissions(target, fs::Permissions::from_mode(*mode))
                .doing(format_args!("set the permissions of `{at}`"))
        }
        Mount::Concealed { lower, upper, name, bytes, owners } => {
            conceal((lower, upper), name, bytes, *owners)
        }
        Mount::ReadOnly { except } => make_all_read_only(except),
        Mount::Device { source, owner, .. } => device(source, target, *owner),
        Mount::Move { source, .. } => rustix::mount::mount_move(source, target)
            .doing(format_args!("move the mount `{}` to `{at}`", source.display())),
        Mount::Fresh { kind, options, .. } => {
            let (flags, data) = split_options(options)?;
            rustix::mount::mount(kind.as_str(), target, kind.as_str(), flags, data.as_c_str())
                .doing(format_args!("mount a fresh `{kind}` at `{at}`"))
        }
    }
}

/// Mounts at a directory and below it, while something else is mounted over one of its parents.
pub(super) struct KeptInSight<'a> {
    directory: &'a Path,
    tree: OwnedFd,
}

impl<'a> KeptInSight<'a> {
    /// Takes a copy of a directory with its mounts, if this mount would hide it.
    ///
    /// # Errors
    /// The machine's: it cannot be copied.
    pub(super) fn before(mount: &Mount, directory: &'a Path) -> Result<Option<Self>, Fault> {
        let covers = matches!(
            mount,
            Mount::Tmpfs { .. } | Mount::Overlay { .. } | Mount::Bind { .. } | Mount::Fresh { .. }
        );
        let target = mount.target();
        let is_above = directory.starts_with(target) && directory != target;
        if !covers || !is_above || target == Path::new("/") || !directory.is_dir() {
            return Ok(None);
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = rustix::mount::open_tree(CWD, directory, flags)
            .doing(format_args!("keep `{}` in sight", directory.display()))?;
        Ok(Some(Self { directory, tree }))
    }

    /// Puts it back where it was.
    ///
    /// # Errors
    /// The machine's: it cannot be mounted there.
    pub(super) fn put_back(self) -> Result<(), Fault> {
        let at = self.directory.display();
        fs::create_dir_all(self.directory)
            .doing(format_args!("make `{at}` again where it was covered"))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&self.tree, "", CWD, self.directory, flags)
            .doing(format_args!("put `{at}` back in sight"))
    }
}

fn prepare_target(target: &Path, is_file: bool, ours: &[PathBuf]) -> Result<(), Fault> {
    if target.exists() {
        return Ok(());
    }
    let at = target.display();
    if !ours.iter().any(|directory| target.starts_with(directory)) {
        return Err(Fault::machine(format!("nothing can be mounted at `{at}`: it does not exist"))
            .hint(format!("mkdir -p {at}")));
    }
    let directory = if is_file { target.parent().unwrap_or(target) } else { target };
    fs::create_dir_all(directory).doing(format_args!("make the mount point `{at}`"))?;
    if is_file {
        fs::write(target, "").doing(format_args!("make the file to mount over `{at}`"))?;
    }
    Ok(())
}

/// Gives a directory the owner and the mode of another: what an overlay shows as its root is
/// `upper`.
///
/// # Errors
/// The machine's, when either cannot be read or changed.
pub fn look_like(upper: &Path, lower: &Path) -> Result<(), Fault> {
    let model =
        fs::metadata(lower).doing(format_args!("read the mode of `{}`", lower.display()))?;
    look_like_one(upper, &model, lower)
}

/// The same of another that is `shown` so, and looked as this when it was looked at.
fn look_like_one(upper: &Path, model: &fs::Metadata, shown: &Path) -> Result<(), Fault> {
    std::os::unix::fs::chown(upper, Some(us::like(model.uid())), Some(us::like(model.gid())))
        .and_then(|()| fs::set_permissions(upper, model.permissions()))
        .doing(format_args!("give `{}` the mode of `{}`", upper.display(), shown.display()))
}

/// Makes a mount read-only, if asked with everything mounted below it.
fn make_read_only(target: &Path, recursive: bool) -> Result<(), Fault> {
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    set_attributes(target, libc::MOUNT_ATTR_RDONLY, flags)
        .doing(format_args!("make `{}` read-only", target.display()))
        .map_err(|fault| fault.hint("use Linux 5.12 or later"))
}

/// Makes each mount read-only by itself: below an exception there may be some that are to stay as
/// they are.
fn make_all_read_only(except: &Path) -> Result<(), Fault> {
    let is_below = |point: &PathBuf| point != except && point.starts_with(except);
    for point in unmount::below(Path::new("/"))?.iter().filter(|point| !is_below(point)) {
        match set_attributes(point, libc::MOUNT_ATTR_RDONLY, 0) {
            // One that another hides, which no path leads to.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            // Without root, one that none of us can reach.
            Err(error)
                if us::is_in_a_namespace()
                    && error.kind() == std::io::ErrorKind::PermissionDenied => {}
            done => done.doing(format_args!("keep `{}` from being written", point.display()))?,
        }
    }
    Ok(())
}

/// A node of the same device, in the place of the file that was made there to mount over.
fn device(source: &Path, target: &Path, owner: u32) -> Result<(), Fault> {
    let doing = format!("make the device `{}` again for user {owner}", source.display());
    let number = fs::metadata(source).doing(&doing)?.rdev();
    fs::remove_file(target).doing(&doing)?;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(CWD, target, rustix::fs::FileType::CharacterDevice, mode, number)
        .doing(&doing)?;
    std::os::unix::fs::chown(target, Some(owner), Some(owner)).doing(&doing)
}

/// Only a mount that is nowhere yet can be mapped.
fn bind_mapped(source: &Path, target: &Path, users: &Path) -> std::io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, source, flags)?;
    let users = fs::File::open(users)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(users.as_raw_fd()).unwrap_or_default(),
    };
    change_attributes(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(&tree, "", CWD, target, flags)?)
}

fn set_attributes(target: &Path, attributes: u64, flags: i32) -> std::io::Result<()> {
    let path = c_path(target).map_err(|fault| std::io::Error::other(fault.message))?;
    let attributes =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    change_attributes(libc::AT_FDCWD, &path, flags, &attributes)
}

fn change_attributes(
    directory: RawFd,
    path: &CStr,
    flags: i32,
    attributes: &libc::mount_attr,
) -> std::io::Result<()> {
    // SAFETY: `path` ends with a zero byte and `attributes` has the size that is passed with it;
    // both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Makes the cgroup hierarchies of the container that this process is in writable, where it may.
///
/// An engine that has no word for a writable hierarchy mounts them read-only. The mounts are those
/// of the container and end with it, so there is nothing to undo. What refuses stays as it was, and
/// the lab says what it cannot limit.
pub fn unlock_groups() {
    for hierarchy in Hierarchies::discover().unwrap_or_default().0 {
        let flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let _ = rustix::mount::mount_remount(&hierarchy.mount_point, flags, c"");
    }
}

/// Splits `mount -o` options into the flags of `mount(2)` and what is the file system's own.
fn split_options(options: &str) -> Result<(MountFlags, CString), Fault> {
    let mut flags = MountFlags::empty();
    let mut own = Vec::new();
    for word in options.split(',').filter(|word| !word.is_empty()) {
        match word {
            "ro" => flags |= MountFlags::RDONLY,
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "noatime" => flags |= MountFlags::NOATIME,
            "relatime" => flags |= MountFlags::RELATIME,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            "rw" => {}
            other => own.push(other),
        }
    }
    let data = CString::new(own.join(","))
        .map_err(|_| Fault::bug("a mount option has a zero byte in it"))?;
    Ok((flags, data))
}

#[cfg(test)]
mod tests;
