//! surtax measures what each layer of isolation costs a workload.
//!
//! The modules are listed in the order in which a measurement passes through them; ARCHITECTURE.md
//! and README.md show the same order.

pub mod workload;
pub mod plan;
pub mod campaign;
pub mod stack;
pub mod driver;
pub mod layer;
pub mod rootfs;
pub mod agent;
pub mod lab;
pub mod trial;
pub mod ledger;
pub mod finding;
pub mod report;
pub mod container;
pub mod guest;
mod vm;
pub mod meter;
pub mod prove;
pub mod serve;
pub mod cli;
pub mod fault;
pub mod regular_file;
mod table;
mod unseen;
