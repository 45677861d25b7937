//! Processes that a kernel killed because memory had run out: of a group, or of a whole machine.
//!
//! | ours | cgroup v2 | cgroup v1 | machine |
//! |---|---|---|---|
//! | kills | `memory.events`: `oom_kill` | `memory.oom_control`: `oom_kill` | `/proc/vmstat`: `oom_kill` |
//!
//! - **Reads** the kills of a group and of all below it. Version 2 adds them up itself, version 1
//!   counts them in the group of the victim alone, so there each group below is read.
//! - **Costs** one short file, with version 1 one per group below and a walk through their
//!   directories.
//! - **Cannot see** kills in a group that is gone by now; the kernel's log has those.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`.

use super::cgroup::{Hierarchies, Version};
use crate::group_counts::{Counts, below, counted, rise};
use crate::group_tree;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Key of the line with the kills.
const KILLS: &str = "oom_kill";

/// The kernel's first pid namespace. Source: `PROC_PID_INIT_INO` in Linux
/// `include/linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The kills that the groups of a tree have counted since each was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kills(Counts);

impl Kills {
    /// Reads those of a group, given its path relative to the mount points; `None` where its memory
    /// is not counted.
    #[must_use]
    pub fn of_group(hierarchies: &Hierarchies, group: &Path) -> Option<Self> {
        let hierarchy = hierarchies.of("memory")?;
        let top = hierarchy.directory(group);
        if hierarchy.version == Version::Two {
            let number = fs::metadata(&top).ok()?.ino();
            let count = counted(&top.join("memory.events"), KILLS)?;
            return Some(Self(Counts::from([(number, count)])));
        }
        let kills = below(&top, KILLS, &[events(Version::One)], |_, _, _| ());
        (!kills.is_empty()).then_some(Self(kills))
    }

    /// Counts the kills since an earlier reading. A group that was made in between began at none.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> u64 {
        rise(&self.0, &earlier.0)
    }
}

/// The innermost group of a tree in which anybody was killed since it was made, as a directory, and
/// how many there were.
#[must_use]
pub fn innermost(hierarchies: &Hierarchies, group: &Path) -> Option<(PathBuf, u64)> {
    let hierarchy = hierarchies.of("memory")?;
    let mut innermost: Option<(usize, PathBuf, u64)> = None;
    let files = [events(hierarchy.version)];
    below(&hierarchy.directory(group), KILLS, &files, |way, _, count| {
        let depth = way.depth();
        if count > 0 && innermost.as_ref().is_none_or(|(known, ..)| depth >= *known) {
            innermost = Some((depth, way.path(), count));
        }
    });
    innermost.map(|(_, path, count)| (path, count))
}

/// Lists who is in a tree of groups, each with the directory of its group, by the numbers that the
/// kernel's log has for them.
///
/// Nobody where this process has other numbers for them: in a pid namespace.
#[must_use]
pub fn members(hierarchies: &Hierarchies, group: &Path) -> BTreeMap<u32, PathBuf> {
    let is_first =
        fs::read_link("/proc/self/ns/pid").is_ok_and(|it| it == Path::new(FIRST_NAMESPACE));
    let Some(hierarchy) = hierarchies.of("memory").filter(|_| is_first) else {
        return BTreeMap::new();
    };
    let mut members = BTreeMap::new();
    let files = [events(hierarchy.version)];
    below(&hierarchy.directory(group), KILLS, &files, |way, group, _| {
        let text = group_tree::read(group, c"cgroup.procs");
        let pids = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0);
        members.extend(pids.map(|pid| (pid, way.path())));
    });
    members
}

/// Returns the name of the file in which a group counts its kills.
fn events(version: Version) -> &'static CStr {
    match version {
        Version::One => c"memory.oom_control",
        Version::Two => c"memory.events",
    }
}

