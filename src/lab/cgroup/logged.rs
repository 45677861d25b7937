//! A group as the kernel's log names it.
//!
//! The log has the path from the root of the hierarchy, whatever this machine's part of it is.
//! Where that is all of it, names are compared whole: in a group of their own, people without
//! privileges name groups as they like. In a container the beginning is unknown, and nobody but its
//! own root makes groups there.

use std::path::Path;
use surtax_instrument::probe::cgroup::Hierarchies;

/// The kernel's first cgroup namespace. Source: `PROC_CGROUP_INIT_INO` in Linux
/// `include/linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// A group that is looked for in the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedGroup {
    /// With a `/` in front.
    path: String,
    /// True if `path` is the whole path in the log: nothing stands before it.
    is_whole: bool,
}

impl LoggedGroup {
    /// `group` is relative to where the hierarchies are mounted.
    pub(in crate::lab) fn of(group: &Path, hierarchies: &Hierarchies) -> Self {
        let namespace = std::fs::read_link("/proc/self/ns/cgroup").unwrap_or_default();
        let memory = hierarchies.of("memory").map(|hierarchy| hierarchy.root.as_path());
        let is_whole = namespace == Path::new(FIRST_NAMESPACE)
            && memory.is_none_or(|root| root == Path::new("/"));
        Self { path: format!("/{}", group.display()), is_whole }
    }

    /// Tells whether a group of the log is this one or below it.
    #[must_use]
    pub fn has(&self, found: &str) -> bool {
        let rest = match self.is_whole {
            true => found.strip_prefix(&self.path),
            false => found.find(&self.path).and_then(|at| found.get(at + self.path.len()..)),
        };
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Counts the labs that a group is in: each starter has one of its own, below the group of the
/// layer that holds it.
#[must_use]
pub fn labs(group: &str) -> usize {
    let is_lab = |name: &&str| {
        let id = name.strip_prefix("surtax-");
        id.is_some_and(|id| id != "starter" && !id.ends_with(".scope"))
    };
    group.split('/').filter(is_lab).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(is_whole: bool) -> LoggedGroup {
        LoggedGroup { path: String::from("/surtax-1/0-3-3"), is_whole }
    }

    #[test]
    fn a_group_has_what_is_below_it_and_not_its_namesake_at_another_place() {
        let whole = group(true);
        assert!(whole.has("/surtax-1/0-3-3/container") && whole.has("/surtax-1/0-3-3"));
        assert!(!whole.has("/surtax-1/0-3-31") && !whole.has("/surtax-1/0-3-3-outside/x"));
        assert!(!whole.has("/user.slice/user-1000.slice/surtax-1/0-3-3"));
    }

    #[test]
    fn in_a_container_the_beginning_is_left_open() {
        let part = group(false);
        assert!(part.has("/docker/x/surtax-1/0-3-3") && part.has("/surtax-1/0-3-3/container"));
        assert!(!part.has("/docker/x/surtax-1/0-3-31") && !part.has("/docker/x"));
    }

    #[test]
    fn a_part_of_a_hierarchy_is_not_all_of_it() {
        let hierarchies = |root: &str| {
            let mut all = Hierarchies::discover().unwrap();
            all.0.iter_mut().for_each(|hierarchy| hierarchy.root = root.into());
            all
        };
        let part = LoggedGroup::of(Path::new("surtax-1/room"), &hierarchies("/docker/x"));
        assert_eq!(part.path, "/surtax-1/room");
        assert!(hierarchies("/").of("memory").is_none() || !part.is_whole);
    }
}
