//! Taking mounts off, also those that stay busy: what [`unmount_below`] finds was put there by a
//! foreign tool.

use crate::fault::{Doing, Fault};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::{counters, mountinfo};

/// Lists the mount points at or below a directory in this namespace, in the order in which they
/// were mounted.
pub(super) fn below(directory: &Path) -> Result<Vec<PathBuf>, Fault> {
    let list = "/proc/thread-self/mountinfo";
    let text = counters::bytes_of(list).doing(format_args!("read `{list}`"))?;
    let points = mountinfo::parse(&text).into_iter().map(|mounted| mounted.point);
    Ok(points.filter(|point| point.starts_with(directory)).collect())
}

/// Takes off what is mounted at or below a directory, latest first. A mount that stays busy is
/// detached, so that it ends with its last user. Every one that was found is returned.
pub(super) fn unmount_below(directory: &Path) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for point in below(directory)?.iter().rev() {
        found.extend(unmount_one(point)?);
    }
    Ok(found)
}

/// Takes one mount off, and says that it was there.
pub(super) fn unmount_one(point: &Path) -> Result<Option<String>, Fault> {
    let how = unmount(point)?;
    Ok(Some(format!("`{}` was still mounted{how}", point.display())))
}

fn unmount(point: &Path) -> Result<&'static str, Fault> {
    for pause_ms in [0, 1, 5, 20, 100] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(""),
            // Gone meanwhile, or hidden below a mount that went first.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(" and went by itself"),
            Err(Errno::BUSY) => {}
            Err(error) => {
                return Err(error).doing(format_args!("unmount `{}`", point.display()));
            }
        }
    }
    rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
        .doing(format_args!("detach the busy mount `{}`", point.display()))?;
    Ok(" and busy: it ends with its last user")
}
