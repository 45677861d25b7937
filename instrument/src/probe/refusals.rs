//! Processes that a kernel did not make because a group may have no more of them.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | refusals | `max` of `pids.events.local`, before Linux 6.11 of `pids.events` | `pids.events` |
//!
//! - **Reads** how often one was refused in each group of a tree since it was made. With
//!   `pids.events.local` that is the group whose limit was reached, else the one whose process
//!   asked.
//! - **Costs** one short file per group, and a walk through their directories.
//! - **Cannot see** refusals in a group that is gone by now, nor, with `pids.events.local`, those
//!   by a limit of a group around the tree; the kernel's log has those.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst`, "PID"; `kernel/cgroup/pids.c`.

use super::cgroup::Hierarchies;
use crate::group_counts::{Counts, below, rise};
use std::ffi::CStr;
use std::path::Path;

/// Since Linux 6.11 the second of version 2 counts those of the groups below as well.
const EVENTS: [&CStr; 2] = [c"pids.events.local", c"pids.events"];

/// The refusals that the groups of a tree have counted since each was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals(Counts);

impl Refusals {
    /// Reads those of a group and all below it, given its path relative to the mount points; `None`
    /// where they are not counted.
    #[must_use]
    pub fn of_group(hierarchies: &Hierarchies, group: &Path) -> Option<Self> {
        let top = hierarchies.of("pids")?.directory(group);
        let counts = below(&top, "max", &EVENTS, |_, _, _| ());
        (!counts.is_empty()).then_some(Self(counts))
    }

    /// Number of groups in which a process was refused.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.0.values().filter(|count| **count > 0).count()
    }

    /// Counts the refusals since an earlier reading. A group that was made in between began at
    /// none.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> u64 {
        rise(&self.0, &earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::{Hierarchy, Version};
    use super::super::tests::tree;
    use super::*;

    fn of(files: &[(&str, &str)], version: Version, group: &str) -> Option<Refusals> {
        let tree = tree(files);
        let (mount_point, root) = (tree.path().to_owned(), Path::new("/").to_owned());
        let controllers = vec![String::from("pids")];
        let all = Hierarchies(vec![Hierarchy { mount_point, root, version, controllers }]);
        Refusals::of_group(&all, Path::new(group))
    }

    #[test]
    fn a_group_is_found_in_which_a_process_was_refused() {
        let files = [
            ("room/pids.events", "max 0\n"),
            ("room/a/pids.events", "max 23\n"),
            ("room/b/pids.events", "max 0\n"),
            ("other/pids.events", "max 1\n"),
        ];
        for version in [Version::One, Version::Two] {
            let count = |group| of(&files, version, group).map(|found| found.group_count());
            assert_eq!(["/room", "/room/b", "/nobody"].map(count), [Some(1), Some(0), None]);
            let found = of(&files, version, "/room").unwrap();
            assert_eq!(found.since(&Refusals::default()), 23);
        }
        assert_eq!(Refusals::of_group(&Hierarchies::default(), Path::new("/room")), None);
    }

    #[test]
    fn a_refusal_is_not_counted_again_in_each_group_around_it() {
        let files = [
            ("room/pids.events", "max 7\n"),
            ("room/pids.events.local", "max 0\n"),
            ("room/a/pids.events", "max 7\n"),
            ("room/a/pids.events.local", "max 7\n"),
        ];
        let found = of(&files, Version::Two, "/room").unwrap();
        assert_eq!((found.group_count(), found.since(&Refusals::default())), (1, 7));
    }
}
