//! The difference between two runs of one question: what each stack costs now, against what it cost
//! before, each over its own baseline.
//!
//! Nothing is read but findings, so that a reader can check every change with the two reports. What
//! an absolute time says depends on the machine; what a ratio to native says depends on it less,
//! since all that makes the machine slower is in both.

use crate::fault::Fault;
use crate::finding::caution::{baseline, compared};
use crate::finding::estimate::WALL;
use crate::finding::{ArmFindings, Findings, Interval, KeyValue, number};
use crate::ledger::machine::{BOOT_HASH, MACHINE_HASH, UNKNOWN};
use serde::Serialize;
use std::collections::BTreeMap;
use surtax_statistics::{
    Block, Confidence, Estimate, Method, NoiseFloor, Verdict, change, overhead, verdict,
};

/// Raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Facts that are of a moment and not of a machine.
const OF_A_MOMENT: [&str; 4] =
    ["load_1min", "memory_available_bytes", "swap_free_bytes", "surtax_version"];

/// Differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Raised when a field changes its meaning.
    pub schema_version: u32,
    /// The earlier run.
    pub before: RunOfDiff,
    /// The later run.
    pub after: RunOfDiff,
    /// Degree to which the machine is the same.
    pub machine: SameMachine,
    /// Facts about the machine in which they differ.
    pub machine_changes: Vec<FactChange>,
    /// Half-width of the margin within which a change is none, as a share.
    pub margin: f64,
    /// A change for each stack and metric that both have.
    pub changes: Vec<Change>,
    /// Stacks that one of them has alone.
    pub not_in_both: Vec<String>,
}

/// A run of which two are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOfDiff {
    /// UUID-like identifier.
    pub id: String,
    /// For people.
    pub title: String,
    /// RFC 3339, UTC.
    pub began_at: String,
    /// Blocks that were done.
    pub blocks_done: u32,
    /// `finished`, `interrupted` or `running`.
    pub state: String,
}

/// Degree to which the machine of two runs is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameMachine {
    /// The same machine, since the same boot.
    SameBoot,
    /// The same machine, booted again.
    Same,
    /// Alike in all that is known, and perhaps the same.
    Alike,
    /// Another machine, or the same with something changed.
    Another,
}

/// A fact that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactChange {
    /// Stable name.
    pub key: String,
    /// As it was.
    pub before: String,
    /// As it is.
    pub after: String,
}

/// Verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// It costs more, by more than chance and than the baselines differ from themselves.
    Dearer,
    /// It costs less.
    Cheaper,
    /// The whole interval lies within the margin.
    Unchanged,
    /// Neither.
    Undecided,
}

/// Base of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The run's own baseline.
    Baseline,
    /// Nothing: the baseline's own value, in its unit.
    Absolute,
}

/// The change of one metric of one stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Name of the stack.
    pub stack: String,
    /// The metric.
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    /// Base of the two numbers.
    pub basis: Basis,
    /// Earlier number.
    pub before: Interval,
    /// Later number.
    pub after: Interval,
    /// The later over the earlier one, as a ratio of costs: 1.05 is 5 % dearer than before.
    pub change: Interval,
    /// The largest departure from 1 that the two baselines leave possible between equals.
    pub noise_floor: Option<f64>,
    /// Verdict on it.
    pub verdict: ChangeVerdict,
}

impl ChangeVerdict {
    /// The word for it in every format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Dearer => "dearer",
            Self::Cheaper => "cheaper",
            Self::Unchanged => "unchanged",
            Self::Undecided => "not decided",
        }
    }
}

impl SameMachine {
    /// Returns what may be concluded, in a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SameBoot => "the same machine, since the same boot",
            Self::Same => {
                "the same machine, booted again: where memory came to lie is another draw for all \
                 stacks"
            }
            Self::Alike => {
                "two machines that are alike in all that is known: ratios to native may be \
                 compared, times may not"
            }
            Self::Another => {
                "another machine, or one on which something has changed: a change may be the \
                 machine's, also of a ratio to native"
            }
        }
    }
}

