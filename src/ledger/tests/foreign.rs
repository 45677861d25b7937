//! A ledger that somebody else could have written, by its own file or by one beside it, is not this
//! user's own.

use super::super::fixture::{add, done, id, ledger, plan};
use super::super::write::connected;
use super::super::{Ledger, RunState, files, hold};
use super::shelf;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Nobody's number on Debian.
const SOMEBODY: u32 = 65_534;

/// Tells whether files can be given to somebody else here; if not, that is said.
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
    files::Files::open(path, rustix::fs::OFlags::RDONLY).unwrap().is_own()
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

/// Tells whether a database of ours alone has a journal or a log beside it that is not.
fn is_mixed(path: &Path) -> bool {
    let is_own = |path: &Path| {
        let found = path.symlink_metadata();
        found.is_ok_and(|it| {
            it.uid() == rustix::process::geteuid().as_raw() && it.mode() & 0o022 == 0
        })
    };
    let is_read = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_file());
    let mut beside = ["-wal", "-journal"].map(|ending| beside(path, ending)).into_iter();
    is_own(path) && beside.any(|path| is_read(&path) && !is_own(&path))
}

#[track_caller]
fn assert_refused(path: &Path, expected: &str) {
    assert!(!is_own(path), "{expected}");
    let before = std::fs::read(path).unwrap();
    let fault = Ledger::resume(path).unwrap_err();
    assert!(fault.message.contains(expected) && fault.hint.is_some(), "{expected}: {fault}");
    assert!(before == std::fs::read(path).unwrap(), "{expected}");
    let can_be_read = !is_mixed(path);
    match Ledger::open(path) {
        Ok(ledger) => {
            assert!(can_be_read, "{expected}: somebody else's pages were read as our own");
            assert!(ledger.require_own().is_err(), "{expected}: nobody is asked to go on with it");
        }
        Err(fault) => {
            assert!(!can_be_read && fault.message.contains(expected), "{expected}: {fault}")
        }
    }
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
fn numbers_that_somebody_else_laid_beside_our_ledger_are_not_shown_and_theirs_are() {
    if !is_root() {
        return;
    }
    let (shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    writer.finish(RunState::Finished).unwrap();
    drop(writer);
    lay_log(&path);
    let title = || Ledger::open(&path).map(|ledger| ledger.run().unwrap().title);
    assert_eq!(title().unwrap(), "make of a small tree", "it has no log");
    chown(beside(&path, "-wal"), Some(SOMEBODY), None).unwrap();
    assert!(title().unwrap_err().message.contains("belongs to user 65534"));
    chown(&path, Some(SOMEBODY), None).unwrap();
    assert_eq!(title().unwrap(), "make of a small tree");
    assert_eq!(everything(shelf.path()).len(), 2);
}

#[test]
fn a_log_that_a_ledger_knows_nothing_of_is_not_taken_into_it_even_as_our_own() {
    let (shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    writer.finish(RunState::Interrupted).unwrap();
    drop(writer);
    lay_log(&path);
    let before = everything(shelf.path());
    let fault = Ledger::resume(&path).unwrap_err();
    assert!(fault.message.contains("lies beside a run that has no such file"), "{fault}");
    assert!(before == everything(shelf.path()));
    std::fs::remove_file(beside(&path, "-wal")).unwrap();
    assert_eq!(Ledger::resume(&path).unwrap().run().unwrap().title, "make of a small tree");
}

#[test]
fn a_pipe_beside_a_ledger_keeps_nobody_waiting() {
    for ending in ["-shm", "-wal"] {
        let (_shelf, path) = interrupted();
        let pipe = beside(&path, ending);
        let _ = std::fs::remove_file(&pipe);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(connected(&path).and_then(|it| count(&it)).is_err(), "{ending}");
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

/// The names in a directory, with whose each file is and what it holds.
fn everything(shelf: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let found = std::fs::read_dir(shelf).unwrap().flatten();
    let mut all: Vec<_> = found
        .map(|it| (it.path(), it.metadata().unwrap().uid(), std::fs::read(it.path()).unwrap()))
        .collect();
    all.sort();
    all
}

/// Counts the trials that SQLite finds.
fn count(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM trials", [], |row| row.get(0))
}

/// A log that makes another run of a ledger without one: its title is changed.
fn lay_log(path: &Path) {
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("copy");
    std::fs::copy(path, &copy).unwrap();
    let connection = rusqlite::Connection::open(&copy).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.execute("UPDATE run SET title = 'forged'", []).unwrap();
    std::fs::copy(beside(&copy, "-wal"), beside(path, "-wal")).unwrap();
}

#[test]
fn a_log_of_which_nothing_is_known_yet_is_not_taken_in_when_the_connection_is_closed() {
    let (shelf, path) = interrupted();
    let before = everything(shelf.path());
    let connection = connected(&path).unwrap();
    assert_eq!(count(&connection), Ok(1));
    drop(connection);
    std::fs::remove_file(beside(&path, "-shm")).unwrap();
    assert!(before == everything(shelf.path()));
}

#[test]
fn what_somebody_else_lays_beside_a_ledger_as_sqlite_opens_it_is_not_opened() {
    if !is_root() {
        return;
    }
    for (ending, uid, mode) in [
        ("-wal", SOMEBODY, 0o600),
        ("-shm", SOMEBODY, 0o600),
        ("-wal", 0, 0o620),
        ("", SOMEBODY, 0o644),
    ] {
        let (shelf, path) = interrupted();
        let foreign = beside(&path, ending);
        if !foreign.exists() {
            std::fs::write(&foreign, "").unwrap();
        }
        chown(&foreign, Some(uid), None).unwrap();
        set_mode(&foreign, mode);
        let before = everything(shelf.path());
        let error = connected(&path).and_then(|it| count(&it)).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::CannotOpen), "{ending} of {uid}: {error}");
        assert!(before == everything(shelf.path()), "{ending} of {uid}: something was changed");
    }
}

#[test]
fn a_log_that_appears_when_a_run_has_ended_is_not_read_as_its_own() {
    let (shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    writer.finish(RunState::Finished).unwrap();
    let title = writer.run().unwrap().title;
    lay_log(&path);
    assert_eq!(writer.run().unwrap().title, title);
    drop(writer);
    assert_eq!(everything(shelf.path()).len(), 2, "nothing was taken away");
}
