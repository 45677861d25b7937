//! Holds a private mount namespace by a descriptor, without a process.
//!
//! A thread leaves the host's namespace, makes the mounts, opens its own namespace, and ends. The
//! mounts live as long as the descriptor or somebody in the namespace, and no kind of death of this
//! process can leave one behind: there is no undo to write. `docs/decisions/0001-…` says why.

use super::escaped::Overlaid;
use super::mount::{self, KeptInSight, Mount};
use super::{process, us};
use crate::fault::{Doing, Fault};
use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_instrument::mountinfo::Mounted;
use surtax_instrument::{counters, mountinfo};

/// A mount namespace, and the overlays that somebody in it may have as a root.
#[derive(Debug)]
pub(super) struct Namespace {
    /// As long as it is open, the mounts are there.
    pub descriptor: OwnedFd,
    /// In the order in which they were made.
    pub overlays: Vec<Overlaid>,
    /// The file system of each, without a mount: their numbers are nobody else's, whatever is
    /// unmounted in the namespace, and to let one go waits for nobody. Fewer where the kernel
    /// gives none (before Linux 5.2).
    pub held: Vec<OwnedFd>,
}

/// Makes a mount namespace with these mounts, in this order. Directories below `ours` go away with
/// the room, so mount points may be made there. The directory of the `lab` stays in sight whatever
/// is mounted over its parents. The mounts are made in `network`, where one is given.
pub(super) fn mount_namespace(
    mounts: &[Mount],
    ours: Vec<PathBuf>,
    lab: &Path,
    network: Option<OwnedFd>,
) -> Result<Namespace, Fault> {
    process::aside(|| {
        if let Some(network) = network {
            process::enter_network(network.as_fd())?;
        }
        enter_and_mount(mounts, ours, lab)
    })
}

/// Lists the overlays of which one was put together at `target`, where it was: each may be
/// somebody's root.
fn parts(target: &Path, upper: &Path) -> Vec<(PathBuf, Overlaid)> {
    if !us::is_in_a_namespace() {
        return Vec::new();
    }
    let table = counters::bytes_of("/proc/thread-self/mountinfo").unwrap_or_default();
    let is_part = |it: &Mounted| {
        it.point != target
            && it.point.starts_with(target)
            && Path::new(&it.source).starts_with(upper)
    };
    let overlaid = |it: Mounted| {
        let device = rustix::fs::makedev(it.device.0, it.device.1);
        (it.point, Overlaid { upper: PathBuf::from(it.source), device })
    };
    mountinfo::parse(&table).into_iter().filter(is_part).map(overlaid).collect()
}

fn enter_and_mount(
    mounts: &[Mount],
    mut ours: Vec<PathBuf>,
    lab: &Path,
) -> Result<Namespace, Fault> {
    let (mut overlays, mut held) = (Vec::new(), Vec::new());
    // SAFETY: only this thread is moved; it shares no descriptor table away and ends in this
    // function.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
        .doing("make a mount namespace")
        .map_err(|fault| fault.hint("run as root"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let shut = rustix::mount::mount_change("/", private);
    shut.doing("keep mounts from the host").map_err(|fault| match shut {
        Err(rustix::io::Errno::INVAL) => fault.hint(
            "`/` is no mount point, as in a chroot: make it the root of its mount namespace, as \
             systemd-nspawn or pivot_root(8) do",
        ),
        _ => fault,
    })?;
    for mount in mounts {
        let kept = KeptInSight::before(mount, lab)?;
        mount::make(mount, &ours)?;
        if let Mount::Overlay { upper, target, .. } = mount {
            let doing = || format!("look at the overlay at `{}`", target.display());
            let device = std::fs::metadata(target).doing(doing())?.dev();
            overlays.push(Overlaid { upper: upper.clone(), device });
            held.extend(rustix::mount::fspick(CWD, target, FsPickFlags::FSPICK_CLOEXEC));
            for (part, overlaid) in parts(target, upper) {
                overlays.push(overlaid);
                held.extend(rustix::mount::fspick(CWD, &part, FsPickFlags::FSPICK_CLOEXEC));
            }
        }
        if let Some(kept) = kept {
            kept.put_back()?;
        }
        let is_ours = !matches!(
            mount,
            Mount::Bind { .. }
                | Mount::Mapped { .. }
                | Mount::ReadOnly { .. }
                | Mount::Concealed { .. }
        );
        if is_ours {
            ours.push(mount.target().to_path_buf());
        }
    }
    let descriptor = File::open("/proc/thread-self/ns/mnt")
        .map(OwnedFd::from)
        .doing("open `/proc/thread-self/ns/mnt`")?;
    Ok(Namespace { descriptor, overlays, held })
}
