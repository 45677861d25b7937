//! Wall time of a command apart: on a CPU, held back, waiting, and elsewhere.
//!
//! Each part is a median of what a kernel counted; where nobody tells the command's CPU time from
//! that of its layers, it is all of it. What is left of the wall time is elsewhere: the command
//! slept, or others worked for it. Where it has several threads, a wait counts while all that could
//! go on waited.

use crate::finding::{ArmFindings, Findings, MachineFindings, TimePart, bill, number};
use crate::ledger::StoredTrial;
use surtax_instrument::amount::{
    Amounts, CPU_STEAL, CPU_WAIT, Key, PRESSURE_CPU_FULL, PRESSURE_IO_FULL, PRESSURE_MEMORY_FULL,
    THROTTLED,
};
use surtax_instrument::probe::machine::MACHINE;
use surtax_instrument::wire::{Reading, Role};

/// Name and words of each part, in their order.
pub(crate) const PARTS: [(&str, &str); 9] = [
    ("cpu-user", "CPU, user"),
    ("cpu-system", "CPU, system"),
    ("cpu-all", "CPU, all"),
    ("throttled", "Held back by a quota"),
    ("waited-for-cpu", "Waited for a CPU"),
    ("waited-for-disk", "Waited for a disk"),
    ("waited-for-memory", "Waited for memory"),
    ("stolen", "Stolen from this machine"),
    ("elsewhere", "Elsewhere"),
];

/// Explains a table of them.
pub(crate) const PARTS_ARE: &str = "Medians of one run of the command. CPU time is divided by \
    the CPUs that it kept busy; a wait counts while all that could go on waited, of a machine \
    while its virtual CPUs did. Elsewhere it slept, or others worked for it.";

/// A part of less than this share of every stack's time has no column.
const SHOWN_FROM: f64 = 0.01;

/// A table is worth its room where more than this share of a stack's time was not on a CPU.
const WORTH_FROM: f64 = 0.1;

/// Divides the command's time, of an arm with these trials and machines.
pub(crate) fn of(arm: &ArmFindings, trials: &[&StoredTrial]) -> Vec<TimePart> {
    let of_metric = |name: &str| arm.metric(name).map(|it| it.median);
    let own = of_metric("cpu_user_ns").zip(of_metric("cpu_system_ns"));
    let used = match (own, of_metric("cpu_total_ns")) {
        (Some((user, system)), _) => [user, system, 0.0],
        (None, Some(all)) => [0.0, 0.0, all],
        (None, None) => return Vec::new(),
    };
    let Some(wall) = of_metric("wall_ns") else { return Vec::new() };
    let over = arm.spread_over().unwrap_or(1.0);
    divided(wall, used, over, &Waits::of(trials, &arm.machines))
}

/// Divides a time into what it was used for, over so many CPUs, and what was waited for in it:
/// never into more than there is.
fn divided(wall: f64, [user, system, all]: [f64; 3], over: f64, waits: &Waits) -> Vec<TimePart> {
    let throttled = waits.throttled / over;
    let known = [
        user / over,
        system / over,
        all / over,
        throttled,
        waits.cpu.max(waits.of_virtual_cpus / over) - throttled,
        waits.disk,
        waits.memory,
        waits.stolen / over,
        wall,
    ];
    let mut left = wall;
    let part = |((name, _), ns): (&(&str, &str), f64)| {
        let ns = ns.max(0.0).min(left);
        left -= ns;
        TimePart { part: String::from(*name), ns }
    };
    PARTS.iter().zip(known).map(part).collect()
}

/// Times in which a command could not go on; of what nobody counts, none.
#[derive(Debug, Default, PartialEq)]
struct Waits {
    throttled: f64,
    cpu: f64,
    of_virtual_cpus: f64,
    disk: f64,
    memory: f64,
    stolen: f64,
}

