//! Ledgers as a stranger may hand them over: damaged by chance, or made to harm whoever reads them.
//!
//! For proofs and tests alone. Each is made from a ledger of ours in one of these ways, the same
//! for the same seed.

use crate::fault::{Doing, Fault};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rusqlite::Connection;
use std::path::Path;

/// Text that retitles a terminal, clears it, turns a line round and breaks it.
const EVIL: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{200b}\r\n# owned\n| x |\u{0}\u{7f}";

// Ways to spoil a ledger by SQL, in turn.
const VIEWS: &str = include_str!("changes/views.sql");
const NUMBERS: &str = include_str!("changes/numbers.sql");
const HUGE: &str = include_str!("changes/huge.sql");
const MANY: &str = include_str!("changes/many.sql");
const PLAN: &str = include_str!("changes/plan.sql");

/// The size of a page of ours.
const PAGE: usize = 4096;

/// The columns in which a text may stand that is shown.
const TEXTS: [&str; 24] = [
    "run.id", "run.title", "run.surtax_version", "arms.stack", "machine_facts.key",
    "machine_facts.value", "machine_facts.source", "facts.layer", "facts.key", "facts.value",
    "facts.source", "trials.exit_status", "trials.why", "trials.remedy", "samples.unit",
    "metrics.metric", "metrics.unit", "absences.metric", "absences.why", "instances.unit",
    "payers.name", "outputs.xxh3_hex", "leftovers.what", "logs.message",
];

/// One way to spoil a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Some bits are the other way.
    Bits,
    /// The end of the file is missing.
    Cut,
    /// Two pages have changed places, or one lies in the place of another, too.
    Pages,
    /// Noise in what lies beside it.
    Beside,
    /// Texts that act on a terminal and break a table.
    Texts,
    /// Values of other types, and numbers that no run has.
    Types,
    /// Texts and lists of many megabytes.
    Huge,
    /// More rows than a run has.
    Many,
    /// A view that never ends, in the place of a table.
    View,
    /// A trigger that changes what counts, when the run goes on.
    Trigger,
    /// A plan that was changed: another command, more of everything.
    Plan,
}

impl Harm {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Bits,
        Self::Cut,
        Self::Pages,
        Self::Beside,
        Self::Texts,
        Self::Types,
        Self::Huge,
        Self::Many,
        Self::View,
        Self::Trigger,
        Self::Plan,
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Bits => "bits changed",
            Self::Cut => "cut short",
            Self::Pages => "pages exchanged",
            Self::Beside => "noise beside it",
            Self::Texts => "texts that act",
            Self::Types => "wrong types and numbers",
            Self::Huge => "huge cells",
            Self::Many => "very many rows",
            Self::View => "a view without an end",
            Self::Trigger => "a trigger",
            Self::Plan => "another plan",
        }
    }

    /// Spoils a ledger of ours, which no process has open.
    ///
    /// # Errors
    /// The machine's: it cannot be written.
    pub fn spoil(self, path: &Path, seed: u64) -> Result<(), Fault> {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let done = match self {
            Self::Bits | Self::Cut | Self::Pages => self.spoil_bytes(path, &mut chance),
            Self::Beside => beside(path, &mut chance),
            _ => {
                let turn = usize::try_from(seed).unwrap_or(usize::MAX) / Self::ALL.len();
                let done = self.spoil_tables(path, turn, &mut chance);
                return done.doing("plant what harms in a ledger");
            }
        };
        done.doing("spoil a ledger")
    }

    fn spoil_bytes(self, path: &Path, chance: &mut ChaCha8Rng) -> std::io::Result<()> {
        let mut bytes = std::fs::read(path)?;
        let pages = bytes.len() / PAGE;
        match self {
            Self::Cut => bytes.truncate(chance.random_range(0..bytes.len())),
            Self::Pages => {
                let (one, two) = (chance.random_range(0..pages), chance.random_range(0..pages));
                let page = bytes.get(PAGE * one..PAGE * (one + 1)).unwrap_or_default().to_vec();
                bytes.copy_within(PAGE * two..PAGE * (two + 1), PAGE * one);
                if chance.random_bool(0.5) {
                    bytes.splice(PAGE * two..PAGE * (two + 1), page);
                }
            }
            _ => {
                // Half of them near the head of a page, where its structure is.
                for _ in 0..chance.random_range(1..20) {
                    let near = PAGE * chance.random_range(0..pages) + chance.random_range(0..100);
                    let anywhere = chance.random_range(0..bytes.len());
                    let at = if chance.random_bool(0.5) { near } else { anywhere };
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << chance.random_range(0..8);
                    }
                }
            }
        }
        std::fs::write(path, bytes)
    }

    /// Spoils its tables: of several ways, each in its turn.
    fn spoil_tables(
        self,
        path: &Path,
        turn: usize,
        chance: &mut ChaCha8Rng,
    ) -> rusqlite::Result<()> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "ignore_check_constraints", "ON")?;
        connection.pragma_update(None, "foreign_keys", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        match self {
            Self::Texts => {
                for (table, column) in TEXTS.iter().filter_map(|text| text.split_once('.')) {
                    let all = format!("UPDATE {table} SET {column} = coalesce({column}, '') || ?1");
                    connection.execute(&all, [EVIL])?;
                }
                let names = "UPDATE samples SET metric = metric || ?1 WHERE metric = 'rate'";
                connection.execute(names, [EVIL])?;
                connection.execute("UPDATE disturbances SET key = key || ?1", [EVIL]).map(drop)
            }
            Self::Types => types(&connection, chance),
            Self::Huge => connection.execute_batch(one_of(HUGE, turn)),
            Self::Many => many(&connection, turn, chance),
            Self::View => connection.execute_batch(one_of(VIEWS, turn)),
            Self::Trigger => connection.execute_batch(
                "CREATE TRIGGER harm AFTER UPDATE ON run BEGIN
                     UPDATE trials SET state = 'void', why = 'a trigger', evidence = NULL;
                     UPDATE run SET title = 'owned';
                 END",
            ),
            _ => connection.execute_batch(one_of(PLAN, turn)),
        }
    }
}

