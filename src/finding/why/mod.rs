//! Explanations of what a stack costs: the time that it takes more, divided among what its command
//! asks for, by counts and prices; and what nobody explains.
//!
//! Counts are those of one run that is in no time, prices those of `surtax prices` in the same
//! stacks: neither is taken from what is to be explained. Only the command's own code in a machine
//! is, which has no price: what its user mode takes more there.

pub mod confirmed;
mod demand;
mod price_list;
pub(crate) mod words;

use crate::finding::trial_metric::WALL;
use crate::finding::{
    ArmFindings, CauseFindings, CountedBy, Findings, Interval, Spread, Verdict, WhyFindings,
    emulation,
};
use crate::ledger::{Counted, PriceSample};
use crate::table::rows;
use demand::Demand;
use price_list::Priced;
use std::collections::BTreeMap;

const CAUSES: &str = include_str!("causes.tsv");

/// Tells whether a stack has an overhead that could be explained.
#[must_use]
pub fn is_to_explain(arm: &ArmFindings) -> bool {
    arm.is_compared() && arm.overhead.is_some() && arm.beside.is_none()
}

/// Tells whether a run has a difference that is not explained yet, and could be.
#[must_use]
pub fn is_to_ask(findings: &Findings) -> bool {
    let is_open = |arm: &ArmFindings| {
        let differs = matches!(arm.verdict, Verdict::Differs);
        differs && arm.why.is_none() && is_to_explain(arm)
    };
    !findings.run.is_of_fixed_time && findings.arms.iter().any(is_open)
}

/// Says that a stack has no part that could be exchanged alone for its causes.
#[must_use]
pub fn nothing_to_exchange(arm: &ArmFindings) -> String {
    format!("`{}` has no part that could be exchanged alone for its largest causes", arm.stack)
}

/// Explains every arm of which there are counts and prices.
pub(crate) fn add_to(
    arms: &mut [ArmFindings],
    counted: &BTreeMap<u32, Counted>,
    prices: &[PriceSample],
) {
    let Some(baseline) = arms.first().cloned() else { return };
    let mut by_arm: BTreeMap<u32, Vec<&PriceSample>> = BTreeMap::new();
    for sample in prices {
        by_arm.entry(sample.arm).or_default().push(sample);
    }
    for arm in arms.iter_mut().filter(|arm| is_to_explain(arm)) {
        arm.why = explained(arm, &baseline, counted, &by_arm);
    }
}

fn explained(
    arm: &ArmFindings,
    baseline: &ArmFindings,
    counted: &BTreeMap<u32, Counted>,
    prices: &BTreeMap<u32, Vec<&PriceSample>>,
) -> Option<WhyFindings> {
    let baseline_ns = baseline.metric(WALL)?.median;
    let extra = over(arm.overhead.as_ref()?, baseline_ns);
    let priced = Priced::of(prices.get(&baseline.arm)?, prices.get(&arm.arm)?);
    if priced.is_empty() {
        return None;
    }
    let is_known = |it: &&Counted| it.why.is_none();
    let own = counted.get(&arm.arm);
    let (counts, counted_by) = match own.filter(is_known) {
        Some(own) if own.is_of_this_level => (own, CountedBy::ThisMachine),
        Some(own) => (own, CountedBy::Inside),
        None => (counted.get(&baseline.arm).filter(is_known)?, CountedBy::Baseline),
    };
    let why_not_own = own.and_then(|it| it.why.clone());
    let base_over = baseline.spread_over().unwrap_or(1.0);
    let over = (base_over, arm.spread_over().unwrap_or(base_over));
    // Who stands in asks for as much in both.
    let of_baseline = counted.get(&baseline.arm).filter(is_known).unwrap_or(counts);
    let demand =
        both(demand(counts, [baseline, arm]), demand(of_baseline, [baseline, baseline]), &priced);
    let priced_causes = demand.iter().filter_map(|(price, counts)| {
        Some((*price, *counts, cause(price, *counts, &priced, over)?))
    });
    let priced_causes: Vec<(&str, (f64, f64), CauseFindings)> = priced_causes.collect();
    let explained = all_of(&priced_causes, &priced, over);
    let mut causes: Vec<CauseFindings> = priced_causes.into_iter().map(|it| it.2).collect();
    let own_code = own_code(arm, baseline, over);
    let explained = own_code.iter().fold(explained, |sum, it| sum.and(&it.extra));
    causes.extend(own_code);
    causes.sort_by(|one, other| other.extra.ns.abs().total_cmp(&one.extra.ns.abs()));
    Some(WhyFindings {
        baseline_ns,
        extra,
        unexplained: extra.without(&explained),
        causes,
        counted_by,
        why_not_own,
        spread_over: over.1,
        baseline_spread_over: over.0,
    })
}

