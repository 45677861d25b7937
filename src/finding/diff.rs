//! The difference between two runs of one question: what each stack costs now, against what it cost
//! before, each over its own baseline.
//!
//! Nothing is read but findings, so that a reader can check every change with the two reports. What
//! an absolute time says depends on the machine; what a ratio to native says depends on it less,
//! since all that makes the machine slower is in both.

use crate::fault::Fault;
use crate::finding::caution::{baseline, compared};
use crate::finding::estimate::{float, interval};
use crate::finding::question;
use crate::finding::same_machine::{self, FactChange, SameMachine};
use crate::finding::threshold::has_lost_most;
use crate::finding::trial_metric::WALL;
use crate::finding::{ArmFindings, Caution, Findings, Interval, number};
use serde::Serialize;
use std::collections::BTreeMap;
use surtax_statistics::{
    Block, Confidence, Estimate, Method, NoiseFloor, Verdict, change, departure, overhead, verdict,
};

/// Raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// Changes for every stack alike: of surtax's version, the workload's text, its environment.
    pub question_changes: Vec<FactChange>,
    /// Changes of stacks' own levels: of versions, images and accelerators.
    pub stack_changes: Vec<StackChanges>,
    /// Half-width of the margin within which a change is none, as a share: the smaller one of both.
    pub margin: f64,
    /// A change for each stack and metric that both have.
    pub changes: Vec<Change>,
    /// Stacks of which nothing can be said, each with the reason.
    pub missing: Vec<Missing>,
}

/// Changes of a stack that are no costs.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StackChanges {
    /// Name of the stack.
    pub stack: String,
    /// Facts about its levels.
    pub changes: Vec<FactChange>,
}

/// A stack that one run has alone, or of which one has no overhead.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Missing {
    /// Name of the stack.
    pub stack: String,
    /// Reason in words.
    pub because: String,
}

/// A run of which two are compared.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RunOfDiff {
    /// UUID-like identifier.
    pub id: String,
    /// For people.
    pub title: String,
    /// RFC 3339, UTC.
    pub began_at: String,
    /// Working directory: a path that begins in it may lead to another file.
    pub cwd: String,
    /// Blocks that were done.
    pub blocks_done: u32,
    /// `finished`, `interrupted` or `running`.
    pub state: String,
    /// Cautions that a reader must know before believing its numbers.
    pub cautions: Vec<Caution>,
}

/// Verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The run's own baseline.
    Baseline,
    /// Nothing: the baseline's own value, in its unit.
    Absolute,
}

/// The change of one metric of one stack.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// Verdict on it; `None` where there is no noise floor to be held against: of a metric that
    /// gets no verdict in a run either, and of the baseline itself.
    pub verdict: Option<ChangeVerdict>,
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

/// Requires that two runs are two.
///
/// # Errors
/// The user's: they are one.
pub fn require_two(before: &Findings, after: &Findings) -> Result<(), Fault> {
    if before.run.id == after.run.id {
        return Err(Fault::user("both are the same run")
            .hint("name two; `surtax list` shows those that are kept"));
    }
    Ok(())
}

/// Compares two runs of one question.
///
/// # Errors
/// The user's: they ask something else, or have no stack with a number in common.
pub fn diff(before: &Findings, after: &Findings) -> Result<Diff, Fault> {
    question::require_one(before, after)?;
    let (machine, machine_changes) = same_machine::of_runs(before, after);
    let margin = before.run.equivalence_margin.min(after.run.equivalence_margin);
    let (of_stacks, missing) = of_stacks(before, after, margin);
    if of_stacks.is_empty() {
        let one = |it: &Missing| format!("`{}`: {}", it.stack, it.because);
        let why = missing.iter().map(one).collect::<Vec<_>>().join("; ");
        return Err(Fault::user(format!("no stack has an overhead in both runs: {why}")).hint(
            "compare runs of the same stacks, of three blocks at least, in which they count",
        ));
    }
    let is_same = matches!(machine, SameMachine::SameBoot | SameMachine::Same);
    let itself = is_same.then(|| of_the_baseline(before, after)).flatten();
    let changes = itself.into_iter().chain(of_stacks).collect();
    Ok(Diff {
        schema_version: SCHEMA_VERSION,
        before: RunOfDiff::of(before),
        after: RunOfDiff::of(after),
        machine,
        machine_changes,
        question_changes: question::changes(before, after),
        stack_changes: changes_of_stacks(before, after),
        margin,
        changes,
        missing,
    })
}

