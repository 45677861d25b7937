//! Several runs of the command in one started stack, as one measurement.
//!
//! The start is the replicate: two starts differ by more than two iterations of one (where memory
//! came to lie, which host CPU the guest got), so iterations count as their median, and their
//! number adds no degree of freedom. Source: Kalibera and Jones, "Rigorous Benchmarking in
//! Reasonable Time", International Symposium on Memory Management, 2013.

use super::clock_sync::ClockSync;
use super::{Iteration, READINGS_MOST};
use crate::fault::Fault;
use std::collections::BTreeSet;
use surtax_instrument::amount::Amounts;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Outcome, Reading};

/// One run of the command.
pub(super) struct TimedRun {
    /// Host time of the arrival of `Started`.
    pub began: Nanoseconds,
    /// Host time from then to the arrival of `Ended`.
    pub between: Nanoseconds,
    /// Outcome that its agent reported.
    pub outcome: Outcome,
    /// Readings of what the deeper levels used.
    pub bill: Vec<Reading>,
}

/// Returns what each run took and used, in host time.
pub(super) fn iterations(runs: &[TimedRun], clock_sync: ClockSync) -> Vec<Iteration> {
    let one = |ran: &TimedRun| Iteration {
        wall: clock_sync.wall(ran.between, &ran.outcome),
        cpu_user: ran.outcome.cpu_user,
        cpu_system: ran.outcome.cpu_system,
    };
    runs.iter().map(one).collect()
}

/// The median wall time, and one outcome for all: how the first of the worst ended, medians of the
/// times by the level's own clock, means of CPU time, the largest memory. Standard output is that
/// of the first run, or of the first whose output differs from it; its hash is one of all that were
/// seen, so that no run hides behind another. Likewise standard error.
///
/// # Errors
/// Ours: nothing was run.
pub(super) fn whole(
    iterations: &[Iteration],
    runs: Vec<TimedRun>,
) -> Result<(Nanoseconds, Outcome), Fault> {
    let wall = median(iterations.iter().map(|one| one.wall));
    let cpu_user = mean(iterations.iter().map(|one| one.cpu_user));
    let cpu_system = mean(iterations.iter().map(|one| one.cpu_system));
    let counts = counts(&runs);
    let agent_cpu = mean(runs.iter().map(|ran| ran.outcome.agent_cpu));
    let mut outcomes = runs.into_iter().map(|ran| ran.outcome);
    let mut all = outcomes.next().ok_or_else(|| Fault::bug("a command was not run at all"))?;
    let (out, err) = (all.stdout.hash, all.stderr.hash);
    let (mut outs, mut errs) = (BTreeSet::from([out]), BTreeSet::from([err]));
    let mut inside = vec![all.wall];
    for outcome in outcomes {
        inside.push(outcome.wall);
        outs.insert(outcome.stdout.hash);
        errs.insert(outcome.stderr.hash);
        if outcome.status.rank() > all.status.rank() {
            (all.status, all.instances) = (outcome.status, outcome.instances);
        }
        all.memory_peak = all.memory_peak.max(outcome.memory_peak);
        all.oom_kill_count = added(all.oom_kill_count, outcome.oom_kill_count);
        all.left_running_count = all.left_running_count.saturating_add(outcome.left_running_count);
        if all.stdout.hash == out {
            all.stdout = outcome.stdout;
        }
        if all.stderr.hash == err {
            all.stderr = outcome.stderr;
        }
    }
    (all.stdout.hash, all.stderr.hash) = (hash_of_all(&outs), hash_of_all(&errs));
    let inside = median(inside.into_iter());
    Ok((wall, Outcome { wall: inside, cpu_user, cpu_system, counts, agent_cpu, ..all }))
}

/// Means of what was counted of the command in each run; nothing of what one of them does not know.
fn counts(runs: &[TimedRun]) -> Amounts {
    let mut of_runs = runs.iter().map(|ran| &ran.outcome.counts);
    let mut all = of_runs.next().cloned().unwrap_or_default();
    of_runs.for_each(|later| all.go_on(later));
    all.divide(u64::try_from(runs.len()).unwrap_or(u64::MAX).max(1));
    all
}