/// Adds up what these causes explain: as far as they were priced in the same blocks, with the
/// interval of their sum in each, or else as if all were wrong to the same side.
fn all_of(
    causes: &[(&str, (f64, f64), CauseFindings)],
    priced: &Priced,
    over: (f64, f64),
) -> Spread {
    let none = Spread::around(0.0, 0.0);
    let sum = causes.iter().fold(none, |sum, (_, _, cause)| sum.and(&cause.extra));
    match priced.extra(causes.iter().map(|(price, counts, _)| (*price, *counts)), over) {
        Some(all) => Spread {
            low_ns: sum.ns - (all.ns - all.low_ns),
            high_ns: sum.ns + (all.high_ns - all.ns),
            ..sum
        },
        None => sum,
    }
}

/// Adds up what was asked for in all: by system calls, and what the kernel counts of a command
/// anyway, of these the last that knows.
fn demand(counts: &Counted, arms: [&ArmFindings; 2]) -> Demand {
    let mut demand = demand::of_calls(counts);
    demand.extend(arms.into_iter().flat_map(demand::of_command));
    demand::part_faults(&mut demand);
    demand
}

/// Puts the demand in the stack beside that in the baseline: by price, the baseline's first.
fn both(own: Demand, base: Demand, priced: &Priced) -> BTreeMap<&'static str, (f64, f64)> {
    let mut both = BTreeMap::<_, (f64, f64)>::new();
    let [own, base] = [own, base].map(|it| demand::of_priced(it, |price| priced.has(price)));
    base.into_iter().for_each(|(price, count)| both.entry(price).or_default().0 = count);
    own.into_iter().for_each(|(price, count)| both.entry(price).or_default().1 = count);
    both
}

fn cause(
    price: &str,
    counts: (f64, f64),
    priced: &Priced,
    over: (f64, f64),
) -> Option<CauseFindings> {
    let (baseline_price, own_price) = priced.medians(price)?;
    let extra = priced.extra([(price, counts)], over)?;
    Some(CauseFindings {
        cause: price.into(),
        what: rows::<2>(CAUSES).find(|[name, _]| *name == price)?[1].into(),
        count: Some(counts.1),
        baseline_count: Some(counts.0),
        price_ns: Some(own_price),
        baseline_price_ns: Some(baseline_price),
        extra,
    })
}

/// Returns what the command's own code takes more where a machine runs it: it is translated, or
/// its addresses are, twice.
fn own_code(arm: &ArmFindings, baseline: &ArmFindings, over: (f64, f64)) -> Option<CauseFindings> {
    let found = arm.metric("cpu_user_ns").filter(|_| emulation::is_machine(arm))?;
    let base = baseline.metric("cpu_user_ns")?.median;
    let Interval { ratio, low, high, .. } = found.overhead?;
    let more = |ratio: f64| base * ratio / over.1 - base / over.0;
    let what = match emulation::is_of(arm) {
        true => "the command's own code, which is translated",
        false => "the command's own code",
    };
    Some(CauseFindings {
        cause: "own_code".into(),
        what: what.into(),
        count: None,
        baseline_count: None,
        price_ns: None,
        baseline_price_ns: None,
        extra: Spread { ns: more(ratio), low_ns: more(low), high_ns: more(high) },
    })
}

/// Time over that of the baseline, by an overhead.
fn over(overhead: &Interval, baseline_ns: f64) -> Spread {
    let of = |ratio: f64| (ratio - 1.0) * baseline_ns;
    Spread { ns: of(overhead.ratio), low_ns: of(overhead.low), high_ns: of(overhead.high) }
}

#[cfg(test)]
mod tests;