/// The ways of a file: what stands between empty lines, but for its header.
fn changes(file: &'static str) -> Vec<&'static str> {
    file.split("\n\n").skip(1).collect()
}

fn one_of(file: &'static str, turn: usize) -> &'static str {
    let changes = changes(file);
    changes[turn % changes.len()]
}

fn types(connection: &Connection, chance: &mut ChaCha8Rng) -> rusqlite::Result<()> {
    // A strict table takes no other type: it is made another one behind SQLite's back, and back
    // again.
    let loosened =
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')');
                    PRAGMA writable_schema = RESET; UPDATE samples SET value = 'text', unit = 7;
                    UPDATE OR IGNORE trials SET block = 'b', began_at_ns = x'00ff', why = 3.5;
                    PRAGMA writable_schema = ON;";
    let changes = changes(NUMBERS);
    match changes.get(chance.random_range(0..changes.len() + 2)) {
        Some(change) => connection.execute_batch(change),
        None => {
            let query = "SELECT rowid, sql FROM sqlite_schema WHERE sql IS NOT NULL";
            let kept: Vec<(i64, String)> = connection
                .prepare(query)?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            connection.execute_batch(loosened)?;
            for (row, sql) in kept {
                let back = "UPDATE sqlite_schema SET sql = ?2 WHERE rowid = ?1";
                connection.execute(back, rusqlite::params![row, sql])?;
            }
            Ok(())
        }
    }
}

fn many(connection: &Connection, turn: usize, chance: &mut ChaCha8Rng) -> rusqlite::Result<()> {
    let rows = chance.random_range(10_000..100_000);
    let numbers = format!(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n (x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n LIMIT {rows})
             SELECT x FROM n;"
    );
    connection.execute_batch(&numbers)?;
    connection.execute_batch(one_of(MANY, turn))
}

/// Noise in the files that SQLite looks for beside a database; some of it with the head of a
/// journal or a log.
fn beside(path: &Path, chance: &mut ChaCha8Rng) -> std::io::Result<()> {
    const HEADS: [&[u8]; 3] = [
        b"",
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\xff\xff\xff\xff\0\0\0\0\0\0\0\x02\0\0\x02\0\0\0\x10\0",
        b"\x37\x7f\x06\x82\0\x2d\xe2\x18\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    for ending in ["-journal", "-wal", "-shm"] {
        let mut noise = HEADS[chance.random_range(0..HEADS.len())].to_vec();
        let length = chance.random_range(0..5 * PAGE);
        noise.extend((0..length).map(|_| chance.random::<u8>()));
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        std::fs::write(name, noise)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_changes_is_read_whole_and_without_its_header() {
        let counts = [VIEWS, NUMBERS, HUGE, MANY, PLAN].map(|file| changes(file).len());
        assert_eq!(counts, [3, 12, 6, 4, 9]);
        assert!(TEXTS.iter().all(|text| text.split_once('.').is_some()), "{TEXTS:?}");
        let verbs = ["ALTER ", "INSERT ", "UPDATE "];
        for change in [VIEWS, NUMBERS, HUGE, MANY, PLAN].into_iter().flat_map(changes) {
            assert!(verbs.iter().any(|verb| change.starts_with(verb)), "{change}");
        }
    }
}
