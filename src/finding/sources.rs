//! Sources of the findings of an arm: what was read from the ledger, once for all of them.

use crate::finding::estimate::{Baseline, Measure};
use crate::finding::timeline::Watched;
use crate::ledger::{Absences, Histograms, Ledger, Proofs};
use crate::plan::{Plan, TrialId};
use std::cell::OnceCell;
use std::collections::HashMap;
use surtax_instrument::wire::Fact;

/// Sources that the findings of an arm are read from.
pub(crate) struct Sources<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) plan: &'a Plan,
    pub(crate) machine: &'a [Fact],
    pub(crate) baseline: &'a Baseline<'a>,
    /// The secret that the command names, once somebody has asked.
    pub(crate) asked_for: OnceCell<Option<&'static str>>,
    pub(crate) proofs: &'a Proofs,
    pub(crate) first_began_ns: u64,
    pub(crate) measures: &'a [Measure],
    pub(crate) histograms: &'a Histograms,
    pub(crate) absences: &'a Absences,
    pub(crate) watched: &'a Watched,
    pub(crate) page_caches: &'a HashMap<TrialId, f64>,
}
