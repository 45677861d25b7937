//! Whole machines: what the kernel of each level that has one of its own counted, how much more the
//! whole used than its innermost part, and whether what a level calls stolen was taken from it.

use crate::driver;
use crate::finding::bill::medians_of;
use crate::finding::{Agreement, MachineFindings, Medians, StealFindings, UseFindings, foreign};
use crate::layer::StackSpec;
use crate::ledger::StoredTrial;
use std::collections::{BTreeMap, BTreeSet};
use surtax_instrument::amount::{
    Amounts, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER, CPU_WAIT, DISK_READ,
    DISK_WRITTEN, Key, THROTTLED,
};
use surtax_instrument::probe::machine::{LINK, MACHINE};
use surtax_instrument::wire::{Reading, Role};

/// By so much two accounts of the same time may differ: two ticks of 100 Hz.
const TICKS_NS: f64 = 20e6;

/// And by what share of the larger one.
const SHARE: f64 = 0.2;

/// Everything that is found of the machines of one arm.
#[derive(Default)]
pub(crate) struct Machines {
    pub(crate) machines: Vec<MachineFindings>,
    pub(crate) uses: Vec<UseFindings>,
    pub(crate) steals: Vec<StealFindings>,
}

/// Returns what the trials of a stack that count say of machines.
pub(crate) fn of(stack: &StackSpec, trials: &[&StoredTrial]) -> Machines {
    let mut amounts: BTreeMap<(u8, bool, String), Vec<&Amounts>> = BTreeMap::new();
    for reading in trials.iter().flat_map(|trial| &trial.machines) {
        let key = (reading.level, reading.payer != MACHINE, reading.payer.clone());
        amounts.entry(key).or_default().push(&reading.amounts);
    }
    let machines: Vec<MachineFindings> = amounts
        .into_iter()
        .map(|((level, _, name), all)| MachineFindings {
            level,
            name: foreign::line(&name),
            amounts: medians_of(&all, trials.len()),
        })
        .filter(|it| it.amounts != Medians::default())
        .collect();
    let uses = if counts_its_guests(stack) { uses(trials, &machines) } else { Vec::new() };
    let steals = steals(trials, &machines);
    Machines { machines, uses, steals }
}

/// Tells whether this machine's kernel counts what the levels of a stack use: not where they are on
/// another machine, nor where a hypervisor is below it.
fn counts_its_guests(stack: &StackSpec) -> bool {
    let is_below =
        |kind: &str| driver::descriptor(kind).is_some_and(|descriptor| descriptor.is_below_kernel);
    !driver::runs_elsewhere(stack) && !stack.layers.iter().any(|layer| is_below(&layer.kind))
}

/// The medians of all machines of one level, its links together.
fn whole(machines: &[MachineFindings], level: u8, key: Key) -> Option<f64> {
    let of_level = machines.iter().filter(|it| it.level == level);
    of_level.filter_map(|it| it.amounts.get(key)).reduce(|sum, more| sum + more)
}

/// CPU time that a machine spent on anything.
fn busy(machines: &[MachineFindings], level: u8) -> Option<f64> {
    let of = |key| whole(machines, level, key);
    Some(of(CPU_USER)? + of(CPU_SYSTEM)? + of(CPU_IRQ)? + of(CPU_SOFTIRQ)?)
}

/// Puts what the innermost machine or container used beside what this whole machine did.
fn uses(trials: &[&StoredTrial], machines: &[MachineFindings]) -> Vec<UseFindings> {
    let innermost = machines.iter().map(|it| it.level).max().unwrap_or(0);
    let carrier = carriers(trials);
    let resources = [
        ("cpu_ns", None),
        ("disk_read_bytes", Some(DISK_READ)),
        ("disk_written_bytes", Some(DISK_WRITTEN)),
    ];
    let found = resources.into_iter().filter_map(|(resource, key)| {
        let of_machine = |level| match key {
            None => busy(machines, level),
            Some(key) => whole(machines, level, key),
        };
        // A container has no machine of its own: it is its group. Some kernels do not count all.
        let of_carrier = || match key {
            None => Some(carrier.get(CPU_USER)? + carrier.get(CPU_SYSTEM)?),
            Some(key) => carrier.get(key),
        };
        let of_guest = (innermost > 0).then(|| of_machine(innermost)).flatten();
        let (inside, whole) = (of_guest.or_else(of_carrier)?, of_machine(0)?);
        // What a guest reads may be in this machine's memory: only CPU time is the same inside.
        let ratio = (key.is_none() && inside > 0.0).then(|| (whole - inside) / inside);
        let resource = resource.to_owned();
        Some(UseFindings { resource, inside, whole, overhead_ratio: ratio })
    });
    found.filter(|it| it.inside > 0.0 || it.whole > 0.0).collect()
}

