//! Claims of CPU time that come in ticks: some kernels count what a command used by looking, every
//! ten milliseconds, who is there. Of few ticks it is chance how many there are.
//!
//! Source: gVisor, `pkg/sentry/kernel/task_sched.go`, `runCPUClockTicker`.

use crate::finding::estimate::{float, median};
use crate::ledger::StoredTrial;

/// A tick, in nanoseconds: `linux.ClockTick` of gVisor, and `USER_HZ` of Linux.
const TICK_NS: u64 = 10_000_000;

/// Share of an amount from which on a tick is too much of it.
const COARSE: f64 = 0.1;

/// Tells whether a tick is too much of an amount that these claims divide: they come in ticks, and
/// one is more than a tenth of the amount's median.
pub(crate) fn are_too_coarse<'a>(
    trials: impl Iterator<Item = &'a &'a StoredTrial> + Clone,
    metric: &str,
) -> bool {
    let claimed = trials.clone().filter(|trial| trial.cpu_claim().is_some());
    let mut claimed = claimed.peekable();
    if claimed.peek().is_none() || !claimed.all(|trial| comes_in_ticks(trial)) {
        return false;
    }
    // Of several iterations a trial has the mean.
    let whole = |trial: &StoredTrial| {
        let claim = trial.cpu_claim();
        let amount = match metric {
            "cpu_user_ns" => claim?.user,
            "cpu_system_ns" => claim?.system,
            _ => trial.sample(metric)?.whole,
        };
        Some(float(amount.saturating_mul(iterations(trial))))
    };
    let amounts: Vec<f64> = trials.filter_map(|trial| whole(trial)).collect();
    median(&amounts).is_some_and(|amount| float(TICK_NS) > COARSE * amount)
}

fn iterations(trial: &StoredTrial) -> u64 {
    u64::try_from(trial.iterations.len()).unwrap_or(u64::MAX).max(1)
}

/// Tells whether a claim is a number of ticks, none included: a kernel that counts finer has no
/// command that used nothing.
fn comes_in_ticks(trial: &StoredTrial) -> bool {
    let Some(claim) = trial.cpu_claim() else { return false };
    let count = iterations(trial);
    // Each part is a mean, rounded down.
    let is_one = |part: u64| {
        let beyond = part.saturating_mul(count) % TICK_NS;
        beyond == 0 || TICK_NS - beyond <= count
    };
    is_one(claim.user) && is_one(claim.system)
}
