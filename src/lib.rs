//! surtax measures what each layer of isolation costs a workload.
//!
//! The modules are listed in the order in which a measurement passes through them; ARCHITECTURE.md
//! and README.md show the same order.

pub mod agent;
pub mod cli;
pub mod fault;
pub mod lab;
pub mod layer;
pub mod ledger;
pub mod plan;
pub mod report;
pub mod stack;
pub mod trial;
