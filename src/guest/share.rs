//! The way of this level's files to the guest: by virtiofsd, or by QEMU's own 9p server.
//!
//! Both are in a jail where the root is read only, and each writable directory is shown once more,
//! writable: a guest that breaks out of its own root still cannot write to the host. What
//! this level keeps secret is not served, and neither are its kernel's file systems and its
//! sockets.
//!
//! What is read only is cached as if nobody else wrote to it, which holds for as long as a trial:
//! `cache=always` of virtiofsd, `cache=loose` of 9p. What is writable is served apart from it, by a
//! virtiofsd of its own, and written through: `cache=auto`, `cache=mmap`.
//!
//! 9p needs no other process and no shared memory, and the distribution's kernel for clouds does
//! not speak it.

use crate::fault::{Doing, Fault};
use crate::guest::virtiofsd::{self, EXPORT, Serving, Virtiofsd};
use crate::lab::{Jail, Mount, Room};
use crate::layer::value_of;
use crate::rootfs::secrets;
use crate::rootfs::secrets::Hidden;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// The tag by which the guest mounts what is served.
pub(crate) const TAG: &str = "host";

/// The tag by which it mounts what it may write to, where that is served apart.
pub(crate) const WRITABLE_TAG: &str = "writable";

/// Mount options of 9p in a guest, with the largest message that virtio carries there: see Linux
/// `net/9p/trans_virtio.c`.
pub(crate) const NINEP_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=512000";

/// Mount options of 9p in a Xen domain. The files of all file systems below the export are in one
/// there, so nothing but what is mapped may be kept by its number (Linux `fs/9p/vfs_inode_dotl.c`).
pub(crate) const XEN_NINEP_OPTIONS: &str = "trans=xen,version=9p2000.L,msize=512000,cache=mmap";

/// The jail of a monitor that serves files itself.
pub(crate) const MACHINE: &str = "machine";

/// The name of a directory that is served: the root, read only.
pub(crate) const SERVED_ROOT: &str = "root";

/// The name of a directory that is served: the kernel's modules.
pub(crate) const SERVED_MODULES: &str = "modules";

/// The name of a directory that is served: Xen's tools, which lie over the root of Dom0.
pub(crate) const SERVED_XEN: &str = "xen";

/// The name of a directory that is served with all others: one directory for each writable path,
/// by number.
pub(crate) const SERVED_WRITABLE: &str = "writable";

/// Protocol between a guest and the server of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// FUSE over shared memory, by a process beside QEMU.
    #[default]
    Virtiofs,
    /// Plan 9's, by QEMU.
    Ninep,
    /// The same over rings of Xen's, by the QEMU that serves a domain's devices.
    XenNinep,
    /// FUSE again, by the monitor itself: what it serves is the guest's first root.
    FirstRoot,
}

/// Files that the guest is served.
pub(crate) struct Served<'a> {
    /// Becomes the lower layer of the guest's root.
    pub(crate) root: &'a Path,
    /// Mounts that put together, at another place, what is to be served as the whole of the guest's
    /// root; and that place.
    pub(crate) merged: Option<(Vec<Mount>, PathBuf)>,
    /// Parts of the root that are not shown, unless it is put together somewhere else.
    pub(crate) hidden: Vec<Hidden>,
    /// `lib/modules/RELEASE` of the guest's kernel.
    pub(crate) modules: &'a Path,
    /// Xen's tools, where the guest is Dom0.
    pub(crate) xen: Option<&'a Path>,
    /// Directories whose writes are kept.
    pub(crate) writable: &'a [PathBuf],
}

