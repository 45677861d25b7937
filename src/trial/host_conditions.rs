//! Reads what this machine was doing around the command: before all others begin to look, and after
//! all of them have ended.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::concurrency;
use super::conditions::{self, Conditions};
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::fault::Fault;
use crate::stack::watch::groups;
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Reading;

/// First reading of the counters of this machine.
#[derive(Default)]
pub(super) struct HostConditions(Option<Conditions>);

impl Companion for HostConditions {
    fn who(&self) -> Who {
        Who::Conditions
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        let groups: Vec<PathBuf> = groups(&stage.payers).map(Path::to_owned).collect();
        stage.reader.widen(stage.hierarchies, &groups);
        self.0 = Some(stage.reader.read());
    }

    fn end(
        &mut self,
        stage: &mut Stage<'_>,
        runs: &[TimedRun],
        seen: &mut Seen,
    ) -> Result<(), Fault> {
        let Some(before) = self.0.take() else { return Ok(()) };
        let after = stage.reader.read();
        let used = used_by_all(seen);
        let outcomes = || runs.iter().map(|ran| &ran.outcome);
        seen.conditions.extend(stage.reader.between(&before, &after, used));
        seen.conditions.extend(conditions::stood_still(outcomes()));
        seen.conditions.extend(conditions::left_running(outcomes()));
        seen.conditions.extend(concurrency::at_once(runs));
        Ok(())
    }
}

/// Sums the CPU time of those who worked for the trial on this level, who carry the command and its
/// other side, in its pauses too. `None` where one of them could not be read, or there is nobody to
/// read.
fn used_by_all(seen: &Seen) -> Option<Nanoseconds> {
    let read: Vec<Nanoseconds> =
        seen.bill.iter().chain(&seen.beside).filter_map(Reading::cpu_total).collect();
    let is_whole = seen.payer_count > 0 && read.len() == seen.payer_count;
    is_whole.then(|| read.into_iter().fold(seen.paused_cpu, |sum, one| sum + one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::reading;
    use surtax_instrument::amount::Amounts;
    use surtax_instrument::wire::Reading;

    /// A sum without one of its parts would make others of what was the stack's own.
    #[test]
    fn what_all_payers_used_is_known_where_each_of_them_was_read() {
        let all = [reading("runc", 0, 30, false), reading("container", 0, 70, true)];
        let used = |bill: &[Reading], beside: &[Reading], payer_count, paused| {
            let (bill, beside, paused_cpu) = (bill.to_vec(), beside.to_vec(), Nanoseconds(paused));
            used_by_all(&Seen { bill, beside, payer_count, paused_cpu, ..Seen::default() })
        };
        assert_eq!(used(&all, &[], 2, 0), Some(Nanoseconds(100)));
        assert_eq!(used(&all[..1], &all[1..], 2, 9), Some(Nanoseconds(109)));
        assert_eq!((used(&all, &[], 3, 0), used(&[], &[], 0, 9)), (None, None));
        let gone = Reading { amounts: Amounts::NONE, ..all[0].clone() };
        assert_eq!(used(&[gone, all[1].clone()], &[], 2, 0), None);
    }
}
