//! Writes what meters said of one trial, among what a workload measures.

use super::insert::{insert_row, integer};
use crate::meter::Used;
use crate::workload::Better;
use rusqlite::{Transaction, params};

/// Unit of energy.
const UNIT: &str = "uJ";

/// Writes the energies of one trial, or why they are not known.
pub(super) fn insert_energies(
    transaction: &Transaction,
    trial: i64,
    energies: &[(String, Used)],
) -> rusqlite::Result<()> {
    for (metric, used) in energies {
        transaction
            .prepare_cached(
                "INSERT INTO metrics (metric, unit, better) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![metric, UNIT, Better::Lower.word()])?;
        match used {
            Used::Energy(microjoules) => {
                let row = params![trial, metric, UNIT, integer(*microjoules)];
                insert_row(transaction, "samples", row)?;
            }
            Used::Unknown(why) => {
                insert_row(transaction, "absences", params![trial, metric, why.words()])?;
            }
        }
    }
    Ok(())
}
