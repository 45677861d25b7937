//! Inserts rows, and looks up the numbers of those that are stored once.

use rusqlite::{OptionalExtension, Transaction, params};
use surtax_instrument::wire::Role;

/// The number of a payer.
pub(super) fn payer_number(
    transaction: &Transaction,
    name: &str,
    role: Role,
    level: u8,
    carries_workload: bool,
) -> rusqlite::Result<i64> {
    number(
        transaction,
        "INSERT INTO payers (name, role, level, carries_workload) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        "SELECT payer FROM payers
         WHERE name = ?1 AND role = ?2 AND level = ?3 AND carries_workload = ?4",
        params![name, role.word(), level, carries_workload],
    )
}

/// Writes a row with all of a table's columns.
pub(super) fn insert_row(
    transaction: &Transaction,
    table: &str,
    row: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<()> {
    let places = vec!["?"; row.len()].join(", ");
    let statement = format!("INSERT INTO {table} VALUES ({places})");
    transaction.prepare_cached(&statement)?.execute(row).map(drop)
}

/// The number of a row that is stored once: looked up, or inserted first.
pub(super) fn number(
    transaction: &Transaction,
    insert: &str,
    select: &str,
    row: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<i64> {
    let look = || transaction.prepare_cached(select)?.query_row(row, |found| found.get(0));
    match look().optional()? {
        Some(found) => Ok(found),
        None => {
            transaction.prepare_cached(insert)?.execute(row)?;
            look()
        }
    }
}

/// SQLite's integers are signed; what does not fit is so large that it is wrong anyway.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
