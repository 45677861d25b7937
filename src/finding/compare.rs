//! Turns a ledger into findings: what each stack costs over the baseline, how sure that is, and
//! why.
//!
//! Only trials that are `done` count; all others are shown with the reason. Whatever a guest, a
//! tool or somebody else's ledger said is escaped here, before any format sees it.

use crate::fault::Fault;
use crate::finding::arm_failure::{last_trouble, trouble};
use crate::finding::arm_trials::{ArmTrials, blocks_done, columns};
use crate::finding::bill::{self, Bill};
use crate::finding::caution::{self, Conditions, Signs};
use crate::finding::claims;
use crate::finding::estimate::{self, Baseline, Measure};
use crate::finding::foreign::line;
use crate::finding::judged::{Judge, Judged};
use crate::finding::machines::{self, Machines};
use crate::finding::program::ProgramId;
use crate::finding::run_facts::{block_ns, first_began, run_facts};
use crate::finding::sources::Sources;
use crate::finding::verdict::{self, Case, Judgement};
use crate::finding::wall::{self, Compared, Wall};
use crate::finding::{
    AbsenceFindings, ArmFailure, ArmFindings, DisturbanceFinding, Findings, Gap, KeyValue,
    LevelEvidence, ProgressPoint, TrialPoint, TrialUsage, Verdict, apart, distribution,
    guest_clock, harmless, instances, isolation, memory, meters, steady, step, timeline, why,
};
use crate::ledger::{Absences, KnownMetric, Ledger, Proofs, StoredTrial, TrialState};
use crate::plan::{ArmPart, Plan};
use crate::trial::disturbance::Disturbance;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use surtax_instrument::wire::Fact;

/// Raised when a field of the findings changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Reads everything that a report may say from a ledger, and nothing else.
///
/// # Errors
/// The ledger's, when it cannot be read.
pub fn compare(ledger: &Ledger) -> Result<Findings, Fault> {
    let (plan, run, machine) = (ledger.plan()?, ledger.run()?, ledger.machine()?);
    let (mut trials, proofs) = (ledger.trials()?, ledger.evidence()?);
    let warm_ups = steady::leave_out(&mut trials);
    let columns = columns(&plan, &trials);
    let baseline = baseline_of(&plan, &columns);
    let measures = measures(ledger)?;
    // A file that this surtax does not understand any more has been run all the same; and nothing
    // of a stranger's is compiled.
    let workload = plan.workload.as_ref().and_then(|workload| workload.outline().ok());
    let noise = baseline.noise_floor(&Measure::wall());
    let (walls, overheads) = wall::of_columns(&columns, &baseline, &measures);
    let noises: Vec<_> = measures.iter().map(|it| baseline.noise_floor(it)).collect();
    let step_sizes = step::sizes(workload.as_ref(), &columns, &measures);
    let program = program_of(&columns, &proofs);
    let judge = Judge::of((&baseline, noise), &program, &plan, &run);

    let sources = Sources {
        ledger,
        plan: &plan,
        machine: &machine,
        baseline: &baseline,
        asked_for: OnceCell::new(),
        proofs: &proofs,
        first_began_ns: first_began(&trials),
        measures: &measures,
        histograms: &ledger.histograms()?,
        absences: &ledger.absences()?,
        watched: &ledger.watched()?,
        page_caches: &ledger.conditions_of("payers_page_cache_bytes")?,
    };
    let judged = Judged { overheads: &overheads, noises: &noises, step_sizes: &step_sizes };
    let mut arms = arms(&sources, &columns, &walls, &judge, &judged)?;
    steady::add_to(&mut arms, &warm_ups);
    let meters = meters::of(ledger)?;
    meters::add_to(&mut arms, &meters);
    let run = run_facts(&plan, &run, &trials, blocks_done(&columns), workload.as_ref());
    let signs = Signs {
        arms: &arms,
        columns: &columns,
        proofs: &proofs,
        mitigations: mitigations(&machine),
        plan: &plan,
        is_of_fixed_time: run.is_of_fixed_time,
        main_metric: workload.as_ref().and_then(|workload| workload.main_metric()),
        conditions: Conditions::of(ledger)?,
        walls: &walls,
        noise,
        margin: judge.margin,
        guest_clock: guest_clock::caution_of(ledger, &columns)?,
        block_ns: block_ns(&trials, run.blocks_done),
    };
    Ok(harmless::harmless(Findings {
        cautions: caution::all(&signs),
        confirmed: Vec::new(),
        meters,
        thresholds: Vec::new(),
        schema_version: SCHEMA_VERSION,
        surtax_version: env!("CARGO_PKG_VERSION").into(),
        run,
        machine: machine.iter().map(key_value).collect(),
        arms,
        noise_floor: noise.map(|noise| estimate::interval(&noise.estimate)),
    }))
}

