//! Amounts that a payer used, by quantity, and the one table in which all about a quantity stands.
//!
//! A new quantity is a line of [`QUANTITIES`] and whoever reads it. The wire carries it, the run
//! file keeps it and tables of payers show it by what its line says. An amount that nobody could
//! read is absent, and never zero.

use crate::quantity::Nanoseconds;
use Course::{Counter, Events, Gauge, Peak};
use std::collections::BTreeMap;

/// The number of a quantity, on the wire and in run files: never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u16);

/// User CPU time.
pub const CPU_USER: Key = Key(1);
/// System CPU time.
pub const CPU_SYSTEM: Key = Key(2);
/// The most memory at once, since the payer began.
pub const MEMORY_PEAK: Key = Key(3);
/// Memory of processes that no file backs.
pub const MEMORY_ANON: Key = Key(4);
/// Page cache of files on disks, which the kernel drops where memory is wanted.
pub const MEMORY_PAGE_CACHE: Key = Key(5);
/// Files in memory (tmpfs) and shared memory: cached like files, but there is no disk from which to
/// read them again.
pub const MEMORY_SHMEM: Key = Key(6);
/// Memory of the kernel on the payer's behalf.
pub const MEMORY_KERNEL: Key = Key(7);
/// Processes that the kernel killed because memory had run out.
pub const OOM_KILLS: Key = Key(8);
/// Read from disks: what was in memory already is not.
pub const DISK_READ: Key = Key(9);
/// Written to disks: of a group what was sent to them, of a process the pages that it made dirty.
pub const DISK_WRITTEN: Key = Key(10);
/// Page faults, of which most need no disk; of a group perhaps some too few or too many.
pub const PAGE_FAULTS: Key = Key(11);
/// Number of times that a CPU was taken or given up.
pub const CONTEXT_SWITCHES: Key = Key(12);
/// Processes that the kernel did not make because a group may have no more of them.
pub const PROCESSES_REFUSED: Key = Key(13);
/// CPU time of the group in which the agent and the command are, and nobody who works for a layer.
pub const CPU_COMMAND_GROUP: Key = Key(14);
/// Involuntary context switches, a part of all: who would have gone on lost the CPU, or asked for
/// that (`sched_yield`).
pub const PREEMPTIONS: Key = Key(15);
/// Time of threads that were ready to run and had no CPU.
pub const CPU_WAIT: Key = Key(16);
/// Page faults for which something was read from a disk, a part of all.
pub const MAJOR_FAULTS: Key = Key(17);
/// Time for which a group's quota of CPU time held it back, over its CPUs.
pub const THROTTLED: Key = Key(18);
/// CPU time of work that yields to all other, a part of user time: of a machine alone.
pub const CPU_NICE: Key = Key(19);
/// CPU time of interrupts, of a machine, beside its system time.
pub const CPU_IRQ: Key = Key(20);
/// CPU time of what interrupts left to do, of a machine, beside its system time.
pub const CPU_SOFTIRQ: Key = Key(21);
/// CPU time that a machine wanted and that the machine below it gave to somebody else.
pub const CPU_STEAL: Key = Key(22);
/// CPU time of a machine's virtual CPUs, a part of its user time.
pub const CPU_GUEST: Key = Key(23);
/// CPU time in which a machine had nothing to run, and something waited for a disk.
pub const CPU_IOWAIT: Key = Key(24);
/// CPU time in which a machine had nothing to run.
pub const CPU_IDLE: Key = Key(25);
/// Time in which some task waited for a CPU.
pub const PRESSURE_CPU_SOME: Key = Key(26);
/// Time in which some task waited for input and output.
pub const PRESSURE_IO_SOME: Key = Key(27);
/// Time in which all tasks that were not idle waited for input and output.
pub const PRESSURE_IO_FULL: Key = Key(28);
/// Time in which some task waited for memory.
pub const PRESSURE_MEMORY_SOME: Key = Key(29);
/// Time in which all tasks that were not idle waited for memory.
pub const PRESSURE_MEMORY_FULL: Key = Key(30);
/// Memory at this moment: of a machine what programs could not have, of a group what it is charged,
/// of a process what is resident.
pub const MEMORY_USED: Key = Key(31);
/// Received by a network link.
pub const NETWORK_RECEIVED: Key = Key(32);
/// Sent by a network link.
pub const NETWORK_SENT: Key = Key(33);
/// Packets that a network link received.
pub const PACKETS_RECEIVED: Key = Key(34);
/// Packets that a network link sent.
pub const PACKETS_SENT: Key = Key(35);
/// Interrupts that a machine's CPUs took.
pub const INTERRUPTS: Key = Key(36);

