//! The lab as a whole: rooms, and deaths.

use super::*;
use crate::lab::Limits;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::{Bytes, Nanoseconds};

mod death;
mod deep_groups;
mod kill_points;
mod networks;
mod rooms;
mod services;
pub(crate) mod tracer;

/// See [`reaper_command_line`]: the journal is the last argument then, and no argument otherwise.
#[test]
fn this_process_is_the_reaper() {
    let last = std::env::args_os().next_back().map(PathBuf::from);
    if let Some(path) = last.filter(|path| path.extension().is_some_and(|end| end == "journal")) {
        reaper_main(std::iter::once(path.into_os_string()));
    }
}

/// A lab with journals of its own, so that no other test sweeps them.
pub(crate) fn lab(state: &Path) -> Lab {
    lab_in(state, Groups::discover().unwrap())
}

fn lab_in(state: &Path, groups: Groups) -> Lab {
    let state_directory = state.to_path_buf();
    Lab::set_up(&Setup { state_directory, reaper: reaper_command_line(), executable: None, groups })
        .unwrap()
}

fn program(words: &[&str]) -> Program {
    Program { argv: words.iter().map(|word| String::from(*word)).collect(), ..Program::default() }
}

/// Runs a program of a room to its end and gives back what it printed.
pub(crate) fn output(room: &Room, mut program: Program) -> String {
    let (mut read, write) = pipe();
    program.stdio[1] = Some(write);
    let mut process = room.spawn(program).unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    let status = process.wait(Duration::from_secs(10)).unwrap().unwrap();
    assert!(status.success(), "{status}: {text}");
    text
}

fn pipe() -> (File, OwnedFd) {
    let (read, write) = super::pipe().unwrap();
    (File::from(read), write)
}

/// Everything on this machine that carries a lab's id.
fn traces(id: &str) -> Vec<String> {
    let mut traces = Vec::new();
    let mut places =
        vec![PathBuf::from("/run/surtax"), PathBuf::from("/dev/shm"), PathBuf::from("/var/tmp")];
    places.extend(Hierarchies::discover().unwrap().0.into_iter().map(|one| one.mount_point));
    for place in places {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(id) {
                traces.push(entry.path().display().to_string());
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    traces.extend(mounts.lines().filter(|line| line.contains(id)).map(String::from));
    traces
}

fn is_alive(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until something is so, at most 20 s.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begin = monotonic_raw();
    while !is_so() {
        assert!(monotonic_raw().since(begin) < Nanoseconds(20_000_000_000), "not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
