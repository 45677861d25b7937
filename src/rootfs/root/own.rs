//! The level's own places as a process of this level sees them: the kernel's file systems as they
//! are, and above `/run` and in `/dev/shm` a layer that is thrown away.
//!
//! An overlay shows a socket and a named pipe, but nobody listens there: the kernel knows the other
//! end by the file below. So each is bound over what the overlay shows of it. Users own directories
//! below `/run`: what is found there is bounded, and no link is followed.
//!
//! Source: Linux, `Documentation/filesystems/overlayfs.rst`, "Non-directories"; `unix(7)`.

use super::{below, visible};
use crate::lab::Mount;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use surtax_instrument::mountinfo::Mounted;

/// The kernel's file systems.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Memory that processes share by name.
const SHARED_MEMORY: &str = "/dev/shm";

/// Sockets, locks and other files of what runs.
const RUN: &str = "/run";

/// Directories below it whose mounts come and go with containers, or are other users': none is
/// shown.
const OF_OTHERS: [&str; 8] = [
    "/run/containerd", "/run/containers", "/run/crio", "/run/docker", "/run/k3s",
    "/run/kata-containers", "/run/libpod", "/run/user",
];

/// Directory below it with mounts of surtax's own, which are shown as they are.
const OURS: &str = "/run/surtax";

/// The most sockets and pipes that are shown of a file system, and the most names and levels that
/// are looked through for them.
const MOST_ENDS: usize = 1000;
const MOST_NAMES: usize = 50_000;
const DEEPEST: usize = 8;

/// The mounts that show them in a merged root. What is written goes to `memory`.
pub(super) fn mounts(table: &[Mounted], merged: &Path, memory: &Path) -> Vec<Mount> {
    let mut mounts: Vec<Mount> =
        KERNELS.map(|place| Mount::bind_all(place, below(merged, Path::new(place)))).into();
    if fs::symlink_metadata(SHARED_MEMORY).is_ok_and(|found| found.is_dir()) {
        let target = below(merged, Path::new(SHARED_MEMORY));
        mounts.push(Mount::fresh("tmpfs", target, "nosuid,nodev,mode=1777"));
    }
    let seen = |path: &Path| Mount::Seen { source: path.into(), target: below(merged, path) };
    for (index, part) in parts(table).into_iter().enumerate() {
        match part {
            Part::Layered(path) => {
                let above = memory.join(format!("run-{index}"));
                mounts.push(Mount::Overlay {
                    lower: path.clone(),
                    upper: above.join("upper"),
                    work: above.join("work"),
                    target: below(merged, &path),
                });
                mounts.extend(ends(&path).iter().map(|path| seen(path)));
            }
            Part::AsItIs(path) => mounts.push(seen(&path)),
        }
    }
    mounts
}

/// A file system at or below [`RUN`].
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Under a layer that is thrown away.
    Layered(PathBuf),
    /// One without files, or one of surtax's own.
    AsItIs(PathBuf),
}

/// The file systems there, parents before children.
fn parts(table: &[Mounted]) -> Vec<Part> {
    let is_others = |mount: &&Mounted| OF_OTHERS.iter().any(|place| mount.point.starts_with(place));
    let mut below: Vec<&Mounted> = table
        .iter()
        .filter(|mount| mount.point.starts_with(RUN) && mount.point != Path::new(RUN))
        .filter(|mount| !is_others(mount))
        .collect();
    below.sort_by_key(|mount| mount.point.components().count());
    let part = |mount: &Mounted| {
        let has_files = visible::is_real(mount) && !mount.kind.starts_with("fuse");
        let is_layered = has_files
            && !mount.is_read_only()
            && !mount.point.starts_with(OURS)
            && fs::symlink_metadata(&mount.point).is_ok_and(|found| found.is_dir());
        match is_layered {
            true => Part::Layered(mount.point.clone()),
            false => Part::AsItIs(mount.point.clone()),
        }
    };
    std::iter::once(Part::Layered(RUN.into())).chain(below.into_iter().map(part)).collect()
}

