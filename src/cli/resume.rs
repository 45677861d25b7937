//! `surtax resume`: continues a run that was interrupted; what is done is not done again.

use super::completions::candidates;

/// Flags of `surtax resume`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub run: String,
    /// Goes on with a run that was not begun here, whatever command it names.
    ///
    /// To go on with a run is to execute the command that its file says, in the stacks that it
    /// says, as you. Of a run that this user began on this machine that is known; of any other it
    /// is shown, and asked for.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub(super) results: super::results::RunFlags,
}
