//! End-to-end tests of the built binary, on real parts.
//!
//! `SURTAX_REQUIRE` names the layers that must run for real; one of them skipped fails the run.
//! Tests that look at the whole machine (a census before and after) run one at a time.

mod answers;
mod cli;
mod interrupts;
mod kills;
mod machine;
mod nesting;
mod recovery;
mod suite;
