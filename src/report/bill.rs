//! The bill: who used the CPU time of a trial, each second counted once.
//!
//! A payer that carries the workload contains the deeper levels and the command: its own part is
//! what remains when everything that the next level saw has been taken out. Where several payers of
//! a level carry it, the one that used most gives first. In a virtual machine all of the guest is
//! user time to the host, so there the guest's system time is taken out of user time too.

use super::PayerFindings;
use super::estimate;
use crate::ledger::{StoredTrial, role_word};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use surtax_instrument::wire::{Reading, Role};

/// From here on it is said that more was taken out of a level than its carriers had.
const OVERDRAFT_SHARE: f64 = 0.05;

/// Kernels of cgroup version 1 count in ticks of 10 ms: less says nothing.
const OVERDRAFT_MIN_NS: u64 = 10_000_000;

/// Who paid for the trials of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bill {
    /// Medians per trial, the command first, then by level and amount.
    pub(super) payers: Vec<PayerFindings>,
    /// Trials in which a level had used less than what runs inside it.
    pub(super) overdrawn_trials: u32,
    /// The largest missing share among them.
    pub(super) overdraft_share: f64,
}

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpu {
    user: u64,
    system: u64,
}

impl Cpu {
    fn total(self) -> u64 {
        self.user.saturating_add(self.system)
    }

    fn plus(self, other: Self) -> Self {
        let user = self.user.saturating_add(other.user);
        Self { user, system: self.system.saturating_add(other.system) }
    }

    /// Takes `part` out, as far as it is there; returns what remains here, and what was missing.
    fn without(self, part: Self, all_is_user: bool) -> (Self, Self) {
        let part = if all_is_user { Self { user: part.total(), system: 0 } } else { part };
        let like_from_like = Self {
            user: self.user.saturating_sub(part.user),
            system: self.system.saturating_sub(part.system),
        };
        let missing = Self {
            user: part.user.saturating_sub(self.user),
            system: part.system.saturating_sub(self.system),
        };
        // The two kernels need not agree on which kind it was: what one lacks the other gives.
        let rest = Self {
            user: like_from_like.user.saturating_sub(missing.system),
            system: like_from_like.system.saturating_sub(missing.user),
        };
        let unpaid = Self {
            user: missing.user.saturating_sub(like_from_like.system),
            system: missing.system.saturating_sub(like_from_like.user),
        };
        (rest, unpaid)
    }
}

/// The bill of the trials that count. `depth` is the level of the command.
pub(super) fn of(trials: &[&StoredTrial], depth: u8) -> Bill {
    let mut bill = Bill::default();
    let mut columns: BTreeMap<(u8, Role, &str), Column> = BTreeMap::new();
    for trial in trials {
        let (net, overdraft) = net(&trial.readings, command_cpu(trial));
        if overdraft > OVERDRAFT_SHARE {
            bill.overdrawn_trials += 1;
            bill.overdraft_share = bill.overdraft_share.max(overdraft);
        }
        let mut sums: BTreeMap<(u8, Role, &str), (Cpu, Option<u64>)> = BTreeMap::new();
        for (reading, cpu) in trial.readings.iter().zip(net) {
            let key = (reading.level, reading.role, reading.payer.as_str());
            let (sum, memory) = sums.entry(key).or_default();
            *sum = sum.plus(cpu);
            let peak = reading.memory_peak.map(|peak| peak.0);
            *memory = peak.map(|peak| peak.saturating_add(memory.unwrap_or(0))).or(*memory);
        }
        for (key, (cpu, memory)) in sums {
            columns.entry(key).or_default().add(cpu, memory);
        }
    }
    let mut others: Vec<PayerFindings> = columns
        .into_iter()
        .filter_map(|((level, role, payer), column)| column.findings(payer, role, level))
        .collect();
    others.sort_by(|a, b| a.level.cmp(&b.level).then(b.cpu_ns.total_cmp(&a.cpu_ns)));

    let mut command = Column::default();
    for trial in trials {
        command.add(command_cpu(trial), trial.sample("memory_peak_bytes").map(|it| it.whole));
    }
    bill.payers = command.findings("the command", Role::Workload, depth).into_iter().collect();
    bill.payers.append(&mut others);
    bill
}

/// The values of one payer, trial by trial.
#[derive(Default)]
struct Column {
    total: Vec<f64>,
    user: Vec<f64>,
    system: Vec<f64>,
    memory: Vec<f64>,
}

impl Column {
    fn add(&mut self, cpu: Cpu, memory: Option<u64>) {
        self.total.push(estimate::float(cpu.total()));
        self.user.push(estimate::float(cpu.user));
        self.system.push(estimate::float(cpu.system));
        self.memory.extend(memory.map(estimate::float));
    }

