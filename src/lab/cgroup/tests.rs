//! Groups on machines that have less than this one.

use super::*;

impl Groups {
    /// As on a machine that has cgroup v1 only: nothing there kills a whole group at once.
    pub(in crate::lab) fn without_unified(mut self) -> Self {
        self.hierarchies.0.retain(|hierarchy| hierarchy.version == Version::One);
        self
    }

    /// As on a machine that has cgroup v2 only, with this controller in the place of ours.
    pub(in crate::lab) fn unified_with(mut self, controller: &str) -> Self {
        self.hierarchies.0.retain(|hierarchy| hierarchy.version == Version::Two);
        self.enabled = vec![controller.to_owned()];
        self
    }
}

#[test]
fn a_limit_without_its_controller_is_refused_with_the_reason() {
    let mut groups = Groups::default();
    groups.prepare(Path::new("surtax-nobody")).unwrap();
    let limits = crate::lab::Limits { pids: Some(1), ..Default::default() };
    let fault = groups.limit(Path::new("surtax-nobody"), &limits).unwrap_err();
    assert_eq!(
        fault.message,
        "there is no cgroup controller `pids` to limit with: \
         there is no cgroup hierarchy: nothing can be counted or limited"
    );
}

#[test]
fn what_is_below_a_controller_that_nobody_has_is_not_asked_for() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("cgroup.controllers"), "cpu io memory\n").unwrap();
    fs::write(place.path().join("cgroup.subtree_control"), "memory\n").unwrap();
    assert_eq!(available(place.path()), ["cpu", "io", "memory"]);
    let names = [String::from("cpu"), String::from("memory")];
    assert_eq!(missing(place.path(), &names), ["cpu"]);
    enable(place.path(), &missing(place.path(), &names), Occupied::Ask).unwrap();
    assert_eq!(fs::read_to_string(place.path().join("cgroup.subtree_control")).unwrap(), "+cpu");
}

#[test]
fn this_level_is_not_taken_for_one_of_ours() {
    assert!(!is_level_ours());
}
