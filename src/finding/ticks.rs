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
    let claims = trials.clone().filter_map(|trial| trial.cpu_claim());
    let whole = |trial: &StoredTrial| match metric {
        "cpu_others_ns" => trial.sample(metric).map(|sample| sample.whole),
        _ => trial.cpu_claim().map(|claim| claim.total()),
    };
    let amounts: Vec<f64> = trials.filter_map(|trial| whole(trial)).map(float).collect();
    come_in_ticks(claims.map(|claim| claim.total()))
        && median(&amounts).is_some_and(|amount| float(TICK_NS) > COARSE * amount)
}

/// Tells whether each of these is a number of ticks, and one of them not none.
fn come_in_ticks(mut claims: impl Iterator<Item = u64> + Clone) -> bool {
    claims.clone().any(|claim| claim > 0) && claims.all(|claim| claim % TICK_NS == 0)
}