/// Time in which some of a group's tasks could run, and none had a CPU: others had them, or its
/// quota was used up.
pub const PRESSURE_CPU_FULL: Key = Key(37);
/// Number of times that a virtual machine's CPUs left their guest, by KVM's account.
pub const VM_EXITS: Key = Key(38);
/// Number of them for ports and memory of devices.
pub const VM_EXITS_DEVICE: Key = Key(39);
/// Number of them because the guest had nothing to run.
pub const VM_EXITS_HALT: Key = Key(40);
/// Number of them for an interrupt of the machine below.
pub const VM_EXITS_INTERRUPT: Key = Key(41);
/// Time in which KVM waited for a halted guest and did not give up the CPU.
pub const HALT_POLL: Key = Key(42);
/// Memory of page tables, a part of the kernel's.
pub const MEMORY_PAGE_TABLES: Key = Key(43);
/// Memory that is not used because pages of the same contents are one (KSM).
pub const MEMORY_MERGED: Key = Key(44);

/// Course of an amount while its payer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It grows: by how much counts; of several runs, the mean of one.
    Counter,
    /// It grows when something rare happens: of several runs, the sum.
    Events,
    /// It is the greatest so far: of several runs, the greatest.
    Peak,
    /// It goes up and down: what it is right after the command counts; of several runs, after the
    /// last.
    Gauge,
}

/// Unit in which an amount is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

impl Unit {
    /// The word for it in run files and in every format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Count => "count",
        }
    }
}

/// All about one quantity.
#[derive(Debug)]
pub struct Quantity {
    /// Number of the quantity.
    pub key: Key,
    /// Name of its field in every format; one that has a unit ends with it.
    pub name: &'static str,
    /// Unit in which it is counted.
    pub unit: Unit,
    /// Course of its amounts.
    pub course: Course,
    /// Heading of its column in tables of payers; `None` where it is told of in another way.
    pub heading: Option<&'static str>,
}

const fn quantity(
    key: Key,
    name: &'static str,
    unit: Unit,
    course: Course,
    heading: &'static str,
) -> Quantity {
    Quantity { key, name, unit, course, heading: Some(heading) }
}

/// One without a column.
const fn apart(key: Key, name: &'static str, unit: Unit, course: Course) -> Quantity {
    Quantity { key, name, unit, course, heading: None }
}

/// Time in which somebody waited, which no table of payers has a column for.
const fn pressure(key: Key, name: &'static str) -> Quantity {
    apart(key, name, Unit::Nanoseconds, Counter)
}

