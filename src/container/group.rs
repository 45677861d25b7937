//! The groups of a container: one that has its limits and is read, and one below it to start in.
//!
//! Root in a container may make its own group the root of all that it sees (`unshare -C`), mount
//! that, and write to it what it likes. So what holds it is the group above, which it does not see.
//! The one below has what somebody inside may ask for, and what holds no group below it.

use crate::container::first_process::THROTTLING;
use crate::fault::Fault;
use crate::lab::disk::Disk;
use crate::lab::{IoLimits, Limits, Room};
use crate::layer::Site;
use std::path::{Path, PathBuf};

/// Name of the group with the limits, in the room's.
pub(crate) const LIMITED: &str = "container";

/// Name of the one below it.
const INSIDE: &str = "inside";

/// The group below the one with the limits, for whoever makes it.
pub(crate) fn inside(limited: &Path) -> PathBuf {
    limited.join(INSIDE)
}

/// Makes the group with the limits and, if asked for, the one below it; returns the first, and the
/// one to start in. It is the one below where a container stays in the group that it is started in,
/// and where a tool makes groups with limits beside its own: in cgroup v2 nobody may be in the one
/// around both.
///
/// # Errors
/// The machine's: one cannot be made, or a limit cannot be set.
pub(crate) fn make(
    starts_below: bool,
    site: &Site<'_>,
    room: &Room,
) -> Result<(PathBuf, PathBuf), Fault> {
    let limited = room.subgroup(LIMITED, site.limits)?;
    if !starts_below {
        return Ok((limited.clone(), limited));
    }
    let limits = site.limits;
    let io = if is_throttled_alone(site) { limits.io } else { IoLimits::default() };
    let seen = Limits { memory: limits.memory, pids: limits.pids, io, ..Limits::default() };
    let below = room.group_in(&limited, INSIDE, &seen)?;
    Ok((limited, below))
}

/// The disk that the limits are about, where a tool must be told of it.
///
/// # Errors
/// The machine's: there is none.
pub(crate) fn throttled_disk(site: &Site<'_>) -> Result<Option<Disk>, Fault> {
    if is_throttled_alone(site) { site.limits.io.disk() } else { Ok(None) }
}

/// Tells whether limits on a disk hold the processes of the very group that has them alone.
fn is_throttled_alone(site: &Site<'_>) -> bool {
    site.lab.hierarchies().of(THROTTLING).is_some()
}
