//! Processes that a kernel did not make because a group may have no more of them.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | a group in which one was refused | `pids.events`: `max` | the same |
//!
//! - **Reads** whether any was refused in each group of a tree since it was made. Since Linux 6.11
//!   version 2 counts those of the groups below too.
//! - **Costs** one short file per group, and a walk through their directories.
//! - **Cannot see** refusals in a group that is gone by now; the kernel's log has those.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst`, "PID"; `kernel/cgroup/pids.c`.

use super::cgroup::Hierarchies;
use super::oom::counted_below;
use std::path::Path;

/// Number of groups of a tree in which a process was refused; none where they are not counted.
#[must_use]
pub fn refusing_groups(hierarchies: &Hierarchies, group: &Path) -> usize {
    let top = hierarchies.of("pids").map(|hierarchy| hierarchy.directory(group));
    let counts = top.map(|top| counted_below(top, "pids.events", "max")).unwrap_or_default();
    counts.into_values().filter(|count| *count > 0).count()
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::{Hierarchy, Version};
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn a_group_is_found_in_which_a_process_was_refused() {
        let tree = tree(&[
            ("room/pids.events", "max 0\n"),
            ("room/a/pids.events", "max 23\n"),
            ("room/b/pids.events", "max 0\n"),
            ("other/pids.events", "max 1\n"),
        ]);
        let (mount_point, root) = (tree.path().to_owned(), Path::new("/").to_owned());
        let controllers = vec![String::from("pids")];
        let all =
            Hierarchies(vec![Hierarchy { mount_point, root, version: Version::One, controllers }]);
        assert_eq!(refusing_groups(&all, Path::new("/room")), 1);
        assert_eq!(refusing_groups(&all, Path::new("/room/b")), 0);
        assert_eq!(refusing_groups(&Hierarchies::default(), Path::new("/room")), 0);
    }
}
