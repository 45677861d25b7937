//! Huge pages of a room: how much memory of them its processes may have, of what this level's pool
//! holds.
//!
//! | ours | cgroup v1 | cgroup v2 |
//! |---|---|---|
//! | `hugetlb` | `hugetlb.2MB.limit_in_bytes` | `hugetlb.2MB.max` |
//!
//! The limit is that of the room's own group, for it holds whatever a tool makes below: the
//! controller counts for the groups above as well. Where it is not in the hierarchy that shares out
//! CPUs, tools make no groups there, and what a room starts is in the room's own. Nobody pays for
//! it who has not asked: the controller is enabled with the first limit of a lab, and disabled with
//! the lab.
//!
//! Source: Linux `Documentation/admin-guide/cgroup-v1/hugetlb.rst`, `cgroup-v2.rst` ("HugeTLB").

use super::{
    Groups, Hierarchies, Hierarchy, Occupied, Version, enable, index, missing, read, write,
};
use crate::fault::{Doing, Fault};
use crate::lab::Limits;
use crate::lab::huge_pages::Pool;
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Fact;

/// The controller, in both versions.
const CONTROLLER: &str = "hugetlb";

/// The files of the limit on pages of 2 MiB, in cgroup v1 and v2.
const FILES: [&str; 2] = ["hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"];

/// The key of its fact.
const KEY: &str = "limit_hugetlb_bytes";

impl Groups {
    /// Returns the group in which the controller must be enabled before a room can be limited, and
    /// the controller's name; `None` where nothing is to enable.
    pub(in crate::lab) fn to_enable_for_huge_pages(&self) -> Option<(PathBuf, Vec<String>)> {
        let root = &self.hierarchies.of(CONTROLLER).filter(is_unified)?.mount_point;
        let names = missing(root, &[CONTROLLER.to_owned()]);
        (!names.is_empty()).then(|| (root.clone(), names))
    }

    /// Limits a room, whose lab's group is above it, and reads the limit back.
    pub(in crate::lab) fn limit_huge_pages(&self, room: &Path, most: Bytes) -> Result<(), Fault> {
        let hierarchy = require(&self.hierarchies)?;
        let directory = hierarchy.directory(room);
        if hierarchy.version == Version::Two {
            let lab = directory.parent().unwrap_or(&directory);
            let name = [CONTROLLER.to_owned()];
            for (above, manner) in
                [(hierarchy.mount_point.as_path(), Occupied::MoveAside), (lab, Occupied::Ask)]
            {
                enable(above, &missing(above, &name), manner)
                    .doing(format_args!("enable `{CONTROLLER}` in `{}`", above.display()))?;
            }
        }
        let file = directory.join(FILES[index(hierarchy.version)]);
        write(&file, &most.0.to_string())?;
        let holds = read(&file)?;
        if holds == most.0.to_string() { Ok(()) } else { Err(refused(&file, most, &holds)) }
    }

    /// That a room can be limited so, and that the pool has what the limit allows.
    pub(in crate::lab) fn can_limit_huge_pages(&self, limits: &Limits) -> Result<(), Fault> {
        let Some(most) = limits.hugetlb else { return Ok(()) };
        require(&self.hierarchies)?;
        // A limit of nothing takes no pool.
        if most == Bytes(0) { Ok(()) } else { Pool::read()?.require(most.mebibytes()) }
    }

    /// Puts a process that somebody else started where the limit of a room holds it. Where CPUs are
    /// shared out in the same hierarchy, it was started below the room, or somewhere from where it
    /// may not be taken.
    pub(in crate::lab) fn admit_to_huge_pages(&self, pid: u32, room: &Path) -> Result<(), Fault> {
        let hierarchy = require(&self.hierarchies)?;
        if hierarchy.controllers.iter().any(|name| name == "cpu") {
            return Ok(());
        }
        write(&hierarchy.directory(room).join("cgroup.procs"), &pid.to_string())
    }
}

/// The limit that holds a group: its own or that of one above it.
///
/// # Errors
/// None of them is what was asked for.
pub(super) fn held(
    hierarchies: &Hierarchies,
    group: &Path,
    limits: &Limits,
) -> Result<Option<Fact>, Fault> {
    let Some(most) = limits.hugetlb else { return Ok(None) };
    let hierarchy = require(hierarchies)?;
    let name = FILES[index(hierarchy.version)];
    let above = group.ancestors().filter(|group| *group != Path::new(""));
    let files = above.map(|group| hierarchy.directory(group).join(name));
    let mut found = files.filter_map(|file| Some((read(&file).ok()?, file))).peekable();
    let innermost = found.peek().cloned();
    let asked = most.0.to_string();
    if let Some((holds, file)) = found.find(|(holds, _)| *holds == asked) {
        return Ok(Some(Fact::new(KEY, holds, file.display().to_string())));
    }
    let (holds, file) = innermost
        .unwrap_or_else(|| (String::from("nothing"), hierarchy.directory(group).join(name)));
    Err(refused(&file, most, &holds))
}