impl Waits {
    fn of(trials: &[&StoredTrial], machines: &[MachineFindings]) -> Self {
        let of_machine = |level: u8, key: Key| {
            let machine = machines.iter().find(|it| it.level == level && it.name == MACHINE);
            machine.and_then(|it| it.amounts.get(key))
        };
        // Who is further in knows better for what the command waited; in a guest that runs nothing
        // else, the machine's waits are its own.
        let deepest = |key: Key| {
            median(trials, key, |all| {
                carrying(all, key).max_by_key(|(level, _)| *level).map(|(_, amount)| amount)
            })
        };
        let guest = machines.iter().map(|it| it.level).max().filter(|level| *level > 0);
        let wait = |key: Key| {
            let of_guest = guest.and_then(|level| of_machine(level, key));
            of_guest.or_else(|| deepest(key)).unwrap_or(0.0)
        };
        let throttled =
            median(trials, THROTTLED, |all| carrying(all, THROTTLED).map(|(_, ns)| ns).max());
        let of_virtual_cpus = median(trials, CPU_WAIT, |all| {
            let those = all.iter().filter(|it| it.role == Role::GuestKernel);
            those.filter_map(|it| it.amounts.get(CPU_WAIT)).max()
        });
        Self {
            throttled: throttled.unwrap_or(0.0),
            cpu: deepest(PRESSURE_CPU_FULL).unwrap_or(0.0),
            of_virtual_cpus: of_virtual_cpus.unwrap_or(0.0),
            disk: wait(PRESSURE_IO_FULL),
            memory: wait(PRESSURE_MEMORY_FULL),
            stolen: of_machine(0, CPU_STEAL).unwrap_or(0.0),
        }
    }
}

/// Amounts of those who carry the command, each with its level.
fn carrying(all: &[Reading], key: Key) -> impl Iterator<Item = (u8, u64)> {
    let those = all.iter().filter(|it| it.carries_workload || it.role == Role::Workload);
    those.filter_map(move |it| Some((it.level, it.amounts.get(key)?)))
}

/// The median over trials of one amount of each.
fn median(
    trials: &[&StoredTrial],
    key: Key,
    of_trial: impl Fn(&[Reading]) -> Option<u64>,
) -> Option<f64> {
    let known = trials.iter().filter_map(|trial| of_trial(&trial.readings));
    let all: Vec<Amounts> = known.map(|amount| Amounts::default().with(key, amount)).collect();
    bill::medians_of(&all.iter().collect::<Vec<_>>(), trials.len()).get(key)
}

/// Headings of a table, a `#` before those of numbers, and the times in each arm's row.
type Rows<'a> = (Vec<String>, Vec<(&'a ArmFindings, Vec<f64>)>);

/// A table of the parts of each arm's time. `None` where nobody's time is known.
pub(crate) fn table(findings: &Findings) -> Option<Rows<'_>> {
    let arms = || findings.arms.iter().filter(|arm| !arm.is_again() && !arm.time_parts.is_empty());
    let is_shown = |part: &str| {
        arms().any(|arm| {
            let all: f64 = arm.time_parts.iter().map(|it| it.ns).sum();
            arm.time_part(part).is_some_and(|ns| ns > 0.0 && ns >= SHOWN_FROM * all)
        })
    };
    let shown: Vec<&(&str, &str)> = PARTS.iter().filter(|(part, _)| is_shown(part)).collect();
    if shown.is_empty() {
        return None;
    }
    let headings = shown.iter().map(|(_, words)| format!("#{words}"));
    let headings = std::iter::once(String::from("Stack")).chain(headings).collect();
    let cells = |arm: &ArmFindings| {
        shown.iter().map(|(part, _)| arm.time_part(part).unwrap_or(0.0)).collect()
    };
    Some((headings, arms().map(|arm| (arm, cells(arm))).collect()))
}

/// A part of the time, for people.
pub(crate) fn cell(ns: f64) -> String {
    if ns > 0.0 { number::time(ns) } else { number::GAP.into() }
}