/// The sockets and named pipes of the file system at a directory, the highest first. Directories
/// that everybody may write to hold nobody's in particular, and are left out.
fn ends(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut names = 0;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let plain = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(CWD, top, flags, Mode::empty(), plain);
    let Ok(top_held) = opened else { return found };
    let mut waiting = VecDeque::from([(top.to_path_buf(), 0)]);
    while let Some((directory, depth)) = waiting.pop_front() {
        let Some((held, entries)) = listed((top, &top_held), &directory) else { continue };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            names += 1;
            if names > MOST_NAMES || found.len() >= MOST_ENDS {
                return found;
            }
            let path = directory.join(name);
            match entry.file_type() {
                FileType::Socket | FileType::Fifo => found.push(path),
                FileType::Directory
                    if name != "."
                        && name != ".."
                        && depth < DEEPEST
                        && path != Path::new(OURS) =>
                {
                    let found = rustix::fs::statat(&held, name, AtFlags::SYMLINK_NOFOLLOW);
                    if found.is_ok_and(|it| it.st_mode & 0o002 == 0) {
                        waiting.push_back((path, depth + 1));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Opens a directory at or below another, on the same file system and past no link.
fn listed((top, held): (&Path, &OwnedFd), directory: &Path) -> Option<(OwnedFd, Dir)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let plain = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let rest = directory.strip_prefix(top).ok()?;
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
    let within = plain | ResolveFlags::NO_XDEV | ResolveFlags::BENEATH;
    let held = rustix::fs::openat2(held, rest, flags, Mode::empty(), within).ok()?;
    let entries = Dir::read_from(&held).ok()?;
    Some((held, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use surtax_instrument::mountinfo;

    #[test]
    fn files_below_run_get_a_layer_and_what_is_containers_or_users_is_not_shown() {
        let table = "\
            1 0 0:1 / / rw - ext4 /dev/vda rw\n\
            2 1 0:2 / /run rw - overlay overlay rw\n\
            3 2 0:3 / /run/lock rw - tmpfs tmpfs rw\n\
            4 2 0:4 / /run/user/1000 rw - tmpfs tmpfs rw\n\
            5 4 0:5 / /run/user/1000/doc rw - fuse.portal portal rw\n\
            6 2 0:6 net /run/netns/a rw - nsfs nsfs rw\n\
            7 2 0:7 / /run/containerd/x/rootfs rw - overlay overlay rw\n\
            8 7 0:8 / /run/containerd/x/rootfs/proc rw - proc proc rw\n\
            9 2 0:9 / /run/surtax/0000beef/.memory rw - tmpfs surtax rw\n\
            10 2 0:10 / /run/credentials ro - tmpfs tmpfs ro\n\
            11 2 0:11 / /run/gone rw - ext4 /dev/sdb rw\n";
        let found = parts(&mountinfo::parse(table.as_bytes()));
        let lock = if Path::new("/run/lock").is_dir() { Part::Layered } else { Part::AsItIs };
        let expected = [
            Part::Layered("/run".into()),
            lock("/run/lock".into()),
            Part::AsItIs("/run/credentials".into()),
            Part::AsItIs("/run/gone".into()),
            Part::AsItIs("/run/netns/a".into()),
            Part::AsItIs("/run/surtax/0000beef/.memory".into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn sockets_and_pipes_are_found_the_highest_first_and_no_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["deep/er", "everybodys"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        fs::set_permissions(at("everybodys"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(at("file"), "").unwrap();
        symlink(elsewhere.path(), at("link")).unwrap();
        let sockets = ["deep/er/socket", "everybodys/socket", "socket"].map(at);
        let listeners = sockets.map(|path| UnixListener::bind(path).unwrap());
        let outside = UnixListener::bind(elsewhere.path().join("socket")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut found = ends(place.path());
        assert_eq!(found.pop(), Some(at("deep/er/socket")));
        found.sort();
        assert_eq!(found, [at("pipe"), at("socket")]);
        drop((listeners, outside));
    }
}
