//! Fuzzing: gives hostile bytes to every reader of surtax, and says which of them it could not
//! bear.
//!
//! A target is one function from bytes, `run`. It finds something by a panic (a broken promise is
//! an assertion), by using more than two seconds or 512 MiB, or by the death of the process. Two
//! runners share the targets and the corpora: `surtax-fuzz` mutates what is there, on any
//! toolchain, the same way again for the same seed; `surtax-fuzz-coverage` is libFuzzer, which
//! keeps what reaches new code.

pub mod campaign;
pub mod corpus;
pub mod guard;
pub mod mutate;
pub mod runner;
pub mod target;
pub mod text;
