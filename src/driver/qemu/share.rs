//! The way of this level's files to the guest: by virtiofsd, or by QEMU's own 9p server.
//!
//! Both are in a jail where the root is read only and each writable directory is shown a second time, writable: a guest
//! that breaks out of its own root still cannot write to the host. What this level keeps secret is not served, and
//! neither are its kernel's file systems and its sockets.
//!
//! 9p needs no other process and no shared memory, and the distribution's kernel for clouds does not
//! speak it. What is read only is cached as if nobody else wrote to it (`cache=loose`), which holds for
//! as long as a trial; what is writable is written through (`cache=mmap`).

use super::initramfs::{SERVED_MODULES, SERVED_ROOT, SERVED_WRITABLE, SERVED_XEN};
use super::virtiofsd::{self, Serving, Virtiofsd};
use crate::driver::jail::Jail;
use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Room};
use crate::layer::{Choice, LayerSpec, value_of};
use crate::rootfs::secrets;
use crate::rootfs::secrets::Hidden;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// The tag by which the guest mounts what is served.
pub(super) const TAG: &str = "host";

/// The tag by which it mounts by 9p what it may write to.
pub(super) const WRITABLE_TAG: &str = "writable";

/// How a guest mounts by 9p: the largest message that virtio carries there, see Linux
/// `net/9p/trans_virtio.c`.
pub(super) const NINEP_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=512000";

/// How a domain of Xen's mounts by 9p: the files of all file systems below the export are in one there, so that
/// nothing but what is mapped may be kept by its number (Linux `fs/9p/vfs_inode_dotl.c`).
pub(super) const XEN_NINEP_OPTIONS: &str = "trans=xen,version=9p2000.L,msize=512000,cache=mmap";

/// The jail of QEMU, and the directory in a jail that holds what is served.
pub(super) const MACHINE: &str = "machine";
pub(super) const EXPORT: &str = "served";

/// The option.
pub(super) const FILES: Choice = Choice {
    key: "files",
    values: &["virtiofs", "9p"],
    help: "how this level's files come to the guest; `9p` takes the distribution's full kernel (default: \
           virtiofs)",
};

/// What guest and server speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
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

/// What the guest is served.
pub(super) struct Served<'a> {
    /// Becomes the lower layer of the guest's root.
    pub(super) root: &'a Path,
    /// What puts together, somewhere else, what is to be served as the whole of the guest's root; and where.
    pub(super) merged: Option<(Vec<Mount>, PathBuf)>,
    /// What of the root is not shown, unless it is put together somewhere else.
    pub(super) hidden: Vec<Hidden>,
    /// `lib/modules/RELEASE` of the guest's kernel.
    pub(super) modules: &'a Path,
    /// Xen's tools, where the guest is Dom0.
    pub(super) xen: Option<&'a Path>,
    /// Directories whose writes are kept.
    pub(super) writable: &'a [PathBuf],
}

/// Where QEMU finds what it serves, or who serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// The socket of virtiofsd.
    Virtiofs(PathBuf),
    /// A directory of the mount namespace in which a monitor runs that serves it by virtiofs itself.
    Directory(PathBuf),
    /// A directory of the mount namespace in which QEMU runs.
    Ninep {
        /// The directory.
        export: PathBuf,
        /// Whether the guest may write to some of it.
        is_writable: bool,
    },
}

/// Files that are ready for a guest.
pub(super) struct Offer {
    /// What QEMU is told.
    pub(super) share: Share,
    /// The process that serves them, where it is not QEMU.
    pub(super) server: Option<Serving>,
    /// Mounts of QEMU's jail in which it finds them.
    pub(super) mounts: Vec<Mount>,
    /// The mount namespace in which a monitor that has no jail finds them.
    pub(super) namespace: Option<OwnedFd>,
    /// About the server.
    pub(super) facts: Vec<Fact>,
}

impl Protocol {
    /// Reads the option.
    pub(super) fn read(spec: &LayerSpec) -> Self {
        match spec.options.get(FILES.key).map(String::as_str) {
            Some("9p") => Self::Ninep,
            _ => Self::Virtiofs,
        }
    }