    fn findings(&self, payer: &str, role: Role, level: u8) -> Option<PayerFindings> {
        Some(PayerFindings {
            payer: super::foreign::line(payer),
            role: role_word(role).into(),
            level,
            cpu_ns: estimate::median(&self.total)?,
            cpu_user_ns: estimate::median(&self.user)?,
            cpu_system_ns: estimate::median(&self.system)?,
            memory_peak_bytes: estimate::median(&self.memory),
        })
    }
}

fn command_cpu(trial: &StoredTrial) -> Cpu {
    let sample = |metric| trial.sample(metric).map_or(0, |sample| sample.whole);
    Cpu { user: sample("cpu_user_ns"), system: sample("cpu_system_ns") }
}

/// What each reading keeps for itself, and the largest share that a level's carriers lacked.
fn net(readings: &[Reading], command: Cpu) -> (Vec<Cpu>, f64) {
    let gross = |reading: &Reading| Cpu { user: reading.cpu_user.0, system: reading.cpu_system.0 };
    let mut net: Vec<Cpu> = readings.iter().map(gross).collect();
    let mut overdraft = 0.0f64;
    let mut inside = command; // all that the deeper levels and the command used
    let deepest = readings.iter().map(|reading| reading.level).max().unwrap_or(0);
    for level in (0..=deepest).rev() {
        let here = || readings.iter().enumerate().filter(move |(_, it)| it.level == level);
        let seen = here().map(|(_, it)| gross(it)).fold(Cpu::default(), Cpu::plus);
        let mut carriers: Vec<usize> =
            here().filter(|(_, it)| it.carries_workload).map(|(index, _)| index).collect();
        if carriers.is_empty() {
            inside = inside.plus(seen); // who stands beside the workload does not contain it
            continue;
        }
        carriers.sort_by_key(|index| Reverse(net[*index].total()));
        let mut unpaid = inside;
        for index in carriers {
            let guest = matches!(readings[index].role, Role::GuestKernel | Role::Hypervisor);
            (net[index], unpaid) = net[index].without(unpaid, guest);
        }
        if unpaid.total() > OVERDRAFT_MIN_NS {
            overdraft =
                overdraft.max(estimate::float(unpaid.total()) / estimate::float(inside.total()));
        }
        inside = seen;
    }
    (net, overdraft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::reading;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn total(readings: &[Reading], command: Cpu) -> (Vec<u64>, f64) {
        let (net, overdraft) = net(readings, command);
        (net.into_iter().map(Cpu::total).collect(), overdraft)
    }

    #[test]
    fn the_command_and_the_deeper_levels_are_taken_out_once() {
        let readings = [
            reading("qemu", 0, 1000, true),
            reading("virtiofsd", 0, 50, false),
            reading("container", 1, 700, true),
            reading("dockerd", 1, 40, false),
        ];
        // Level 1 saw 740, 600 of it the command; qemu keeps 1000 − 740.
        let (net, overdraft) = total(&readings, Cpu { user: 600, system: 0 });
        assert_eq!((net, overdraft), (vec![260, 50, 100, 40], 0.0));
    }

    #[test]
    fn of_several_carriers_the_largest_gives_first() {
        let readings = [reading("small", 0, 100, true), reading("large", 0, 900, true)];
        let (net, _) = total(&readings, Cpu { user: 950, system: 0 });
        assert_eq!(net, [50, 0]);
    }

    #[test]
    fn more_inside_than_outside_is_zero_and_is_said() {
        let readings = [reading("vCPU threads", 0, 900 * MS, true)];
        let (net, overdraft) = total(&readings, Cpu { user: 1000 * MS, system: 0 });
        assert_eq!((net, overdraft), (vec![0], 0.1));
    }

    #[test]
    fn a_tick_too_few_is_not_worth_a_word() {
        let readings = [reading("group", 0, 0, true)];
        assert_eq!(total(&readings, Cpu { user: 9 * MS, system: 0 }), (vec![0], 0.0));
    }

    #[test]
    fn system_time_of_a_guest_is_user_time_of_its_host() {
        let mut host = reading("vCPU threads", 0, 1000, true);
        host.role = Role::GuestKernel;
        host.cpu_system.0 = 70;
        let (net, _) = net(&[host], Cpu { user: 300, system: 500 });
        assert_eq!(net, [Cpu { user: 200, system: 70 }]);
    }

    proptest! {
        #[test]
        fn what_level_0_saw_is_what_all_payers_and_the_command_used(
            outer in 0u64..1000, inner in 0u64..1000, beside in 0u64..1000,
            user in 0u64..1000, system in 0u64..1000,
        ) {
            let command = Cpu { user, system };
            let inner = inner + command.total();
            let outer = outer + inner;
            let readings = [
                reading("outer", 0, outer, true),
                reading("beside", 0, beside, false),
                reading("inner", 1, inner, true),
            ];
            let (net, overdraft) = total(&readings, command);
            prop_assert_eq!(net.iter().sum::<u64>() + command.total(), outer + beside);
            prop_assert_eq!(overdraft, 0.0);
        }
    }
}
