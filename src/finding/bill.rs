//! The bill: who used the CPU time of a trial, each second counted once.
//!
//! What was counted inside only divides what was seen from outside (`trial/outside.rs`). Trials in
//! which more was counted inside than there was have no part in the division; where most are such,
//! it goes as far in as the levels fit into each other, and names who was seen there with all that
//! ran inside them. Trials in which a payer could not be read have no part in either: their sum is
//! not known.

use crate::finding::{BillGap, Medians, PayerFindings, estimate, number};
use crate::ledger::StoredTrial;
use crate::trial::outside::{Account, Cpu, outer, settle};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use surtax_instrument::amount::{Amounts, CPU_SYSTEM, CPU_USER, Key, MEMORY_PEAK};
use surtax_instrument::wire::{Reading, Role};

/// Payers of the trials of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bill {
    /// Medians per trial, the command first, then by level and amount.
    pub(crate) payers: Vec<PayerFindings>,
    /// Part of the CPU time that could not be divided.
    pub(crate) gap: Option<BillGap>,
}

/// A payer: its level, its part, its name.
type Payer = (u8, Role, String);

/// Amounts that a payer used in a trial.
#[derive(Clone, Default)]
struct Used {
    /// CPU time net of what ran inside the payer, all else as it was read.
    amounts: Amounts,
    is_shared: bool,
}

/// The bill of the trials that count. `depth` is the level of the command.
pub(crate) fn of(trials: &[&StoredTrial], depth: u8) -> Bill {
    let settled = |trial: &&StoredTrial| settle(&trial.readings, trial.cpu_claim());
    let accounts: Vec<Account> = trials.iter().map(settled).collect();
    let divided_count = accounts.iter().filter(|account| account.split.is_some()).count();
    let is_divided = divided_count > 0 && estimate::is_typical(trials.iter(), divided_count);
    let outermost = accounts.iter().filter_map(|account| account.unfit_level).min().unwrap_or(0);
    let mut columns: BTreeMap<Payer, PayerTrials> = BTreeMap::new();
    let mut command = PayerTrials::default();
    for (trial, account) in trials.iter().zip(&accounts) {
        match &account.split {
            Some(split) if is_divided => {
                let peak = trial.sample("memory_peak_bytes").map(|it| it.whole);
                let amounts = trial.counts().with(MEMORY_PEAK, peak);
                command.add(&Used::of(amounts, split.command, false));
                add(&mut columns, divided(trial, &split.own));
            }
            _ if !is_divided && trial.readings.iter().all(Reading::is_counted) => {
                add(&mut columns, undivided(trial, outermost));
            }
            _ => {}
        }
    }
    let mut others: Vec<PayerFindings> = columns
        .into_iter()
        .filter_map(|((level, role, payer), column)| column.findings(&payer, role, level))
        .collect();
    others.sort_by(|a, b| a.level.cmp(&b.level).then(b.cpu_ns.total_cmp(&a.cpu_ns)));
    let mut payers: Vec<PayerFindings> =
        command.findings("the command", Role::Workload, depth).into_iter().collect();
    payers.append(&mut others);
    Bill { payers, gap: gap(trials, &accounts) }
}

/// Returns what each reading of a trial keeps for itself.
fn divided<'a>(trial: &'a StoredTrial, own: &'a [Cpu]) -> impl Iterator<Item = (Payer, Used)> + 'a {
    trial.readings.iter().zip(own).map(|(reading, own)| part(reading, reading.payer.clone(), *own))
}

/// Ending of a payer's name whose account has the workload's in it.
pub(crate) const AND_ALL_INSIDE: &str = " and all inside";

/// Returns what the levels down to this one saw. Those that carry the workload keep what ran inside
/// them.
fn undivided(trial: &StoredTrial, level: u8) -> impl Iterator<Item = (Payer, Used)> {
    outer(&trial.readings, level).unwrap_or_default().into_iter().map(move |(reading, own)| {
        let payer = match reading.carries_workload && reading.level == level {
            true => reading.payer.clone() + AND_ALL_INSIDE,
            false => reading.payer.clone(),
        };
        part(reading, payer, own)
    })
}

fn part(reading: &Reading, payer: String, own: Cpu) -> (Payer, Used) {
    let used = Used::of(reading.amounts.clone(), own, reading.is_shared);
    ((reading.level, reading.role, payer), used)
}

impl Used {
    fn join(&mut self, other: &Self) {
        self.amounts = self.amounts.plus(&other.amounts);
        self.is_shared |= other.is_shared;
    }

