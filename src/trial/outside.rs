//! CPU time as the outside saw it, and how much of it the inside may claim.
//!
//! The kernel of each level counts what runs inside it. A kernel that is not told when the CPU is
//! taken away counts waiting as work: a guest's, or a sandbox's. So the sum is what level 0 saw,
//! and what was counted inside only divides it. A claim that is larger divides nothing: what
//! remains for the others would be a negative number, and none that is shown as zero. Then there is
//! a gap, and [`outer`] goes as far in as the levels fit into each other.
//!
//! A payer who was gone before its counters were read makes every sum unknown of which it is a
//! part, and nothing is divided.
//!
//! A payer that carries the workload contains the deeper levels and the command: its own part is
//! what remains when everything that the next level saw has been taken out. Where several payers of
//! a level carry it, the one that used most gives first. In a virtual machine all of the guest is
//! user time to the host, so there the guest's system time is taken out of user time too.

use std::cmp::Reverse;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reading, Role};

/// By so much a claim may exceed what was seen from outside and is made to fit: counters are
/// rounded, and not read at one moment.
const ROUNDING_NS: u64 = 100_000;

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

impl Cpu {
    /// Both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.user.saturating_add(self.system)
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let user = self.user.saturating_add(other.user);
        Self { user, system: self.system.saturating_add(other.system) }
    }

    /// Takes `part` out, as far as it is there.
    fn without(self, part: Self, all_is_user: bool) -> (Self, Self) {
        let part = if all_is_user { Self { user: part.total(), system: 0 } } else { part };
        let (user, lacks_user) = take(self.user, part.user);
        let (system, lacks_system) = take(self.system, part.system);
        // The two kernels need not agree on which kind it was: what one lacks the other gives.
        let (user, unpaid_system) = take(user, lacks_system);
        let (system, unpaid_user) = take(system, lacks_user);
        (Self { user, system }, Self { user: unpaid_user, system: unpaid_system })
    }

    /// Scales it by the share that `part` is of `whole`; leaves it as it is where `whole` is 0.
    fn scaled(self, part: u64, whole: u64) -> Self {
        let of = |ns: u64| {
            let scaled = (u128::from(ns) * u128::from(part)).checked_div(u128::from(whole));
            scaled.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(ns)
        };
        Self { user: of(self.user), system: of(self.system) }
    }
}

/// Takes `part` out of `from`; returns what remains, and what was missing. One of the two is zero.
fn take(from: u64, part: u64) -> (u64, u64) {
    let taken = from.min(part);
    (from - taken, part - taken)
}

/// CPU time that one trial used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// All that level 0 saw; where nobody there carries the command, with what the deeper levels
    /// counted. `None` where nobody was read at all, or one of those who are its parts was not.
    pub total_ns: Option<u64>,
    /// Division of it; `None` where more was counted inside than there was, somebody was not read,
    /// or the command claims nothing.
    pub split: Option<Split>,
    /// The outermost level inside of whose carriers more was counted than they used: how far a bill
    /// can be divided.
    pub unfit_level: Option<u8>,
    /// The most that was counted inside a level and not seen outside it.
    pub unseen_ns: u64,
    /// The same as a share of what was counted inside.
    pub unseen_share_ppm: u32,
}

/// Parts of those who used it: they sum to what was seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The command.
    pub command: Cpu,
    /// Part that each reading keeps for itself, in their order.
    pub own: Vec<Cpu>,
}

impl Account {
    /// Everybody but the command.
    #[must_use]
    pub fn others_ns(&self) -> Option<u64> {
        let command = self.split.as_ref()?.command.total();
        // The command's part is never more than the sum that it is a part of.
        self.total_ns?.checked_sub(command)
    }
}

/// Returns what a reading saw, with all that ran inside it; nothing where it could not be read.
fn gross(reading: &Reading) -> Cpu {
    let of = |(user, system): (Nanoseconds, Nanoseconds)| Cpu { user: user.0, system: system.0 };
    reading.cpu().map_or_else(Cpu::default, of)
}

