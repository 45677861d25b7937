//! `surtax list`: the runs that are kept.

use std::path::PathBuf;

/// Flags of `surtax list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lists the run files of this directory instead.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}