/// Changes of the stacks that both runs have.
fn changes_of_stacks(before: &Findings, after: &Findings) -> Vec<StackChanges> {
    let of = |arm: &ArmFindings| {
        let earlier = before.arms.iter().find(|it| it.stack == arm.stack)?;
        let changes = question::changes_of_levels(earlier, arm);
        (!changes.is_empty()).then(|| StackChanges { stack: arm.name.clone(), changes })
    };
    let once = baseline(&after.arms).take(1).chain(compared(&after.arms));
    once.filter_map(of).collect()
}

/// The changes of all stacks that have an overhead in both runs, and the others.
fn of_stacks(before: &Findings, after: &Findings, margin: f64) -> (Vec<Change>, Vec<Missing>) {
    let (mut changes, mut missing) = (Vec::new(), Vec::new());
    for arm in compared(&after.arms) {
        let earlier = compared(&before.arms).find(|it| it.stack == arm.stack);
        let found = earlier.map(|earlier| of_a_stack((before, earlier), (after, arm), margin));
        let because = match (earlier, &found) {
            (None, _) => String::from("the earlier run has no such stack"),
            (Some(earlier), Some(found)) if found.is_empty() => {
                let without = [(earlier, "earlier"), (arm, "later")];
                let without = without.into_iter().find(|(arm, _)| arm.overhead.is_none());
                without.map_or_else(String::new, |(arm, which)| {
                    format!("of the {which} run: {}", arm.because)
                })
            }
            _ => {
                changes.extend(found.into_iter().flatten());
                continue;
            }
        };
        missing.push(Missing { stack: arm.name.clone(), because });
    }
    let is_gone = |arm: &&ArmFindings| !compared(&after.arms).any(|it| it.stack == arm.stack);
    missing.extend(compared(&before.arms).filter(is_gone).map(|arm| Missing {
        stack: arm.name.clone(),
        because: String::from("the later run has no such stack"),
    }));
    (changes, missing)
}

/// The changes of every metric of a stack that has an overhead in both.
fn of_a_stack(
    (before, earlier): (&Findings, &ArmFindings),
    (after, later): (&Findings, &ArmFindings),
    margin: f64,
) -> Vec<Change> {
    if earlier.is_invalid() || later.is_invalid() {
        return Vec::new();
    }
    let of = |metric: &crate::finding::MetricFindings| {
        let old = earlier.metric(&metric.metric)?;
        let (one, other) = (old.overhead?, metric.overhead?);
        let floors = floor_of(before, old).zip(floor_of(after, metric));
        let floor = floors.map(|(one, other)| one.max(other));
        let step = [old, metric].into_iter().filter_map(|it| it.judgement.as_ref()?.step_share);
        let step = step.fold(0.0, f64::max);
        let is_lost = [(before, earlier), (after, later)]
            .into_iter()
            .any(|(run, arm)| has_lost_most(arm) || baseline(&run.arms).any(has_lost_most));
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
            verdict: floor.map(|floor| match judged(&found, floor.max(step), margin) {
                ChangeVerdict::Unchanged if is_lost || step > margin => ChangeVerdict::Undecided,
                said => said,
            }),
        })
    };
    let is_of_wall = |name: &str| name == WALL && after.run.is_of_fixed_time;
    later.metrics.iter().filter(|it| !is_of_wall(&it.metric)).filter_map(of).collect()
}

/// The noise floor of a metric, where its run has one: wall time has, and what a workload measures.
fn floor_of(findings: &Findings, metric: &crate::finding::MetricFindings) -> Option<f64> {
    let floor = match metric.metric.as_str() {
        WALL => findings.noise_floor?,
        _ => metric.judgement.as_ref()?.noise_floor?,
    };
    Some(departure(floor.low).max(departure(floor.high)))
}

/// The change of the baseline's own wall time, without a verdict: how far a day is from another is
/// in no interval of a run.
fn of_the_baseline(before: &Findings, after: &Findings) -> Option<Change> {
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
        verdict: None,
    })
}

/// The baseline's wall time in nanoseconds: the centre of its blocks, of both its arms.
fn wall_of_baseline(findings: &Findings) -> Option<Estimate> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in baseline(&findings.arms).flat_map(|arm| &arm.trials) {
        if let (Some(wall), "done") = (trial.wall_ns, trial.state.as_str()) {
            blocks.entry(trial.block).or_default().push(float(wall));
        }
    }
    let blocks: Result<Vec<Block>, _> =
        blocks.values().map(|walls| Block::new(&[1.0], walls)).collect();
    overhead(&blocks.ok()?).ok()
}