/// The trials of both arms of the baseline.
fn baseline_of<'a>(plan: &Plan, columns: &'a [ArmTrials<'a>]) -> Baseline<'a> {
    let counted = |arm: usize| columns.get(arm).map_or(&[][..], |column| &column.counted);
    let at_look = (!plan.looks().is_empty()).then(|| plan.threshold_confidence());
    Baseline::of(counted(0), counted(1)).held_at(at_look)
}

/// Returns the program that the baseline ran.
fn program_of(columns: &[ArmTrials<'_>], proofs: &Proofs) -> ProgramId {
    let ran = |arm: usize| {
        columns.get(arm).map_or_else(ProgramId::default, |it| ProgramId::of(it, proofs))
    };
    ran(0).or(ran(1))
}

/// Reads from the ledger what the run's workload measures.
fn measures(ledger: &Ledger) -> Result<Vec<Measure>, Fault> {
    let known = ledger.metrics()?.into_iter();
    let measure = |it: KnownMetric| Measure { metric: it.name, unit: it.unit, better: it.better };
    Ok(known.map(measure).collect())
}

/// Returns what was found about every arm.
fn arms(
    sources: &Sources<'_>,
    columns: &[ArmTrials<'_>],
    walls: &[Option<Wall>],
    judge: &Judge<'_>,
    judged: &Judged<'_>,
) -> Result<Vec<ArmFindings>, Fault> {
    let mut arms = Vec::new();
    for (column, wall) in columns.iter().zip(walls) {
        let bill = bill::of(&column.counted, column.depth());
        let mut arm = arm_findings(sources, column, wall.as_ref(), judge, &bill)?;
        judged.add_to(&mut arm, sources.measures, judge);
        arms.push(arm);
    }
    isolation::add_to(&mut arms, columns, sources.measures);
    claims::mark(&mut arms, sources.machine);
    why::add_to(&mut arms, &sources.ledger.counted()?, &sources.ledger.prices()?);
    Ok(arms)
}

fn arm_findings(
    sources: &Sources<'_>,
    column: &ArmTrials<'_>,
    wall: Option<&Wall>,
    judge: &Judge<'_>,
    bill: &Bill,
) -> Result<ArmFindings, Fault> {
    let trouble = trouble(sources, column)?;
    let ran = ProgramId::of(column, sources.proofs);
    let Judgement { verdict, because, more_blocks } =
        judged(column, wall, judge, trouble.as_ref(), &ran);
    let is_valid = !matches!(verdict, Verdict::Invalid { .. });
    let wall = wall.filter(|_| is_valid);
    let Machines { machines, uses, steals } = machines::of(&column.arm.stack, &column.counted);
    let distinct = |words: BTreeSet<&str>| words.into_iter().map(String::from).collect();
    let hashes = column.counted.iter().filter_map(|trial| trial.stdout_hash.as_deref());
    let statuses = column.ended.iter().filter_map(|trial| trial.exit_status.as_deref());
    let evidence = evidence(column, sources.proofs);
    let baseline = (column.arm.is_compared() && is_valid).then_some(judge.baseline);
    let compared = wall.and_then(|wall| wall.overhead.as_ref().ok());
    let points = column.ended.iter().map(|trial| point(trial, sources));
    let mut found = ArmFindings {
        arm: column.arm.index,
        stack: line(&column.arm.to_string()),
        name: name(column, &evidence),
        part: column.arm.part().word().into(),
        trials: points.collect(),
        trial_count: number(column.counted.len()),
        disturbed_count: number(column.disturbed().count()),
        repeated_count: number(column.repeated().count()),
        warm_up: None,
        metrics: estimate::metrics(&column.counted, baseline, sources.measures),
        histograms: distribution::of_arm(sources.histograms, column.arm.index),
        instances: instances::of_arm(&column.counted),
        beside: None,
        absences: absences(sources.absences, column.arm.index),
        overhead: compared.map(|compared| estimate::interval(&compared.estimate)),
        block_count: compared.map_or(0, |compared| number(compared.estimate.block_count)),
        progress: progress(column, wall, judge),
        p_value: compared.map(|compared| compared.p_value),
        p_value_adjusted: compared.map(|compared| compared.p_value_adjusted),
        detectable_effect: compared.and_then(Compared::detectable_effect),
        verdict,
        because,
        more_blocks,
        payers: bill.payers.clone(),
        bill_gap: bill.gap.clone(),
        page_cache_bytes: memory::page_cache_of_all(&column.counted, sources.page_caches),
        time_parts: Vec::new(),
        machines,
        uses,
        steals,
        energies: Vec::new(),
        timeline: timeline::of(sources.ledger, column, sources.watched)?,
        why: None,
        evidence,
        stdout_hashes: distinct(hashes.collect()),
        exit_statuses: distinct(statuses.collect()),
        trouble,
    };
    found.time_parts = apart::of(&found, &column.counted);
    Ok(found)
}

/// Returns the metrics that the workload could not measure in an arm, each with the reason.
fn absences(all: &Absences, arm: u32) -> Vec<AbsenceFindings> {
    let own = all.iter().filter(|((of, _), _)| *of == arm);
    own.map(|((_, metric), why)| AbsenceFindings { metric: line(metric), why: line(why) }).collect()
}

/// Returns how the interval of an arm came to be; of the second baseline arm, that of the noise
/// floor.
fn progress(column: &ArmTrials<'_>, wall: Option<&Wall>, judge: &Judge<'_>) -> Vec<ProgressPoint> {
    // The baseline against itself is the noise floor, whose interval is made in its own way.
    let own = |blocks: &[surtax_statistics::Block]| {
        Some(surtax_statistics::noise_floor(blocks).ok()?.estimate)
    };
    match (wall, column.arm.part()) {
        (Some(wall), _) => wall.progress.clone(),
        (None, ArmPart::BaselineAgain) => judge
            .baseline
            .own_blocks(&Measure::wall())
            .map_or_else(Vec::new, |blocks| wall::progress(&blocks, own)),
        _ => Vec::new(),
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The stack for people. See [`ArmFindings::name`].
fn name(column: &ArmTrials<'_>, evidence: &[LevelEvidence]) -> String {
    let chosen = evidence.iter().filter(|level| !level.layer.contains("accel="));
    let mut said: Vec<&str> = chosen.filter_map(|level| level.fact("accelerator")).collect();
    said.extend((column.arm.part() == ArmPart::BaselineAgain).then_some("again"));
    let stack = line(&column.arm.to_string());
    if said.is_empty() { stack } else { format!("{stack} ({})", line(&said.join(", "))) }
}

fn judged(
    column: &ArmTrials<'_>,
    wall: Option<&Wall>,
    judge: &Judge<'_>,
    trouble: Option<&ArmFailure>,
    ran: &ProgramId,
) -> Judgement {
    if column.counted.is_empty() {
        let none = if judge.is_finished {
            "not run, since the command had failed in the baseline"
        } else {
            "no trial has ended yet"
        };
        let (gap, reason) = match (last_trouble(column), trouble) {
            (Some(last), Some(trouble)) => (gap(last.state), trouble.why.as_str()),
            _ => (Gap::NotRun, none),
        };
        let because = format!("no number of it counts: {reason}");
        return Judgement::without(Verdict::Invalid { gap, reason: reason.into() }, because);
    }
    match column.arm.part() {
        ArmPart::Baseline => {
            Judgement::without(Verdict::Baseline, String::from("what the others are compared with"))
        }
        ArmPart::BaselineAgain => {
            let because = "the same once more: how far it is from itself is the noise floor";
            Judgement::without(Verdict::Baseline, String::from(because))
        }
        ArmPart::Compared => {
            if let Some(another) = ran.against(judge.program).filter(|it| !it.is_asked_for) {
                let (gap, reason) = (Gap::Rejected, String::from("another program"));
                let verdict = Verdict::Invalid { gap, reason };
                return Judgement::without(verdict, format!("not compared: {}", another.words));
            }
            let overhead = wall.map(|wall| &wall.overhead);
            let (baseline, noise, margin) = (judge.stack.as_str(), judge.noise, judge.margin);
            verdict::of(&Case { words: verdict::WALL_TIME, baseline, overhead, noise, margin })
        }
    }
}

fn point(trial: &StoredTrial, sources: &Sources<'_>) -> TrialPoint {
    let of_workload = sources.measures.iter();
    let value =
        |measure: &Measure| Some((line(&measure.metric), trial.sample(&measure.metric)?.value));
    let whole = |metric| trial.sample(metric).map(|sample| sample.whole);
    TrialPoint {
        block: trial.id.block,
        position: trial.id.position,
        attempt: trial.attempt,
        at_ns: trial.began_at.0.saturating_sub(sources.first_began_ns),
        wall_ns: whole("wall_ns"),
        start_ns: whole("start_ns"),
        usage: TrialUsage {
            cpu_user_ns: whole("cpu_user_ns"),
            cpu_system_ns: whole("cpu_system_ns"),
            cpu_others_ns: whole("cpu_others_ns"),
            memory_peak_bytes: whole("memory_peak_bytes"),
            memory_others_peak_bytes: whole("memory_others_peak_bytes"),
            memory_others_page_cache_bytes: memory::page_cache(trial, sources.page_caches),
            memory_shared_peak_bytes: memory::shared(trial),
        },
        metrics: of_workload.filter_map(value).collect(),
        state: trial.state.word().into(),
        why: trial.why.clone(),
        remedy: trial.remedy.clone(),
        disturbances: trial.disturbances.iter().map(disturbance).collect(),
    }
}

fn disturbance(found: &Disturbance) -> DisturbanceFinding {
    let (value, limit) = (found.value, found.limit);
    DisturbanceFinding { key: line(&found.key), value, limit, what: line(&found.words()) }
}

fn evidence(column: &ArmTrials<'_>, proofs: &Proofs) -> Vec<LevelEvidence> {
    let first = column.counted.iter().chain(&column.ended).find_map(|trial| trial.evidence);
    let levels = first.and_then(|number| proofs.get(&number)).map_or(&[][..], Vec::as_slice);
    let level = |level: &surtax_instrument::wire::LevelFacts| LevelEvidence {
        layer: line(&level.layer),
        facts: level.facts.iter().map(key_value).collect(),
    };
    levels.iter().map(level).collect()
}

/// Returns what this machine said of its mitigations when the run began.
fn mitigations(machine: &[Fact]) -> Option<&str> {
    machine.iter().find(|fact| fact.key == "mitigations").map(|fact| fact.value.as_str())
}

fn key_value(fact: &Fact) -> KeyValue {
    KeyValue { key: line(&fact.key), value: line(&fact.value), source: line(&fact.source) }
}

fn gap(state: TrialState) -> Gap {
    match state {
        TrialState::Unavailable => Gap::NotAvailable,
        TrialState::Failed => Gap::CommandFailed,
        TrialState::Broken => Gap::Broken,
        _ => Gap::Rejected,
    }
}

#[cfg(test)]
pub(crate) mod tests;