/// Medians of what those used on this machine who carry the command.
fn carriers(trials: &[&StoredTrial]) -> Medians {
    let of_trial = |trial: &&StoredTrial| {
        let carrying = trial.readings.iter().filter(|it| it.level == 0 && it.carries_workload);
        carrying.map(|it| it.amounts.clone()).reduce(|sum, more| sum.plus(&more))
    };
    let sums: Vec<Amounts> = trials.iter().filter_map(of_trial).collect();
    medians_of(&sums.iter().collect::<Vec<_>>(), trials.len())
}

/// Holds what each level calls stolen against what was seen of its virtual CPUs outside.
fn steals(trials: &[&StoredTrial], machines: &[MachineFindings]) -> Vec<StealFindings> {
    let levels: BTreeSet<u8> = machines.iter().map(|it| it.level).filter(|it| *it > 0).collect();
    levels
        .into_iter()
        .filter_map(|level| {
            let outside = level.checked_sub(1)?;
            let is_vcpu = |it: &Reading| it.role == Role::GuestKernel;
            let waited_ns = median_of(trials, outside, CPU_WAIT, is_vcpu);
            let throttled_ns = median_of(trials, outside, THROTTLED, |it| it.carries_workload);
            let inside_ns = whole(machines, level, CPU_STEAL);
            // What a quota holds back is waiting, too.
            let agreement = agreement(inside_ns, waited_ns?);
            Some(StealFindings { level, inside_ns, waited_ns, throttled_ns, agreement })
        })
        .collect()
}

/// The median over trials of what such payers of a level have of a quantity together.
fn median_of(
    trials: &[&StoredTrial],
    level: u8,
    key: Key,
    is_one: impl Fn(&Reading) -> bool,
) -> Option<f64> {
    let of_trial = |trial: &&StoredTrial| {
        let those = trial.readings.iter().filter(|it| it.level == level && is_one(it));
        let sum = those.filter_map(|it| it.amounts.get(key)).reduce(u64::saturating_add)?;
        Some(Amounts::default().with(key, sum))
    };
    let sums: Vec<Amounts> = trials.iter().filter_map(of_trial).collect();
    medians_of(&sums.iter().collect::<Vec<_>>(), trials.len()).get(key)
}

fn agreement(inside: Option<f64>, taken: f64) -> Agreement {
    let Some(inside) = inside else { return Agreement::Unknown };
    let slack = TICKS_NS.max(SHARE * inside.max(taken));
    match inside - taken {
        _ if inside.max(taken) < slack => Agreement::TooLittle,
        more if more > slack => Agreement::InsideSaysMore,
        less if less < -slack => Agreement::InsideSaysLess,
        _ => Agreement::Agree,
    }
}

