//! Recorded claims, made-up ones, and what must hold of all: the parts sum to what was seen.

use super::*;
use crate::ledger::fixture::reading;
use proptest::prelude::*;
use surtax_instrument::amount::{Amounts, CPU_SYSTEM};

const MS: u64 = 1_000_000;

fn user(ns: u64) -> Option<Cpu> {
    Some(Cpu { user: ns, system: 0 })
}

/// Returns what each keeps for itself, and the command, in nanoseconds.
fn parts(account: &Account) -> (Vec<u64>, u64) {
    let split = account.split.as_ref().unwrap();
    (split.own.iter().map(|cpu| cpu.total()).collect(), split.command.total())
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
    let account = settle(&readings, user(600));
    assert_eq!(parts(&account), (vec![260, 50, 100, 40], 600));
    assert_eq!((account.total_ns, account.others_ns()), (Some(1050), Some(450)));
    assert_eq!(account.unseen_ns, 0);
}

#[test]
fn a_claim_that_does_not_fit_far_inside_leaves_the_levels_around_it_divided() {
    let readings = [
        reading("vCPU threads", 0, 2000 * MS, true),
        reading("virtiofsd", 0, 20 * MS, false),
        reading("inner vCPU threads", 1, 1100 * MS, true),
        reading("vhost worker", 1, 50 * MS, false),
    ];
    let account = settle(&readings, user(1250 * MS));
    assert_eq!((&account.split, account.unfit_level), (&None, Some(1)));
    assert_eq!((account.total_ns, account.unseen_ns), (Some(2020 * MS), 150 * MS));
    let parts = outer(&readings, 1).unwrap();
    let own: Vec<u64> = parts.iter().map(|(_, cpu)| cpu.total() / MS).collect();
    assert_eq!(own, [850, 20, 1100, 50]);
    // Where the outermost level does not hold what is inside, nothing is divided.
    let small = [reading("vCPU threads", 0, 900 * MS, true), readings[2].clone()];
    assert_eq!(settle(&small, user(1250 * MS)).unfit_level, Some(0));
    assert_eq!(outer(&small, 0).unwrap().len(), 1);
    assert_eq!(outer(&small, 1), None);
}

/// A process takes its counters with it when it ends.
#[test]
fn a_sum_is_unknown_where_one_of_its_parts_was_not_read() {
    let unread = |payer: &str, level: u8, carries| Reading {
        amounts: Amounts::NONE,
        ..reading(payer, level, 0, carries)
    };
    let host = [reading("vCPU threads", 0, 1000, true), reading("virtiofsd", 0, 50, false)];
    let guest = reading("container", 1, 700, true);
    let settled = |readings: &[Reading]| settle(readings, user(600));
    let beside = settled(&[host[0].clone(), unread("virtiofsd", 0, false), guest.clone()]);
    assert_eq!((beside.total_ns, &beside.split, beside.unseen_ns), (None, &None, 0));
    // A carrier that is gone is none whom the inside has overdrawn.
    let carrier = settled(&[unread("vCPU threads", 0, true), host[1].clone(), guest.clone()]);
    assert_eq!((carrier.total_ns, &carrier.split, carrier.unseen_ns), (None, &None, 0));
    assert_eq!(carrier.unfit_level, None);
    // What carries all that was not read was read itself: the sum is known, and no part of it.
    let inside = [host[0].clone(), host[1].clone(), guest.clone(), unread("dockerd", 1, false)];
    assert_eq!((settled(&inside).total_ns, settled(&inside).split), (Some(1050), None));
    // A level without a carrier is no whole of what it does not hold.
    let bare = [host[1].clone(), guest, unread("dockerd", 1, false)];
    assert_eq!(settled(&bare).total_ns, None);
    assert!(outer(&inside, 1).is_none() && outer(&inside, 0).is_some());
}

#[test]
fn of_several_carriers_the_largest_gives_first() {
    let readings = [reading("small", 0, 100, true), reading("large", 0, 900, true)];
    assert_eq!(parts(&settle(&readings, user(950))), (vec![50, 0], 950));
}

#[test]
fn recorded_beside_four_spinners_the_inside_never_raises_the_sum() {
    // What gVisor and a guest under TCG said of a shell loop beside four spinners, in milliseconds:
    // seen from outside, who worked beside it there, and the user and system time that the inside
    // counted.
    let recorded = [
        ("gvisor", 360, 0, 540, 0),
        ("gvisor", 368, 0, 680, 0),
        ("qemu", 8899, 396, 22_127, 1000),
        ("qemu", 10_519, 339, 21_151, 485),
        ("qemu", 7659, 278, 14_343, 369),
    ];
    for (stack, carried, beside, in_user, in_kernel) in recorded {
        let readings =
            [reading(stack, 0, carried * MS, true), reading("beside", 0, beside * MS, false)];
        let claim = Cpu { user: in_user * MS, system: in_kernel * MS };
        let account = settle(&readings, Some(claim));
        assert_eq!(account.total_ns, Some((carried + beside) * MS), "{stack}");
        assert_eq!((&account.split, account.others_ns()), (&None, None), "{stack}");
        assert_eq!(account.unseen_ns, (in_user + in_kernel - carried) * MS, "{stack}");
    }
}

