//! Cautions about how well the overheads are known: what would narrow them, by how much, for how
//! long.
//!
//! A forecast takes the noise as it was in this run.

use crate::finding::caution::signs::{Signs, caution};
use crate::finding::estimate::half_width_with;
use crate::finding::number::{self, percent};
use crate::finding::stacks::Stacks;
use crate::finding::verdict::{departure, reasonable};
use crate::finding::{ArmFindings, Caution};
use crate::plan::percentage::LARGEST_PPM;
use std::collections::BTreeSet;
use surtax_statistics::{
    Estimate, LOOK_FROM, blocks_needed, blocks_to_precision, relative_half_width,
};

/// With fewer trials than these, an interval rests on the noise having a bell's shape.
const TRIALS_FEW: u32 = 6;

/// As many blocks a plan has that does not say how many.
const RUNS_USUAL: usize = 10;

/// A width is not said to be better than this: a handful of equal times proves nothing.
const WIDTH_LEAST: f64 = 0.001;

/// Arms of which few trials count.
pub(super) fn few_trials(signs: &Signs<'_>) -> Option<Caution> {
    let few = signs.arms.iter().filter(|arm| (1..TRIALS_FEW).contains(&arm.trial_count));
    let stacks: BTreeSet<&str> = few.clone().map(|arm| arm.stack.as_str()).collect();
    let fewest = few.clone().map(|arm| arm.trial_count).min()?;
    let most = few.map(|arm| arm.trial_count).max()?;
    let all = Stacks::counted(signs.arms);
    let is_of_all = all.are_all(&stacks);
    let words = if is_of_all { String::from("every stack") } else { all.words(&stacks) };
    let trials = match (fewest, most) {
        (1, 1) => String::from("1 trial counts"),
        _ if fewest == most => format!("{fewest} trials count"),
        _ => format!("{fewest} to {most} trials count"),
    };
    let widest = widest(signs).filter(|_| !signs.is_of_fixed_time);
    let advice = match widest.filter(|(_, estimate)| estimate.block_count < RUNS_USUAL) {
        Some((name, estimate)) if relative_half_width(&estimate) > WIDTH_LEAST => format!(
            "repeat with {} or more: with that, `{name}` would be known {} or so and not {}",
            runs(signs, RUNS_USUAL),
            to_width(half_width_with(&estimate, RUNS_USUAL)),
            to_width(relative_half_width(&estimate))
        ),
        _ => format!("repeat with {} or more", runs(signs, RUNS_USUAL)),
    };
    Some(
        caution(
            "few-trials",
            format!("only {trials} of {words}; the fewer, the more an interval takes on trust"),
            advice,
        )
        .of(stacks.into_iter().filter(|_| !is_of_all)),
    )
}

/// A noise floor that hides what the margin would allow. That of a wall time which says nothing
/// hides nothing.
pub(super) fn noise(signs: &Signs<'_>) -> Option<Caution> {
    if signs.is_of_fixed_time {
        return None;
    }
    // What reads as the margin is not wider.
    let is_wider = |floor: f64| floor > signs.margin && departure(floor) != percent(signs.margin);
    let noise = signs.noise.filter(|noise| is_wider(noise.floor))?;
    let own = (noise.estimate.ratio - 1.0).abs();
    let have = noise.estimate.block_count;
    let more = blocks_needed(&noise.estimate, signs.margin - own);
    let advice = match more.filter(|more| reasonable(*more, have)) {
        Some(more) => format!(
            "end what else runs on this machine, or repeat with {}, which would bring the floor \
             down to the margin",
            runs(signs, have + more.max(1))
        ),
        None if noise.floor * 1e6 <= f64::from(LARGEST_PPM) => format!(
            "end what else runs on this machine: no reasonable number of runs would bring the \
             floor down to the margin; what it can tell is a `--margin` of {:.0}% or more",
            (noise.floor * 100.0).ceil()
        ),
        None => String::from("end what else runs on this machine, and repeat the run"),
    };
    Some(caution(
        "noisy-machine",
        format!(
            "the noise floor of wall time, {}, is wider than the margin of ±{}: small differences \
             are lost in it",
            departure(noise.floor),
            percent(signs.margin)
        ),
        advice,
    ))
}

