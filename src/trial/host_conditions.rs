//! Reads what this machine was doing around the command: before all others begin to look, and after
//! all of them have ended.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::concurrency;
use super::iterate::TimedRun;
use super::quiet::{self, Conditions, Quiet};
use super::stage::Stage;
use crate::fault::Fault;
use crate::layer::{Payer, Source};
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Reading;

/// The counters of this machine, and what they said first.
#[derive(Default)]
pub(super) struct HostConditions(Option<(Quiet, Conditions)>);

impl Companion for HostConditions {
    fn who(&self) -> Who {
        Who::Conditions
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        let mut quiet = Quiet::open(Path::new("/"), &groups(&stage.payers));
        let before = quiet.read();
        self.0 = Some((quiet, before));
    }

    fn end(&mut self, _: &mut Stage<'_>, runs: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let Some((mut quiet, before)) = self.0.take() else { return Ok(()) };
        let after = quiet.read();
        let used = used_by_all(seen.bill.iter().chain(&seen.beside), seen.payer_count);
        let used = used.map(|used| used + seen.paused_cpu);
        let outcomes = || runs.iter().map(|ran| &ran.outcome);
        seen.conditions.extend(quiet.between(&before, &after, used));
        seen.conditions.extend(quiet::stood_still(outcomes()));
        seen.conditions.extend(quiet::left_running(outcomes()));
        seen.conditions.extend(concurrency::at_once(runs));
        Ok(())
    }
}

/// The groups among the payers.
fn groups(payers: &[Payer]) -> Vec<PathBuf> {
    let group = |payer: &Payer| match &payer.source {
        Source::Group(path) => Some(path.clone()),
        _ => None,
    };
    payers.iter().filter_map(group).collect()
}

/// Sums the CPU time of those who worked for the trial on this level, who carry the command and its
/// other side. `None` where one of them could not be read, or there is nobody to read.
fn used_by_all<'a>(
    readings: impl Iterator<Item = &'a Reading> + Clone,
    payer_count: usize,
) -> Option<Nanoseconds> {
    let is_whole = payer_count > 0
        && readings.clone().filter(|reading| reading.is_counted()).count() == payer_count;
    let sum = |sum, reading: &Reading| sum + reading.cpu_total();
    is_whole.then(|| readings.fold(Nanoseconds(0), sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::reading;
    use surtax_instrument::amount::Amounts;

    /// A sum without one of its parts would make others of what was the stack's own.
    #[test]
    fn what_all_payers_used_is_known_where_each_of_them_was_read() {
        let all = [reading("runc", 0, 30, false), reading("container", 0, 70, true)];
        assert_eq!(used_by_all(all.iter(), 2), Some(Nanoseconds(100)));
        assert_eq!((used_by_all(all.iter(), 3), used_by_all([].iter(), 0)), (None, None));
        let gone = Reading { amounts: Amounts::NONE, ..all[0].clone() };
        assert_eq!(used_by_all([&gone, &all[1]].into_iter(), 2), None);
    }
}
