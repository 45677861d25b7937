//! Attempts at trials without their numbers: how far a run is, read in a moment.

use super::read::stored_trial;
use super::{Ledger, StoredTrial, refused};
use crate::fault::Fault;
use crate::trial::disturbance::Disturbance;
use rusqlite::Row;

impl Ledger {
    /// Every attempt at every trial, in time order, with its state and times and nothing that it
    /// measured.
    ///
    /// # Errors
    /// The machine's.
    pub fn attempts(&self) -> Result<Vec<StoredTrial>, Fault> {
        let query = "SELECT block, position, arm, attempt, state, began_at_ns, ended_at_ns,
                            exit_status, why, remedy, evidence
                     FROM trials ORDER BY began_at_ns, trial";
        self.collect(query, stored_trial)
            .map_err(|error| refused(&self.path, "read the attempts", &error))
    }

    /// Whatever disturbed the attempt that ended last.
    ///
    /// # Errors
    /// The machine's.
    pub fn last_disturbances(&self) -> Result<Vec<Disturbance>, Fault> {
        let query = "SELECT key, value, limit_value FROM disturbances
                     WHERE trial = (SELECT trial FROM trials WHERE ended_at_ns IS NOT NULL
                                    ORDER BY ended_at_ns DESC LIMIT 1)
                     ORDER BY position";
        let read = |row: &Row| {
            Ok(Disturbance { key: row.get(0)?, value: row.get(1)?, limit: row.get(2)? })
        };
        self.collect(query, read)
            .map_err(|error| refused(&self.path, "read what disturbed the last trial", &error))
    }
}
