//! Of users without privileges: no two the same, and what a program of theirs is.

use super::*;
use crate::lab::Program;
use crate::lab::tests::lab;
use std::io::Read;

#[test]
fn no_two_hold_the_same_number_and_one_that_is_given_back_is_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let (one, held) = take(&path, 7).unwrap().unwrap();
    let (other, _other_held) = take(&path, 7).unwrap().unwrap();
    assert_eq!((one, other), (7, 8));
    drop(held);
    assert_eq!(take(&path, 7).unwrap().unwrap().0, 7);
    assert_eq!(take(&path, COUNT - 1).unwrap().unwrap().0, COUNT - 1);
}

#[test]
fn the_numbers_are_such_as_the_user_namespace_has() {
    assert_eq!(first_of("         0          0 4294967295\n"), Some(FIRST));
    assert_eq!(first_of("0 999948288 65536\n"), Some(65_536 - COUNT - 2));
    assert_eq!(first_of("0 1000 1\n1 100000 65535\n"), None);
    assert_eq!(first_of("0 1000 1\n"), None);
}

/// Runs a confined program; returns its user's number and its `/proc/self/status`.
fn status(capabilities: CapabilitySet) -> (u32, String) {
    let directory = tempfile::tempdir().unwrap();
    let lab = lab(directory.path());
    let room = lab.room("confined").unwrap();
    let user = room.unprivileged().unwrap();
    let (output, said) = crate::lab::pipe().unwrap();
    let mut process = room
        .spawn(Program {
            argv: ["cat", "/proc/self/status"].map(String::from).to_vec(),
            stdio: [None, Some(said), None],
            confinement: Some(user.with(capabilities)),
            ..Program::default()
        })
        .unwrap();
    let mut text = String::new();
    File::from(output).read_to_string(&mut text).unwrap();
    assert!(process.wait(std::time::Duration::from_secs(10)).unwrap().unwrap().success());
    room.close().unwrap();
    lab.close().unwrap();
    (user.number(), text)
}

#[track_caller]
fn assert_says(text: &str, key: &str, expected: &str) {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words.join(" "), expected, "{key}\n{text}");
}

#[test]
fn a_confined_program_has_no_user_group_or_capability_of_ours_and_can_get_none() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (user, text) = status(CapabilitySet::empty());
    for key in ["Uid:", "Gid:"] {
        assert_says(&text, key, &format!("{user} {user} {user} {user}"));
    }
    assert_says(&text, "Groups:", "");
    for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_says(&text, key, "0000000000000000");
    }
    assert_says(&text, "NoNewPrivs:", "1");
}

#[test]
fn a_confined_program_keeps_the_one_capability_that_it_was_left() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_, text) = status(CapabilitySet::DAC_READ_SEARCH);
    for key in ["CapPrm:", "CapEff:", "CapBnd:"] {
        assert_says(&text, key, "0000000000000004");
    }
}