fn require(hierarchies: &Hierarchies) -> Result<&Hierarchy, Fault> {
    hierarchies.of(CONTROLLER).ok_or_else(|| {
        Fault::machine(format!(
            "there is no cgroup controller `{CONTROLLER}` to limit huge pages with"
        ))
        .hint("boot a kernel with CONFIG_CGROUP_HUGETLB, or leave `hugetlb` out")
    })
}

fn is_unified(hierarchy: &&Hierarchy) -> bool {
    hierarchy.version == Version::Two
}

fn refused(file: &Path, most: Bytes, holds: &str) -> Fault {
    let (file, most) = (file.display(), most.0);
    Fault::machine(format!(
        "`{file}` holds `{holds}`, and {most} bytes of huge pages were asked for"
    ))
    .hint("use a kernel that has huge pages of 2 MiB, or leave `hugetlb` out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine with the controller in one hierarchy, in which there are a lab and a room with
    /// files of these contents.
    fn machine(version: Version, texts: [&str; 2]) -> (tempfile::TempDir, Groups) {
        let directory = tempfile::tempdir().unwrap();
        let lab = directory.path().join("surtax-7");
        fs::create_dir_all(lab.join("room/container")).unwrap();
        for (group, text) in [(lab.join("room"), texts[0]), (lab.join("room/container"), texts[1])]
        {
            fs::write(group.join(FILES[index(version)]), text).unwrap();
        }
        let hierarchy = Hierarchy {
            mount_point: directory.path().into(),
            root: "/".into(),
            version,
            controllers: vec![CONTROLLER.into()],
        };
        let hierarchies = Hierarchies(vec![hierarchy]);
        (directory, Groups { hierarchies, ..Groups::default() })
    }

    fn asked(bytes: u64) -> Limits {
        Limits { hugetlb: Some(Bytes(bytes)), ..Limits::default() }
    }

    #[test]
    fn a_limit_above_holds_whatever_a_runtime_wrote_below() {
        for version in [Version::One, Version::Two] {
            let (_directory, groups) = machine(version, ["67108864\n", "max\n"]);
            let container = Path::new("surtax-7/room/container");
            let fact = held(&groups.hierarchies, container, &asked(64 << 20)).unwrap().unwrap();
            assert_eq!((fact.key.as_str(), fact.value.as_str()), (KEY, "67108864"));
            let fault = held(&groups.hierarchies, container, &asked(2 << 20)).unwrap_err();
            assert!(fault.message.contains("holds `max`, and 2097152 bytes"), "{fault}");
            let elsewhere = Path::new("system.slice/docker-7.scope");
            let fault = held(&groups.hierarchies, elsewhere, &asked(64 << 20)).unwrap_err();
            assert!(fault.message.contains("holds `nothing`"), "{fault}");
        }
    }

    #[test]
    fn the_controller_is_given_to_the_room_and_to_nobody_below_it() {
        let (directory, groups) = machine(Version::Two, ["max\n", "max\n"]);
        assert_eq!(groups.to_enable_for_huge_pages().unwrap().1, [CONTROLLER]);
        groups.limit_huge_pages(Path::new("surtax-7/room"), Bytes(4 << 20)).unwrap();
        let control = |group: &str| {
            fs::read_to_string(directory.path().join(group).join("cgroup.subtree_control"))
        };
        assert_eq!(control("").unwrap(), "+hugetlb");
        assert_eq!(control("surtax-7").unwrap(), "+hugetlb");
        assert!(control("surtax-7/room").is_err(), "a room with such groups could start nobody");
        let limit = directory.path().join("surtax-7/room/hugetlb.2MB.max");
        assert_eq!(fs::read_to_string(limit).unwrap(), "4194304");

        let (directory, groups) = machine(Version::One, ["0\n", "0\n"]);
        assert_eq!(groups.to_enable_for_huge_pages(), None);
        groups.limit_huge_pages(Path::new("surtax-7/room"), Bytes(4 << 20)).unwrap();
        assert!(!directory.path().join("cgroup.subtree_control").exists());
    }

    #[test]
    fn a_machine_without_the_controller_says_so() {
        let groups = Groups::default();
        let fault = groups.can_limit_huge_pages(&asked(0)).unwrap_err();
        assert!(fault.message.contains("no cgroup controller `hugetlb`"), "{fault}");
        assert_eq!(groups.can_limit_huge_pages(&Limits::default()), Ok(()));
    }
}