/// A plan that named a precision and ended before it was reached.
pub(super) fn precision(signs: &Signs<'_>) -> Option<Caution> {
    let goal = signs.plan.precision()?;
    if let Some(missed) = metric_precision(signs, goal) {
        return Some(missed);
    }
    if signs.is_of_fixed_time {
        return None;
    }
    let is_unknown =
        |arm: &&ArmFindings| arm.is_compared() && arm.trial_count > 0 && arm.overhead.is_none();
    if let Some(arm) = signs.arms.iter().find(is_unknown) {
        let finding = format!("the overhead of `{}` has no interval", arm.stack);
        let advice = format!("give the run more time, or at least {LOOK_FROM} blocks");
        return Some(missed(goal, &finding, advice));
    }
    let (name, estimate) =
        widest(signs).filter(|(_, estimate)| relative_half_width(estimate) > goal)?;
    let width = relative_half_width(&estimate);
    let have = estimate.block_count;
    let more = blocks_to_precision(&estimate, goal).filter(|more| reasonable(*more, have));
    let advice = match more {
        Some(more) => format!("give it {}, or a quieter machine", runs(signs, have + more)),
        None => format!(
            "no reasonable number of blocks would do: give it a quieter machine, or ask for a \
             `--precision` of {}%",
            number::trimmed((width * 1000.0).ceil() / 10.0, 1)
        ),
    };
    Some(missed(goal, &format!("`{name}` is known {}", to_width(width)), advice))
}

/// The same of the workload's first metric.
fn metric_precision(signs: &Signs<'_>, goal: f64) -> Option<Caution> {
    let name = signs.main_metric.as_deref()?;
    let compared = signs.arms.iter().filter(|arm| arm.is_compared() && arm.trial_count > 0);
    let width = |arm: &ArmFindings| {
        let metric = arm.metric(name);
        let overhead = metric.and_then(|metric| metric.overhead);
        overhead.map(|it| (it.high - it.low) / 2.0 / it.ratio)
    };
    let widths = compared.filter_map(|arm| Some((arm, width(arm)?)));
    let (arm, width) = widths.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let finding = format!("`{name}` of `{}` is known {}", arm.stack, to_width(width));
    let advice = "give the run more time, or a quieter machine";
    (width > goal).then(|| missed(goal, &finding, advice))
}

/// A goal that was not reached, and as what it is seen.
fn missed(goal: f64, finding: &str, advice: impl Into<String>) -> Caution {
    let finding = format!("the goal of ±{} was not reached: {finding}", percent(goal));
    caution("precision-missed", finding, advice)
}

/// The arm that is known least: a compared one, or the baseline's second.
fn widest(signs: &Signs<'_>) -> Option<(String, Estimate)> {
    let estimate =
        |wall: &crate::finding::wall::Wall| wall.overhead.as_ref().ok().map(|it| it.estimate);
    let compared = signs
        .arms
        .iter()
        .zip(signs.walls)
        .filter_map(|(arm, wall)| Some((arm.name.clone(), estimate(wall.as_ref()?)?)));
    let own = signs.arms.get(1).zip(signs.noise);
    let own = own.map(|(arm, noise)| (arm.name.clone(), noise.estimate));
    let width = |(_, estimate): &(String, Estimate)| relative_half_width(estimate);
    compared.chain(own).max_by(|a, b| width(a).total_cmp(&width(b)))
}

/// Says how well something is known: `to ±4 %`, or `to within a factor of 1.8`.
fn to_width(share: f64) -> String {
    let words = departure(share);
    if words.ends_with('%') { format!("to ±{words}") } else { format!("to within {words}") }
}

/// `--runs 40`, and about how long they would take.
fn runs(signs: &Signs<'_>, blocks: usize) -> String {
    let whole = u32::try_from(blocks).unwrap_or(u32::MAX);
    match signs.block_ns.map(|ns| ns * f64::from(whole)).filter(|ns| *ns >= 1e9) {
        Some(ns) => format!("`--runs {blocks}` (about {})", number::rough_span(ns)),
        None => format!("`--runs {blocks}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::to_width;

    #[test]
    fn a_width_is_a_share_with_a_sign_or_a_factor_without_one() {
        assert_eq!([0.04, 0.8].map(to_width), ["to ±4 %", "to within a factor of 1.8"]);
    }
}
