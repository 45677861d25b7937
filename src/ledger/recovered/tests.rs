//! Comparison of what is recovered here with what SQLite itself recovers, from the same files.

use super::*;
use crate::ledger::fixture::{add, done, id, ledger};
use crate::ledger::{Ledger, RunState};
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

const LIMIT: usize = 64 << 20;

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

/// Copies the database and what SQLite believes of what lies beside it.
fn copy(from: &Path, to: &Path) {
    for ending in ["", "-wal", "-journal"] {
        let _ = std::fs::remove_file(beside(to, ending));
        let _ = std::fs::copy(beside(from, ending), beside(to, ending));
    }
}

/// The bytes after SQLite's own recovery of a copy, without its counters of changes.
fn by_sqlite(path: &Path) -> Option<Vec<u8>> {
    let elsewhere = tempfile::tempdir().unwrap();
    let to = elsewhere.path().join("copy");
    copy(path, &to);
    let connection = Connection::open(&to).unwrap();
    let read = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    read.and_then(|()| connection.pragma_update(None, "journal_mode", "DELETE")).ok()?;
    drop(connection);
    Some(settled(std::fs::read(&to).unwrap()))
}

fn settled(mut bytes: Vec<u8>) -> Vec<u8> {
    for range in [18..20, 24..28, 92..100] {
        bytes.get_mut(range).unwrap_or_default().fill(0);
    }
    bytes
}

fn by_us(path: &Path) -> Vec<u8> {
    settled(image(&Files::open(path, rustix::fs::OFlags::RDONLY).unwrap(), LIMIT).unwrap())
}

/// A ledger whose writer was killed with so many trials in the log, the last one not ended.
fn interrupted(shelf: &Path, trials: u32) -> PathBuf {
    let (from, path) = (shelf.join("living.surtax"), shelf.join("run.surtax"));
    let mut writer = ledger(&from, &["native", "runc"]);
    for block in 0..trials {
        add(&mut writer, &done(id(block, 0), 10 + u64::from(block)));
    }
    writer.begin_trial(id(trials, 0)).unwrap();
    copy(&from, &path);
    path
}

/// A finished ledger with a hot journal: a transaction that had changed the file was killed before
/// its end.
fn half_undone(shelf: &Path) -> PathBuf {
    let (from, path) = (shelf.join("changing.surtax"), shelf.join("undone.surtax"));
    let mut writer = ledger(&from, &["native"]);
    for block in 0..40 {
        add(&mut writer, &done(id(block, 0), 10));
    }
    writer.finish(RunState::Finished).unwrap();
    drop(writer);
    let connection = Connection::open(&from).unwrap();
    connection.pragma_update(None, "cache_size", 1).unwrap();
    let changes = "BEGIN; UPDATE samples SET value = value + 1; UPDATE run SET title = 'lost';
                   INSERT INTO logs (at_ns, severity, message) SELECT trial, 'note', hex(zeroblob(9000)) FROM trials";
    connection.execute_batch(changes).unwrap();
    copy(&from, &path);
    path
}

#[test]
fn what_is_recovered_is_what_sqlite_recovers_from_a_log_and_from_a_hot_journal() {
    let shelf = tempfile::tempdir().unwrap();
    for trials in [0, 1, 7] {
        let path = interrupted(shelf.path(), trials);
        assert!(beside(&path, "-wal").metadata().unwrap().len() > 0);
        assert!(by_sqlite(&path) == Some(by_us(&path)), "{trials} trials in the log");
        std::fs::remove_file(shelf.path().join("living.surtax")).unwrap();
    }
    let path = half_undone(shelf.path());
    assert!(beside(&path, "-journal").metadata().unwrap().len() > 512);
    let before = std::fs::read(&path).unwrap();
    assert!(by_us(&path) != settled(before), "nothing was rolled back");
    assert!(by_sqlite(&path) == Some(by_us(&path)));
}

