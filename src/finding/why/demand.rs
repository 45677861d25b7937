//! Demand of a command on its kernel, in primitives of the price list.

use crate::finding::estimate::float;
use crate::finding::{ArmFindings, PayerFindings};
use crate::ledger::Counted;
use crate::table::rows;
use std::collections::BTreeMap;
use surtax_instrument::amount::{CONTEXT_SWITCHES, Key, PAGE_FAULTS, PREEMPTIONS};

const CALLS: &str = include_str!("calls.tsv");

/// The price of a call that has no row.
pub(super) const PLAIN: &str = "system_call";

/// Prices of what is dearer for a name that nobody has said before.
const FIRST: [(&str, &str); 3] = [
    ("file_stat", "file_stat_first"),
    ("file_open", "file_open_first"),
    ("file_read", "file_read_first"),
];

/// The price of a read of 4 KiB, and that of each KiB beyond.
const READ: &str = "file_read";
const READ_KIB: &str = "read_kib";

/// The price of a fault of a page of a file.
const FILE_FAULTS: &str = "page_fault_file";

/// The price of a call that starts a program.
const PROGRAMS: &str = "fork_exec_wait";

/// The price of a call that makes a thread, or a process that is no program yet.
const THREADS: &str = "thread_create";

/// Number of times that each primitive was asked for in one run of the command, by its name.
pub(super) type Demand = BTreeMap<&'static str, f64>;

