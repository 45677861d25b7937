//! A ledger that somebody else could have written, by its own file or by one beside it, is not this user's own.

use super::super::fixture::{add, done, id, ledger, plan};
use super::super::{Ledger, RunState, files, hold};
use super::shelf;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Nobody's number on Debian.
const SOMEBODY: u32 = 65_534;

/// Whether files can be given to somebody else here; if not, that is said.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: only root can make a file of somebody else's");
    }
    is_root
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn is_own(path: &Path) -> bool {
    files::Files::open(path).unwrap().is_own()
}

/// An interrupted run whose log lies beside it.
fn interrupted() -> (tempfile::TempDir, PathBuf) {
    let (shelf, path) = shelf();
    let living = shelf.path().join("living.surtax");
    let mut writer = ledger(&living, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    for ending in ["", "-wal"] {
        std::fs::copy(beside(&living, ending), beside(&path, ending)).unwrap();
    }
    (shelf, path)
}

#[track_caller]
fn assert_refused(path: &Path, expected: &str) {
    assert!(!is_own(path), "{expected}");
    let before = std::fs::read(path).unwrap();
    let fault = Ledger::resume(path).unwrap_err();
    assert!(fault.message.contains(expected) && fault.hint.is_some(), "{expected}: {fault}");
    assert!(before == std::fs::read(path).unwrap(), "{expected}");
    assert!(Ledger::open(path).is_ok(), "{expected}: it can be read");
}

#[test]
fn a_file_beside_a_ledger_that_somebody_else_made_makes_it_foreign_and_nothing_is_written() {
    if !is_root() {
        return;
    }
    for ending in ["", "-wal", "-journal", "-shm"] {
        let (_shelf, path) = interrupted();
        assert!(is_own(&path));
        let foreign = beside(&path, ending);
        if !foreign.exists() {
            std::fs::write(&foreign, "something").unwrap();
        }
        chown(&foreign, Some(SOMEBODY), None).unwrap();
        assert_refused(&path, "belongs to user 65534");
        chown(&foreign, Some(0), None).unwrap();
        Ledger::resume(&path).unwrap();
    }
}

#[test]
fn a_file_that_others_may_write_makes_a_ledger_foreign_and_nothing_is_written() {
    for (ending, mode) in [("", 0o620), ("", 0o602), ("-wal", 0o660), ("-wal", 0o606)] {
        let (_shelf, path) = interrupted();
        let open = beside(&path, ending);
        set_mode(&open, mode);
        assert_refused(&path, &format!("(mode {mode:04o})"));
        set_mode(&open, 0o644);
        Ledger::resume(&path).unwrap();
    }
}

#[test]
fn what_is_no_file_beside_a_ledger_makes_it_foreign() {
    let (_shelf, path) = interrupted();
    std::os::unix::fs::symlink("/etc/passwd", beside(&path, "-journal")).unwrap();
    assert_refused(&path, "is no regular file");
}

#[test]
fn a_run_is_not_begun_beside_what_somebody_else_left_there() {
    if !is_root() {
        return;
    }
    let (shelf, path) = shelf();
    std::fs::write(beside(&path, "-wal"), "something").unwrap();
    chown(beside(&path, "-wal"), Some(SOMEBODY), None).unwrap();
    let fault = Ledger::create(&path, &plan(&["native"]), &[]).unwrap_err();
    assert!(fault.message.contains("belongs to user 65534"), "{fault}");
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_run_that_is_exchanged_under_its_hold_is_not_gone_on_with() {
    let (shelf, path) = shelf();
    let mut first = ledger(&path, &["native"]);
    first.finish(RunState::Interrupted).unwrap();
    drop(first);
    let other = shelf.path().join("other.surtax");
    drop(ledger(&other, &["native"]));
    let hold = hold::take(&path).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let fault = hold.require_named().unwrap_err();
    assert!(fault.message.contains("exchanged for another file"), "{fault}");
    let reader = Ledger::open(&path).unwrap();
    let fault = hold.require_same(&reader.hold).unwrap_err();
    assert!(fault.message.contains("was replaced after it was read"), "{fault}");
}
