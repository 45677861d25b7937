//! Holds a private mount namespace by a descriptor, without a process.
//!
//! A thread leaves the host's namespace, makes the mounts, opens its own namespace, and ends. The
//! mounts live as long as the descriptor or somebody in the namespace, and no kind of death of this
//! process can leave one behind: there is no undo to write. `docs/decisions/0001-…` says why.

use super::mount::{self, KeptInSight, Mount};
use super::process;
use crate::fault::{Doing, Fault};
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Whose mounts these are.
pub(super) struct Maker<'a> {
    /// Directories that go away with the room: mount points may be made below them.
    pub ours: Vec<PathBuf>,
    /// The directory of the lab, which stays in sight whatever is mounted over its parents.
    pub lab: &'a Path,
    /// What overlays are mounted as.
    pub mark: &'a str,
}

/// Makes a mount namespace with these mounts, in this order, and in `network`, where one is given.
pub(super) fn mount_namespace(
    mounts: &[Mount],
    maker: Maker<'_>,
    network: Option<OwnedFd>,
) -> Result<OwnedFd, Fault> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Some(network) = network {
                process::enter_network(network.as_fd())?;
            }
            enter_and_mount(mounts, maker)
        });
        thread.join().unwrap_or_else(|_| Err(Fault::bug("the mounting thread panicked")))
    })
}

fn enter_and_mount(mounts: &[Mount], maker: Maker<'_>) -> Result<OwnedFd, Fault> {
    let Maker { mut ours, lab, mark } = maker;
    // SAFETY: only this thread is moved; it shares no descriptor table away and ends in this function.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
        .doing("make a mount namespace")
        .map_err(|fault| fault.hint("run as root"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).doing("keep mounts from the host")?;
    for mount in mounts {
        let kept = KeptInSight::before(mount, lab)?;
        mount::make(mount, &ours, mark)?;
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
    File::open("/proc/thread-self/ns/mnt")
        .map(OwnedFd::from)
        .doing("open `/proc/thread-self/ns/mnt`")
}