/// Every quantity, in the order of its columns and of its numbers.
pub static QUANTITIES: [Quantity; 44] = [
    quantity(CPU_USER, "cpu_user_ns", Unit::Nanoseconds, Counter, "User"),
    quantity(CPU_SYSTEM, "cpu_system_ns", Unit::Nanoseconds, Counter, "System"),
    quantity(MEMORY_PEAK, "memory_peak_bytes", Unit::Bytes, Peak, "Memory, peak"),
    quantity(MEMORY_ANON, "memory_anon_bytes", Unit::Bytes, Gauge, "Anonymous, after"),
    quantity(MEMORY_PAGE_CACHE, "memory_page_cache_bytes", Unit::Bytes, Gauge, "Page cache, after"),
    quantity(MEMORY_SHMEM, "memory_shmem_bytes", Unit::Bytes, Gauge, "Files in memory, after"),
    quantity(MEMORY_KERNEL, "memory_kernel_bytes", Unit::Bytes, Gauge, "Kernel, after"),
    apart(OOM_KILLS, "oom_kill_count", Unit::Count, Events),
    quantity(DISK_READ, "disk_read_bytes", Unit::Bytes, Counter, "Read from disks"),
    quantity(DISK_WRITTEN, "disk_written_bytes", Unit::Bytes, Counter, "Written to disks"),
    quantity(PAGE_FAULTS, "page_fault_count", Unit::Count, Counter, "Page faults"),
    quantity(CONTEXT_SWITCHES, "context_switch_count", Unit::Count, Counter, "Context switches"),
    apart(PROCESSES_REFUSED, "process_refused_count", Unit::Count, Events),
    apart(CPU_COMMAND_GROUP, "command_group_cpu_ns", Unit::Nanoseconds, Counter),
    quantity(PREEMPTIONS, "preemption_count", Unit::Count, Counter, "Preemptions"),
    quantity(CPU_WAIT, "cpu_wait_ns", Unit::Nanoseconds, Counter, "Waited for a CPU"),
    apart(MAJOR_FAULTS, "major_fault_count", Unit::Count, Counter),
    quantity(THROTTLED, "throttled_ns", Unit::Nanoseconds, Counter, "Throttled"),
    quantity(CPU_NICE, "cpu_nice_ns", Unit::Nanoseconds, Counter, "Nice"),
    quantity(CPU_IRQ, "cpu_irq_ns", Unit::Nanoseconds, Counter, "Interrupts"),
    quantity(CPU_SOFTIRQ, "cpu_softirq_ns", Unit::Nanoseconds, Counter, "Soft interrupts"),
    quantity(CPU_STEAL, "cpu_steal_ns", Unit::Nanoseconds, Counter, "Stolen"),
    quantity(CPU_GUEST, "cpu_guest_ns", Unit::Nanoseconds, Counter, "Guests"),
    quantity(CPU_IOWAIT, "cpu_iowait_ns", Unit::Nanoseconds, Counter, "Waiting for disks"),
    quantity(CPU_IDLE, "cpu_idle_ns", Unit::Nanoseconds, Counter, "Idle"),
    pressure(PRESSURE_CPU_SOME, "pressure_cpu_some_ns"),
    pressure(PRESSURE_IO_SOME, "pressure_io_some_ns"),
    pressure(PRESSURE_IO_FULL, "pressure_io_full_ns"),
    pressure(PRESSURE_MEMORY_SOME, "pressure_memory_some_ns"),
    pressure(PRESSURE_MEMORY_FULL, "pressure_memory_full_ns"),
    quantity(MEMORY_USED, "memory_used_bytes", Unit::Bytes, Gauge, "Memory in use"),
    quantity(NETWORK_RECEIVED, "network_received_bytes", Unit::Bytes, Counter, "Received"),
    quantity(NETWORK_SENT, "network_sent_bytes", Unit::Bytes, Counter, "Sent"),
    quantity(PACKETS_RECEIVED, "packet_received_count", Unit::Count, Counter, "Packets received"),
    quantity(PACKETS_SENT, "packet_sent_count", Unit::Count, Counter, "Packets sent"),
    quantity(INTERRUPTS, "interrupt_count", Unit::Count, Counter, "Interrupts taken"),
    pressure(PRESSURE_CPU_FULL, "pressure_cpu_full_ns"),
    quantity(VM_EXITS, "vm_exit_count", Unit::Count, Counter, "VM exits"),
    quantity(VM_EXITS_DEVICE, "vm_exit_device_count", Unit::Count, Counter, "Exits, devices"),
    quantity(VM_EXITS_HALT, "vm_exit_halt_count", Unit::Count, Counter, "Exits, halts"),
    quantity(
        VM_EXITS_INTERRUPT,
        "vm_exit_interrupt_count",
        Unit::Count,
        Counter,
        "Exits, interrupts",
    ),
    quantity(HALT_POLL, "halt_poll_ns", Unit::Nanoseconds, Counter, "Halt polling"),
    quantity(
        MEMORY_PAGE_TABLES,
        "memory_page_table_bytes",
        Unit::Bytes,
        Gauge,
        "Page tables, after",
    ),
    quantity(MEMORY_MERGED, "memory_merged_bytes", Unit::Bytes, Gauge, "Merged, after"),
];