#[test]
fn a_claim_that_is_too_large_by_no_more_than_rounding_is_made_to_fit() {
    let readings =
        [reading("vCPU threads", 0, 1000 * MS, true), reading("disk", 0, 70 * MS, false)];
    let account = settle(&readings, user(1000 * MS + ROUNDING_NS));
    let (own, command) = parts(&account);
    assert_eq!((own, account.unseen_ns), (vec![0, 70 * MS], ROUNDING_NS));
    assert!((999 * MS..=1000 * MS).contains(&command), "{command}");
    assert_eq!(account.total_ns, Some(1070 * MS));
}

#[test]
fn a_claim_that_leaves_less_than_nothing_for_the_others_divides_nothing() {
    // Of a sandbox beside a build: 154 ms of 3.1 s, which five in a hundred would have hidden.
    for (carried, claimed) in [(3080, 3234), (1000, 1040), (1000, 1001), (0, 20)] {
        let readings = [reading("sandbox", 0, carried * MS, true)];
        let account = settle(&readings, user(claimed * MS));
        assert_eq!((account.total_ns, &account.split), (Some(carried * MS), &None));
        assert_eq!((account.others_ns(), account.unfit_level), (None, Some(0)));
        assert_eq!(account.unseen_ns, (claimed - carried) * MS);
    }
}

#[test]
fn a_guest_that_counts_too_much_further_in_divides_nothing_either() {
    // The command's claim alone would fit into what the host saw; its level's does not.
    let readings =
        [reading("vCPU threads", 0, 1400 * MS, true), reading("runc", 1, 2000 * MS, true)];
    let account = settle(&readings, user(1300 * MS));
    assert_eq!((account.total_ns, &account.split), (Some(1400 * MS), &None));
    assert_eq!((account.unseen_ns, account.unseen_share_ppm), (600 * MS, 300_000));
}

#[test]
fn system_time_of_a_guest_is_user_time_of_its_host() {
    let mut host = reading("vCPU threads", 0, 1000, true);
    host.role = Role::GuestKernel;
    host.amounts.set(CPU_SYSTEM, 70);
    let account = settle(&[host], Some(Cpu { user: 300, system: 500 }));
    assert_eq!(account.split.unwrap().own, [Cpu { user: 200, system: 70 }]);
}

#[test]
fn where_nobody_outside_carries_it_only_the_inside_has_counted() {
    let beside = [reading("ssh client", 0, 7, false)];
    assert_eq!(settle(&beside, user(90)).total_ns, Some(97));
    assert_eq!(settle(&beside, user(90)).others_ns(), Some(7));
    assert_eq!(settle(&beside, None).total_ns, None, "of one that is not believed there is no sum");
    assert_eq!(settle(&[reading("further in", 1, 95, true)], user(90)).total_ns, None);
}

#[test]
fn without_a_claim_of_the_command_the_sum_is_known_and_its_parts_are_not() {
    let account = settle(&[reading("vCPU threads", 0, 100, true)], None);
    assert_eq!((account.total_ns, account.split), (Some(100), None));
}

proptest! {
    #[test]
    fn the_parts_sum_to_what_level_0_saw_and_never_to_more(
        outer in 0u64..4000, inner in 0u64..4000, beside in 0u64..1000,
        in_user in 0u64..4000, in_kernel in 0u64..1000,
    ) {
        let readings = [
            reading("outer", 0, outer * MS, true),
            reading("beside", 0, beside * MS, false),
            reading("inner", 1, inner * MS, true),
        ];
        let claim = Cpu { user: in_user * MS, system: in_kernel * MS };
        let account = settle(&readings, Some(claim));
        prop_assert_eq!(account.total_ns, Some((outer + beside) * MS));
        if let Some(split) = &account.split {
            let own: u64 = split.own.iter().map(|cpu| cpu.total()).sum();
            let sum = own + split.command.total();
            prop_assert!(sum <= (outer + beside) * MS, "{sum}");
            prop_assert!(sum + 10 >= (outer + beside) * MS, "{sum}");
            prop_assert!(account.unseen_ns <= ROUNDING_NS);
        }
    }
}
