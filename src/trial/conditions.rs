//! Conditions: what else this machine was doing. What cannot be read is absent, never zero.
//!
//! Each number has a stable key that ends with its unit; `FORMAT.md` lists them. Counters are read
//! right before and right after the command and kept as their difference, levels as read before it:
//! what is seen while it runs is a timeline's. `disturbance.rs` judges what was read.

use std::path::{Path, PathBuf};
use surtax_instrument::clock;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::probe::frequency::{Cpus, Speed};
use surtax_instrument::probe::host::{CpuTime, Host, HostCounters};
use surtax_instrument::probe::stops;
use surtax_instrument::probe::throttling::{Chain, Throttling};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Outcome, Stops};

/// The machine's own counters, held open for one trial.
#[derive(Debug)]
pub struct ConditionReader {
    host: Host,
    chain: Chain,
    cpus: Cpus,
    /// Stops of this surtax's children since it was opened.
    stops: u64,
}

/// Values of the counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    host: HostCounters,
    throttling: Option<Throttling>,
    speed: Speed,
    /// CPU time of this surtax.
    surtax_cpu: Nanoseconds,
    stops: u64,
    wall_lead_ns: i64,
}

impl ConditionReader {
    /// Opens the counters of the machine whose files are below `root`, in these hierarchies.
    #[must_use]
    pub fn open(root: &Path, hierarchies: &Hierarchies) -> Self {
        let chain = Chain::open(root, hierarchies);
        Self { host: Host::open(root), chain, cpus: Cpus::open(root), stops: 0 }
    }

    /// From now on watches the parents of the payers' groups, too, which may have quotas.
    pub fn widen(&mut self, hierarchies: &Hierarchies, groups: &[PathBuf]) {
        self.chain.widen(hierarchies, groups);
    }

    /// Reads them now.
    #[must_use]
    pub fn read(&mut self) -> Conditions {
        self.stops += stops::of_children();
        Conditions {
            stops: self.stops,
            speed: self.cpus.read(),
            throttling: self.chain.read(),
            wall_lead_ns: clock::wall_lead_ns(),
            surtax_cpu: clock::process_cpu(),
            host: self.host.read(),
        }
    }

    /// Returns what has happened since a reading, whoever it was: stable key, value.
    pub fn since(&mut self, before: &Conditions) -> Vec<(String, f64)> {
        let after = self.read();
        self.between(before, &after, None)
    }

    /// Returns what happened between two readings: stable key, value. `payers_cpu` is what those
    /// used who worked for the stack, the command among them, where all of them could be read.
    #[must_use]
    pub fn between(
        &self,
        before: &Conditions,
        after: &Conditions,
        payers_cpu: Option<Nanoseconds>,
    ) -> Vec<(String, f64)> {
        let mut found = KeptConditions::default();
        let watched = after.host.at.since(before.host.at);
        found.add("watched_ns", Some(real(watched.0)));
        found.levels(self, before, after);
        found.cpu(before, after, watched, payers_cpu);
        found.pressure(&before.host, &after.host);
        found.paging(&before.host, &after.host);
        let throttled = |of: &dyn Fn(&Throttling) -> u64| {
            rise(before.throttling.as_ref().map(of), after.throttling.as_ref().map(of))
        };
        found.add("throttled_count", throttled(&|it| it.count));
        found.add("throttled_ns", throttled(&|it| it.time.0));
        let heat = rise(before.speed.heat_count, after.speed.heat_count);
        found.add("thermal_throttle_count", heat);
        let step = after.wall_lead_ns.saturating_sub(before.wall_lead_ns) as f64;
        found.add("clock_step_ns", Some(step));
        found.add("stack_stopped_count", Some(real(after.stops - before.stops)));
        found.0
    }
}

/// Returns how often and for how long the command itself stood still in these runs of it, as its
/// agent saw it; nothing where one could not be seen.
pub fn stood_still<'a>(mut runs: impl Iterator<Item = &'a Outcome>) -> Vec<(String, f64)> {
    let add = |(count, time): (u64, Nanoseconds), stops: Stops| {
        (count + u64::from(stops.count), time + stops.time)
    };
    let sum = |sum, outcome: &Outcome| outcome.stops.map(|stops| add(sum, stops));
    let mut found = KeptConditions::default();
    if let Some((count, time)) = runs.try_fold((0, Nanoseconds(0)), sum) {
        found.add("command_stopped_count", Some(real(count)));
        found.add("command_stopped_ns", Some(real(time.0)));
    }
    found.0
}

