//! Who is told how a campaign goes, while it goes.

use super::Record;
use crate::plan::TrialId;

/// Told about every trial as it begins and ends. Must return soon: the next trial waits.
pub trait Progress {
    /// A trial is about to begin.
    fn trial_begins(&mut self, trial: TrialId);

    /// The trial that began last has ended, and nothing of it is left.
    fn trial_ended(&mut self, record: &Record);

    /// Something the user should know now.
    fn note(&mut self, text: &str);
}
