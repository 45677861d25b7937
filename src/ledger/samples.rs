//! Samples of a record: one number per metric, nothing for what is unknown.
//!
//! CPU time is what level 0 saw: what was counted inside divides it, and adds nothing
//! (`trial/outside.rs`). `finding/bill.rs` splits it further.

use super::{Sample, StoredTrial};
use crate::trial::outside::{Account, Cpu, settle};
use crate::trial::{Measured, Record};
use surtax_instrument::amount::{
    Amounts, CONTEXT_SWITCHES, Key, MAJOR_FAULTS, MEMORY_PEAK, PAGE_FAULTS, PREEMPTIONS,
};
use surtax_instrument::wire::Reading;

/// A metric, its unit, and the number in that unit.
pub(super) type NewSample = (&'static str, &'static str, u64);

/// Names of the metrics that come from what was counted inside and what was seen from outside.
const CPU_USER: &str = "cpu_user_ns";
const CPU_SYSTEM: &str = "cpu_system_ns";
const CPU_OTHERS: &str = "cpu_others_ns";
const CPU_TOTAL: &str = "cpu_total_ns";
/// These are there where more was counted inside, or somebody was not read: how much more, and the
/// command's claim as it was.
const CPU_UNSEEN: &str = "cpu_unseen_ns";
const CPU_USER_INSIDE: &str = "cpu_user_inside_ns";
const CPU_SYSTEM_INSIDE: &str = "cpu_system_inside_ns";
const CPU: [&str; 7] =
    [CPU_USER, CPU_SYSTEM, CPU_OTHERS, CPU_TOTAL, CPU_UNSEEN, CPU_USER_INSIDE, CPU_SYSTEM_INSIDE];

/// Of so little, what is left of those who carry the command is not known: kernels count in
/// batches.
const MEMORY_SLACK_BYTES: u64 = 1 << 20;

/// Names of samples of what is counted of a command. No workload's metric has a full stop in it.
const COUNTS: [(Key, &str); 4] = [
    (PAGE_FAULTS, "command.page_fault_count"),
    (MAJOR_FAULTS, "command.major_fault_count"),
    (CONTEXT_SWITCHES, "command.context_switch_count"),
    (PREEMPTIONS, "command.preemption_count"),
];

/// Every number of one trial.
pub(super) fn of(record: &Record, measured: Option<&Measured>) -> Vec<NewSample> {
    let around = [("start_ns", "ns", record.start_wall.0), ("stop_ns", "ns", record.stop_wall.0)];
    let mut samples = Vec::from(around); // zero means that it never came so far
    samples.retain(|(_, _, value)| *value > 0);
    let Some(measured) = measured else { return samples };

    let outcome = &measured.outcome;
    samples.extend([
        ("wall_ns", "ns", measured.wall.0),
        ("memory_peak_bytes", "bytes", outcome.memory_peak.0),
    ]);
    let claim = Cpu { user: outcome.cpu_user.0, system: outcome.cpu_system.0 };
    let claim = (!measured.is_guest_time_void).then_some(claim);
    if claim.is_some() {
        samples.push(("wall_inside_ns", "ns", outcome.wall.0));
    }
    samples.extend(of_account(&settle(&measured.readings, claim), claim));
    let counted = |(key, name)| Some((name, "count", outcome.counts.get(key)?));
    samples.extend(COUNTS.into_iter().filter_map(counted));
    samples.extend(measured.energy_uj.map(|energy| ("energy_uj", "uJ", energy)));
    if let Some(others) = memory_of_others(&measured.readings, outcome.memory_peak.0) {
        samples.push(("memory_others_peak_bytes", "bytes", others));
    }
    samples
}