/// Holds what was counted inside against what was seen from outside. `command` is the command's own
/// claim, `None` where it makes none that can be believed.
#[must_use]
pub fn settle(readings: &[Reading], command: Option<Cpu>) -> Account {
    let deepest = readings.iter().map(|reading| reading.level).max().unwrap_or(0);
    let mut own: Vec<Cpu> = readings.iter().map(gross).collect();
    // Of each reading, the levels whose carriers hold it scale it, and so they do the command.
    let mut scales: Vec<(u8, u64, u64)> = Vec::new();
    let (total_ns, split, unfit_level) = (None, None, None);
    let mut account = Account { total_ns, split, unfit_level, unseen_ns: 0, unseen_share_ppm: 0 };
    let mut inside = command.unwrap_or_default();
    let mut is_inside_known = command.is_some();
    for level in (0..=deepest).rev() {
        let here = || readings.iter().enumerate().filter(move |(_, it)| it.level == level);
        let seen = here().map(|(_, it)| gross(it)).fold(Cpu::default(), Cpu::plus);
        let is_seen = here().all(|(_, it)| it.is_counted());
        let carriers: Vec<usize> =
            here().filter(|(_, it)| it.carries_workload).map(|(index, _)| index).collect();
        if carriers.is_empty() {
            inside = inside.plus(seen); // who stands beside the workload does not contain it
            is_inside_known &= is_seen;
            continue;
        }
        if carriers.iter().any(|index| !readings[*index].is_counted()) {
            (inside, is_inside_known) = (seen, false);
            continue;
        }
        let carried = carriers.iter().map(|index| own[*index].total()).fold(0, u64::saturating_add);
        let claimed = inside.total();
        take_out(&mut own, readings, carriers, inside);
        let (_, excess) = take(carried, claimed);
        if excess > account.unseen_ns {
            account.unseen_ns = excess;
            account.unseen_share_ppm = share_ppm(excess, claimed);
        }
        if excess > ROUNDING_NS {
            account.unfit_level = Some(level);
        }
        if excess > 0 {
            scales.push((level, carried, claimed));
        }
        (inside, is_inside_known) = (seen, is_seen);
    }
    let is_read = readings.iter().any(|reading| reading.level == 0);
    account.total_ns = (is_read && is_inside_known).then(|| inside.total());
    let can_divide = account.unfit_level.is_none() && readings.iter().all(Reading::is_counted);
    if let Some(command) = command.filter(|_| can_divide) {
        let fit = |cpu: Cpu, level: u8| {
            let above = scales.iter().filter(|(carrier, ..)| *carrier < level);
            above.fold(cpu, |cpu, (_, part, whole)| cpu.scaled(*part, *whole))
        };
        let own = own.into_iter().zip(readings).map(|(cpu, it)| fit(cpu, it.level)).collect();
        account.split = Some(Split { command: fit(command, u8::MAX), own });
    }
    account
}

/// Returns what the readings whose level is at most this one keep for themselves, in their order.
/// The innermost carriers among them keep all that ran inside them. `None` where the readings do
/// not fit into each other.
#[must_use]
pub fn outer(readings: &[Reading], level: u8) -> Option<Vec<(&Reading, Cpu)>> {
    let outer: Vec<Reading> = readings.iter().filter(|it| it.level <= level).cloned().collect();
    let own = settle(&outer, Some(Cpu::default())).split?.own;
    Some(readings.iter().filter(|it| it.level <= level).zip(own).collect())
}

/// Takes what ran inside out of those who carry it.
fn take_out(own: &mut [Cpu], readings: &[Reading], mut carriers: Vec<usize>, inside: Cpu) {
    carriers.sort_by_key(|index| Reverse(own[*index].total()));
    let mut unpaid = inside;
    for index in carriers {
        let guest = matches!(readings[index].role, Role::GuestKernel | Role::Hypervisor);
        (own[index], unpaid) = own[index].without(unpaid, guest);
    }
}

fn share_ppm(part: u64, whole: u64) -> u32 {
    let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole)).unwrap_or(0);
    u32::try_from(ppm).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
