//! Cautions: what speaks against our own result, most important first, each with advice.
//!
//! That kernels differ is no caution: another kernel is what a virtual machine is.

use super::bill::Bill;
use super::compare::Column;
use super::foreign::line;
use super::number::{self, percent};
use super::{ArmFindings, Caution, Interval, LevelEvidence};
use crate::ledger::{Proofs, TrialState};
use crate::trial::disturbance::Disturbance;
use std::collections::{BTreeMap, BTreeSet};
use surtax_instrument::quantity::Bytes;
use surtax_statistics::{Estimate, LOOK_FROM};

/// With fewer trials than these, an interval rests on the noise having a bell's shape.
const TRIALS_FEW: u32 = 6;

/// Memory that differs by less is the kernel's own.
const MEMORY_SLACK_SHARE: f64 = 0.1;

/// Facts that must not change from trial to trial, beside those named `…_version`, `…_hash` and so on.
const STEADY: &[&str] =
    &["accelerator", "platform", "cpus_online", "memory_total_bytes", "storage_driver", "network"];

/// Ends of the names of such facts.
const STEADY_ENDS: &[&str] = &["_version", "_hash", "_sha256", "_digest", "_release"];

/// What the cautions are read from.
pub(super) struct Signs<'a> {
    pub(super) arms: &'a [ArmFindings],
    /// The trials of each arm.
    pub(super) columns: &'a [Column<'a>],
    /// The bill of each arm.
    pub(super) bills: &'a [Bill],
    pub(super) proofs: &'a Proofs,
    /// The noise floor as a share.
    pub(super) noise: Option<f64>,
    /// The equivalence margin as a share.
    pub(super) margin: f64,
    /// How far the second baseline arm is from the first.
    pub(super) noise_estimate: Option<Estimate>,
    /// The precision that the plan asks for, as a share.
    pub(super) precision: Option<f64>,
}

/// Every caution, most important first.
pub(super) fn all(signs: &Signs<'_>) -> Vec<Caution> {
    let mut cautions = Vec::new();
    cautions.extend(outputs(signs.arms));
    cautions.extend(exit_statuses(signs.arms));
    cautions.extend(cpus(signs.arms));
    cautions.extend(memory(signs.arms));
    cautions.extend(changed_evidence(signs));
    cautions.extend(nothing_compared(signs.arms));
    cautions.extend(unavailable(signs));
    cautions.extend(lost_trials(signs));
    cautions.extend(few_trials(signs.arms));
    cautions.extend(precision(signs));
    cautions.extend(disturbed(signs));
    cautions.extend(noise(signs));
    cautions.extend(overdrafts(signs));
    cautions.extend(leftovers(signs));
    cautions
}

fn caution(code: &str, finding: String, advice: &str) -> Caution {
    Caution { code: code.into(), finding, advice: advice.into() }
}

/// The two arms of the baseline.
fn baseline(arms: &[ArmFindings]) -> impl Iterator<Item = &ArmFindings> {
    arms.iter().filter(|arm| arm.part != "compared")
}

fn compared(arms: &[ArmFindings]) -> impl Iterator<Item = &ArmFindings> {
    arms.iter().filter(|arm| arm.part == "compared")
}

/// `a`, `b` and `c`, in backticks.
fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let Some(last) = names.pop() else { return String::new() };
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

fn outputs(arms: &[ArmFindings]) -> Option<Caution> {
    let hashes = |arm: &ArmFindings| arm.stdout_hashes.iter().cloned().collect::<BTreeSet<_>>();
    let expected: BTreeSet<String> = baseline(arms).flat_map(hashes).collect();
    if expected.len() > 1 {
        return Some(caution(
            "outputs-vary",
            String::from(
                "the command prints something else in every trial, so whether the stacks do the \
                 same work cannot be seen from its output",
            ),
            "make the command print its result and no times, or check the result inside it",
        ));
    }
    let others = compared(arms).filter(|arm| arm.trial_count > 0 && hashes(arm) != expected);
    let names = named(others.map(|arm| arm.stack.as_str()));
    (!names.is_empty() && !expected.is_empty()).then(|| {
        caution(
            "outputs-differ",
            format!("the command printed something else in {names} than in the baseline"),
            "make sure that it did the same work: run it there with `surtax enter STACK`",
        )
    })
}

