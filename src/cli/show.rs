//! `surtax show`: the results of a run, on the terminal.

/// Flags of `surtax show`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
}
