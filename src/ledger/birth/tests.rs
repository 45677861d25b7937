//! Names that are taken, files that were left, and eight who want one name at once.

use super::*;
use crate::ledger::fixture::{add, done, id, ledger, plan};
use crate::ledger::{Ledger, RunState, shelf};
use surtax_instrument::quantity::Nanoseconds;

#[test]
fn runs_that_begin_at_once_get_a_name_each() {
    let shelf = tempfile::tempdir().unwrap();
    let begin = || {
        let names = shelf::names(shelf.path(), "make", Nanoseconds(0)).unwrap();
        Ledger::create_first(names, &plan(&["native"]), &[], None).unwrap()
    };
    let ledgers: Vec<Ledger> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        begun.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let names: std::collections::BTreeSet<_> =
        ledgers.iter().map(|it| it.path().to_path_buf()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!(shelf::list(&[shelf.path()]).unwrap().len(), 8);
}

#[test]
fn a_run_file_is_for_whoever_made_it_alone_and_so_is_what_lies_beside_it() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    let mut ledger = ledger(&path, &["native"]);
    add(&mut ledger, &done(id(0, 0), 10));
    let modes = || {
        let found = std::fs::read_dir(shelf.path()).unwrap().flatten();
        found.map(|it| it.metadata().unwrap().mode() & 0o777).collect::<Vec<_>>()
    };
    assert_eq!(modes(), [0o600; 3]);
    ledger.finish(RunState::Finished).unwrap();
    drop(ledger);
    assert_eq!(modes(), [0o600]);
}

#[test]
fn a_name_that_is_taken_is_not_written_over_and_an_empty_file_is_told_with_its_remedy() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    std::fs::write(&path, "").unwrap();
    let fault = Ledger::create(&path, &plan(&["native"]), &[]).unwrap_err();
    assert!(fault.message.contains("no run was ever begun in it"), "{fault}");
    assert!(fault.hint.unwrap().contains("rm "));
    std::fs::write(&path, "mine").unwrap();
    let fault = Ledger::create(&path, &plan(&["native"]), &[]).unwrap_err();
    assert!(fault.message.ends_with("already exists"), "{fault}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_log_that_a_removed_run_left_is_not_taken_into_another_run() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    let mut removed = ledger(&path, &["native", "runc"]);
    add(&mut removed, &done(id(0, 0), 10));
    std::fs::rename(&path, shelf.path().join("elsewhere")).unwrap();
    let fault = Ledger::create(&path, &plan(&["native"]), &[]).unwrap_err();
    assert!(fault.message.contains("run.surtax-wal` is left of another run"), "{fault}");
    assert!(fault.hint.unwrap().contains("rm "));
    assert!(!path.exists());
    drop(removed);
}

#[test]
fn where_no_file_is_without_a_name_what_a_killed_process_left_is_removed() {
    let shelf = tempfile::tempdir().unwrap();
    let stale = shelf.path().join(format!("{PART}1-run"));
    std::fs::write(&stale, "half a run").unwrap();
    let held = shelf.path().join(format!("{PART}2-run"));
    let file = made(&held).unwrap();
    let _hold = hold::take_of(Files::of(&held, file)).unwrap();
    let unnamed = Unnamed::make_part(shelf.path()).unwrap();
    assert!(!stale.exists() && held.exists());
    let path = shelf.path().join("run.surtax");
    std::fs::write(&path, "taken").unwrap();
    assert_eq!(unnamed.take_name(&path), Err(Errno::EXIST));
    std::fs::remove_file(&path).unwrap();
    unnamed.take_name(&path).unwrap();
    drop(unnamed);
    assert!(path.exists());
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 2);
}