/// Adds up the system calls.
pub(super) fn of_calls(counted: &Counted) -> Demand {
    let table: BTreeMap<&str, (&'static str, f64)> = rows::<3>(CALLS)
        .map(|[call, price, count]| (call, (price, count.parse().unwrap_or(f64::NAN))))
        .collect();
    let mut demand = Demand::new();
    for (call, found) in &counted.calls {
        let (price, each) = table.get(call.as_str()).copied().unwrap_or((PLAIN, 1.0));
        let first = FIRST.iter().find(|(again, _)| *again == price);
        let fresh = found.fresh.min(found.count);
        let again = first.map_or(found.count, |_| found.count - fresh);
        *demand.entry(price).or_default() += each * float(again);
        if let Some((_, first)) = first {
            *demand.entry(first).or_default() += each * float(fresh);
        }
        if price == READ {
            let blocks = float(found.returned) / 1024.0 - 4.0 * float(found.count);
            *demand.entry(READ_KIB).or_default() += blocks.max(0.0);
        }
    }
    first_reads(&mut demand);
    if let Some(count) = counted.file_fault_count {
        demand.insert(FILE_FAULTS, float(count));
    }
    demand.insert(PROGRAMS, float(counted.program_count));
    // A program is made by a fork, which its own price has; the command's was made by its agent.
    let started = float(counted.program_count.saturating_sub(1));
    if let Some(threads) = demand.get_mut(THREADS) {
        *threads = (*threads - started).max(0.0);
    }
    demand.retain(|_, count| *count > 0.0);
    demand
}

/// Counts the first read of each file that was opened for the first time as one, as far as there
/// are so many.
fn first_reads(demand: &mut Demand) {
    let opened = demand.get("file_open_first").copied().unwrap_or(0.0);
    let Some(reads) = demand.get_mut(READ) else { return };
    let first = opened.min(*reads);
    *reads -= first;
    demand.insert("file_read_first", first);
}

/// Counts what has no price of its own as what is most like it: a file that is looked up for the
/// first time as any.
pub(super) fn of_priced(mut demand: Demand, has: impl Fn(&str) -> bool) -> Demand {
    let alike = FIRST.into_iter().chain([("page_fault_minor", FILE_FAULTS)]);
    for (again, first) in alike.filter(|(_, first)| !has(first)) {
        if let Some(count) = demand.remove(first) {
            *demand.entry(again).or_default() += count;
        }
    }
    demand
}

/// Takes those of files from all page faults, where their number is known.
pub(super) fn part_faults(demand: &mut Demand) {
    let of_files = demand.get(FILE_FAULTS).copied().unwrap_or(0.0);
    if let Some(all) = demand.get_mut("page_fault_minor") {
        *all = (*all - of_files).max(0.0);
    }
}

/// Adds what the kernel counts of each command: page faults, and switches that it asked for.
pub(super) fn of_command(arm: &ArmFindings) -> Demand {
    let command = arm.payers.iter().find(|payer| payer.role == "workload");
    let amount = |key: Key| command.and_then(|it: &PayerFindings| it.amounts.get(key));
    let switches = amount(CONTEXT_SWITCHES).zip(amount(PREEMPTIONS));
    let known = [
        ("page_fault_minor", amount(PAGE_FAULTS)),
        ("context_switch", switches.map(|(all, taken)| (all - taken).max(0.0))),
    ];
    known.into_iter().filter_map(|(price, count)| Some((price, count?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::CallCount;
    use surtax_engines::price::PRICES;

    fn counted(calls: &[(&str, u64)]) -> Counted {
        let count = |count| CallCount { count, ..CallCount::default() };
        let calls: BTreeMap<String, CallCount> =
            calls.iter().map(|(call, it)| (String::from(*call), count(*it))).collect();
        let program_count = calls.get("execve").map_or(0, |it| it.count);
        Counted { is_of_this_level: true, program_count, calls, ..Counted::default() }
    }

    #[test]
    fn every_row_names_a_price_and_a_call_of_this_architecture_or_an_older_one() {
        for [call, price, count] in rows::<3>(CALLS) {
            assert!(PRICES.iter().any(|it| it.name == price), "{price}");
            assert!(count.parse::<f64>().is_ok_and(|it| (0.0..=1.0).contains(&it)), "{call}");
            assert!(call.parse::<syscalls::x86_64::Sysno>().is_ok(), "{call}");
        }
    }

    #[test]
    fn calls_are_added_up_by_what_they_are_most_like() {
        let calls = [("getppid", 3), ("umask", 2), ("openat", 4), ("close", 9), ("mmap", 6)];
        let demand = of_calls(&counted(&calls));
        let expected = [("file_open", 4.0), ("mmap", 3.0), ("system_call", 5.0)];
        assert_eq!(demand.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_name_that_nobody_has_said_before_is_another_price_and_so_is_what_is_read_beyond_a_block() {
        let mut all = counted(&[("statx", 9), ("openat", 5), ("getppid", 4)]);
        for (call, fresh) in [("statx", 7), ("openat", 99), ("getppid", 2)] {
            all.calls.get_mut(call).unwrap().fresh = fresh;
        }
        let read = CallCount { count: 15, returned: 70 << 10, fresh: 0 };
        all.calls.insert("read".into(), read);
        let expected = [
            ("file_open_first", 5.0),
            ("file_read", 10.0),
            ("file_read_first", 5.0),
            ("file_stat", 2.0),
            ("file_stat_first", 7.0),
            ("read_kib", 10.0),
            ("system_call", 4.0),
        ];
        assert_eq!(of_calls(&all).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_has_no_price_of_its_own_is_counted_as_what_it_is_most_like() {
        let demand = Demand::from([("page_fault_minor", 3.0), (FILE_FAULTS, 4.0)]);
        let priced = of_priced(demand.clone(), |price| price != FILE_FAULTS);
        assert_eq!(priced.into_iter().collect::<Vec<_>>(), [("page_fault_minor", 7.0)]);
        assert_eq!(of_priced(demand.clone(), |_| true), demand);
    }

    #[test]
    fn a_fork_that_a_program_comes_of_is_in_the_price_of_programs() {
        let threads = |calls: &[(&str, u64)]| of_calls(&counted(calls)).get(THREADS).copied();
        assert_eq!(threads(&[("execve", 4), ("vfork", 3)]), None);
        assert_eq!(threads(&[("execve", 4), ("clone", 3), ("clone3", 2)]), Some(2.0));
        assert_eq!(threads(&[("execve", 1), ("clone3", 2)]), Some(2.0));
        // A shell that forks and executes itself again makes fewer than it executes.
        assert_eq!(threads(&[("execve", 9), ("vfork", 3)]), None);
    }
}
