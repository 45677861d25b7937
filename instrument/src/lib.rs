//! Parts of surtax that go into every level: the wire, the clock, quantities, links and probes.
//!
//! This crate is linked into the host binary and into the static agent alike, so it stays small:
//! no async runtime, no JSON, and no threads.

pub mod amount;
pub mod cache;
pub mod calls;
pub mod clock;
pub mod command_file;
pub mod counters;
pub mod backing;
pub mod histogram;
pub mod link;
mod group_counts;
pub mod group_tree;
pub mod hex;
pub mod mountinfo;
pub mod probe;
pub mod quantity;
pub mod series;
pub mod way;
pub mod wire;
mod words;
