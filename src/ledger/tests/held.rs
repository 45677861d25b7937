//! Tests of what a ledger's hold leaves alone: SQLite's locks of this process, and locks of others
//! that mean something else.

use super::super::fixture::{add, done, id, ledger};
use super::super::{Ledger, RunState};
use super::shelf;
use crate::lab::byte_lock::{Lock, of_others};
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::Path;

/// The first byte that SQLite locks to read. Source: SQLite, `os.h`.
const SHARED_FIRST: i64 = 0x4000_0002;

/// Offset of the byte of a hold.
const HOLD: i64 = 1 << 62;

/// A descriptor that asks for locks, and is never closed: that would drop those of this process.
fn probe(path: &Path) -> &'static File {
    Box::leak(Box::new(File::open(path).unwrap()))
}

#[test]
fn a_hold_is_a_byte_that_sqlite_never_locks_and_is_let_go_of_at_the_end() {
    let (_shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    let probe = probe(&path);
    assert_eq!(of_others(probe, HOLD), Ok(Lock::Exclusive));
    add(&mut writer, &done(id(0, 0), 10));
    writer.finish(RunState::Interrupted).unwrap();
    assert_eq!(of_others(probe, HOLD), Ok(Lock::None));
    assert_eq!(writer.run().unwrap().state, RunState::Interrupted);
    let second = Ledger::resume(&path).unwrap();
    assert_eq!(writer.run().unwrap().state, RunState::Running, "somebody else goes on with it");
    drop(second);
}

#[test]
fn a_lock_of_the_whole_file_keeps_nobody_from_a_ledger() {
    let (_shelf, path) = shelf();
    drop(ledger(&path, &["native"]));
    let reader = probe(&path);
    rustix::fs::flock(reader, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(Ledger::open(&path).unwrap().run().unwrap().state, RunState::Interrupted);
    Ledger::resume(&path).unwrap();
}

#[test]
fn sqlite_keeps_its_locks_when_a_writer_is_asked_for_its_run_and_when_it_lets_go() {
    let (_shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    let probe = probe(&path);
    add(&mut writer, &done(id(0, 0), 10));
    assert_eq!(of_others(probe, SHARED_FIRST), Ok(Lock::Shared), "a log is open");
    // Who reads keeps the log from being taken into the file, so the connection stays as it is.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM run").unwrap();
    writer.finish(RunState::Interrupted).unwrap();
    assert_eq!(of_others(probe, SHARED_FIRST), Ok(Lock::Shared), "after its end");
    assert_eq!(writer.run().unwrap().state, RunState::Interrupted);
    assert_eq!(of_others(probe, SHARED_FIRST), Ok(Lock::Shared), "after a question");
}

#[test]
fn sqlite_keeps_its_locks_when_a_large_ledger_is_opened_and_asked_for_its_run() {
    let (_shelf, path) = shelf();
    drop(ledger(&path, &["native"]));
    // What is behind the last page is no part of the database.
    File::options().write(true).open(&path).unwrap().set_len(65 << 20).unwrap();
    let probe = probe(&path);
    let reader = Ledger::open(&path).unwrap();
    assert!(reader.trials().unwrap().is_empty());
    assert_eq!(of_others(probe, SHARED_FIRST), Ok(Lock::Shared), "after it was opened");
    assert_eq!(reader.run().unwrap().state, RunState::Interrupted);
    assert_eq!(of_others(probe, SHARED_FIRST), Ok(Lock::Shared), "after a question");
}