/// Directory that a monitor serves by itself, or the socket of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The socket of each virtiofsd, with the tag of what that serves.
    Virtiofs(Vec<(&'static str, PathBuf)>),
    /// A directory of the mount namespace in which a monitor runs that serves it by virtiofs
    /// itself.
    Directory(PathBuf),
    /// A directory of the mount namespace in which QEMU runs.
    Ninep {
        /// The directory.
        export: PathBuf,
        /// True if the guest may write to some of it.
        is_writable: bool,
    },
}

/// Files that are ready for a guest.
pub(crate) struct FileShare {
    /// Share that QEMU is told of.
    pub(crate) share: Share,
    /// The processes that serve them, where it is not QEMU.
    pub(crate) servers: Vec<Serving>,
    /// Mounts of QEMU's jail in which it finds them.
    pub(crate) mounts: Vec<Mount>,
    /// The mount namespace in which a monitor that has no jail finds them.
    pub(crate) namespace: Option<OwnedFd>,
    /// About the server.
    pub(crate) facts: Vec<Fact>,
}

impl Protocol {
    /// Returns the guest kernel's name for it: `virtiofs` or `9p`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Virtiofs | Self::FirstRoot => "virtiofs",
            Self::Ninep | Self::XenNinep => "9p",
        }
    }

    /// Modules of the guest's kernel for it, and for the root that lies over it.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Virtiofs => &["fuse", "virtiofs", "overlay"],
            Self::Ninep => &["9pnet_virtio", "9p", "overlay"],
            Self::XenNinep => &["9pnet_xen", "9p", "overlay"],
            Self::FirstRoot => &[],
        }
    }

    /// Makes files ready for a guest; a server joins `group`.
    ///
    /// # Errors
    /// virtiofsd is not there or does not start, or the mount namespace cannot be made.
    pub(crate) fn offer(
        self,
        served: &Served<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<FileShare, Fault> {
        let offer = |share, mounts, namespace| FileShare {
            share,
            servers: Vec::new(),
            mounts,
            namespace,
            facts: Vec::new(),
        };
        let is_writable = !served.writable.is_empty();
        match self {
            Self::Virtiofs => {
                let virtiofsd = Virtiofsd::require(room)?;
                let place = (room, group);
                let mut servers =
                    vec![virtiofsd.serve(TAG, |export| read_only(served, export, room), place)?];
                if is_writable {
                    let mounts = |export: &Path| Ok(writable(served, export));
                    servers.push(virtiofsd.serve(WRITABLE_TAG, mounts, place)?);
                }
                let sockets = servers.iter().map(|it| (it.tag, it.socket.clone())).collect();
                Ok(FileShare {
                    share: Share::Virtiofs(sockets),
                    servers,
                    mounts: Vec::new(),
                    namespace: None,
                    facts: vec![virtiofsd::version_fact(virtiofsd.version)],
                })
            }
            Self::Ninep => {
                let (place, export) = Jail::place(MACHINE, EXPORT, room);
                let share = Share::Ninep { export, is_writable };
                Ok(offer(share, mounts(served, &place, room)?, None))
            }
            Self::XenNinep | Self::FirstRoot => {
                let export = room.directory().join(EXPORT);
                std::fs::create_dir(&export)
                    .doing(format_args!("create `{}`", export.display()))?;
                let namespace = Some(room.mount_namespace(&mounts(served, &export, room)?)?);
                let share = match self {
                    Self::FirstRoot => Share::Directory(export),
                    _ => Share::Ninep { export, is_writable },
                };
                Ok(offer(share, Vec::new(), namespace))
            }
        }
    }

    /// That the guest has its files by this, as the mount of its kernel's modules shows.
    ///
    /// # Errors
    /// It has them by another.
    pub(crate) fn prove(self, inside: &[Fact]) -> Result<Fact, Fault> {
        let mount = value_of(inside, "modules_mount")?;
        let kind = mount.split(' ').next().unwrap_or_default();
        if kind == self.name() {
            return Ok(Fact::new("files", kind, "/proc/self/mountinfo inside"));
        }
        let asked = self.name();
        Err(Fault::machine(format!(
            "files were to come by `{asked}`, and the guest has mounted `{kind}`"
        )))
    }
}

impl Share {
    /// Returns the protocol of the share.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Virtiofs(_) => Protocol::Virtiofs,
            Self::Directory(_) => Protocol::FirstRoot,
            Self::Ninep { .. } => Protocol::Ninep,
        }
    }
}

/// Returns the mounts of what is read only, then each writable directory once more.
fn mounts(served: &Served<'_>, export: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let mut mounts = read_only(served, export, room)?;
    mounts.extend(writable(served, &export.join(SERVED_WRITABLE)));
    Ok(mounts)
}

/// Each writable directory, by its number.
fn writable(served: &Served<'_>, place: &Path) -> Vec<Mount> {
    let numbered = served.writable.iter().enumerate();
    numbered.map(|(number, path)| bind(path, place.join(number.to_string()), false)).collect()
}

fn bind(source: &Path, target: PathBuf, read_only: bool) -> Mount {
    Mount::Bind { source: source.to_owned(), target, recursive: true, read_only }
}

/// The root, read only where it is this level's own, and without what it keeps secret; and the
/// modules.
fn read_only(served: &Served<'_>, export: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let mut mounts = Vec::new();
    let root = export.join(SERVED_ROOT);
    match &served.merged {
        Some((made, merged)) => {
            mounts.extend(made.iter().cloned());
            mounts.push(bind(merged, root, false));
        }
        None => {
            mounts.push(bind(served.root, root.clone(), true));
            if served.root == Path::new("/") {
                mounts.extend(secrets::covers(&served.hidden, &root, room)?);
            }
        }
    }
    mounts.push(bind(served.modules, export.join(SERVED_MODULES), true));
    mounts.extend(served.xen.map(|tools| bind(tools, export.join(SERVED_XEN), true)));
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directories_that_were_named_are_served_writable() {
        let served = Served {
            root: Path::new("/"),
            merged: None,
            hidden: Vec::new(),
            modules: Path::new("/cache/modules"),
            xen: Some(Path::new("/cache/xen")),
            writable: &["/home/a/out".into()],
        };
        let directory = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(directory.path());
        let room = lab.room("served").unwrap();
        let shown: Vec<String> = mounts(&served, Path::new("/room/served"), &room)
            .unwrap()
            .iter()
            .map(|mount| match mount {
                Mount::Bind { source, target, .. }
                    if source.to_string_lossy().contains("/instead/nothing/") =>
                {
                    format!("NOTHING ro {}", target.display())
                }
                Mount::Bind { source, target, read_only, .. } => {
                    let mode = if *read_only { "ro" } else { "rw" };
                    format!("{} {mode} {}", source.display(), target.display())
                }
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "/ ro /room/served/root", "NOTHING ro /room/served/root/proc",
                "NOTHING ro /room/served/root/sys", "NOTHING ro /room/served/root/dev",
                "NOTHING ro /room/served/root/run", "/cache/modules ro /room/served/modules",
                "/cache/xen ro /room/served/xen", "/home/a/out rw /room/served/writable/0",
            ]
        );
    }

    #[test]
    fn files_by_another_protocol_than_was_asked_for_are_no_proof() {
        let inside = [Fact::new("modules_mount", "virtiofs host ro", "")];
        assert!(Protocol::Virtiofs.prove(&inside).is_ok());
        let fault = Protocol::Ninep.prove(&inside).unwrap_err();
        assert!(fault.message.contains("has mounted `virtiofs`"), "{fault}");
    }
}
