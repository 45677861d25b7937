//! SIGKILL at every system call of a lab's life that can change something: afterwards nothing of it
//! is there.
//!
//! Whatever was made stands in the journal before, so what a kill leaves is undone by the reaper,
//! or by the next start where the reaper was killed, too: the two take turns.

use super::tracer::{kill_at_each, mark, place};
use super::*;
use rustix::process::{Pid, Signal, kill_process};

/// The name of [`a_life`], for the program that is started again.
const LIFE: &str = "lab::tests::kill_points::a_life";

/// The name of the test that kills.
const LIVES: &str =
    "lab::tests::kill_points::a_kill_at_every_system_call_of_its_life_leaves_nothing_of_a_lab";

/// Leads the life that is traced between the two marks: opens a lab, uses one room of it, and
/// closes both.
#[test]
fn a_life() {
    let Some(state) = place() else { return };
    mark();
    let lab = lab(&state);
    println!("lab {}", lab.id());
    let room = lab.room("one").unwrap();
    for directory in
        [room.directory(), room.memory_directory().unwrap(), room.disk_directory().unwrap()]
    {
        fs::write(directory.join("file"), "x").unwrap();
    }
    let root = room.memory_directory().unwrap();
    let overlay = Mount::Overlay {
        lower: PathBuf::from("/"),
        upper: root.join("upper"),
        work: root.join("work"),
        target: root.join("root"),
    };
    let mut stays = program(&["sleep", "1000"]);
    stays.mount_namespace = Some(room.mount_namespace(&[overlay]).unwrap());
    let _stays = room.spawn(stays).unwrap();
    room.close().unwrap();
    lab.close().unwrap();
    println!("closed");
    mark();
}

#[test]
fn a_kill_at_every_system_call_of_its_life_leaves_nothing_of_a_lab() {
    kill_at_each(LIVES, LIFE, before, assert_gone);
}

/// Returns the id of the lab whose journal there is; every other time its reaper is killed, too.
fn before(state: &Path, point: usize) -> Option<String> {
    if point % 2 == 1 {
        reapers_below(state).into_iter().for_each(|pid| {
            // It may have just ended.
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        });
    }
    let mut journals = fs::read_dir(state).unwrap().flatten().map(|entry| entry.path());
    journals.find_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
}

/// Demands that nothing of the lab is left once it was undone.
fn assert_gone(state: &Path, said: &str, point: usize, written: Option<String>) {
    let journals = || fs::read_dir(state).unwrap().flatten().map(|entry| entry.path());
    let named = said.lines().find_map(|line| line.strip_prefix("lab ")).map(String::from);
    let swept = sweep::orphans(state).unwrap();
    assert!(swept.kept.is_empty() && swept.elsewhere.is_empty(), "point {point}: {swept:?}");
    assert_eq!(journals().count(), 0, "point {point}");
    // Without a journal, and before it said its name, it had made nothing.
    let Some(id) = named.or(written) else { return };
    let is_gone = || traces(&id).is_empty() && reapers_below(state).is_empty();
    eventually(&format!("point {point}: nothing of `{id}` is left: {:?}", traces(&id)), is_gone);
}

/// The reapers of journals in this directory.
fn reapers_below(state: &Path) -> Vec<u32> {
    let of_state = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let last = line.split(|byte| *byte == 0).rfind(|word| !word.is_empty());
        let path = last.map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        Path::new(&path).starts_with(state)
    };
    processes::ids().unwrap().filter(of_state).collect()
}
