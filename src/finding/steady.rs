//! Iterations that were not steady yet: found per arm, left out, and said.
//!
//! A start of a stack counts as the median of its iterations. Which of the first ones are not like
//! the later ones is found from all starts of a stack together, the two arms of the baseline as
//! one, so that what is left out never depends on how a single trial went.

use crate::finding::caution::caution;
use crate::finding::estimate::median;
use crate::finding::foreign::line;
use crate::finding::number::{count, percent};
use crate::finding::trial_metric::WALL;
use crate::finding::{ArmFindings, Caution, WarmUpFindings};
use crate::ledger::{StoredTrial, TrialState};
use crate::plan::Plan;
use std::collections::BTreeMap;
use surtax_statistics::{Steadiness, warm_up};

/// Finds the warm-up of every arm that ran the command several times in each start, and makes the
/// wall time of its trials that of the iterations after it. By arm.
pub(crate) fn leave_out(trials: &mut [StoredTrial]) -> BTreeMap<u32, WarmUpFindings> {
    let mut boots: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.iterations.len() > 1) {
        if trial.state == TrialState::Done {
            boots.entry(stack_of(trial.id.arm)).or_default().push(trial.iterations.clone());
        }
    }
    let mut found = BTreeMap::new();
    for (stack, boots) in &boots {
        // A time of zero has no ratio: nothing is left out there.
        let Ok(warm_up) = warm_up(boots) else { continue };
        let iterations = boots.iter().map(Vec::len).min().unwrap_or(0);
        found.insert(*stack, WarmUpFindings::of(&warm_up, iterations));
    }
    for trial in trials.iter_mut() {
        let left_out = found.get(&stack_of(trial.id.arm)).map_or(0, |found| found.left_out);
        let left_out = usize::try_from(left_out).unwrap_or(usize::MAX);
        let steady = trial.iterations.get(left_out..).unwrap_or_default();
        let Some(median) = median(steady) else { continue };
        for sample in trial.samples.iter_mut().filter(|sample| *sample.metric == *WALL) {
            sample.value = median;
            sample.whole = whole(median);
        }
    }
    if let Some(baseline) = found.get(&stack_of(0)).cloned() {
        found.insert(0, baseline);
    }
    found
}