fn exit_statuses(arms: &[ArmFindings]) -> Option<Caution> {
    let statuses = |arm: &ArmFindings| arm.exit_statuses.iter().cloned().collect::<BTreeSet<_>>();
    let expected: BTreeSet<String> = baseline(arms).flat_map(statuses).collect();
    let words: Vec<String> = compared(arms)
        .filter(|arm| !arm.exit_statuses.is_empty() && statuses(arm) != expected)
        .map(|arm| format!("`{}` ended with {}", arm.stack, arm.exit_statuses.join(", ")))
        .collect();
    (!words.is_empty() && !expected.is_empty()).then(|| {
        let baseline: Vec<String> = expected.into_iter().collect();
        caution(
            "exit-statuses-differ",
            format!("the baseline ended with {}, but {}", baseline.join(", "), words.join("; ")),
            "see the command's last words; only trials that ended with `exit 0` count",
        )
    })
}

/// A number that the innermost level proved.
fn fact(evidence: &[LevelEvidence], key: &str) -> Option<u64> {
    let innermost = evidence.last()?;
    let is_it = |found: &str| found.strip_prefix("inside_").unwrap_or(found) == key;
    innermost.facts.iter().find(|fact| is_it(&fact.key))?.value.parse().ok()
}

/// The baseline's number and the arms whose number is another one.
fn unequal(
    arms: &[ArmFindings],
    had: impl Fn(&[LevelEvidence]) -> Option<u64>,
    equal: impl Fn(u64, u64) -> bool,
) -> Option<(u64, Vec<(&str, u64)>)> {
    let expected = baseline(arms).find_map(|arm| had(&arm.evidence))?;
    let others: Vec<(&str, u64)> = compared(arms)
        .filter_map(|arm| Some((arm.stack.as_str(), had(&arm.evidence)?)))
        .filter(|(_, found)| !equal(*found, expected))
        .collect();
    (!others.is_empty()).then_some((expected, others))
}

fn cpus(arms: &[ArmFindings]) -> Option<Caution> {
    let had = |evidence: &[LevelEvidence]| fact(evidence, "cpus_online");
    let (expected, others) = unequal(arms, had, |a, b| a == b)?;
    let words: Vec<String> =
        others.iter().map(|(stack, count)| format!("`{stack}` had {count}")).collect();
    Some(caution(
        "unequal-cpus",
        format!("the baseline had {expected} CPUs, but {}", words.join(", ")),
        "give every stack the same, as in `native:cpus=2` and `qemu:cpus=2`",
    ))
}

fn memory(arms: &[ArmFindings]) -> Option<Caution> {
    use super::estimate::float;
    let near = |a: u64, b: u64| float(a.abs_diff(b)) <= MEMORY_SLACK_SHARE * float(a.max(b));
    let had = |evidence: &[LevelEvidence]| {
        let limit = fact(evidence, "limit_memory_bytes").unwrap_or(u64::MAX);
        Some(fact(evidence, "memory_total_bytes")?.min(limit))
    };
    let (expected, others) = unequal(arms, had, near)?;
    let words: Vec<String> =
        others.iter().map(|(stack, bytes)| format!("`{stack}` had {}", Bytes(*bytes))).collect();
    Some(caution(
        "unequal-memory",
        format!("the baseline had {} of memory, but {}", Bytes(expected), words.join(", ")),
        "if the command needs that much, give every stack the same with `memory=`",
    ))
}