    fn of(amounts: Amounts, cpu: Cpu, is_shared: bool) -> Self {
        Self { amounts: amounts.with(CPU_USER, cpu.user).with(CPU_SYSTEM, cpu.system), is_shared }
    }
}

/// Adds what the payers of one trial paid, the parts of one payer together.
fn add(columns: &mut BTreeMap<Payer, PayerTrials>, parts: impl Iterator<Item = (Payer, Used)>) {
    let mut sums: BTreeMap<Payer, Used> = BTreeMap::new();
    for (payer, used) in parts {
        match sums.entry(payer) {
            Entry::Vacant(place) => drop(place.insert(used)),
            Entry::Occupied(mut sum) => sum.get_mut().join(&used),
        }
    }
    for (payer, used) in sums {
        columns.entry(payer).or_default().add(&used);
    }
}

/// Trials whose CPU time could not be divided: the command claims more than there was, or somebody
/// was not read.
fn gap(trials: &[&StoredTrial], accounts: &[Account]) -> Option<BillGap> {
    let undivided = || trials.iter().zip(accounts).filter(|(_, account)| account.split.is_none());
    let unread = |trial: &StoredTrial| trial.readings.iter().any(|it| !it.is_counted());
    // Of claims that fit, the excess is within what two kernels may differ by.
    let is_overdrawn = |(trial, account): &(&&StoredTrial, &Account)| {
        trial.cpu_claim().is_some() && account.unfit_level.is_some()
    };
    let overdrawn = || undivided().filter(is_overdrawn).map(|(_, account)| account);
    let worst = overdrawn().max_by_key(|it| it.unseen_share_ppm);
    let partial_count = trials.iter().filter(|it| unread(it)).count();
    let unread_payers = unread_payers(trials);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let is_told = worst.is_some() || partial_count > 0;
    let share = worst.map_or(0.0, |it| f64::from(it.unseen_share_ppm) / 1e6);
    let unseen_ns = worst.map_or(0.0, |it| estimate::float(it.unseen_ns));
    let excess = worst.map(|_| {
        let (time, share) = (number::time(unseen_ns), number::percent(share));
        format!(
            "up to {time} were counted inside and not seen outside, {share} of what was counted"
        )
    });
    let of_unread = unread_payers.iter().map(|payer| format!("{payer} could not be read"));
    let why = excess.into_iter().chain(of_unread).collect::<Vec<_>>().join("; ");
    is_told.then(|| BillGap {
        trial_count: count(overdrawn().count()),
        cpu_unseen_ns: unseen_ns,
        unseen_share: share,
        partial_count: count(partial_count),
        unread_payers,
        why,
    })
}

/// Returns the payers of these trials who could not be read, each once.
fn unread_payers(trials: &[&StoredTrial]) -> Vec<String> {
    let readings = trials.iter().flat_map(|trial| &trial.readings);
    let unread = readings.filter(|reading| !reading.is_counted());
    let names: BTreeSet<String> =
        unread.map(|reading| super::foreign::line(&reading.payer)).collect();
    names.into_iter().collect()
}

/// The medians of these amounts, over so many trials. One that too few of them know is absent.
pub(crate) fn medians_of(all: &[&Amounts], trial_count: usize) -> Medians {
    let mut values: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for (key, amount) in all.iter().flat_map(|amounts| amounts.iter()) {
        values.entry(key).or_default().push(estimate::float(amount));
    }
    medians(&values, trial_count)
}

fn medians(values: &BTreeMap<Key, Vec<f64>>, trial_count: usize) -> Medians {
    let known = values.iter().filter(|(_, values)| estimate::speaks(values.len(), trial_count));
    Medians(known.filter_map(|(key, values)| Some((*key, estimate::median(values)?))).collect())
}

/// The values of one payer, trial by trial.
#[derive(Default)]
struct PayerTrials {
    cpu: Vec<f64>,
    amounts: BTreeMap<Key, Vec<f64>>,
    is_shared: bool,
}

impl PayerTrials {
    fn add(&mut self, used: &Used) {
        let of = |key| used.amounts.get(key).unwrap_or(0);
        self.cpu.push(estimate::float(of(CPU_USER).saturating_add(of(CPU_SYSTEM))));
        for (key, amount) in used.amounts.iter() {
            self.amounts.entry(key).or_default().push(estimate::float(amount));
        }
        self.is_shared |= used.is_shared;
    }

