//! Ledgers: a run file that a stranger wrote or changed, opened, judged, and shown in every format.
//!
//! The first byte says what the others are: the whole file, or changes of single cells of a good
//! one, which come through SQLite and so reach what a broken page never does.

use super::Target;
use crate::text::assert_inert;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use surtax::driver::{parse_list, registered};
use surtax::finding::compare;
use surtax::ledger::{Ledger, RunState};
use surtax::plan::{Defaults, Draft, Plan, TrialId};
use surtax::prove::example;
use surtax::report::terminal::{PLAIN, render};
use surtax::report::{export, html, markdown};
use surtax::trial::{Record, TrialResult};
use surtax_instrument::wire::Fact;

pub const TARGET: Target = Target { name: "ledger", run, seeds, folders: &[], longest: 512 << 10 };

/// The most cells that one input changes.
const CHANGES: usize = 24;

fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let path = place().join("run.surtax");
    if *kind == 0 {
        fs::write(&path, bytes).expect("there is room for a ledger");
    } else {
        fs::write(&path, good()).expect("there is room for a ledger");
        if change(&path, bytes).is_err() {
            return;
        }
    }
    read(&path);
}

/// Opens it and shows it, as `show`, `report` and `export` do.
fn read(path: &Path) {
    let Ok(ledger) = Ledger::open(path) else { return };
    let Ok(findings) = compare(&ledger) else { return };
    assert_inert("the terminal's table", &render(&findings, PLAIN));
    assert_inert("Markdown", &markdown::markdown(&findings));
    // The lines of CSV end with a carriage return, too (RFC 4180).
    assert_inert("CSV", &export::csv(&findings).replace("\r\n", "\n"));
    assert_inert("CSV of trials", &export::csv_trials(&findings).replace("\r\n", "\n"));
    assert_inert("HTML", &html::html(&findings));
    let json = export::json(&findings);
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "JSON is none: {json}");
}

/// Changes cells: of a table, a column and a row by their numbers, to a value.
fn change(path: &Path, mut bytes: &[u8]) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA \
                              ignore_check_constraints=ON; PRAGMA foreign_keys=OFF; BEGIN",
    )?;
    for _ in 0..CHANGES {
        let Some(([table, column, row, kind, length], rest)) = bytes.split_first_chunk() else {
            break;
        };
        let (value, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        let (table, columns) = &tables()[usize::from(*table) % tables().len()];
        let column = &columns[usize::from(*column) % columns.len()];
        let sql = format!(
            "UPDATE {table} SET {column} = ?1 WHERE rowid = (SELECT rowid FROM {table} ORDER BY \
             rowid LIMIT 1 OFFSET ?2 % max(1, (SELECT count(*) FROM {table})))"
        );
        // A value that its column does not take, or that is there already, changes nothing.
        let _changed = connection.execute(&sql, (value_of(*kind, value), i64::from(*row)));
    }
    connection.execute_batch("COMMIT")
}

fn value_of(kind: u8, bytes: &[u8]) -> Value {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    word[..count].copy_from_slice(&bytes[..count]);
    match kind % 5 {
        0 | 1 => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        2 => Value::Integer(i64::from_le_bytes(word)),
        3 => Value::Real(f64::from_le_bytes(word)),
        _ => Value::Blob(bytes.to_vec()),
    }
}

/// The tables of a ledger that have rows, with their columns.
fn tables() -> &'static [(String, Vec<String>)] {
    static TABLES: OnceLock<Vec<(String, Vec<String>)>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let path = place().join("tables.surtax");
        fs::write(&path, good()).expect("there is room for a ledger");
        let connection = Connection::open(&path).expect("a good ledger opens");
        let strings = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).expect("its schema is read");
            let rows = statement.query_map([], |row| row.get(0)).expect("its schema is read");
            rows.map(|row| row.expect("a name is text")).collect()
        };
        let names = strings(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER \
             BY name",
        );
        let columns = |name: String| {
            let columns = strings(&format!("SELECT name FROM pragma_table_info('{name}')"));
            (name, columns)
        };
        names.into_iter().map(columns).filter(|(_, columns)| !columns.is_empty()).collect()
    })
}

fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| super::scratch("ledger"))
}

/// A ledger as a run of three stacks writes it, one of which failed.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = place().join("good.surtax");
        write(&path);
        let bytes = fs::read(&path).expect("it is there");
        let gone = fs::remove_file(&path);
        assert!(gone.is_ok() && bytes.len() < TARGET.longest);
        bytes
    })
}

fn write(path: &Path) {
    let plan = plan();
    let machine = [Fact::new("cpu_model", "a CPU", "/proc/cpuinfo")];
    let mut ledger = Ledger::create(path, &plan, &machine).expect("a ledger is made");
    for block in 0..3 {
        for arm in 0..4 {
            let trial = TrialId { block, position: arm, arm };
            ledger.begin_trial(trial).expect("a trial begins");
            ledger.end_trial(&record(trial)).expect("a trial ends");
        }
    }
    ledger.finish(RunState::Finished).expect("the run ends");
}

fn plan() -> Plan {
    let descriptors = registered();
    let draft = Draft {
        stacks: parse_list("runc,qemu").expect("two stacks"),
        command: vec!["true".into()],
        runs: Some(3),
        ..Draft::default()
    };
    let around = Defaults { fresh_seed: 1, ..Defaults::of_no_machine(&descriptors) };
    draft.complete(&around).expect("a plan").plan
}

fn record(trial: TrialId) -> Record {
    let mut record = example::record(trial, None).expect("a trial with something of everything");
    if let TrialResult::Done(measured) = &mut record.result {
        measured.readings.push(super::wire::reading());
    }
    let result = match (trial.arm, trial.block, record.result) {
        (3, 2, TrialResult::Done(measured)) => TrialResult::CommandFailed(measured),
        (3, 1, _) => TrialResult::Broken(String::from("it did not start").into()),
        (_, _, result) => result,
    };
    Record { result, ..record }
}

/// The good ledger whole, and changes of each of its columns.
fn seeds() -> Vec<Vec<u8>> {
    let whole = [&[0], good()].concat();
    let mut seeds = vec![whole];
    for (number, (_, columns)) in tables().iter().enumerate() {
        for column in 0..columns.len() {
            let table = u8::try_from(number).unwrap_or(0);
            let column = u8::try_from(column).unwrap_or(0);
            let value = b"\x07\0\0\0\0\0\0\0";
            seeds.push([&[1, table, column, 0, 2, 8], &value[..]].concat());
            seeds.push([&[1, table, column, 1, 0, 8], &b"a word  "[..]].concat());
        }
    }
    seeds
}