/// Returns what of an account is known, and the claim where it is not among its parts.
fn of_account(account: &Account, claim: Option<Cpu>) -> Vec<NewSample> {
    let mut samples = Vec::new();
    if let Some(command) = account.split.as_ref().map(|split| split.command) {
        samples.push((CPU_USER, "ns", command.user));
        samples.push((CPU_SYSTEM, "ns", command.system));
    }
    samples.extend(account.others_ns().map(|others| (CPU_OTHERS, "ns", others)));
    samples.extend(account.total_ns.map(|total| (CPU_TOTAL, "ns", total)));
    if account.unseen_ns > 0 {
        samples.push((CPU_UNSEEN, "ns", account.unseen_ns));
    }
    if account.split.is_none() || account.unseen_ns > 0 {
        let claimed = claim
            .map(|it| [(CPU_USER_INSIDE, "ns", it.user), (CPU_SYSTEM_INSIDE, "ns", it.system)]);
        samples.extend(claimed.into_iter().flatten());
    }
    samples
}

/// Returns what the kernel on which it ran counted of a trial's command.
pub(super) fn counts(trial: &StoredTrial) -> Amounts {
    let count = |(key, name): (Key, &str)| Some((key, trial.sample(name)?.whole));
    COUNTS.into_iter().filter_map(count).collect()
}

/// Returns what the kernel inside said of the command's CPU time, where it can be believed at all.
pub(super) fn claim(trial: &StoredTrial) -> Option<Cpu> {
    let sample = |metric| trial.sample(metric).map(|sample| sample.whole);
    let (user, system) = (
        sample(CPU_USER_INSIDE).or(sample(CPU_USER)),
        sample(CPU_SYSTEM_INSIDE).or(sample(CPU_SYSTEM)),
    );
    Some(Cpu { user: user?, system: system? })
}

/// Holds a trial that an earlier surtax has written to the same rule: that one added up what was
/// counted inside.
pub(super) fn hold_against_outside(trial: &mut StoredTrial) {
    let claim = claim(trial);
    let account = settle(&trial.readings, claim);
    if claim.is_none() || account.unseen_ns == 0 {
        return;
    }
    trial.samples.retain(|sample| !CPU.contains(&&*sample.metric));
    trial.samples.extend(of_account(&account, claim).into_iter().map(|(metric, unit, whole)| {
        let value = whole as f64;
        Sample { metric: metric.into(), unit: unit.into(), value, whole }
    }));
}