    /// Medians over these trials. An amount that too few of them know is absent: those that do not
    /// are not like the others, such as a group with too few page faults for the kernel to add up.
    fn findings(&self, payer: &str, role: Role, level: u8) -> Option<PayerFindings> {
        Some(PayerFindings {
            payer: super::foreign::line(payer),
            role: role.word().into(),
            level,
            cpu_ns: estimate::median(&self.cpu)?,
            amounts: medians(&self.amounts, self.cpu.len()),
            is_shared: self.is_shared,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::Findings;
    use crate::finding::compare::tests::example;
    use crate::report::{html, markdown, terminal};
    use crate::trial::TrialResult;
    use std::cell::Cell;
    use surtax_instrument::amount::{Amounts, CPU_USER, PAGE_FAULTS};
    use surtax_instrument::wire::Reading;

    /// An example in whose arm `runc` the inside counts so much of the 10 ms that were seen
    /// outside.
    fn claiming(factor: u64) -> Findings {
        claiming_with(factor, |_| {})
    }

    fn claiming_with(factor: u64, change: impl Fn(&mut Vec<Reading>)) -> Findings {
        example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            if record.trial.arm != 2 {
                return;
            }
            measured.readings[0].amounts.set(CPU_USER, 500_000_000);
            measured.outcome.cpu_user.0 = 500_000_000 * factor;
            change(&mut measured.readings);
        })
    }

    #[test]
    fn a_claim_above_what_was_seen_is_in_no_number_of_any_format() {
        let findings = claiming(3);
        let arm = &findings.arms[2];
        let metric = |name: &str| arm.metrics.iter().find(|it| it.metric == name);
        assert!((metric("cpu_total_ns").unwrap().median - 500_050_000.0).abs() < 1.0);
        for parted in ["cpu_user_ns", "cpu_system_ns", "cpu_others_ns"] {
            assert!(metric(parted).is_none(), "{parted}");
        }
        let payers: Vec<&str> = arm.payers.iter().map(|payer| payer.payer.as_str()).collect();
        assert_eq!(payers, ["agent's group and all inside", "dockerd"]);
        let gap = arm.bill_gap.as_ref().unwrap();
        assert_eq!((gap.trial_count, arm.command_cpu_ns()), (6, None));
        for text in [
            terminal::render(&findings, terminal::PLAIN),
            markdown::markdown(&findings),
            html::html(&findings),
        ] {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains("was not seen outside: in 6 of 6 trials"), "{text}");
            assert!(!flat.contains("1.50 s") && !flat.contains("1.500 s"), "{text}");
        }
    }

    #[test]
    fn an_amount_that_few_trials_know_is_no_median_of_the_arm() {
        let faults = |knowing: u32| {
            let seen = Cell::new(0);
            let findings = example(20, |record| {
                let TrialResult::Done(measured) = &mut record.result else { return };
                if record.trial.arm == 2 {
                    seen.set(seen.get() + 1);
                    let amounts = &mut measured.readings[0].amounts;
                    amounts.remove(PAGE_FAULTS);
                    if seen.get() <= knowing {
                        amounts.set(PAGE_FAULTS, 44);
                    }
                }
            });
            assert!(seen.get() >= 20, "the example has so many trials of the arm");
            let payers = &findings.arms[2].payers;
            let faults: Vec<f64> =
                payers.iter().filter_map(|payer| payer.amounts.get(PAGE_FAULTS)).collect();
            assert!(payers.iter().any(|payer| payer.amounts.get(CPU_USER).is_some()), "{knowing}");
            faults.contains(&44.0)
        };
        assert_eq!([1, 10, 17, 18, 20].map(faults), [false, false, false, true, true]);
    }

    #[test]
    fn few_trials_whose_claims_fit_do_not_speak_for_the_others() {
        let findings = |fitting: u32| {
            let seen = Cell::new(0);
            example(20, |record| {
                let TrialResult::Done(measured) = &mut record.result else { return };
                if record.trial.arm != 2 {
                    return;
                }
                seen.set(seen.get() + 1);
                measured.readings[0].amounts.set(CPU_USER, 500_000_000);
                let factor = if seen.get() <= fitting { 1 } else { 3 };
                measured.outcome.cpu_user.0 = 500_000_000 * factor;
            })
        };
        let is_divided = |fitting| {
            let arm = &findings(fitting).arms[2];
            let is_split = arm.metric("cpu_others_ns").is_some();
            assert_eq!(arm.command_cpu_ns().is_some(), is_split, "{fitting}");
            assert!(arm.metric("cpu_total_ns").is_some() && arm.bill_gap.is_some(), "{fitting}");
            is_split
        };
        assert_eq!([1, 10, 17, 18].map(is_divided), [false, false, false, true]);
    }

