//! Attempts at trials without their numbers: how far a run is, read in a moment.

use super::read::stored_trial;
use super::row::disturbance;
use super::{Ledger, StoredTrial};
use crate::fault::Fault;
use crate::trial::disturbance::Disturbance;

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
        self.all("read the attempts", query, stored_trial)
    }

    /// Whatever disturbed the attempt that ended last.
    ///
    /// # Errors
    /// The machine's.
    pub fn last_disturbances(&self) -> Result<Vec<Disturbance>, Fault> {
        let query = "SELECT trial, key, value, limit_value FROM disturbances
                     WHERE trial = (SELECT trial FROM trials WHERE ended_at_ns IS NOT NULL
                                    ORDER BY ended_at_ns DESC LIMIT 1)
                     ORDER BY position";
        self.all("read what disturbed the last trial", query, disturbance)
    }
}
