//! Groups that a command nested as deep as it liked.

use super::*;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use surtax_instrument::probe::cgroup::{Hierarchy, Version};

/// Levels that a command makes: with names of the longest kind, their path is ten times longer than
/// any call takes.
const LEVELS: usize = 200;

/// Makes groups one below the other, and gives back the deepest.
fn deepest_below(top: &Path) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = openat(CWD, top, flags, Mode::empty()).unwrap();
    let name = "x".repeat(250);
    for _ in 0..LEVELS {
        mkdirat(&here, &name, Mode::RWXU).unwrap();
        mkdirat(&here, "beside", Mode::RWXU).unwrap();
        here = openat(&here, &name, flags, Mode::empty()).unwrap();
    }
    here
}

#[test]
fn groups_that_are_nested_deeper_than_a_path_can_say_are_removed_with_who_is_in_them() {
    removed_with_who_is_in_them(true);
}

#[test]
fn who_has_left_the_groups_that_can_be_killed_at_once_is_killed_in_the_deep_ones_of_others() {
    let groups = Groups::discover().unwrap();
    if groups.hierarchies().0.iter().any(|one| one.version == Version::One) {
        removed_with_who_is_in_them(false);
    }
}

fn removed_with_who_is_in_them(is_in_all: bool) {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("deep").unwrap();
    let process = room.spawn(program(&["sleep", "1000"])).unwrap();
    let pid = process.pid();
    let wanted = |one: &&Hierarchy| {
        one.version == Version::Two || one.controllers.iter().any(|name| name == "freezer")
    };
    let hierarchies = lab.hierarchies().0.iter().filter(wanted);
    for hierarchy in hierarchies {
        if !is_in_all && hierarchy.version == Version::Two {
            fs::write(hierarchy.mount_point.join("cgroup.procs"), pid.to_string()).unwrap();
            continue;
        }
        let deepest = deepest_below(&hierarchy.directory(room.group()));
        let door = openat(&deepest, "cgroup.procs", OFlags::WRONLY, Mode::empty()).unwrap();
        rustix::io::write(&door, pid.to_string().as_bytes()).unwrap();
        let members = room.members(room.group());
        assert!(members.iter().any(|member| member.0 == pid), "{members:?}");
    }
    let found = room.close().unwrap();
    assert_eq!(found, [format!("process `sleep` ({pid}) was still alive")]);
    assert!(!is_alive(pid));
    let id = lab.id().to_owned();
    lab.close().unwrap();
    assert_eq!(traces(&id), Vec::<String>::new());
    drop(process);
}
