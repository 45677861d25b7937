//! Cautions about trials that count though the machine was not quiet while they ran.

use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::estimate;
use crate::finding::foreign::line;
use crate::finding::stacks::{FEW, Stacks};
use crate::finding::trial_metric::WALL;
use crate::finding::verdict::departure;
use crate::finding::{ArmFindings, Caution, number};
use crate::ledger::StoredTrial;
use crate::trial::disturbance::Disturbance;
use std::collections::{BTreeMap, BTreeSet};

/// With fewer quiet or disturbed trials than these, the two are not compared.
const TRIALS_TO_COMPARE: usize = 3;

/// From this ratio on, disturbed trials are said to have taken longer than quiet ones.
const SLOWED_FROM: f64 = 1.005;

/// Trials that count though the machine was not quiet; what was repeated is not among them.
pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let mut worst: BTreeMap<&str, (u32, &Disturbance)> = BTreeMap::new();
    let trials = signs.columns.iter().flat_map(ArmTrials::disturbed);
    for found in trials.flat_map(|trial| &trial.disturbances) {
        let (count, worst) = worst.entry(&found.key).or_insert((0, found));
        *count += 1;
        if found.value > worst.value {
            *worst = found;
        }
    }
    // What happened most often, at its worst.
    let (_, worst) = worst.into_values().max_by_key(|(count, _)| *count)?;
    let total: u32 = signs.arms.iter().map(|arm| arm.disturbed_count).sum();
    let was = if total == 1 { "was disturbed and counts" } else { "were disturbed and count" };
    let finding = format!(
        "{} {was}; at worst, {}{}",
        disturbed_trials(signs.arms),
        line(&worst.words()),
        slowed(signs).unwrap_or_default()
    );
    Some(caution("disturbed", finding, worst.advice()))
}

/// Says which trials were disturbed and count.
fn disturbed_trials(arms: &[ArmFindings]) -> String {
    let hit: Vec<&ArmFindings> = arms.iter().filter(|arm| arm.disturbed_count > 0).collect();
    let trials = |count: u32| number::count(count, "trial");
    let is_all = arms.iter().all(|arm| arm.disturbed_count == arm.trial_count);
    if hit.len() <= FEW && (hit.len() == 1 || !is_all) {
        let of_arm = |arm: &&ArmFindings| {
            let again = if arm.is_again() { " (again)" } else { "" };
            let (count, trials) = (arm.disturbed_count, trials(arm.trial_count));
            format!("{count} of {trials} of `{}`{again}", arm.stack)
        };
        return hit.iter().map(of_arm).collect::<Vec<_>>().join(", ");
    }
    // The two arms of the baseline are one stack.
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for arm in arms.iter().filter(|arm| arm.trial_count > 0) {
        let (disturbed, counted) = counts.entry(&arm.stack).or_default();
        *disturbed += arm.disturbed_count;
        *counted += arm.trial_count;
    }
    let those = |is_it: &dyn Fn(u32, u32) -> bool| -> BTreeSet<&str> {
        let found = counts.iter().filter(|(_, (disturbed, counted))| is_it(*disturbed, *counted));
        found.map(|(stack, _)| *stack).collect()
    };
    let whole = those(&|disturbed, counted| disturbed == counted);
    let others = those(&|disturbed, counted| disturbed < counted);
    let of = |stack: &&str| counts.get(stack).copied().unwrap_or_default();
    if others.len() <= FEW && others.len() < whole.len() {
        let each = others.iter().map(|stack| match of(stack) {
            (0, _) => format!("`{stack}` (none)"),
            (disturbed, counted) => format!("`{stack}` ({disturbed} of {counted})"),
        });
        let each: Vec<String> = each.collect();
        let but = if each.is_empty() { "" } else { " but " };
        return format!("all trials of every stack{but}{}", each.join(", "));
    }
    let those = hit.iter().map(|arm| arm.stack.as_str()).collect::<BTreeSet<_>>();
    let sum = |sum: (u32, u32), one: (u32, u32)| (sum.0 + one.0, sum.1 + one.1);
    let (disturbed, counted) = those.iter().map(of).fold((0, 0), sum);
    format!("{disturbed} of {} of {}", trials(counted), Stacks::counted(arms).words(&those))
}

/// Says how much longer the disturbed trials took than the quiet ones, of the arm where that is
/// most.
fn slowed(signs: &Signs<'_>) -> Option<String> {
    if signs.is_of_fixed_time {
        return None;
    }
    let median = |trials: &[&StoredTrial]| {
        let walls: Vec<f64> =
            trials.iter().filter_map(|trial| Some(trial.sample(WALL)?.value)).collect();
        estimate::median(&walls).filter(|_| walls.len() >= TRIALS_TO_COMPARE)
    };
    let of_arm = |(column, arm): (&ArmTrials<'_>, &ArmFindings)| {
        let (quiet, disturbed): (Vec<_>, Vec<_>) =
            column.counted.iter().copied().partition(|trial| trial.disturbances.is_empty());
        Some((arm.name.clone(), median(&disturbed)? / median(&quiet)?))
    };
    let arms = signs.columns.iter().zip(signs.arms).filter_map(of_arm);
    let (name, ratio) = arms.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let longer = match ratio {
        SLOWED_FROM.. => format!("{} longer than", departure(ratio - 1.0)),
        _ => String::from("no longer than"),
    };
    Some(format!("; those of `{name}` took {longer} its quiet ones"))
}