    /// What the guest's kernel calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Virtiofs | Self::FirstRoot => "virtiofs",
            Self::Ninep | Self::XenNinep => "9p",
        }
    }

    /// Modules of the guest's kernel for it, and for the root that lies over it.
    pub(super) fn modules(self) -> &'static [&'static str] {
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
    pub(super) fn offer(
        self,
        served: &Served<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Offer, Fault> {
        let offer = |share, mounts, namespace| Offer {
            share,
            server: None,
            mounts,
            namespace,
            facts: Vec::new(),
        };
        let is_writable = !served.writable.is_empty();
        match self {
            Self::Virtiofs => {
                let virtiofsd = Virtiofsd::require(room)?;
                let server = virtiofsd.serve(
                    |export| mounts(served, export, room),
                    is_writable,
                    room,
                    group,
                )?;
                Ok(Offer {
                    share: Share::Virtiofs(server.socket.clone()),
                    server: Some(server),
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
    pub(super) fn prove(self, inside: &[Fact]) -> Result<Fact, Fault> {
        let mount = value_of(inside, "modules_mount")?;
        let kind = mount.split(' ').next().unwrap_or_default();
        if kind == self.name() {
            return Ok(Fact::new("files", kind, "/proc/self/mountinfo inside"));
        }
        let asked = self.name();
        Err(Fault::machine(format!(
            "qemu: files were to come by `{asked}`, and the guest has mounted `{kind}`"
        )))
    }
}

impl Share {
    /// Which protocol it is.
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Virtiofs(_) => Protocol::Virtiofs,
            Self::Directory(_) => Protocol::FirstRoot,
            Self::Ninep { .. } => Protocol::Ninep,
        }
    }

    /// The options of QEMU's command line; `bus` ends the names of the board's virtio devices.
    pub(super) fn arguments(&self, bus: &str) -> Vec<[String; 2]> {
        let text = |path: &Path| path.display().to_string().replace(',', ",,");
        match self {
            Self::Virtiofs(socket) => vec![
                ["-chardev".into(), format!("socket,id=files,path={}", text(socket))],
                ["-device".into(), format!("vhost-user-fs-{bus},chardev=files,tag={TAG}")],
            ],
            // No monitor that serves files itself is QEMU.
            Self::Directory(_) => Vec::new(),
            Self::Ninep { export, is_writable } => {
                // Several file systems lie below one directory, and their inodes are told apart.
                let local = "security_model=passthrough,multidevs=remap";
                let served = |tag: &str, path: &Path, mode: &str| {
                    let path = text(path);
                    [
                        ["-fsdev".into(), format!("local,id={tag},path={path},{local}{mode}")],
                        ["-device".into(), format!("virtio-9p-{bus},fsdev={tag},mount_tag={tag}")],
                    ]
                };
                let mut arguments = served(TAG, export, ",readonly=on").to_vec();
                if *is_writable {
                    arguments.extend(served(WRITABLE_TAG, &export.join(SERVED_WRITABLE), ""));
                }
                arguments
            }
        }
    }
}

/// The root, read only where it is this level's own, and without what it keeps secret; the modules; then each
/// writable directory once more.
fn mounts(served: &Served<'_>, export: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let bind = |source: &Path, target: PathBuf, read_only: bool| Mount::Bind {
        source: source.to_owned(),
        target,
        recursive: true,
        read_only,
    };
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
    for (number, path) in served.writable.iter().enumerate() {
        mounts.push(bind(path, export.join(SERVED_WRITABLE).join(number.to_string()), false));
    }
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
                "/ ro /room/served/root",
                "NOTHING ro /room/served/root/proc",
                "NOTHING ro /room/served/root/sys",
                "NOTHING ro /room/served/root/dev",
                "NOTHING ro /room/served/root/run",
                "/cache/modules ro /room/served/modules",
                "/cache/xen ro /room/served/xen",
                "/home/a/out rw /room/served/writable/0",
            ]
        );
    }

    #[test]
    fn qemu_serves_by_9p_what_is_read_only_apart_from_what_is_not() {
        let share = Share::Ninep { export: "/room/a,b".into(), is_writable: true };
        assert_eq!(
            share.arguments("pci").concat().join(" "),
            "-fsdev local,id=host,path=/room/a,,b,security_model=passthrough,multidevs=remap,readonly=on \
             -device virtio-9p-pci,fsdev=host,mount_tag=host \
             -fsdev local,id=writable,path=/room/a,,b/writable,security_model=passthrough,multidevs=remap \
             -device virtio-9p-pci,fsdev=writable,mount_tag=writable"
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
