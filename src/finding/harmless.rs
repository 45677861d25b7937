//! Every text of the findings made safe to show: no format, and no new place in one, can forget to.
//!
//! A ledger may be anybody's. Its metrics, units, payers and reasons are names of ours only where
//! it is ours; elsewhere they may retitle a terminal or turn the direction of a line. What is read
//! is taken apart here field by field, so that a new field does not compile before somebody has
//! said what it is. The command alone stays as it is, word by word, for programs that read JSON;
//! whoever shows it to people quotes it first.

use crate::finding::findings::{
    AbsenceFindings, ArmFailure, ArmFindings, BesideFindings, BesideOverhead, BillGap, Caution,
    DistributionFindings, DisturbanceFinding, Findings, InstanceFindings, JudgementFindings,
    KeyValue, LevelEvidence, MetricFindings, PayerFindings, QuantileFindings, RunFacts, TrialPoint,
    Verdict,
};
use crate::finding::foreign::{line, lines, on_one_line};

/// The same findings, in which no text acts on whoever sees it.
pub(crate) fn harmless(mut findings: Findings) -> Findings {
    let Findings {
        schema_version: _,
        surtax_version,
        run,
        machine,
        arms,
        noise_floor: _,
        cautions,
        thresholds: _,
    } = &mut findings;
    tame(surtax_version);
    of_run(run);
    machine.iter_mut().for_each(of_fact);
    arms.iter_mut().for_each(of_arm);
    for Caution { code, finding, advice } in cautions {
        tame(code);
        [finding, advice].into_iter().for_each(join);
    }
    findings
}

/// Text that is one line.
fn tame(text: &mut String) {
    *text = line(text);
}

/// A message of several lines, where every format has one for it.
fn join(text: &mut String) {
    *text = line(&on_one_line(text));
}

fn of_run(run: &mut RunFacts) {
    let RunFacts {
        id,
        title,
        command: _,
        workload,
        cwd,
        repeat_with,
        began_at,
        seed: _,
        blocks_planned: _,
        blocks_done: _,
        state,
        wall_ns: _,
        baseline,
        equivalence_margin: _,
        is_of_fixed_time: _,
        conduct,
        precision: _,
        asked: _,
    } = run;
    [id, title, cwd, repeat_with, began_at, state, baseline, conduct].into_iter().for_each(tame);
    workload.iter_mut().for_each(tame);
}

fn of_fact(fact: &mut KeyValue) {
    let KeyValue { key, value, source } = fact;
    [key, source].into_iter().for_each(tame);
    *value = lines(value);
}

fn of_arm(arm: &mut ArmFindings) {
    let ArmFindings {
        arm: _,
        stack,
        name,
        part,
        trials,
        trial_count: _,
        disturbed_count: _,
        repeated_count: _,
        metrics,
        histograms,
        instances,
        beside,
        absences,
        warm_up: _,
        overhead: _,
        block_count: _,
        progress: _,
        p_value: _,
        p_value_adjusted: _,
        detectable_effect: _,
        verdict,
        because,
        more_blocks: _,
        payers,
        bill_gap,
        page_cache_bytes: _,
        evidence,
        stdout_hashes,
        exit_statuses,
        trouble,
    } = arm;
    [stack, name, part].into_iter().for_each(tame);
    join(because);
    of_verdict(verdict);
    trials.iter_mut().for_each(of_trial);
    metrics.iter_mut().for_each(of_metric);
    for DistributionFindings { metric, value_count: _, highest_ns: _, points: _ } in histograms {
        tame(metric);
    }
    instances.iter_mut().for_each(of_instances);
    beside.iter_mut().for_each(of_beside);
    for AbsenceFindings { metric, why } in absences {
        [metric, why].into_iter().for_each(tame);
    }
    payers.iter_mut().for_each(of_payer);
    if let Some(gap) = bill_gap {
        of_bill_gap(gap);
    }
    for LevelEvidence { layer, facts } in evidence {
        tame(layer);
        facts.iter_mut().for_each(of_fact);
    }
    stdout_hashes.iter_mut().chain(exit_statuses).for_each(tame);
    if let Some(ArmFailure { why, remedy, stderr }) = trouble {
        // These have lines of their own.
        [Some(why), stderr.as_mut()].into_iter().flatten().for_each(|text| *text = lines(text));
        remedy.iter_mut().for_each(tame);
    }
}

fn of_trial(trial: &mut TrialPoint) {
    let TrialPoint {
        block: _,
        position: _,
        attempt: _,
        at_ns: _,
        wall_ns: _,
        start_ns: _,
        usage: _,
        metrics,
        state,
        why,
        disturbances,
    } = trial;
    *metrics = std::mem::take(metrics).into_iter().map(|(name, it)| (line(&name), it)).collect();
    tame(state);
    join(why);
    for DisturbanceFinding { key, value: _, limit: _, what } in disturbances {
        [key, what].into_iter().for_each(tame);
    }
}

fn of_metric(found: &mut MetricFindings) {
    let MetricFindings {
        metric,
        unit,
        better,
        median: _,
        min: _,
        max: _,
        quartiles: _,
        quantiles,
        overhead: _,
        judgement,
        claimed_by: _,
    } = found;
    [metric, unit, better].into_iter().for_each(tame);
    for QuantileFindings { p: _, value: _, low: _, high: _, confidence: _, why } in quantiles {
        why.iter_mut().for_each(tame);
    }
    if let Some(JudgementFindings {
        verdict,
        because,
        block_count: _,
        more_blocks: _,
        p_value: _,
        p_value_adjusted: _,
        detectable_effect: _,
        noise_floor: _,
        step_share: _,
    }) = judgement
    {
        of_verdict(verdict);
        join(because);
    }
}

fn of_instances(found: &mut InstanceFindings) {
    let InstanceFindings { metric, unit, instance_count: _, min: _, max: _, variation_ratio: _ } =
        found;
    [metric, unit].into_iter().for_each(tame);
}

fn of_beside(beside: &mut BesideFindings) {
    let BesideFindings { neighbour, alone, overheads } = beside;
    [neighbour, alone].into_iter().for_each(tame);
    for BesideOverhead { metric, overhead: _ } in overheads {
        tame(metric);
    }
}

fn of_payer(found: &mut PayerFindings) {
    let PayerFindings { payer, role, level: _, cpu_ns: _, amounts: _, is_shared: _ } = found;
    [payer, role].into_iter().for_each(tame);
}

fn of_bill_gap(gap: &mut BillGap) {
    let BillGap {
        trial_count: _,
        cpu_unseen_ns: _,
        unseen_share: _,
        partial_count: _,
        unread_payers,
        why,
    } = gap;
    unread_payers.iter_mut().chain([why]).for_each(tame);
}

fn of_verdict(verdict: &mut Verdict) {
    if let Verdict::Invalid { gap: _, reason } = verdict {
        join(reason);
    }
}

#[cfg(test)]
mod tests;