/// Tells whether a name is a link's.
pub(crate) fn is_link(name: &str) -> bool {
    name.starts_with(LINK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::{NETWORK_RECEIVED, NETWORK_SENT};

    const MS: u64 = 1_000_000;

    fn stack(spelled: &str) -> StackSpec {
        driver::parse(spelled).unwrap()
    }

    fn reading(payer: &str, role: Role, level: u8, amounts: &[(Key, u64)]) -> Reading {
        Reading {
            payer: payer.into(),
            role,
            level,
            amounts: amounts.iter().copied().collect(),
            carries_workload: role == Role::GuestKernel,
            is_shared: false,
        }
    }

    /// A trial in a guest whose virtual CPUs waited so long, and whose kernel says so much.
    fn trial(waited_ms: u64, stolen_ms: u64) -> StoredTrial {
        let machine = |level, user_ms: u64, stolen_ms: u64| {
            let amounts = [
                (CPU_USER, user_ms * MS),
                (CPU_SYSTEM, 10 * MS),
                (CPU_IRQ, 0),
                (CPU_SOFTIRQ, 10 * MS),
                (CPU_STEAL, stolen_ms * MS),
                (DISK_READ, 4096),
            ];
            reading(MACHINE, Role::Machine, level, &amounts)
        };
        let link = |name: &str, sent| {
            let carried = [(NETWORK_RECEIVED, 0), (NETWORK_SENT, sent)];
            reading(name, Role::Machine, 0, &carried)
        };
        let waited = [(CPU_USER, 600 * MS), (CPU_SYSTEM, 0), (CPU_WAIT, waited_ms * MS)];
        StoredTrial {
            readings: vec![reading("vCPU threads", Role::GuestKernel, 0, &waited)],
            machines: vec![
                machine(0, 730, 0),
                link("link eth0", 70),
                link("link tap0", 30),
                machine(1, 480, stolen_ms),
            ],
            ..StoredTrial::default()
        }
    }

    #[test]
    fn the_whole_is_put_beside_what_its_innermost_machine_used() {
        let trials = [trial(0, 0), trial(0, 0), trial(0, 0)];
        let found = of(&stack("qemu"), &trials.iter().collect::<Vec<_>>());
        let names: Vec<(u8, &str)> =
            found.machines.iter().map(|it| (it.level, it.name.as_str())).collect();
        assert_eq!(names, [(0, MACHINE), (0, "link eth0"), (0, "link tap0"), (1, MACHINE)]);
        let uses: Vec<(&str, f64, f64)> =
            found.uses.iter().map(|it| (it.resource.as_str(), it.inside, it.whole)).collect();
        assert_eq!(uses, [("cpu_ns", 5e8, 7.5e8), ("disk_read_bytes", 4096.0, 4096.0)]);
        assert_eq!(found.uses[0].overhead_ratio, Some(0.5));
    }

    #[test]
    fn what_this_machines_kernel_does_not_count_is_not_beside_it() {
        let trial = trial(0, 0);
        assert!(!of(&stack("runc"), &[&trial]).uses.is_empty());
        for elsewhere in ["xen", "ssh:there"] {
            let found = of(&stack(elsewhere), &[&trial]);
            assert!(found.uses.is_empty() && !found.machines.is_empty(), "{elsewhere}");
        }
    }

    #[test]
    fn a_container_is_its_group() {
        let mut plain = trial(0, 0);
        plain.machines.pop();
        let found = of(&stack("qemu"), &[&plain]);
        assert!((found.uses[0].inside - 6e8).abs() < 1.0, "{:?}", found.uses);
        assert!(found.steals.is_empty());
    }

    #[test]
    fn what_a_guest_calls_stolen_is_held_against_how_long_its_cpus_waited() {
        let said = |waited_ms, stolen_ms| {
            let trials = [trial(waited_ms, stolen_ms), trial(waited_ms, stolen_ms)];
            of(&stack("qemu"), &trials.iter().collect::<Vec<_>>()).steals[0].agreement
        };
        assert_eq!(said(500, 450), Agreement::Agree);
        assert_eq!(said(10, 0), Agreement::TooLittle, "two ticks");
        assert_eq!(said(500, 0), Agreement::InsideSaysLess);
        assert_eq!(said(100, 500), Agreement::InsideSaysMore);
        let mut untold = trial(5, 5);
        untold.machines[3].amounts.remove(CPU_STEAL);
        assert_eq!(of(&stack("qemu"), &[&untold]).steals[0].agreement, Agreement::Unknown);
        // Of whom nobody outside knows how long it waited, nothing is said.
        untold.readings.clear();
        assert!(of(&stack("qemu"), &[&untold]).steals.is_empty());
    }
}