/// Compares two runs of one question.
///
/// # Errors
/// The user's: they ask something else, or have no stack with a number in common.
pub fn diff(before: &Findings, after: &Findings) -> Result<Diff, Fault> {
    require_one_question(before, after)?;
    let (machine, machine_changes) = machines(&before.machine, &after.machine);
    let margin = before.run.equivalence_margin.max(after.run.equivalence_margin);
    let mut changes = Vec::new();
    let mut not_in_both = Vec::new();
    let of = |findings: &'_ Findings| -> Vec<String> {
        compared(&findings.arms).map(|arm| arm.stack.clone()).collect()
    };
    let (old, new) = (of(before), of(after));
    not_in_both.extend(old.iter().filter(|stack| !new.contains(stack)).cloned());
    not_in_both.extend(new.iter().filter(|stack| !old.contains(stack)).cloned());
    if matches!(machine, SameMachine::SameBoot | SameMachine::Same) {
        changes.extend(of_the_baseline(before, after, margin));
    }
    for arm in compared(&after.arms) {
        let Some(earlier) = compared(&before.arms).find(|it| it.stack == arm.stack) else {
            continue;
        };
        changes.extend(of_a_stack((before, earlier), (after, arm), margin));
    }
    if !changes.iter().any(|change| change.basis == Basis::Baseline) {
        return Err(Fault::user("the two runs have no stack with an overhead in common").hint(
            "compare runs of the same stacks, each of at least three blocks; `surtax show` has \
             their tables",
        ));
    }
    let run = |findings: &Findings| RunOfDiff {
        id: findings.run.id.clone(),
        title: findings.run.title.clone(),
        began_at: findings.run.began_at.clone(),
        blocks_done: findings.run.blocks_done,
        state: findings.run.state.clone(),
    };
    Ok(Diff {
        schema_version: SCHEMA_VERSION,
        before: run(before),
        after: run(after),
        machine,
        machine_changes,
        margin,
        changes,
        not_in_both,
    })
}

fn require_one_question(before: &Findings, after: &Findings) -> Result<(), Fault> {
    let refused = |what: &str, one: String, other: String| {
        Err(Fault::user(format!("the two runs cannot be compared: {what} `{one}`, then `{other}`"))
            .hint("compare runs of one question: `surtax show RUN` has the line that repeats one"))
    };
    let (one, other) = (&before.run, &after.run);
    if one.workload != other.workload {
        let name = |it: &Option<String>| it.clone().unwrap_or_else(|| String::from("none"));
        return refused("the workload was", name(&one.workload), name(&other.workload));
    }
    if one.workload.is_none() && one.command != other.command {
        return refused("the command was", one.title.clone(), other.title.clone());
    }
    if one.baseline != other.baseline {
        return refused("the baseline was", one.baseline.clone(), other.baseline.clone());
    }
    Ok(())
}

/// Tells how far two machines are the same, and in which facts they are not.
fn machines(before: &[KeyValue], after: &[KeyValue]) -> (SameMachine, Vec<FactChange>) {
    let known = |facts: &[KeyValue]| -> BTreeMap<String, String> {
        let lasting = facts.iter().filter(|it| !OF_A_MOMENT.contains(&it.key.as_str()));
        lasting.map(|it| (it.key.clone(), it.value.clone())).collect()
    };
    let (mut old, mut new) = (known(before), known(after));
    let mut same = |key: &str| {
        let pair = old.remove(key).zip(new.remove(key));
        pair.filter(|(one, _)| one != UNKNOWN).map(|(one, other)| one == other)
    };
    let (machine, boot) = (same(MACHINE_HASH), same(BOOT_HASH));
    let keys = old.keys().filter(|key| new.contains_key(*key));
    let changes: Vec<FactChange> = keys
        .filter(|key| old[*key] != new[*key])
        .map(|key| FactChange {
            key: key.clone(),
            before: old[key].clone(),
            after: new[key].clone(),
        })
        .collect();
    let found = match (machine, boot) {
        _ if !changes.is_empty() => SameMachine::Another,
        (Some(false), _) => SameMachine::Alike,
        (Some(true), Some(true)) => SameMachine::SameBoot,
        (Some(true), _) => SameMachine::Same,
        (None, _) => SameMachine::Alike,
    };
    (found, changes)
}