/// Arms 0 and 1 are the same stack.
fn stack_of(arm: u32) -> u32 {
    arm.max(1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Says of every arm what was found about its first iterations.
pub(crate) fn add_to(arms: &mut [ArmFindings], found: &BTreeMap<u32, WarmUpFindings>) {
    for arm in arms {
        arm.warm_up = found.get(&arm.arm).cloned();
        if let Some(sentence) = arm.warm_up.as_ref().and_then(sentence) {
            arm.because = format!("{}; {sentence}", arm.because);
        }
    }
}

/// A sentence for the arms of which iterations are left out.
fn sentence(found: &WarmUpFindings) -> Option<String> {
    let ratio = found.ratio.filter(|_| found.left_out > 0)?;
    Some(format!(
        "warmed up for {} of {} in each start, which took {} of the later ones",
        count(found.left_out, "iteration"),
        found.iterations,
        percent(ratio)
    ))
}

/// Arms that had not become steady.
pub(crate) fn caution_of(arms: &[ArmFindings]) -> Option<Caution> {
    let never = |arm: &&ArmFindings| arm.warm_up.as_ref().is_some_and(|found| !found.is_steady);
    let arm = arms.iter().find(never)?;
    let found = arm.warm_up.as_ref()?;
    Some(caution(
        "never-steady",
        format!(
            "`{}` had not become steady after {} of its {} iterations in each start, so its number \
             depends on how many there are",
            arm.stack, found.left_out, found.iterations
        ),
        format!("ask for more: `--iterations {}`", found.iterations.saturating_mul(4)),
    ).of([arm.stack.as_str()]))
}

/// Says how each trial was carried out, where that is not the usual way.
pub(crate) fn conduct(plan: &Plan, is_of_fixed_time: bool) -> String {
    let conduct = &plan.conduct;
    let mut words = Vec::new();
    if is_of_fixed_time {
        words.push(String::from("the workload runs for a fixed time, so wall time says nothing"));
    }
    if conduct.instances > 1 {
        words.push(format!(
            "{} instances of the command run at once in each stack",
            conduct.instances
        ));
    }
    if conduct.iterations > 1 {
        words.push(format!("each start runs the command {} times", conduct.iterations));
    }
    if plan.warm_up > 0 {
        let runs = count(plan.warm_up, "run");
        words.push(format!("{runs} before it uncounted"));
    }
    words.extend(conduct.cache.word().map(|word| format!("caches {word}")));
    if conduct.settle_ns > 0 {
        let settle = crate::plan::duration::text(conduct.settle());
        words.push(format!("{settle} of rest before each start"));
    }
    line(&words.join(", "))
}

impl WarmUpFindings {
    fn of(found: &surtax_statistics::WarmUp, iterations: usize) -> Self {
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            iterations: small(iterations),
            left_out: small(found.iteration_count),
            ratio: (found.steadiness != Steadiness::Unknown).then_some(found.ratio),
            is_steady: found.steadiness != Steadiness::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::compare;
    use crate::ledger::Ledger;
    use crate::ledger::fixture::{add, id, ledger, measured, record};
    use crate::trial::{Iteration, TrialResult};
    use surtax_instrument::quantity::Nanoseconds;

    /// A ledger of eight blocks in which every start takes these times, an arm's own factor apart.
    fn run(file: &std::path::Path, times: &[u64]) {
        let mut ledger = ledger(file, &["native", "runc"]);
        for (block, arm) in (0..8).flat_map(|block| (0..3).map(move |arm| (block, arm))) {
            let mut one = measured(u64::from(arm + 1) * 1_000_000_000);
            let wall = |time: &u64| (time + u64::from(block) % 3) * u64::from(arm + 1) * 1_000_000;
            let iteration = |time: &u64| Iteration {
                wall: Nanoseconds(wall(time)),
                cpu_user: Nanoseconds(1),
                cpu_system: Nanoseconds(1),
            };
            one.iterations = times.iter().map(iteration).collect();
            add(&mut ledger, &record(id(block, arm), TrialResult::Done(Box::new(one))));
        }
    }

    #[test]
    fn a_workload_that_runs_for_a_fixed_time_is_said_to() {
        let mut plan = crate::ledger::fixture::plan(&["native"]);
        let mut said = |workload: &str| {
            plan.workload = Some(crate::workload::Workload::find(workload).unwrap());
            let shelf = tempfile::tempdir().unwrap();
            let ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
            compare(&ledger).unwrap().run
        };
        let fixed = "the workload runs for a fixed time";
        assert!(!said("compress.xz").conduct.contains(fixed));
        assert!(said("disk.randwrite").conduct.starts_with(fixed));
    }

    #[test]
    fn iterations_that_warm_up_are_left_out_of_every_start_and_said() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.surtax");
        run(&file, &[900, 700, 500, 500, 501, 500, 499, 500]);
        let findings = compare(&Ledger::open(&file).unwrap()).unwrap();
        for arm in &findings.arms {
            let found = arm.warm_up.as_ref().unwrap();
            assert_eq!((found.left_out, found.iterations, found.is_steady), (2, 8, true));
            assert!(found.ratio.unwrap() > 1.5, "{found:?}");
            let wall = arm.metrics.iter().find(|metric| metric.metric == "wall_ns").unwrap();
            let expected = f64::from(arm.arm + 1) * 501e6;
            assert!((wall.median - expected).abs() < 2e6 * f64::from(arm.arm + 1), "{wall:?}");
        }
        assert!(findings.cautions.iter().all(|caution| caution.code != "never-steady"));
    }

    #[test]
    fn an_arm_that_never_becomes_steady_is_a_caution_with_advice() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.surtax");
        run(&file, &[900, 800, 700, 600, 500, 400]);
        let findings = compare(&Ledger::open(&file).unwrap()).unwrap();
        let caution = findings.cautions.iter().find(|it| it.code == "never-steady").unwrap();
        assert!(caution.advice.contains("--iterations 24"), "{caution:?}");
    }
}