#[test]
fn a_ledger_is_read_whatever_lies_beside_it_and_nothing_is_changed() {
    let shelf = tempfile::tempdir().unwrap();
    let unfinished = interrupted(shelf.path(), 3);
    let undone = half_undone(shelf.path());
    for (path, count) in [(&unfinished, 4), (&undone, 40)] {
        for ending in ["-shm", "-wal", "-journal"] {
            if !beside(path, ending).exists() {
                std::fs::write(beside(path, ending), "").unwrap();
            }
        }
        let all = || -> Vec<_> {
            let found = std::fs::read_dir(shelf.path()).unwrap().flatten();
            let mut all: Vec<_> =
                found.map(|it| (it.path(), std::fs::read(it.path()).unwrap())).collect();
            all.sort();
            all
        };
        let before = all();
        let reader = Ledger::open(path).unwrap();
        assert_eq!(reader.trials().unwrap().len(), count);
        assert_ne!(reader.run().unwrap().title, "lost");
        drop(reader);
        assert!(before == all(), "{}", path.display());
        let mut resumed = Ledger::resume(path).unwrap();
        resumed.void_unfinished().unwrap();
        assert_eq!(resumed.trials().unwrap().len(), count);
        resumed.finish(RunState::Finished).unwrap();
        drop(resumed);
        assert_eq!(Ledger::open(path).unwrap().trials().unwrap().len(), count);
        assert!(!beside(path, "-journal").exists() && !beside(path, "-wal").exists());
    }
}

#[test]
fn a_run_whose_journal_was_rolled_back_is_held_under_its_name() {
    let shelf = tempfile::tempdir().unwrap();
    let path = half_undone(shelf.path());
    let first = Ledger::resume(&path).unwrap();
    let fault = Ledger::resume(&path).map(drop).unwrap_err();
    assert!(fault.message.contains("a running surtax works on the run file"), "{fault}");
    assert_eq!(Ledger::open(&path).unwrap().run().unwrap().state, RunState::Running);
    drop(first);
    Ledger::resume(&path).unwrap();
}

/// The hot journal of a ledger, as a transaction over several databases ends it: page, name,
/// length, sum, magic.
fn journal_naming(victim: &Path, ledger: &Path) -> Vec<u8> {
    let name = victim.to_str().unwrap().as_bytes();
    let sum = name.iter().fold(0u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    let mut journal = std::fs::read(beside(ledger, "-journal")).unwrap();
    journal.extend(0x4000_0000u32.div_euclid(4096).to_be_bytes());
    journal.extend(name);
    journal.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
    journal.extend(sum.to_be_bytes());
    journal.extend(JOURNAL_MAGIC);
    journal
}

#[test]
fn a_journal_that_names_a_further_file_removes_nothing() {
    let shelf = tempfile::tempdir().unwrap();
    let path = half_undone(shelf.path());
    let victim = shelf.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::fs::write(beside(&path, "-journal"), journal_naming(&victim, &path)).unwrap();
    Ledger::open(&path).unwrap();
    Ledger::resume(&path).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_journal_that_appears_beside_a_living_run_is_not_obeyed() {
    let shelf = tempfile::tempdir().unwrap();
    let undone = half_undone(shelf.path());
    let victim = shelf.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let path = shelf.path().join("attacked.surtax");
    let mut writer = ledger(&path, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    std::fs::write(beside(&path, "-journal"), journal_naming(&victim, &undone)).unwrap();
    add(&mut writer, &done(id(1, 0), 10));
    writer.finish(RunState::Finished).unwrap();
    assert_eq!(writer.trials().unwrap().len(), 2);
    drop(writer);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_log_that_was_cut_or_changed_ends_where_it_ends_for_sqlite(
        cut in 0.0..1.0f64, flips in proptest::collection::vec((0.0..1.0f64, 1..=255u8), 0..3),
    ) {
        let shelf = tempfile::tempdir().unwrap();
        let path = interrupted(shelf.path(), 4);
        let mut log = std::fs::read(beside(&path, "-wal")).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a \
            place in a small file")]
        let place = |share: f64, length: usize| (share * length as f64) as usize;
        for (share, by) in flips {
            let at = place(share, log.len());
            log[at] ^= by;
        }
        // Half of them are whole.
        let length = if cut < 0.5 { log.len() } else { place(2.0 * cut - 1.0, log.len()) };
        log.truncate(length);
        std::fs::write(beside(&path, "-wal"), log).unwrap();
        prop_assert!(by_sqlite(&path) == Some(by_us(&path)));
    }
}