/// The verdict on a change: by the same rule as that on an overhead.
fn judged(found: &Estimate, floor: f64, margin: f64) -> ChangeVerdict {
    let noise = NoiseFloor { estimate: *found, floor };
    match verdict(found, &noise, margin) {
        Verdict::Differs if found.ratio > 1.0 => ChangeVerdict::Dearer,
        Verdict::Differs => ChangeVerdict::Cheaper,
        Verdict::Equivalent => ChangeVerdict::Unchanged,
        Verdict::Inconclusive => ChangeVerdict::Undecided,
    }
}

/// The estimate that an interval was made of.
pub(super) fn estimate(found: &Interval) -> Estimate {
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

impl RunOfDiff {
    /// Tells of a run what its findings say.
    #[must_use]
    pub fn of(findings: &Findings) -> Self {
        Self {
            id: findings.run.id.clone(),
            title: findings.run.title.clone(),
            began_at: findings.run.began_at.clone(),
            cwd: findings.run.cwd.clone(),
            blocks_done: findings.run.blocks_done,
            state: findings.run.state.clone(),
            cautions: findings.cautions.clone(),
        }
    }
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
pub(super) mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::finding::{KeyValue, LevelEvidence};
    use crate::ledger::machine::{BOOT_HASH, MACHINE_HASH, UNKNOWN};
    use crate::trial::TrialResult;

    /// A run in which `runc` takes so much longer than in the example, and everything so much.
    pub(in crate::finding) fn run(runc: f64, all: f64) -> Findings {
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
        let verdict =
            |runc, all| wall(&diff(&run(1.0, 1.0), &run(runc, all)).unwrap()).verdict.unwrap();
        assert_eq!(verdict(1.05, 1.0), ChangeVerdict::Dearer);
        assert_eq!(verdict(0.95, 1.0), ChangeVerdict::Cheaper);
        assert_eq!(verdict(1.0, 1.0), ChangeVerdict::Unchanged);
        assert_eq!(verdict(1.0, 1.5), ChangeVerdict::Unchanged);
        let found = diff(&run(1.0, 1.0), &run(1.05, 1.5)).unwrap();
        let Interval { ratio, low, high, .. } = wall(&found).change;
        assert!((ratio - 1.05).abs() < 1e-3 && low <= ratio && ratio <= high, "{found:?}");
        let missing: Vec<&str> = found.missing.iter().map(|it| it.stack.as_str()).collect();
        assert_eq!(missing, ["qemu"], "it has no number in either");
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
            (machine("m", "b", UNKNOWN), SameMachine::SameBoot, true),
        ] {
            let found = diff(&one, &other).unwrap();
            let absolute = found.changes.iter().find(|it| it.basis == Basis::Absolute);
            assert_eq!((found.machine, absolute.is_some()), (same, has_absolute), "{same:?}");
            assert_eq!(found.machine_changes.len(), usize::from(same == SameMachine::Another));
        }
    }

    #[test]
    fn whatever_else_changed_is_told_beside_the_costs() {
        let with = |version: &str, accelerator: &str| {
            let fact = |key: &str, value: &str| KeyValue {
                key: key.into(),
                value: value.into(),
                source: String::new(),
            };
            let mut findings = run(1.0, 1.0);
            findings.machine = vec![fact("surtax_version", version)];
            let level = LevelEvidence {
                layer: "runc".into(),
                facts: vec![fact("accelerator", accelerator)],
            };
            findings.arms.iter_mut().for_each(|arm| arm.evidence = vec![level.clone()]);
            findings
        };
        let found = diff(&with("0.1", "kvm"), &with("0.2", "tcg")).unwrap();
        let told = |it: &FactChange| [it.key.clone(), it.before.clone(), it.after.clone()];
        let question: Vec<[String; 3]> = found.question_changes.iter().map(told).collect();
        assert_eq!(question, [["surtax_version", "0.1", "0.2"]]);
        let stacks: Vec<&str> = found.stack_changes.iter().map(|it| it.stack.as_str()).collect();
        assert_eq!(stacks, ["native", "runc", "qemu"]);
        let of_stack: Vec<[String; 3]> = found.stack_changes[1].changes.iter().map(told).collect();
        assert_eq!(of_stack, [["accelerator", "kvm", "tcg"]]);
        assert_eq!(diff(&with("0.1", "kvm"), &with("0.1", "kvm")).unwrap().stack_changes, []);
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
        let conduct = |it: &mut Findings| it.run.conduct = String::from("100 iterations");
        assert!(refused(conduct).contains("the conduct was"));
        assert!(refused(|it| it.arms.truncate(2)).contains("no stack has an overhead in both"));
        let few = example(2, |_| {});
        assert!(diff(&one, &few).unwrap_err().message.contains("no stack has an overhead in both"));
    }
}
