//! `surtax show`: the results of a run, on the terminal.

/// Flags of `surtax show`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, or the beginning of a name that `surtax list` shows; by default the latest.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}