impl Quantity {
    /// The quantity of a number; `None` where this surtax knows none.
    #[must_use]
    pub fn of(key: Key) -> Option<&'static Self> {
        QUANTITIES.iter().find(|it| it.key == key)
    }

    /// Tells whether its amounts only grow while their payer lives.
    #[must_use]
    pub fn grows(&self) -> bool {
        matches!(self.course, Counter | Events)
    }
}

/// Amounts of quantities, each at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Key, u64>);

impl Amounts {
    /// No amount of anything.
    pub const NONE: Self = Self(BTreeMap::new());

    /// CPU time, and nothing else.
    #[must_use]
    pub fn of_cpu(user: Nanoseconds, system: Nanoseconds) -> Self {
        Self::default().with(CPU_USER, user.0).with(CPU_SYSTEM, system.0)
    }

    /// The amount of one quantity; `None` where it is not known.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<u64> {
        self.0.get(&key).copied()
    }

    /// Puts an amount in, in the place of one that was there.
    pub fn set(&mut self, key: Key, amount: u64) {
        self.0.insert(key, amount);
    }

    /// Takes an amount out: it is not known.
    pub fn remove(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// The same with one amount, or without it where it is not known.
    #[must_use]
    pub fn with(mut self, key: Key, amount: impl Into<Option<u64>>) -> Self {
        match amount.into() {
            Some(amount) => self.set(key, amount),
            None => self.remove(key),
        }
        self
    }

    /// The same with all that others have, in the place of what was there.
    #[must_use]
    pub fn with_all(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Every amount that is known, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64)> + '_ {
        self.0.iter().map(|(key, amount)| (*key, *amount))
    }

    /// Returns what was used since an earlier reading. Of what grows, that is the difference, where
    /// both are known and it has not gone back, as it does where what was counted has ended. Of all
    /// else, it is the present value.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let used = |(key, now): (Key, u64)| match grows(key) {
            true => Some((key, now.checked_sub(earlier.get(key)?)?)),
            false => Some((key, now)),
        };
        self.iter().filter_map(used).collect()
    }

    /// Adds what the same payer used in a later run. Of what grows, the sum is unknown where one of
    /// the two is.
    pub fn go_on(&mut self, later: &Self) {
        self.0.retain(|key, _| !grows(*key) || later.get(*key).is_some());
        for (key, amount) in later.iter() {
            let known = self.get(key);
            let Some(quantity) = Quantity::of(key) else { continue };
            let all = match (quantity.course, known) {
                (Counter | Events, Some(known)) => known.saturating_add(amount),
                (Counter | Events, None) => continue,
                (Peak, Some(known)) => known.max(amount),
                (Gauge, _) | (Peak, None) => amount,
            };
            self.set(key, all);
        }
    }

    /// Divides what several runs used in all by their number, to the nearest. Of what is counted,
    /// less than half a one for each run is unknown: it is not nothing.
    pub fn divide(&mut self, run_count: u64) {
        self.0.retain(|key, amount| {
            let quantity = Quantity::of(*key).filter(|it| it.course == Counter);
            let Some(quantity) = quantity.filter(|_| *amount > 0) else { return true };
            let all = amount.saturating_add(run_count / 2);
            *amount = all.checked_div(run_count).unwrap_or(*amount);
            *amount > 0 || quantity.unit != Unit::Count
        });
    }

    /// The amounts of two payers together; what is unknown of one is unknown of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |(key, amount): (Key, u64)| Some((key, amount.saturating_add(other.get(key)?)));
        self.iter().filter_map(sum).collect()
    }
}