/// A hash of all outputs that were seen: the output's own where there is one alone.
fn hash_of_all(hashes: &BTreeSet<u128>) -> u128 {
    match hashes.first() {
        Some(only) if hashes.len() == 1 => *only,
        _ => {
            let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
            xxhash_rust::xxh3::xxh3_128(&bytes)
        }
    }
}

/// Returns what was read around all runs, and what the deeper levels read around each, per run.
pub(super) fn per_iteration(around: Vec<Reading>, runs: &[TimedRun]) -> Vec<Reading> {
    let mut sums = around;
    if let Some((first, rest)) = runs.split_first() {
        let mut bill = first.bill.clone();
        for ran in rest {
            add(&mut bill, &ran.bill);
        }
        sums.extend(bill);
    }
    let count = u64::try_from(runs.len()).unwrap_or(u64::MAX).max(1);
    for sum in &mut sums {
        sum.amounts.divide(count);
    }
    sums
}

/// Adds what was read around a later run. Of who was not read around one of them, no sum is known:
/// where there are many of these already, one more says nothing, and an inside that names others
/// each time fills no memory.
fn add(sums: &mut Vec<Reading>, later: &[Reading]) {
    let is_of =
        |one: &Reading, other: &Reading| (&one.payer, one.level) == (&other.payer, other.level);
    let mut unmatched: Vec<&Reading> = later.iter().collect();
    for sum in sums.iter_mut() {
        let place = unmatched.iter().position(|reading| is_of(reading, sum));
        let read = place.map(|place| &unmatched.remove(place).amounts);
        sum.amounts.go_on(read.unwrap_or(&Amounts::NONE));
    }
    let room = (READINGS_MOST / 2).saturating_sub(sums.len());
    for reading in unmatched.into_iter().take(room) {
        let mut late = reading.clone();
        late.amounts.go_on(&Amounts::NONE);
        sums.push(late);
    }
}

/// The sum of two counts, of which one may be unknown.
fn added(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (known, None) | (None, known) => known,
    }
}

/// The median; of an even count the mean of the two in the middle. Zero of nothing.
fn median(times: impl Iterator<Item = Nanoseconds>) -> Nanoseconds {
    let mut sorted: Vec<u64> = times.map(|time| time.0).collect();
    sorted.sort_unstable();
    let middle = |back: usize| sorted.get(sorted.len().saturating_sub(back) / 2).copied();
    Nanoseconds(u64::midpoint(middle(1).unwrap_or(0), middle(0).unwrap_or(0)))
}