fn changed_evidence(signs: &Signs<'_>) -> Vec<Caution> {
    let is_steady = |key: &str| {
        let key = key.strip_prefix("inside_").unwrap_or(key);
        STEADY.contains(&key) || STEADY_ENDS.iter().any(|end| key.ends_with(end))
    };
    let mut cautions = Vec::new();
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
        for ((_, key), values) in values.iter().filter(|(_, values)| values.len() > 1) {
            let shown = values.iter().take(4).map(|value| line(value)).collect::<Vec<_>>();
            let finding = format!(
                "`{}` changed during the run: `{}` was {}",
                arm.stack,
                line(key),
                named(shown.iter().map(String::as_str))
            );
            cautions.push(caution(
                "evidence-changed",
                finding,
                "compare the trials before and after the change as runs of their own",
            ));
        }
    }
    cautions
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
                "the baseline `{stack}` has no trial that counts, so nothing can be compared with it"
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
    gaps.filter(|(_, arm)| arm.part != "baseline-again")
        .map(|(_, arm)| {
            let trouble = arm.trouble.as_ref();
            let why = trouble.map_or("", |trouble| trouble.why.as_str());
            let remedy = trouble.and_then(|trouble| trouble.remedy.as_deref());
            caution(
                "layer-unavailable",
                format!("`{}` was not measured: {why}", arm.stack),
                remedy.unwrap_or("see `surtax doctor`"),
            )
        })
        .collect()
}

fn lost_trials(signs: &Signs<'_>) -> Vec<Caution> {
    let mut cautions = Vec::new();
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
        let again = if arm.part == "baseline-again" { " (again)" } else { "" };
        let finding = format!(
            "{lost} of {} of `{}`{again} did not count: {}",
            number::count(column.ended.len() - column.repeated().count(), "trial"),
            arm.stack,
            words.join(", ")
        );
        let advice =
            "see why in the report; slow or fast trials may be among those that are missing";
        cautions.push(caution("trials-lost", finding, advice));
    }
    cautions
}

/// Trials that count though the machine was not quiet; what was repeated is not among them.
fn disturbed(signs: &Signs<'_>) -> Option<Caution> {
    let of_arm = |(column, arm): (&Column<'_>, &ArmFindings)| {
        let again = if arm.part == "baseline-again" { " (again)" } else { "" };
        let trials = number::count(column.counted.len(), "trial");
        let stack = &arm.stack;
        let count = arm.disturbed_count;
        (count > 0).then(|| format!("{count} of {trials} of `{stack}`{again}"))
    };
    let arms: Vec<String> = signs.columns.iter().zip(signs.arms).filter_map(of_arm).collect();
    let mut worst: BTreeMap<&str, (u32, &Disturbance)> = BTreeMap::new();
    let trials = signs.columns.iter().flat_map(Column::disturbed);
    for found in trials.flat_map(|trial| &trial.disturbances) {
        let (count, worst) = worst.entry(&found.key).or_insert((0, found));
        *count += 1;
        if found.value > worst.value {
            *worst = found;
        }
    }
    // What happened most often, at its worst.
    let (_, worst) = worst.into_values().max_by_key(|(count, _)| *count)?;
    let finding =
        format!("{} were disturbed and count; at worst, {}", arms.join(", "), line(&worst.words()));
    Some(caution("disturbed", finding, worst.advice()))
}

fn few_trials(arms: &[ArmFindings]) -> Option<Caution> {
    let few = arms.iter().filter(|arm| (1..TRIALS_FEW).contains(&arm.trial_count));
    let stacks: BTreeSet<&str> = few.clone().map(|arm| arm.stack.as_str()).collect();
    let fewest = few.map(|arm| arm.trial_count).min()?;
    let has_many = |arm: &ArmFindings| arm.trial_count >= TRIALS_FEW;
    let stacks =
        if arms.iter().any(has_many) { named(stacks) } else { String::from("every stack") };
    let trials = if fewest == 1 { "1 trial counts" } else { &format!("{fewest} trials count") };
    Some(caution(
        "few-trials",
        format!("only {trials} of {stacks}; the fewer, the more an interval takes on trust"),
        "repeat with `--runs 10` or more",
    ))
}

