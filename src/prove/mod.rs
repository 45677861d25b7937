//! Proofs: campaigns that measure surtax's own error where the truth is known, or attack it, each
//! with its bar.
//!
//! A proof goes the whole path, as a question of the user's does: plan, campaign, ledger (in
//! memory), findings; or it starts surtax itself as its user has it, and kills it, races it, or
//! gives it what somebody else made. What it counts are failures: a verdict or an interval that the
//! truth contradicts, something left, lost, or believed. One file per proof, `proof.rs` the
//! contract, and this one the registry.

mod at_once;
mod bare;
mod bench;
mod bill;
mod binomial;
mod centre;
mod child;
mod differences;
mod equivalence;
pub mod example;
mod false_positives;
mod forged;
mod histories;
mod hostile;
mod invalid;
mod kills;
mod load;
mod notebook;
mod oom;
mod order;
mod place;
mod planted;
mod power;
mod proof;
pub mod racer;
mod real_false_positives;
mod real_planted;
mod recounted;
mod selection;
mod retried;
mod thresholds;
pub mod toil;
mod why;

pub use bench::Bench;
pub use notebook::Notebook;
pub use proof::{Bar, Figure, Part, Proof, Size};
pub use selection::{Selection, Share};

/// Every proof, in the order in which they run.
pub static REGISTRY: &[Proof] = &[
    false_positives::PROOF,
    planted::PROOF,
    power::PROOF,
    centre::PROOF,
    equivalence::PROOF,
    thresholds::PROOF,
    retried::PROOF,
    differences::PROOF,
    histories::PROOF,
    order::PROOF,
    recounted::PROOF,
    bill::PROOF,
    why::PROOF,
    real_false_positives::PROOF,
    real_planted::PROOF,
    invalid::PROOF,
    racer::PROOF,
    forged::PROOF,
    hostile::PROOF,
    oom::PROOF,
    kills::PROOF,
    at_once::PROOF,
];

#[cfg(test)]
mod tests;