/// Returns how many processes these runs of the command left running; `None` where they left none.
pub fn left_running<'a>(runs: impl Iterator<Item = &'a Outcome>) -> Option<(String, f64)> {
    let count: u64 = runs.map(|outcome| u64::from(outcome.left_running_count)).sum();
    (count > 0).then(|| (String::from("left_running_count"), real(count)))
}

/// The conditions of one trial as they are kept.
#[derive(Default)]
struct KeptConditions(Vec<(String, f64)>);

impl KeptConditions {
    fn add(&mut self, key: &str, value: Option<f64>) {
        self.0.extend(value.map(|value| (String::from(key), value)));
    }

    fn levels(&mut self, reader: &ConditionReader, before: &Conditions, after: &Conditions) {
        self.add("load_1min", before.host.load_1min);
        self.add("running_count", before.host.running_count.map(real));
        let quotas = reader.chain.quotas();
        self.add("cpu_quota_group_count", quotas.map(|it| real(it.group_count)));
        self.add("cpu_quota_cpus", quotas.and_then(|it| it.cpus));
        self.add("governor_performance_ratio", reader.cpus.fixed_ratio());
        self.add("frequency_before_hz", before.speed.lowest_hz);
        self.add("frequency_after_hz", after.speed.lowest_hz);
    }

    fn cpu(
        &mut self,
        before: &Conditions,
        after: &Conditions,
        watched: Nanoseconds,
        payers_cpu: Option<Nanoseconds>,
    ) {
        let (Some(then), Some(now)) = (before.host.cpu, after.host.cpu) else { return };
        self.add("steal_ns", rise(Some(then.steal.0), Some(now.steal.0)));
        let Some(busy) = busy(&then, &now, watched) else { return };
        self.add("machine_cpu_ns", Some(real(busy.0)));
        if let Some(payers) = payers_cpu {
            let surtax = after.surtax_cpu.since(before.surtax_cpu);
            self.add("others_cpu_ns", Some(real(busy.since(payers + surtax).0)));
        }
    }

    fn pressure(&mut self, before: &HostCounters, after: &HostCounters) {
        let places = [
            ("pressure_cpu_some_ns", ""),
            ("pressure_io_some_ns", "pressure_io_full_ns"),
            ("pressure_memory_some_ns", "pressure_memory_full_ns"),
        ];
        for ((some, full), (then, now)) in
            places.into_iter().zip(before.pressure.iter().zip(&after.pressure))
        {
            let (Some(then), Some(now)) = (then, now) else { continue };
            self.add(some, rise(Some(then.some.0), Some(now.some.0)));
            self.add(full, rise(then.full.map(|it| it.0), now.full.map(|it| it.0)));
        }
    }

    fn paging(&mut self, before: &HostCounters, after: &HostCounters) {
        let bytes = |of: fn(&HostCounters) -> Option<u64>| rise(of(before), of(after));
        self.add("swap_in_bytes", bytes(|it| it.swap_in.map(|bytes| bytes.0)));
        self.add("swap_out_bytes", bytes(|it| it.swap_out.map(|bytes| bytes.0)));
        self.add("major_fault_count", bytes(|it| it.major_fault_count));
        self.add("page_in_bytes", bytes(|it| it.page_in.map(|bytes| bytes.0)));
    }
}

/// CPU time that anybody used, counted twice, and the smaller of the two: a kernel may count work
/// by what runs at each tick, which misses or doubles short bursts, while it measures how long a
/// CPU had nothing to do; and a bill may rest on either. Unknown where CPUs came or went.
fn busy(before: &CpuTime, after: &CpuTime, watched: Nanoseconds) -> Option<Nanoseconds> {
    if before.cpu_count != after.cpu_count || after.cpu_count == 0 {
        return None;
    }
    let counted = after.busy.since(before.busy);
    let not_ours = after.idle.since(before.idle) + after.steal.since(before.steal);
    let all = Nanoseconds(watched.0.saturating_mul(after.cpu_count));
    Some(counted.min(all.since(not_ours)))
}

/// Returns how much a counter rose; one that fell was reset, and says nothing.
fn rise(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    after?.checked_sub(before?).map(real)
}

pub(super) fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
