//! Cautions: what speaks against our own result, most important first, each with advice.

mod bill;
mod disturbed;
mod exit_statuses;
mod kernels;
mod left_running;
mod longer;
mod overrun_log;
mod page_ins;
mod position;
mod setting;
mod signs;
mod unseen_time;
mod unwaited;
mod width;

use crate::finding::arm_trials::ArmTrials;
use crate::finding::foreign::line;
use crate::finding::stacks::{Stacks, by_words, named};
use crate::finding::{ArmFindings, Caution, number};
use crate::ledger::TrialState;
use crate::workload::SETTING;
pub(crate) use signs::{Conditions, Signs, baseline, caution, compared};
use std::collections::{BTreeMap, BTreeSet};

/// Facts that must not change from trial to trial, beside those named `…_version`, `…_hash` and so
/// on.
const STEADY: &[&str] =
    &["accelerator", "platform", "cpus_online", "memory_total_bytes", "storage_driver", "network"];

/// Ends of the names of such facts.
const STEADY_ENDS: &[&str] = &["_version", "_hash", "_sha256", "_xxh3", "_digest", "_release"];

/// Code of the caution that nobody here vouches for the run.
pub(crate) const FOREIGN_RUN: &str = "foreign-run";

/// Every caution, most important first.
pub(crate) fn all(signs: &Signs<'_>) -> Vec<Caution> {
    let mut cautions = Vec::new();
    cautions.extend(super::program::cautions(signs));
    // A workload prints its numbers, and whether it did its work is checked in them.
    if signs.plan.workload.is_none() {
        cautions.extend(outputs(signs));
    }
    cautions.extend(exit_statuses::cautions(signs));
    cautions.extend(setting::cpus(signs.arms));
    cautions.extend(setting::memory(signs.arms));
    cautions.extend(setting::helpers(signs.arms));
    cautions.extend(setting::page_cache(signs.arms));
    cautions.extend(left_running::caution_of(signs));
    cautions.extend(overrun_log::caution_of(signs));
    cautions.extend(longer::caution_of(signs));
    cautions.extend(unwaited::caution_of(signs));
    cautions.extend(unseen_time::caution_of(signs));
    cautions.extend(page_ins::caution_of(signs));
    cautions.extend(changed_evidence(signs));
    cautions.extend(super::settings::unequal(signs.arms));
    cautions.extend(super::instances::caution_of(signs));
    cautions.extend(nothing_compared(signs.arms));
    cautions.extend(unavailable(signs));
    cautions.extend(lost_trials(signs));
    cautions.extend(width::few_trials(signs));
    cautions.extend(super::steady::caution_of(signs.arms));
    cautions.extend(signs.guest_clock.clone());
    cautions.extend(width::precision(signs));
    cautions.extend(disturbed::caution_of(signs));
    // What is of wall time alone says nothing where that does.
    cautions.extend(position::caution_of(signs.columns).filter(|_| !signs.is_of_fixed_time));
    cautions.extend(width::noise(signs));
    cautions.extend(super::step::caution_of(signs));
    cautions.extend(setting::media(signs.arms));
    cautions.extend(setting::networks(signs.arms));
    cautions.extend(setting::filters(signs.arms));
    cautions.extend(setting::mitigations(signs));
    cautions.extend(kernels::differ(signs.arms));
    cautions.extend(bill::cautions(signs));
    cautions.extend(leftovers(signs));
    cautions
}

/// Advice where the output is another in each trial.
const PRINT_RESULTS: &str =
    "make the command print its result and no times, or check the result inside it";

fn outputs(signs: &Signs<'_>) -> Option<Caution> {
    let arms = signs.arms;
    let hashes = |arm: &ArmFindings| arm.stdout_hashes.iter().cloned().collect::<BTreeSet<_>>();
    let expected: BTreeSet<String> = baseline(arms).flat_map(hashes).collect();
    if expected.len() > 1 {
        return Some(caution(
            "outputs-vary",
            String::from(
                "the command prints something else in every trial, so whether the stacks do the \
                 same work cannot be seen from its output",
            ),
            match signs.plan.conduct.padding_limit_bytes > 0 {
                true => format!(
                    "{PRINT_RESULTS}; if it prints its environment, `--env-padding 0` leaves out \
                     `SURTAX_PADDING`, which surtax makes another in each trial"
                ),
                false => PRINT_RESULTS.into(),
            },
        ));
    }
    let others = compared(arms).filter(|arm| arm.trial_count > 0 && hashes(arm) != expected);
    let names = Stacks::counted(arms).those(others).filter(|_| !expected.is_empty())?;
    Some(
        caution(
            "outputs-differ",
            format!("the command printed something else in {names} than in the baseline"),
            "make sure that it did the same work: run it there with `surtax enter STACK`",
        )
        .of_those(names),
    )
}