/// The changes of every metric of a stack that has an overhead in both.
fn of_a_stack(
    (before, earlier): (&Findings, &ArmFindings),
    (after, later): (&Findings, &ArmFindings),
    margin: f64,
) -> Vec<Change> {
    let is_invalid =
        |arm: &ArmFindings| matches!(arm.verdict, crate::finding::Verdict::Invalid { .. });
    if is_invalid(earlier) || is_invalid(later) {
        return Vec::new();
    }
    let of = |metric: &crate::finding::MetricFindings| {
        let old = earlier.metric(&metric.metric)?;
        let (one, other) = (old.overhead?, metric.overhead?);
        let floors = [floor_of(before, old), floor_of(after, metric)];
        let floor = floors.into_iter().flatten().reduce(f64::max);
        let found = change(&estimate(&one), &estimate(&other));
        Some(Change {
            stack: later.name.clone(),
            metric: metric.metric.clone(),
            unit: metric.unit.clone(),
            basis: Basis::Baseline,
            before: one,
            after: other,
            change: interval(&found),
            noise_floor: floor,
            verdict: judged(&found, floor, margin),
        })
    };
    let is_of_wall = |name: &str| name == WALL && after.run.is_of_fixed_time;
    later.metrics.iter().filter(|it| !is_of_wall(&it.metric)).filter_map(of).collect()
}

/// The noise floor of a metric, where its run has one: of those without, that of wall time.
fn floor_of(findings: &Findings, metric: &crate::finding::MetricFindings) -> Option<f64> {
    let own = metric.judgement.as_ref().and_then(|judged| judged.noise_floor);
    let floor = own.or(findings.noise_floor)?;
    let departure = |ratio: f64| ratio.max(1.0 / ratio) - 1.0;
    Some(departure(floor.low).max(departure(floor.high)))
}

/// The change of the baseline's own wall time.
fn of_the_baseline(before: &Findings, after: &Findings, margin: f64) -> Option<Change> {
    if after.run.is_of_fixed_time {
        return None;
    }
    let (one, other) = (wall_of_baseline(before)?, wall_of_baseline(after)?);
    let found = change(&one, &other);
    Some(Change {
        stack: after.run.baseline.clone(),
        metric: WALL.into(),
        unit: String::from("ns"),
        basis: Basis::Absolute,
        before: interval(&one),
        after: interval(&other),
        change: interval(&found),
        noise_floor: None,
        verdict: judged(&found, Some(0.0), margin),
    })
}

/// The baseline's wall time in nanoseconds: the centre of its blocks, of both its arms.
fn wall_of_baseline(findings: &Findings) -> Option<Estimate> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in baseline(&findings.arms).flat_map(|arm| &arm.trials) {
        if let (Some(wall), "done") = (trial.wall_ns, trial.state.as_str()) {
            blocks.entry(trial.block).or_default().push(crate::finding::estimate::float(wall));
        }
    }
    let blocks: Result<Vec<Block>, _> =
        blocks.values().map(|walls| Block::new(&[1.0], walls)).collect();
    overhead(&blocks.ok()?).ok()
}

/// The verdict on a change: by the same rule as that on an overhead.
fn judged(found: &Estimate, floor: Option<f64>, margin: f64) -> ChangeVerdict {
    let Some(floor) = floor else { return ChangeVerdict::Undecided };
    let noise = NoiseFloor { estimate: *found, floor };
    match verdict(found, &noise, margin) {
        Verdict::Differs if found.ratio > 1.0 => ChangeVerdict::Dearer,
        Verdict::Differs => ChangeVerdict::Cheaper,
        Verdict::Equivalent => ChangeVerdict::Unchanged,
        Verdict::Inconclusive => ChangeVerdict::Undecided,
    }
}

fn estimate(found: &Interval) -> Estimate {
    let Interval { ratio, low, high, confidence } = *found;
    Estimate {
        ratio,
        low,
        high,
        confidence: Confidence::new(confidence).unwrap_or(Confidence::P95),
        block_count: 0,
        method: Method::SignedRank,
    }
}