    /// An example in whose arm `runc` of so much CPU time the inside claims so much.
    fn claiming_so(seen_ns: u64, claim_ns: u64) -> Findings {
        example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            if record.trial.arm == 2 {
                measured.readings[0].amounts.set(CPU_USER, seen_ns);
                (measured.outcome.cpu_user.0, measured.outcome.cpu_system.0) = (claim_ns, 0);
            }
        })
    }

    #[test]
    fn a_part_of_few_ticks_is_compared_with_nothing_and_said_to_be_so() {
        // A command of so much, whose group was seen to use 400 ms.
        let known = |claim_ns: u64| {
            let findings = claiming_so(400_000_000, claim_ns);
            let has = |metric| findings.arms[2].metric(metric).is_some();
            let is_said = findings.cautions.iter().any(|it| it.code == "bill-in-ticks");
            assert!(has("cpu_total_ns") && findings.arms[2].command_cpu_ns().is_some());
            (has("cpu_user_ns"), has("cpu_others_ns"), is_said)
        };
        assert_eq!(known(10_000_000), (false, true, true));
        assert_eq!(known(90_000_000), (false, true, true));
        assert_eq!(known(100_000_000), (true, true, false));
        assert_eq!(known(310_000_000), (true, false, true));
        assert_eq!(known(10_000_001), (true, true, false));
    }

    #[test]
    fn parts_of_one_payer_are_one_line_where_nothing_is_divided_too() {
        let cost = |extra: u64| {
            let findings = claiming_with(3, |readings| {
                for _ in 0..extra {
                    readings.push(readings[1].clone());
                }
            });
            let payers = &findings.arms[2].payers;
            assert_eq!(payers.len(), 2, "{payers:?}");
            payers.iter().find(|it| it.payer == "dockerd").unwrap().cpu_ns
        };
        let (one, three) = (cost(0), cost(2));
        assert!(one > 0.0 && (three / one - 3.0).abs() < 1e-6, "{one} {three}");
    }

    #[test]
    fn a_payer_that_was_gone_before_it_was_read_is_told_of_and_in_no_sum() {
        let findings = claiming_with(1, |readings| readings[1].amounts = Amounts::NONE);
        let arm = &findings.arms[2];
        for unknown in ["cpu_total_ns", "cpu_user_ns", "cpu_others_ns"] {
            assert!(arm.metrics.iter().all(|it| it.metric != unknown), "{unknown}");
        }
        let gap = arm.bill_gap.as_ref().unwrap();
        assert_eq!((gap.trial_count, gap.partial_count), (0, 6));
        assert_eq!(gap.unread_payers, ["dockerd"]);
        assert_eq!(gap.why, "dockerd could not be read");
        // What is known of the others would look like all of it.
        assert_eq!((&arm.payers, arm.command_cpu()), (&Vec::new(), None));
        let code = |code: &str| findings.cautions.iter().find(|it| it.code == code);
        assert!(code("bill-overdrawn").is_none());
        let said = &code("bill-partial").unwrap().finding;
        assert!(said.starts_with("in 6 of 6 trials of `runc` dockerd could not be read"), "{said}");
    }

    #[test]
    fn trials_of_which_somebody_was_not_read_are_counted_apart_from_those_with_too_large_a_claim() {
        let findings = |unread: u32, factor| {
            let changed = Cell::new(0);
            claiming_with(factor, |readings| {
                changed.set(changed.get() + 1);
                if changed.get() <= unread {
                    readings[1].amounts = Amounts::NONE;
                }
            })
        };
        let some = findings(2, 3);
        let gap = some.arms[2].bill_gap.as_ref().unwrap();
        assert_eq!((gap.trial_count, gap.partial_count), (6, 2), "a claim too large is one anyway");
        // The bill is that of the trials of which all were read.
        let others = findings(2, 1);
        let arm = &others.arms[2];
        assert_eq!(arm.bill_gap.as_ref().map(|gap| gap.trial_count), Some(0));
        assert!(arm.payers.iter().any(|it| it.payer == "dockerd" && it.cpu_ns > 0.0));
        let total = arm.metrics.iter().find(|it| it.metric == "cpu_total_ns").unwrap();
        assert!((total.median - 500_050_000.0).abs() < 1.0, "{}", total.median);
    }

    #[test]
    fn a_claim_that_fits_is_divided_and_leaves_no_gap() {
        let findings = claiming(1);
        let arm = &findings.arms[2];
        assert!(arm.bill_gap.is_none() && arm.command_cpu_ns().is_some());
        assert_eq!(arm.payers[0].payer, "the command");
    }
}
