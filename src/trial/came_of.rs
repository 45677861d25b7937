//! Result of a trial, and whether it counts.

use super::{Measured, Reason, TrialResult};
use crate::fault::{Blame, Fault};
use crate::plan::TrialSettings;

/// Only a command that ended by itself with a status that counts does, and of a workload only what
/// can be believed; and none of whose stack the kernel has killed, or refused, a process.
pub(super) fn judge(
    settings: TrialSettings,
    measured: Measured,
    ended: Option<Reason>,
    flaw: Option<String>,
) -> TrialResult {
    let measured = Box::new(measured);
    if let Some(reason) = ended {
        return TrialResult::Invalid { reason, measured: Some(measured) };
    }
    match flaw {
        _ if !settings.counts(&measured.outcome) => TrialResult::CommandFailed(measured),
        Some(why) => TrialResult::Invalid { reason: why.into(), measured: Some(measured) },
        None => TrialResult::Done(measured),
    }
}

/// A trial without an outcome. What somebody inside made of it is invalid.
pub(super) fn broken(mut fault: Fault) -> TrialResult {
    let remedy = fault.hint.take();
    let reason = Reason { why: fault.to_string(), remedy };
    match fault.blame {
        Blame::Inside => TrialResult::Invalid { reason, measured: None },
        Blame::User | Blame::Machine | Blame::Surtax => TrialResult::Broken(reason),
    }
}