/// The kills of the whole machine since it booted; `None` where its kernel does not tell.
#[must_use]
pub fn of_machine() -> Option<u64> {
    counted(Path::new("/proc/vmstat"), KILLS)
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::Hierarchy;
    use super::super::tests::tree;
    use super::*;

    fn hierarchies(root: &Path, version: Version) -> Hierarchies {
        let controllers = vec![String::from("memory")];
        let mount_point = root.to_owned();
        let root = Path::new("/").to_owned();
        Hierarchies(vec![Hierarchy { mount_point, root, version, controllers }])
    }

    #[test]
    fn version_1_counts_in_the_group_of_the_victim_and_all_below_are_added_up() {
        let none = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
        let tree = tree(&[("room/memory.oom_control", none), ("room/a/memory.oom_control", none)]);
        let all = hierarchies(tree.path(), Version::One);
        let before = Kills::of_group(&all, Path::new("/room")).unwrap();
        let made = tree.path().join("room/a/b");
        fs::create_dir(&made).unwrap();
        let two = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        fs::write(made.join("memory.oom_control"), two).unwrap();
        fs::write(tree.path().join("room/a/memory.oom_control"), two).unwrap();
        let after = Kills::of_group(&all, Path::new("/room")).unwrap();
        assert_eq!((after.since(&before), before.since(&before)), (4, 0));
        assert_eq!(Kills::of_group(&all, Path::new("/nobody")), None);
    }

    #[test]
    fn a_kill_in_a_group_deeper_than_a_path_can_say_is_counted() {
        let none = "oom_kill 0\n";
        let tree = tree(&[("room/memory.oom_control", none)]);
        let all = hierarchies(tree.path(), Version::One);
        let before = Kills::of_group(&all, Path::new("room")).unwrap();
        let name = "x".repeat(250);
        let mut here = std::fs::File::open(tree.path().join("room")).unwrap();
        for _ in 0..20 {
            rustix::fs::mkdirat(&here, &name, rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY;
            let below = rustix::fs::openat(&here, &name, flags, rustix::fs::Mode::empty());
            here = below.unwrap().into();
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            let file =
                rustix::fs::openat(&here, "memory.oom_control", flags, rustix::fs::Mode::RWXU);
            rustix::io::write(file.unwrap(), b"oom_kill 1\n").unwrap();
        }
        let after = Kills::of_group(&all, Path::new("room")).unwrap();
        assert_eq!(after.since(&before), 20);
        let (path, count) = innermost(&all, Path::new("room")).unwrap();
        assert!(path.starts_with(tree.path().join("room").join(&name)) && count == 1);
        assert!(path.as_os_str().len() < 4096);
    }

    #[test]
    fn version_2_adds_them_up_itself() {
        let events = "low 0\nhigh 0\nmax 17\noom 1\noom_kill 1\noom_group_kill 0\n";
        let tree = tree(&[("room/memory.events", events), ("room/a/memory.events", events)]);
        let all = hierarchies(tree.path(), Version::Two);
        let kills = Kills::of_group(&all, Path::new("room")).unwrap();
        assert_eq!(kills.since(&Kills::default()), 1);
    }

    #[test]
    fn the_innermost_group_is_told_with_its_own_kills() {
        for (version, file) in
            [(Version::One, "memory.oom_control"), (Version::Two, "memory.events")]
        {
            let tree = tree(&[
                (&format!("room/{file}"), "oom_kill 3\n"),
                (&format!("room/a/{file}"), "oom_kill 2\n"),
                (&format!("room/a/b/{file}"), "oom_kill 0\n"),
            ]);
            let all = hierarchies(tree.path(), version);
            let found = innermost(&all, Path::new("room"));
            assert_eq!(found, Some((tree.path().join("room/a"), 2)));
            assert_eq!(innermost(&all, Path::new("room/a/b")), None);
            assert_eq!(innermost(&all, Path::new("nobody")), None);
        }
    }

    #[test]
    fn whoever_is_in_a_tree_is_listed_with_the_group() {
        let tree = tree(&[
            ("room/memory.oom_control", "oom_kill 0\n"),
            ("room/a/memory.oom_control", "oom_kill 0\n"),
            ("room/a/cgroup.procs", "0\n7\n9\n"),
        ]);
        let found = members(&hierarchies(tree.path(), Version::One), Path::new("room"));
        let a = tree.path().join("room/a");
        let is_first = fs::read_link("/proc/self/ns/pid").unwrap() == Path::new(FIRST_NAMESPACE);
        let expected = if is_first { vec![(7, a.clone()), (9, a)] } else { Vec::new() };
        assert_eq!(found, expected.into_iter().collect());
    }

    #[test]
    fn this_kernel_counts_its_own() {
        assert!(of_machine().is_some());
    }
}