/// Tells whether so much of some stack's time was not on a CPU that it is worth a table where there
/// is little room.
pub(crate) fn is_worth_it(findings: &Findings) -> bool {
    findings.arms.iter().any(|arm| {
        let all: f64 = arm.time_parts.iter().map(|it| it.ns).sum();
        let waited = arm.time_parts.iter().filter(|it| !it.part.starts_with("cpu-"));
        waited.map(|it| it.ns).sum::<f64>() > WORTH_FROM * all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Medians;

    fn reading(role: Role, level: u8, amounts: &[(Key, u64)]) -> Reading {
        Reading {
            payer: String::from("one"),
            role,
            level,
            amounts: amounts.iter().copied().collect(),
            carries_workload: role == Role::GuestKernel,
            is_shared: false,
        }
    }

    fn waits(readings: &[Reading], machines: &[(u8, Key, f64)]) -> Waits {
        let trial = StoredTrial { readings: readings.to_vec(), ..StoredTrial::default() };
        let machine = |(level, key, ns): &(u8, Key, f64)| MachineFindings {
            level: *level,
            name: String::from(MACHINE),
            amounts: Medians([(*key, *ns)].into()),
        };
        let machines: Vec<MachineFindings> = machines.iter().map(machine).collect();
        Waits::of(&[&trial, &trial, &trial], &machines)
    }

    #[test]
    fn a_wait_is_that_of_whoever_is_furthest_in_and_a_quota_that_of_the_tightest() {
        let outer = [(PRESSURE_CPU_FULL, 90), (PRESSURE_IO_FULL, 5), (THROTTLED, 60)];
        let inner = [(PRESSURE_CPU_FULL, 70), (PRESSURE_IO_FULL, 8), (THROTTLED, 0)];
        let engine = [(PRESSURE_CPU_FULL, 1_000), (THROTTLED, 1_000)];
        let readings = [
            reading(Role::Workload, 0, &outer),
            reading(Role::Workload, 1, &inner),
            reading(Role::Engine, 1, &engine),
        ];
        let expected = Waits { throttled: 60.0, cpu: 70.0, disk: 8.0, ..Waits::default() };
        assert_eq!(waits(&readings, &[]), expected);
        assert_eq!(waits(&[reading(Role::Workload, 0, &[])], &[]), Waits::default());
    }

    #[test]
    fn in_a_guest_its_own_kernel_says_what_was_waited_for_and_this_one_for_how_long_it_had_no_cpu()
    {
        let vcpus = reading(Role::GuestKernel, 0, &[(CPU_WAIT, 40), (PRESSURE_IO_FULL, 99)]);
        let machines = [(0, CPU_STEAL, 30.0), (1, PRESSURE_IO_FULL, 12.0)];
        let expected =
            Waits { of_virtual_cpus: 40.0, disk: 12.0, stolen: 30.0, ..Waits::default() };
        assert_eq!(waits(&[vcpus], &machines), expected);
    }

    #[test]
    fn parts_are_the_whole_and_what_a_quota_held_back_is_no_other_wait() {
        let of = |waits: &Waits, over: f64| -> Vec<f64> {
            divided(1_000.0, [200.0, 100.0, 0.0], over, waits).iter().map(|it| it.ns).collect()
        };
        let some = Waits { throttled: 300.0, cpu: 350.0, disk: 90.0, ..Waits::default() };
        assert_eq!(of(&some, 1.0), [200.0, 100.0, 0.0, 300.0, 50.0, 90.0, 0.0, 0.0, 260.0]);
        let guest = Waits { of_virtual_cpus: 350.0, stolen: 50.0, ..Waits::default() };
        assert_eq!(of(&guest, 2.0), [100.0, 50.0, 0.0, 0.0, 175.0, 0.0, 0.0, 25.0, 650.0]);
        // A tick more than there was.
        let much = Waits { cpu: 650.0, disk: 100.0, stolen: 900.0, ..Waits::default() };
        assert_eq!(of(&much, 1.0), [200.0, 100.0, 0.0, 0.0, 650.0, 50.0, 0.0, 0.0, 0.0]);
    }
}