fn interval(found: &Estimate) -> Interval {
    crate::finding::estimate::interval(found)
}

impl Change {
    /// A number of it, with its interval.
    #[must_use]
    pub fn told(&self, found: &Interval) -> String {
        match self.basis {
            Basis::Baseline => number::overhead(found),
            Basis::Absolute => number::time(found.ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::trial::TrialResult;

    /// A run in which `runc` takes so much longer than in the example, and everything so much.
    fn run(runc: f64, all: f64) -> Findings {
        #[expect(clippy::cast_precision_loss, reason = "a second")]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a second")]
        let scaled = |wall: u64, by: f64| (wall as f64 * by) as u64;
        example(10, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            let by = if record.trial.arm == 2 { runc * all } else { all };
            measured.wall.0 = scaled(measured.wall.0, by);
        })
    }

    fn wall(found: &Diff) -> &Change {
        found.changes.iter().find(|it| it.metric == WALL && it.basis == Basis::Baseline).unwrap()
    }

    #[test]
    fn a_stack_that_became_dearer_is_found_and_a_day_that_is_slower_is_no_change() {
        let verdict = |runc, all| wall(&diff(&run(1.0, 1.0), &run(runc, all)).unwrap()).verdict;
        assert_eq!(verdict(1.05, 1.0), ChangeVerdict::Dearer);
        assert_eq!(verdict(0.95, 1.0), ChangeVerdict::Cheaper);
        assert_eq!(verdict(1.0, 1.0), ChangeVerdict::Unchanged);
        assert_eq!(verdict(1.0, 1.5), ChangeVerdict::Unchanged);
        let found = diff(&run(1.0, 1.0), &run(1.05, 1.5)).unwrap();
        let Interval { ratio, low, high, .. } = wall(&found).change;
        assert!((ratio - 1.05).abs() < 1e-3 && low <= ratio && ratio <= high, "{found:?}");
        assert_eq!(found.not_in_both, Vec::<String>::new());
    }

    #[test]
    fn times_are_compared_on_the_same_machine_alone() {
        let fact = |key: &str, value: &str| KeyValue {
            key: key.into(),
            value: value.into(),
            source: String::new(),
        };
        let machine = |machine: &str, boot: &str, kernel: &str| {
            let mut findings = run(1.0, 1.0);
            findings.machine = vec![
                fact(MACHINE_HASH, machine),
                fact(BOOT_HASH, boot),
                fact("kernel_release", kernel),
                fact("load_1min", boot),
            ];
            findings
        };
        let one = machine("m", "b", "6.1");
        for (other, same, has_absolute) in [
            (machine("m", "b", "6.1"), SameMachine::SameBoot, true),
            (machine("m", "c", "6.1"), SameMachine::Same, true),
            (machine("n", "c", "6.1"), SameMachine::Alike, false),
            (machine(UNKNOWN, UNKNOWN, "6.1"), SameMachine::Alike, false),
            (machine("m", "c", "6.2"), SameMachine::Another, false),
        ] {
            let found = diff(&one, &other).unwrap();
            let absolute = found.changes.iter().find(|it| it.basis == Basis::Absolute);
            assert_eq!((found.machine, absolute.is_some()), (same, has_absolute), "{same:?}");
            assert_eq!(found.machine_changes.len(), usize::from(same == SameMachine::Another));
        }
    }

    #[test]
    fn what_asks_something_else_or_has_nothing_in_common_is_refused() {
        let one = run(1.0, 1.0);
        let refused = |change: fn(&mut Findings)| {
            let mut other = run(1.0, 1.0);
            change(&mut other);
            diff(&one, &other).unwrap_err().message
        };
        assert!(refused(|it| it.run.command.clear()).contains("the command was"));
        assert!(refused(|it| it.run.baseline = String::from("runc")).contains("the baseline was"));
        let workload = |it: &mut Findings| it.run.workload = Some(String::from("timer"));
        assert!(refused(workload).contains("the workload was"));
        assert!(refused(|it| it.arms.truncate(2)).contains("no stack with an overhead in common"));
        let few = example(2, |_| {});
        assert!(diff(&one, &few).unwrap_err().message.contains("no stack with an overhead"));
    }
}
