//! Sources of the findings of an arm: what was read from the ledger, once for all of them.

use crate::finding::estimate::Measure;
use crate::ledger::{Absences, Histograms, Ledger, Proofs};
use crate::plan::{TrialId, Word};
use std::cell::OnceCell;
use std::collections::HashMap;
use surtax_instrument::quantity::Bytes;

/// Sources that the findings of an arm are read from.
pub(crate) struct Sources<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) command: &'a [Word],
    /// True if the command is a workload's.
    pub(crate) is_workload: bool,
    /// The secret that the command names, once somebody has asked.
    pub(crate) asked_for: OnceCell<Option<&'static str>>,
    pub(crate) proofs: &'a Proofs,
    pub(crate) first_began_ns: u64,
    pub(crate) measures: &'a [Measure],
    pub(crate) histograms: &'a Histograms,
    pub(crate) absences: &'a Absences,
    pub(crate) page_caches: &'a HashMap<TrialId, f64>,
    /// The baseline's stack, and the most memory that the command has used there.
    pub(crate) baseline_name: &'a str,
    pub(crate) baseline_peak: Option<Bytes>,
}