fn grows(key: Key) -> bool {
    Quantity::of(key).is_some_and(Quantity::grows)
}

impl FromIterator<(Key, u64)> for Amounts {
    fn from_iter<T: IntoIterator<Item = (Key, u64)>>(amounts: T) -> Self {
        Self(amounts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(amounts: &[(Key, u64)]) -> Amounts {
        amounts.iter().copied().collect()
    }

    #[test]
    fn every_quantity_stands_once_in_the_order_of_its_number_and_ends_with_its_unit() {
        assert!(QUANTITIES.iter().is_sorted_by(|a, b| a.key < b.key));
        for quantity in &QUANTITIES {
            let word = quantity.unit.word();
            assert!(quantity.name.ends_with(&format!("_{word}")), "{}", quantity.name);
            let of_name = QUANTITIES.iter().filter(|it| it.name == quantity.name);
            assert_eq!(of_name.count(), 1, "{}", quantity.name);
        }
    }

    #[test]
    fn what_grows_is_a_difference_and_is_unknown_where_its_begin_is() {
        let before = of(&[(CPU_USER, 5), (MEMORY_PEAK, 9)]);
        let after = of(&[(CPU_USER, 7), (CPU_SYSTEM, 3), (MEMORY_PEAK, 9), (MEMORY_ANON, 4)]);
        let used = after.since(&before);
        assert_eq!(used, of(&[(CPU_USER, 2), (MEMORY_PEAK, 9), (MEMORY_ANON, 4)]));
        assert_eq!(before.since(&after).get(CPU_USER), None, "it has gone back");
    }

    #[test]
    fn of_several_runs_times_are_means_peaks_the_greatest_and_kills_all_of_them() {
        let run = |n| of(&[(CPU_USER, n), (MEMORY_PEAK, n), (MEMORY_ANON, n), (OOM_KILLS, n)]);
        let mut all = run(8);
        all.go_on(&run(2));
        all.go_on(&of(&[(CPU_USER, 0), (MEMORY_SHMEM, 1), (OOM_KILLS, 0)]));
        all.divide(2);
        let expected =
            [(CPU_USER, 5), (MEMORY_PEAK, 8), (MEMORY_ANON, 2), (MEMORY_SHMEM, 1), (OOM_KILLS, 10)];
        assert_eq!(all, of(&expected));
    }

    /// Of fifty runs with three faults in all, none had no fault by that.
    #[test]
    fn a_few_of_many_runs_are_no_zero_and_means_are_the_nearest() {
        let mut all = of(&[(PAGE_FAULTS, 3), (PREEMPTIONS, 0), (CPU_USER, 3), (DISK_READ, 74)]);
        all.divide(50);
        assert_eq!(all, of(&[(PREEMPTIONS, 0), (CPU_USER, 0), (DISK_READ, 1)]));
        let mut one = of(&[(PAGE_FAULTS, 3)]);
        one.divide(1);
        assert_eq!(one, of(&[(PAGE_FAULTS, 3)]));
    }

    #[test]
    fn what_is_unknown_of_one_payer_is_unknown_of_two() {
        let both = of(&[(CPU_USER, 1)]).plus(&of(&[(CPU_USER, u64::MAX), (MEMORY_PEAK, 2)]));
        assert_eq!(both, of(&[(CPU_USER, u64::MAX)]));
        assert_eq!(both.plus(&of(&[(MEMORY_PEAK, 2)])), Amounts::NONE);
    }

    #[test]
    fn a_count_that_is_unknown_of_one_of_several_runs_is_unknown_of_all() {
        let known = of(&[(DISK_READ, 4), (MEMORY_PEAK, 4)]);
        let unknown = of(&[(MEMORY_PEAK, 6)]);
        for [mut first, later] in [[known.clone(), unknown.clone()], [unknown, known]] {
            first.go_on(&later);
            assert_eq!(first, of(&[(MEMORY_PEAK, 6)]));
        }
    }
}
