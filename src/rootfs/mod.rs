//! Root file systems: what a command sees of files, wherever it runs.

pub(crate) mod engines;
pub mod image;
pub mod registry;
pub mod root;
pub mod scratch;
pub mod secrets;
