//! `surtax gc`: removes what a killed surtax left on this machine.

/// Flags of `surtax gc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Says what would be removed, and removes nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}