fn mean(times: impl Iterator<Item = Nanoseconds>) -> Nanoseconds {
    let (sum, count) =
        times.fold((0u64, 0u64), |(sum, n), time| (sum.saturating_add(time.0), n + 1));
    Nanoseconds(sum / count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::{CPU_SYSTEM, CPU_USER, MEMORY_PEAK};
    use surtax_instrument::quantity::Bytes;
    use surtax_instrument::wire::{Output, Role, Status};

    fn ran(wall: u64, output: &[u8], code: i32) -> TimedRun {
        let hash = output.iter().fold(0, |hash, byte| hash * 256 + u128::from(*byte));
        let outcome = Outcome {
            status: Status::Exit(code),
            wall: Nanoseconds(wall),
            cpu_user: Nanoseconds(wall / 2),
            cpu_system: Nanoseconds(0),
            memory_peak: Bytes(wall),
            stdout: Output { hash, ..Output::default() },
            stderr: Output::default(),
            instances: Vec::new(),
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
        };
        let bill = vec![Reading {
            payer: String::from("shim"),
            role: Role::Engine,
            level: 1,
            amounts: [(CPU_USER, wall), (CPU_SYSTEM, 0), (MEMORY_PEAK, wall)].into_iter().collect(),
            carries_workload: false,
            is_shared: false,
        }];
        TimedRun { began: Nanoseconds(0), between: Nanoseconds(wall), outcome, bill }
    }

    fn iteration(ran: &TimedRun) -> Iteration {
        let Outcome { wall, cpu_user, cpu_system, .. } = ran.outcome;
        Iteration { wall, cpu_user, cpu_system }
    }

    #[test]
    fn a_payer_that_is_not_read_around_every_run_has_no_sum_of_what_grows() {
        let mut runs = vec![ran(90, b"a", 0), ran(10, b"a", 0), ran(20, b"a", 0)];
        runs[1].bill.clear();
        let one = Reading { payer: String::from("late"), ..runs[0].bill[0].clone() };
        runs[2].bill.push(one);
        let readings = per_iteration(Vec::new(), &runs);
        let known = |name: &str| {
            let reading = readings.iter().find(|it| it.payer == name).unwrap();
            (reading.is_counted(), reading.amounts.get(MEMORY_PEAK))
        };
        assert_eq!((known("shim"), known("late")), ((false, Some(90)), (false, Some(90))));
    }

    #[test]
    fn of_several_runs_the_worst_end_is_that_of_all() {
        let ended = |statuses: &[Status]| {
            let of = |status: &Status| {
                let mut run = ran(10, b"a", 0);
                run.outcome.status = *status;
                run
            };
            let runs: Vec<TimedRun> = statuses.iter().map(of).collect();
            let iterations: Vec<Iteration> = runs.iter().map(iteration).collect();
            whole(&iterations, runs).unwrap().1.status
        };
        let (failed, killed) = (Status::Exit(3), Status::Signal(9));
        assert_eq!(ended(&[failed, Status::Exit(0)]), failed);
        assert_eq!(ended(&[failed, Status::Exit(4)]), failed);
        assert_eq!(ended(&[failed, killed]), killed);
        assert_eq!(ended(&[killed, failed]), killed);
    }

    #[test]
    fn who_names_other_payers_in_every_run_fills_no_memory_and_has_no_sum() {
        let named = |run: usize| {
            let mut ran = ran(1, b"a", 0);
            let one = ran.bill[0].clone();
            let name = |it: usize| Reading { payer: format!("{run} {it}"), ..one.clone() };
            ran.bill = (0..300).map(name).collect();
            ran
        };
        let runs: Vec<TimedRun> = (0..9).map(named).collect();
        let readings = per_iteration(Vec::new(), &runs);
        assert_eq!(readings.len(), READINGS_MOST / 2);
        assert!(readings.iter().all(|it| !it.is_counted()));
    }

    #[test]
    fn several_runs_are_one_measurement() {
        let runs = vec![ran(90, b"a", 0), ran(10, b"a", 0), ran(20, b"a", 0)];
        let iterations: Vec<Iteration> = runs.iter().map(iteration).collect();
        let readings = per_iteration(Vec::new(), &runs);
        assert_eq!((readings.len(), readings[0].cpu().unwrap().0), (1, Nanoseconds(40)));
        assert_eq!(readings[0].amounts.get(MEMORY_PEAK), Some(90));
        let (wall, outcome) = whole(&iterations, runs).unwrap();
        assert_eq!((wall, outcome.wall), (Nanoseconds(20), Nanoseconds(20)));
        assert_eq!((outcome.cpu_user, outcome.memory_peak), (Nanoseconds(20), Bytes(90)));
    }

    #[test]
    fn an_iteration_with_another_output_or_end_is_what_is_seen_of_all() {
        let runs = vec![ran(1, b"a", 0), ran(1, b"b", 0), ran(1, b"a", 3)];
        let iterations: Vec<Iteration> = runs.iter().map(iteration).collect();
        let (_, outcome) = whole(&iterations, runs).unwrap();
        assert_eq!(outcome.status, Status::Exit(3));
        // No output hides behind another, wherever it came and however often.
        let hash = |outputs: &[&[u8]]| {
            let runs: Vec<TimedRun> = outputs.iter().map(|output| ran(1, output, 0)).collect();
            let iterations: Vec<Iteration> = runs.iter().map(iteration).collect();
            whole(&iterations, runs).unwrap().1.stdout.hash
        };
        assert_eq!(hash(&[b"a", b"a"]), u128::from(b'a'));
        let (one, other) = (hash(&[b"a", b"b", b"b"]), hash(&[b"b", b"a", b"a"]));
        assert_eq!((one, outcome.stdout.hash), (other, other));
        assert!(![b'a', b'b'].map(u128::from).contains(&one));
        assert!(whole(&[], Vec::new()).is_err());
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_two_in_the_middle() {
        let of = |times: &[u64]| median(times.iter().map(|time| Nanoseconds(*time))).0;
        assert_eq!([of(&[]), of(&[7]), of(&[9, 1]), of(&[9, 1, 3, 4])], [0, 7, 5, 3]);
    }
}
