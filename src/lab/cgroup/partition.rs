//! CPUs of a group's own: a cpuset partition of cgroup v2, which takes them away from everybody
//! else.
//!
//! A partition can only be made below another, so the lab's group and the room's become ones too,
//! of the same CPUs. When the room ends, the lab gives them back. Where a lab lies in a slice of
//! systemd's, that would have to become one as well, with all services in it, and is refused.
//!
//! Source: Linux `Documentation/admin-guide/cgroup-v2.rst`, "cpuset.cpus.partition".

use super::limit::list;
use super::{Groups, Hierarchies, Version, read, write};
use crate::fault::Fault;
use crate::lab::Limits;
use crate::lab::places::PREFIX;
use std::fs;
use std::path::{Component, Path, PathBuf};
use surtax_instrument::wire::Fact;

/// The file that tells and decides.
const FILE: &str = "cpuset.cpus.partition";

/// Kernel's word for a group that shares its CPUs.
const MEMBER: &str = "member";

impl Groups {
    /// Makes a group that has its CPUs already a partition, if one was asked for.
    pub(in crate::lab) fn part(&self, group: &Path, limits: &Limits) -> Result<(), Fault> {
        let (Some(kind), Some(cpus)) = (limits.partition, &limits.cpuset) else { return Ok(()) };
        require_nobody_above(group)?;
        let place = place(&self.hierarchies, group)?;
        let depth = group.components().count().saturating_sub(1);
        let mut above: Vec<&Path> = place.ancestors().skip(1).take(depth).collect();
        above.reverse();
        for directory in above {
            if read(&directory.join(FILE))? != "root" {
                write(&directory.join("cpuset.cpus"), &list(cpus))?;
                become_one(directory, "root")?;
            }
        }
        become_one(&place, kind.word())
    }

    /// That a group below this one can be made a partition.
    pub(in crate::lab) fn can_part(&self, group: &Path, limits: &Limits) -> Result<(), Fault> {
        if limits.partition.is_none() {
            return Ok(());
        }
        require_nobody_above(group)?;
        place(&self.hierarchies, group).map(drop)
    }

    /// Gives the CPUs of a lab's partition back to everybody, when the room that took them has
    /// ended.
    pub(in crate::lab) fn rejoin(&self, lab: &Path) {
        let Ok(place) = place(&self.hierarchies, lab) else { return };
        if read(&place.join(FILE)).is_ok_and(|kind| kind != MEMBER) {
            // What is not given back now goes back with the lab's group.
            let _ = fs::write(place.join(FILE), MEMBER);
            let _ = fs::write(place.join("cpuset.cpus"), "\n");
        }
    }
}

/// Returns the partition that a group has, which must be what was asked for; `None` where none was.
///
/// # Errors
/// It is not: the CPUs are shared with others.
pub(super) fn held(
    hierarchies: &Hierarchies,
    group: &Path,
    limits: &Limits,
) -> Result<Option<Fact>, Fault> {
    let Some(kind) = limits.partition else { return Ok(None) };
    let place = place(hierarchies, group)?;
    let holds = read(&place.join(FILE))?;
    if holds != kind.word() {
        return Err(refused(&place, kind.word(), &holds));
    }
    Ok(Some(Fact::new("limit_cpu_partition", holds, place.join(FILE).display().to_string())))
}

/// That no group above is somebody else's, whose CPUs a partition would take.
fn require_nobody_above(group: &Path) -> Result<(), Fault> {
    let is_ours =
        |part: &Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    match group.components().next() {
        Some(first) if !is_ours(&first) => Err(Fault::user(format!(
            "`partition` would change the CPUs of all that is in `{}`, where systemd has put this lab",
            first.as_os_str().display()
        ))
        .hint("use `cpuset=` alone, or put the layer into a machine, as in `qemu+…`")),
        _ => Ok(()),
    }
}

fn place(hierarchies: &Hierarchies, group: &Path) -> Result<PathBuf, Fault> {
    let found = hierarchies.of("cpuset").filter(|hierarchy| hierarchy.version == Version::Two);
    let hierarchy = found.ok_or_else(|| {
        Fault::user("`partition` needs the cpuset controller of cgroup v2, which is not here").hint(
            "boot with `cgroup_no_v1=all`, put the layer into a machine, as in `qemu+…`, or \
                   drop it",
        )
    })?;
    Ok(hierarchy.directory(group))
}

fn become_one(directory: &Path, kind: &str) -> Result<(), Fault> {
    write(&directory.join(FILE), kind)?;
    let holds = read(&directory.join(FILE))?;
    if holds == kind { Ok(()) } else { Err(refused(directory, kind, &holds)) }
}

fn refused(directory: &Path, kind: &str, holds: &str) -> Fault {
    let shown = directory.join(FILE);
    Fault::machine(format!("`{}` holds `{holds}`, and `{kind}` was asked for", shown.display()))
        .hint("name CPUs that no other partition has, and leave at least one to everybody else")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Partition;

    #[test]
    fn a_slice_of_somebody_elses_is_no_partition() {
        assert!(require_nobody_above(Path::new("surtax-1a2b3c4d/room/command")).is_ok());
        let within = Path::new("system.slice/surtax-1a2b3c4d.scope/surtax-1a2b3c4d/room/command");
        let limits = Limits {
            partition: Some(Partition::Isolated),
            cpuset: Some(vec![0]),
            ..Limits::default()
        };
        let groups = Groups::discover().unwrap();
        for refused in [groups.can_part(within, &limits), groups.part(within, &limits)] {
            let fault = refused.unwrap_err();
            assert!(fault.message.contains("all that is in `system.slice`"), "{fault}");
        }
        assert!(groups.can_part(within, &Limits::default()).is_ok());
    }
}