fn changed_evidence(signs: &Signs<'_>) -> Vec<Caution> {
    let is_steady = |key: &str| {
        let key = key.strip_prefix("inside_").unwrap_or(key);
        STEADY.contains(&key)
            || STEADY_ENDS.iter().any(|end| key.ends_with(end))
            || key.starts_with(SETTING)
    };
    let mut changes: Vec<(&str, (&str, BTreeSet<&str>))> = Vec::new();
    for (column, arm) in signs.columns.iter().zip(signs.arms) {
        let proofs: BTreeSet<i64> =
            column.counted.iter().filter_map(|trial| trial.evidence).collect();
        let mut values: BTreeMap<(usize, &str), BTreeSet<&str>> = BTreeMap::new();
        for levels in proofs.iter().filter_map(|number| signs.proofs.get(number)) {
            for (level, facts) in levels.iter().enumerate() {
                for fact in facts.facts.iter().filter(|fact| is_steady(&fact.key)) {
                    values.entry((level, &fact.key)).or_default().insert(&fact.value);
                }
            }
        }
        let is_changed = |key: &str, values: &BTreeSet<&str>| match key.starts_with(SETTING) {
            true => super::settings::differ(values),
            false => values.len() > 1,
        };
        for ((_, key), values) in values {
            if is_changed(key, &values) {
                changes.push((&arm.stack, (key, values)));
            }
        }
    }
    let all = Stacks::counted(signs.arms);
    let each = by_words(changes).into_iter().map(|((key, values), set)| {
        let stacks = all.words(&set);
        let shown = values.iter().take(4).map(|value| line(value)).collect::<Vec<_>>();
        let finding = format!(
            "{stacks} changed during the run: `{}` was {}",
            line(key),
            named(shown.iter().map(String::as_str))
        );
        let advice = if key.starts_with(SETTING) {
            super::settings::CHANGED
        } else {
            "compare the trials before and after the change as runs of their own"
        };
        caution("evidence-changed", finding, advice).of(set)
    });
    each.collect()
}

/// A run that has numbers and no comparison, where no row of a failing stack says why.
fn nothing_compared(arms: &[ArmFindings]) -> Option<Caution> {
    let counts = |arm: &ArmFindings| arm.trial_count > 0;
    let stack = baseline(arms).map(|arm| arm.stack.as_str()).next()?;
    if baseline(arms).any(counts) {
        let is_alone = compared(arms).all(|arm| arm.trials.is_empty());
        return is_alone.then(|| {
            caution(
                "nothing-compared",
                format!("only `{stack}` has trials that count, so there is no overhead to tell"),
                "name what to compare it with, as in `--in native,runc`",
            )
        });
    }
    compared(arms).any(counts).then(|| {
        caution(
            "nothing-compared",
            format!(
                "the baseline `{stack}` has no trial that counts, so nothing can be compared with \
                 it"
            ),
            "see why in its row, or name another baseline with `--baseline`",
        )
    })
}

fn unavailable(signs: &Signs<'_>) -> Vec<Caution> {
    let gaps = signs.columns.iter().zip(signs.arms).filter(|(column, _)| {
        column.counted.is_empty()
            && column.ended.iter().any(|trial| trial.state == TrialState::Unavailable)
    });
    let said = gaps.map(|(_, arm)| {
        let trouble = arm.trouble.as_ref();
        let why = trouble.map_or("", |trouble| trouble.why.as_str());
        let remedy = trouble.and_then(|trouble| trouble.remedy.as_deref());
        (arm.stack.as_str(), (why, remedy.unwrap_or("see `surtax doctor`")))
    });
    let all = Stacks::of(signs.arms);
    let each = by_words(said).into_iter().map(|((why, advice), set)| {
        let finding = format!("{} was not measured: {why}", all.words(&set));
        caution("layer-unavailable", finding, advice).of(set)
    });
    each.collect()
}

fn lost_trials(signs: &Signs<'_>) -> Vec<Caution> {
    let mut alone = Vec::new();
    let mut said = Vec::new();
    for (column, arm) in signs.columns.iter().zip(signs.arms) {
        let mut counts: BTreeMap<TrialState, usize> = BTreeMap::new();
        for trial in &column.ended {
            *counts.entry(trial.state).or_default() += 1;
        }
        // What was cut short by Ctrl-C is no sign of anything, a gap is a row of its own, and what
        // was repeated is not lost.
        use TrialState::{Disturbed, Done, Unavailable, Void};
        counts.retain(|state, _| !matches!(state, Done | Disturbed | Unavailable | Void));
        let lost: usize = counts.values().sum();
        if lost == 0 || column.counted.is_empty() {
            continue;
        }
        let words: Vec<String> =
            counts.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
        let trials = number::count(column.ended.len() - column.repeated().count(), "trial");
        let (lost, words) = (format!("{lost} of {trials}"), words.join(", "));
        if arm.is_again() {
            alone.push(format!("{lost} of `{}` (again) did not count: {words}", arm.stack));
        } else {
            said.push((arm.stack.as_str(), (lost, words)));
        }
    }
    let all = Stacks::counted(signs.arms);
    let each = by_words(said).into_iter().map(|((lost, words), stacks)| {
        let each = if stacks.len() > 1 { "each of " } else { "" };
        (format!("{lost} of {each}{} did not count: {words}", all.words(&stacks)), stacks)
    });
    let alone = alone.into_iter().map(|finding| (finding, BTreeSet::new()));
    let advice = "see why in the report; slow or fast trials may be among those that are missing";
    each.chain(alone)
        .map(|(finding, stacks)| caution("trials-lost", finding, advice).of(stacks))
        .collect()
}

fn leftovers(signs: &Signs<'_>) -> Option<Caution> {
    let of_column =
        |column: &&ArmTrials<'_>| column.ended.iter().any(|trial| !trial.leftovers.is_empty());
    let left: Vec<&ArmTrials<'_>> = signs.columns.iter().filter(of_column).collect();
    let trials = left.iter().flat_map(|column| &column.ended);
    let first = trials.flat_map(|trial| &trial.leftovers).next()?;
    let stacks: BTreeSet<String> =
        left.iter().map(|column| line(&column.arm.stack.to_string())).collect();
    Some(
        caution(
            "leftovers",
            format!(
                "{} left something behind, which was removed by force: {}",
                Stacks::of(signs.arms).words(&stacks.iter().map(String::as_str).collect()),
                line(first.lines().next().unwrap_or_default())
            ),
            "see `surtax doctor` for what is left on this machine; later trials may have suffered",
        )
        .of(stacks.iter().map(String::as_str)),
    )
}
