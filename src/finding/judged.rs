//! Standards that arms are judged by, and the verdicts on what a workload measures.

use crate::finding::estimate::{self, Baseline, Measure};
use crate::finding::program::ProgramId;
use crate::finding::run_facts::margin_of;
use crate::finding::step::Step;
use crate::finding::verdict::{self, ANY_METRIC, Case, Judgement};
use crate::finding::wall::{Compared, Overhead};
use crate::finding::{ArmFindings, JudgementFindings, MetricFindings, Verdict, number};
use crate::ledger::{Run, RunState};
use crate::plan::Plan;
use surtax_statistics::NoiseFloor;

/// Standards that the arms are judged by.
pub(crate) struct Judge<'a> {
    pub(crate) baseline: &'a Baseline<'a>,
    /// The noise floor of wall time.
    pub(crate) noise: Option<NoiseFloor>,
    pub(crate) margin: f64,
    pub(crate) stack: String,
    /// Program that both arms of the baseline ran.
    pub(crate) program: &'a ProgramId,
    /// True if the run is finished, so that what has no trial gets none.
    pub(crate) is_finished: bool,
}

impl<'a> Judge<'a> {
    /// The standards of a run: its baseline with the noise floor of wall time, and the
    /// program that both arms of the baseline ran.
    pub(crate) fn of(
        (baseline, noise): (&'a Baseline<'a>, Option<NoiseFloor>),
        program: &'a ProgramId,
        plan: &Plan,
        run: &Run,
    ) -> Self {
        let is_finished = run.state == RunState::Finished;
        let (margin, stack) = (margin_of(plan), plan.baseline.to_string());
        Self { baseline, noise, margin, stack, program, is_finished }
    }
}

/// Results of the workload's metrics, metric by metric.
pub(crate) struct Judged<'a> {
    /// Of every arm.
    pub(crate) overheads: &'a [Vec<Overhead>],
    /// Noise floors: how much the baseline differs from itself.
    pub(crate) noises: &'a [Option<NoiseFloor>],
    /// To what the workload rounds it.
    pub(crate) step_sizes: &'a [Option<f64>],
}

impl Judged<'_> {
    /// Adds the verdicts to the metrics of an arm that is compared and counts.
    pub(crate) fn add_to(&self, arm: &mut ArmFindings, measures: &[Measure], judge: &Judge<'_>) {
        let is_judged = arm.is_compared() && !arm.is_invalid();
        let place = usize::try_from(arm.arm).unwrap_or(usize::MAX);
        let of_metrics = measures.iter().zip(self.overheads).zip(self.noises).zip(self.step_sizes);
        for (((measure, overheads), noise), size) in of_metrics.filter(|_| is_judged) {
            let found = arm.metrics.iter_mut().find(|found| found.metric == measure.metric);
            let (Some(found), Some(overhead)) = (found, overheads.get(place)) else { continue };
            let usual = judge.baseline.median(measure);
            let step =
                size.zip(usual).map(|(size, usual)| Step::between(size, found.median, usual));
            found.judgement = Some(judgement(overhead, *noise, step, found, judge));
        }
    }
}

fn judgement(
    overhead: &Overhead,
    noise: Option<NoiseFloor>,
    step: Option<Step>,
    metric: &MetricFindings,
    judge: &Judge<'_>,
) -> JudgementFindings {
    let (baseline, margin) = (judge.stack.as_str(), judge.margin);
    // What is rounded away may be a difference, or hide one.
    let share = step.map_or(0.0, |step| step.share);
    let floor = noise.map(|noise| NoiseFloor { floor: noise.floor.max(share), ..noise });
    let case =
        Case { words: ANY_METRIC, baseline, overhead: overhead.as_ref(), noise: floor, margin };
    let mut judged = verdict::of(&case);
    if let Some(step) = step.filter(|step| step.share > margin)
        && judged.verdict == Verdict::Equivalent
    {
        let because = format!(
            "alike as it is printed, but that is in steps of {}, {} of it, and the margin is ±{}",
            number::amount(step.size, &metric.unit),
            number::percent(step.share),
            number::percent(margin)
        );
        judged = Judgement::without(Verdict::Inconclusive, because);
    }
    let compared = overhead.as_ref().and_then(|overhead| overhead.as_ref().ok());
    let count = |compared: &Compared| compared.estimate.block_count;
    JudgementFindings {
        verdict: judged.verdict,
        because: judged.because,
        more_blocks: judged.more_blocks,
        block_count: compared.map_or(0, |it| u32::try_from(count(it)).unwrap_or(u32::MAX)),
        p_value: compared.map(|compared| compared.p_value),
        p_value_adjusted: compared.map(|compared| compared.p_value_adjusted),
        detectable_effect: compared.and_then(Compared::detectable_effect),
        noise_floor: noise.map(|noise| estimate::interval(&noise.estimate)),
        step_share: step.map(|step| step.share),
    }
}