/// Memory of this trial's payers on level 0 beyond the command's own. Payers who serve all trials
/// are not among them. `None` where one of them could not be read or there is none, and where the
/// command has as much as the payers who carry it, or more: its pages of files may be charged to
/// whoever had read them before, and what is left for the others is not known then.
///
/// Threads share the memory of their process, so one payer without a peak leaves the sum as it is.
fn memory_of_others(readings: &[Reading], command: u64) -> Option<u64> {
    let here = || readings.iter().filter(|reading| reading.level == 0 && !reading.is_shared);
    if !here().all(Reading::is_counted) {
        return None;
    }
    let of_level_0 = || {
        here().filter_map(|reading| {
            Some((reading.carries_workload, reading.amounts.get(MEMORY_PEAK)?))
        })
    };
    of_level_0().next()?;
    let sum = |carries| {
        let of_kind = of_level_0().filter(|(kind, _)| *kind == carries);
        of_kind.fold(0u64, |sum, (_, amount)| sum.saturating_add(amount))
    };
    let is_carried = of_level_0().any(|(carries, _)| carries);
    let carried = sum(true);
    let own = match is_carried {
        true => carried.checked_sub(command).filter(|left| *left > MEMORY_SLACK_BYTES)?,
        false => 0,
    };
    Some(own.saturating_add(sum(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::{id, measured, reading, record};
    use crate::trial::TrialResult;
    use crate::workload::metric::RESERVED;
    use surtax_instrument::amount::Amounts;
    use surtax_instrument::quantity::Nanoseconds;

    const MS: u64 = 1_000_000;

    #[test]
    fn no_workload_measures_something_by_a_name_of_ours() {
        let ours = samples_of(5, 9).into_iter().map(|sample| sample.0);
        let free: Vec<&str> = ours.chain(CPU).filter(|name| !RESERVED.contains(name)).collect();
        assert_eq!(free, [""; 0]);
    }

    fn samples_of(carried_ms: u64, claimed_ms: u64) -> Vec<NewSample> {
        samples_of_ns(carried_ms * MS, claimed_ms * MS)
    }

    fn samples_of_ns(carried: u64, claimed: u64) -> Vec<NewSample> {
        let mut measured = measured(5 * MS);
        measured.outcome.cpu_user = Nanoseconds(claimed);
        measured.outcome.cpu_system = Nanoseconds(0);
        measured.readings =
            vec![reading("sandbox", 0, carried, true), reading("gofer", 0, 7 * MS, false)];
        let record = record(id(0, 0), TrialResult::Done(Box::new(measured.clone())));
        of(&record, Some(&measured))
    }

    fn value(samples: &[NewSample], metric: &str) -> Option<u64> {
        samples.iter().find(|(name, ..)| *name == metric).map(|(_, _, value)| value / MS)
    }

    #[test]
    fn the_command_is_taken_out_of_those_who_carry_it() {
        let samples = samples_of(100, 90);
        let found = CPU.map(|metric| value(&samples, metric));
        assert_eq!(found, [Some(90), Some(0), Some(17), Some(107), None, None, None]);
    }

    #[test]
    fn where_more_was_counted_inside_the_sum_is_what_was_seen_and_its_parts_are_a_gap() {
        let samples = samples_of(360, 680);
        let found = CPU.map(|metric| value(&samples, metric));
        assert_eq!(found, [None, None, None, Some(367), Some(320), Some(680), Some(0)]);
    }

    #[test]
    fn what_is_more_inside_by_rounding_is_made_to_fit() {
        let samples = samples_of_ns(1000 * MS, 1000 * MS + 90_000);
        let found = CPU.map(|metric| value(&samples, metric));
        assert_eq!(found, [Some(1000), Some(0), Some(7), Some(1007), Some(0), Some(1000), Some(0)]);
    }

    #[test]
    fn what_an_earlier_surtax_has_added_up_is_held_to_the_same_rule_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.surtax");
        let mut ledger = crate::ledger::fixture::ledger(&path, &["native"]);
        let mut of_old = measured(680 * MS);
        of_old.readings = vec![reading("sandbox", 0, 360 * MS, true)];
        crate::ledger::fixture::add(
            &mut ledger,
            &record(id(0, 0), TrialResult::Done(Box::new(of_old))),
        );
        ledger
            .connection
            .execute_batch(
                "DELETE FROM samples WHERE metric LIKE 'cpu_%';
                 INSERT INTO samples VALUES (1, 'cpu_user_ns', 'ns', 680000000),
                 (1, 'cpu_system_ns', 'ns', 0), (1, 'cpu_others_ns', 'ns', 0),
                 (1, 'cpu_total_ns', 'ns', 680000000)",
            )
            .unwrap();
        let mut trial = ledger.trials().unwrap().remove(0);
        let told = trial.samples.clone();
        assert_eq!(trial.sample("cpu_total_ns").unwrap().whole, 360 * MS);
        assert_eq!(trial.sample("cpu_others_ns"), None);
        hold_against_outside(&mut trial);
        assert_eq!(trial.samples, told);
    }

    #[test]
    fn memory_that_the_command_claims_beyond_its_carriers_leaves_a_gap_and_no_zero() {
        let of = |bytes: u64, carries| {
            let mut reading = reading("someone", 0, 0, carries);
            reading.amounts.set(MEMORY_PEAK, bytes);
            reading
        };
        let (carrier, beside) = (of(40 << 20, true), of(3 << 20, false));
        assert_eq!(memory_of_others(&[carrier.clone(), beside.clone()], 30 << 20), Some(13 << 20));
        for command in [90 << 20, (40 << 20) + 1, 40 << 20, (39 << 20) + 1] {
            assert_eq!(memory_of_others(&[carrier.clone(), beside.clone()], command), None);
        }
        assert_eq!(memory_of_others(std::slice::from_ref(&beside), 90 << 20), Some(3 << 20));
        let gone = Reading { amounts: Amounts::NONE, ..beside.clone() };
        assert_eq!(memory_of_others(&[carrier.clone(), gone], 30 << 20), None);
        assert_eq!(memory_of_others(&[], 1), None);
    }
}