fn noise(signs: &Signs<'_>) -> Option<Caution> {
    let floor = signs.noise.filter(|floor| *floor > signs.margin)?;
    Some(caution(
        "noisy-machine",
        format!(
            "the noise floor, {}, is wider than the margin of ±{}: small differences are lost in it",
            super::verdict::departure(floor),
            percent(signs.margin)
        ),
        "end what else runs on this machine, or repeat with more `--runs`",
    ))
}

/// A plan that named a precision and ended before it was reached.
fn precision(signs: &Signs<'_>) -> Option<Caution> {
    let goal = signs.precision?;
    let width = |interval: &Interval| (interval.high - interval.low) / 2.0 / interval.ratio;
    let again = signs.noise_estimate.as_ref().map(super::estimate::interval);
    let again = again.as_ref().zip(signs.arms.get(1)).map(|(interval, arm)| (arm, width(interval)));
    let wall = |arm: &ArmFindings| {
        let metric = arm.metrics.iter().find(|metric| metric.metric == "wall_ns")?;
        metric.overhead.as_ref().map(width)
    };
    let is_unknown = |arm: &&ArmFindings| arm.trial_count > 0 && wall(arm).is_none();
    if let Some(arm) = compared(signs.arms).find(is_unknown) {
        return Some(caution(
            "precision-missed",
            format!(
                "the goal of ±{} was not reached: the overhead of `{}` has no interval",
                percent(goal),
                arm.stack
            ),
            &format!("give the run more time, or at least {LOOK_FROM} blocks"),
        ));
    }
    let all = signs.arms.iter().filter_map(|arm| Some((arm, wall(arm)?))).chain(again);
    let (arm, widest) =
        all.filter(|(_, width)| *width > goal).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // An interval narrows with the square root of the blocks.
    let blocks = f64::from(arm.trial_count) * (widest / goal).powi(2);
    Some(caution(
        "precision-missed",
        format!(
            "the goal of ±{} was not reached: `{}` is known to ±{}",
            percent(goal),
            arm.stack,
            percent(widest)
        ),
        &format!("give it about {blocks:.0} blocks in all, or a quieter machine"),
    ))
}

fn overdrafts(signs: &Signs<'_>) -> Option<Caution> {
    let overdrawn =
        || signs.bills.iter().zip(signs.arms).filter(|(bill, _)| bill.overdrawn_trials > 0);
    let stacks: BTreeSet<&str> = overdrawn().map(|(_, arm)| arm.stack.as_str()).collect();
    let share = overdrawn().map(|(bill, _)| bill.overdraft_share).reduce(f64::max)?;
    Some(caution(
        "bill-overdrawn",
        format!(
            "up to {} of the CPU time that was counted inside {} was not seen from outside",
            percent(share),
            named(stacks)
        ),
        "trust the wall time there and not the bill: a kernel that is not told when this machine \
         takes the CPU away counts waiting as work",
    ))
}

fn leftovers(signs: &Signs<'_>) -> Option<Caution> {
    let of_column =
        |column: &&Column<'_>| column.ended.iter().any(|trial| !trial.leftovers.is_empty());
    let left: Vec<&Column<'_>> = signs.columns.iter().filter(of_column).collect();
    let trials = left.iter().flat_map(|column| &column.ended);
    let first = trials.flat_map(|trial| &trial.leftovers).next()?;
    let stacks: BTreeSet<String> =
        left.iter().map(|column| line(&column.arm.stack.to_string())).collect();
    Some(caution(
        "leftovers",
        format!(
            "{} left something behind, which was removed by force: {}",
            named(stacks.iter().map(String::as_str)),
            line(first)
        ),
        "see `surtax doctor` for what is left on this machine; later trials may have suffered",
    ))
}
