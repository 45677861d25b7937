//! The level's own places as a process of this level sees them: the kernel's file systems as they
//! are, and above `/run` and in `/dev/shm` a layer that is thrown away.
//!
//! An overlay shows a socket and a named pipe, but nobody listens there: the kernel knows the other
//! end by the file below. So each is bound over what the overlay shows of it.
//!
//! Source: Linux, `Documentation/filesystems/overlayfs.rst`, "Non-directories"; `unix(7)`.

use super::below;
use crate::lab::Mount;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use surtax_instrument::mountinfo::Mounted;

/// The kernel's file systems.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Memory that processes share by name.
const SHARED_MEMORY: &str = "/dev/shm";

/// Sockets, locks and other files of what runs.
const RUN: &str = "/run";

/// Directory below [`RUN`] in which each user has a file system.
const USERS: &str = "/run/user";

/// Directory below it that is surtax's own, which is shown as it is.
const OURS: &str = "/run/surtax";

/// The most levels, and the most sockets and pipes, that are looked for below [`RUN`].
const DEEPEST: usize = 8;
const MOST: usize = 1000;

/// The mounts that show them in a merged root. What is written goes to `memory`.
pub(super) fn mounts(table: &[Mounted], merged: &Path, memory: &Path) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = KERNELS
        .map(|place| Mount::Bind {
            source: PathBuf::from(place),
            target: below(merged, Path::new(place)),
            recursive: true,
            read_only: false,
        })
        .into();
    if fs::symlink_metadata(SHARED_MEMORY).is_ok_and(|found| found.is_dir()) {
        mounts.push(Mount::Fresh {
            kind: String::from("tmpfs"),
            target: below(merged, Path::new(SHARED_MEMORY)),
            options: String::from("nosuid,nodev,mode=1777"),
        });
    }
    let seen = |path: &Path| Mount::Seen { source: path.into(), target: below(merged, path) };
    for (index, part) in parts(table).into_iter().enumerate() {
        let above = memory.join(format!("run-{index}"));
        mounts.push(match &part {
            Part::Layered(path) => Mount::Overlay {
                lower: path.clone(),
                upper: above.join("upper"),
                work: above.join("work"),
                target: below(merged, path),
            },
            Part::AsItIs(path) => seen(path),
        });
        if let Part::Layered(path) = part {
            let mut ends = Vec::new();
            find_ends(&path, table, DEEPEST, &mut ends);
            mounts.extend(ends.iter().map(|path| seen(path)));
        }
    }
    mounts
}

/// A file system at or below [`RUN`].
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Under a layer that is thrown away.
    Layered(PathBuf),
    AsItIs(PathBuf),
}

/// The file systems there, parents before children; the roots of containers and what they have
/// mounted are left out.
fn parts(table: &[Mounted]) -> Vec<Part> {
    let mut below: Vec<&Mounted> = table
        .iter()
        .filter(|mount| mount.point.starts_with(RUN) && mount.point != Path::new(RUN))
        .filter(|mount| !is_of_a_container(mount, table))
        .collect();
    below.sort_by_key(|mount| mount.point.components().count());
    let part = |mount: &Mounted| {
        let parent = mount.point.parent();
        let is_files = mount.kind == "tmpfs" && !mount.is_read_only();
        let is_simple = parent == Some(Path::new(RUN)) || parent == Some(Path::new(USERS));
        match is_files && is_simple && mount.point != Path::new(OURS) {
            true => Part::Layered(mount.point.clone()),
            false => Part::AsItIs(mount.point.clone()),
        }
    };
    std::iter::once(Part::Layered(RUN.into())).chain(below.into_iter().map(part)).collect()
}

/// Tells whether a mount is a container's root, or lies in one.
fn is_of_a_container(mount: &Mounted, table: &[Mounted]) -> bool {
    let roots = table.iter().filter(|root| root.kind == "overlay" && root.point.starts_with(RUN));
    let mut roots = roots.filter(|root| !root.point.starts_with(OURS));
    roots.any(|root| mount.point.starts_with(&root.point))
}

/// Finds the sockets and named pipes of a file system, below a directory of it.
fn find_ends(directory: &Path, table: &[Mounted], depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if found.len() >= MOST {
            return;
        }
        if kind.is_socket() || kind.is_fifo() {
            found.push(path);
        } else if kind.is_dir() && depth > 0 && path != Path::new(OURS) {
            let is_another = table.iter().any(|mount| mount.point == path);
            if !is_another {
                find_ends(&path, table, depth - 1, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::mountinfo;

    #[test]
    fn files_below_run_get_a_layer_and_the_rest_is_shown_but_for_containers() {
        let table = "\
            1 0 0:1 / / rw - ext4 /dev/vda rw\n\
            2 1 0:2 / /run rw - tmpfs tmpfs rw\n\
            3 2 0:3 / /run/lock rw - tmpfs tmpfs rw\n\
            4 2 0:4 / /run/user/1000 rw - tmpfs tmpfs rw\n\
            5 4 0:5 / /run/user/1000/doc rw - fuse.portal portal rw\n\
            6 2 0:6 net /run/netns/a rw - nsfs nsfs rw\n\
            7 2 0:7 / /run/containerd/x/rootfs rw - overlay overlay rw\n\
            8 7 0:8 / /run/containerd/x/rootfs/proc rw - proc proc rw\n\
            9 2 0:9 / /run/surtax/0000beef/.memory rw - tmpfs surtax rw\n\
            10 2 0:10 / /run/credentials ro - tmpfs tmpfs ro\n";
        let layered = ["/run", "/run/lock", "/run/user/1000"];
        let shown = [
            "/run/credentials",
            "/run/netns/a",
            "/run/user/1000/doc",
            "/run/surtax/0000beef/.memory",
        ];
        let found = parts(&mountinfo::parse(table.as_bytes()));
        for path in layered {
            assert!(found.contains(&Part::Layered(path.into())), "{path}: {found:?}");
        }
        for path in shown {
            assert!(found.contains(&Part::AsItIs(path.into())), "{path}: {found:?}");
        }
        assert_eq!(found.len(), layered.len() + shown.len(), "{found:?}");
    }

    #[test]
    fn sockets_and_pipes_are_found_and_neither_files_nor_what_is_mounted() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("deep/er")).unwrap();
        fs::create_dir(at("mounted")).unwrap();
        fs::write(at("file"), "").unwrap();
        let sockets = ["deep/er/socket", "mounted/socket", "socket"]
            .map(|name| std::os::unix::net::UnixListener::bind(at(name)).unwrap());
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let line = format!("2 1 0:2 / {} rw - tmpfs tmpfs rw\n", at("mounted").display());
        let mut found = Vec::new();
        find_ends(place.path(), &mountinfo::parse(line.as_bytes()), 2, &mut found);
        found.sort();
        assert_eq!(found, [at("deep/er/socket"), at("pipe"), at("socket")]);
        drop(sockets);
    }
}
