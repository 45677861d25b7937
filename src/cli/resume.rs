//! `surtax resume`: continues a run that was interrupted; what is done is not done again.

/// Flags of `surtax resume`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// Also writes the report as one HTML file.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(super) gate: super::measure::GateArguments,
}
