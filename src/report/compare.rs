//! Turns a ledger into findings: what each stack costs over the baseline, how sure that is, and why.
//!
//! Only trials that are `done` count; all others are shown with the reason. Whatever a guest, a tool
//! or somebody else's ledger said is escaped here, before any format sees it.

use super::bill::{self, Bill};
use super::caution::{self, Signs};
use super::estimate::{self, Baseline};
use super::foreign::{last_words, line};
use super::verdict::{self, Case};
use super::{
    ArmFindings, DisturbanceFinding, Findings, KeyValue, LevelEvidence, RunFacts, TrialPoint,
    Trouble, Verdict,
};
use crate::fault::Fault;
use crate::ledger::{Ledger, Proofs, Run, StoredTrial, Stream, TrialState, calendar};
use crate::plan::{Arm, Plan};
use crate::trial::disturbance::Disturbance;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use surtax_instrument::wire::Fact;
use surtax_statistics::NoiseFloor;

/// Raised when a field of the findings changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Reads everything that a report may say from a ledger, and nothing else.
///
/// # Errors
/// The ledger's, when it cannot be read.
pub fn compare(ledger: &Ledger) -> Result<Findings, Fault> {
    let (plan, run, machine) = (ledger.plan()?, ledger.run()?, ledger.machine()?);
    let (trials, proofs) = (ledger.trials()?, ledger.evidence()?);
    let columns = columns(&plan, &trials);
    let margin = f64::from(plan.equivalence_margin_ppm) / 1e6;
    let counted = |arm: usize| columns.get(arm).map_or(&[][..], |column| &column.counted);
    let baseline = Baseline { first: counted(0), again: counted(1) };
    let noise = baseline.noise_floor();

    let mut arms = Vec::new();
    let mut bills = Vec::new();
    for column in &columns {
        let judge = Judge { baseline, noise, margin, stack: plan.baseline.to_string() };
        let bill = bill::of(&column.counted, column.depth());
        arms.push(arm_findings(ledger, column, &judge, &bill, &proofs, first_began(&trials))?);
        bills.push(bill);
    }
    let noise_floor = noise.map(|noise| estimate::interval(&noise.estimate));
    let signs = Signs {
        arms: &arms,
        columns: &columns,
        bills: &bills,
        proofs: &proofs,
        noise: noise.map(|noise| noise.floor),
        margin,
        noise_estimate: noise.map(|noise| noise.estimate),
        precision: plan.precision(),
    };
    let cautions = caution::all(&signs);
    Ok(Findings {
        schema_version: SCHEMA_VERSION,
        surtax_version: env!("CARGO_PKG_VERSION").into(),
        run: run_facts(&plan, &run, &trials, blocks_done(&columns), margin),
        machine: machine.iter().map(key_value).collect(),
        arms,
        noise_floor,
        cautions,
    })
}

/// One arm with its trials in time order.
pub(super) struct Column<'a> {
    /// The arm.
    pub(super) arm: Arm,
    /// All that ended, however they ended.
    pub(super) ended: Vec<&'a StoredTrial>,
    /// Those that count.
    pub(super) counted: Vec<&'a StoredTrial>,
}

impl Column<'_> {
    /// The level of the command: `native` is this host.
    fn depth(&self) -> u8 {
        let layers = &self.arm.stack.layers;
        let is_native = layers.iter().all(|layer| layer.kind == "native");
        if is_native { 0 } else { u8::try_from(layers.len()).unwrap_or(u8::MAX) }
    }

    /// Those that count though the machine disturbed them.
    pub(super) fn disturbed(&self) -> impl Iterator<Item = &StoredTrial> {
        self.counted.iter().copied().filter(|trial| !trial.disturbances.is_empty())
    }

    /// Disturbed attempts at trials that were repeated.
    pub(super) fn repeated(&self) -> impl Iterator<Item = &StoredTrial> {
        self.ended.iter().copied().filter(|trial| trial.state == TrialState::Disturbed)
    }

    fn part(&self) -> &'static str {
        match self.arm.index {
            0 => "baseline",
            1 => "baseline-again",
            _ => "compared",
        }
    }
}

/// What the arms are judged by.
struct Judge<'a> {
    baseline: Baseline<'a>,
    noise: Option<NoiseFloor>,
    margin: f64,
    stack: String,
}

fn columns<'a>(plan: &Plan, trials: &'a [StoredTrial]) -> Vec<Column<'a>> {
    let mut by_arm: HashMap<u32, Vec<&StoredTrial>> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.state != TrialState::Running) {
        by_arm.entry(trial.id.arm).or_default().push(trial);
    }
    let column = |arm: Arm| {
        let ended = by_arm.remove(&arm.index).unwrap_or_default();
        let counted =
            ended.iter().copied().filter(|trial| trial.state == TrialState::Done).collect();
        Column { arm, ended, counted }
    };
    plan.arms().into_iter().map(column).collect()
}

fn arm_findings(
    ledger: &Ledger,
    column: &Column<'_>,
    judge: &Judge<'_>,
    bill: &Bill,
    proofs: &Proofs,
    first_began_ns: u64,
) -> Result<ArmFindings, Fault> {
    let is_compared = column.part() == "compared";
    let trouble = trouble(ledger, column)?;
    let (verdict, because) = judged(column, judge, trouble.as_ref());
    let distinct = |words: BTreeSet<&str>| words.into_iter().map(String::from).collect();
    let hashes = column.counted.iter().filter_map(|trial| trial.stdout_hash.as_deref());
    let statuses = column.ended.iter().filter_map(|trial| trial.exit_status.as_deref());
    let evidence = evidence(column, proofs);
    let metrics = estimate::metrics(&column.counted, is_compared.then_some(judge.baseline));
    let wall = metrics.iter().find(|metric| metric.metric == "wall_ns");
    Ok(ArmFindings {
        arm: column.arm.index,
        stack: line(&column.arm.stack.to_string()),
        name: name(column, &evidence),
        part: column.part().into(),
        trials: column.ended.iter().map(|trial| point(trial, first_began_ns)).collect(),
        trial_count: number(column.counted.len()),
        disturbed_count: number(column.disturbed().count()),
        repeated_count: number(column.repeated().count()),
        overhead: wall.and_then(|wall| wall.overhead),
        metrics,
        verdict,
        because,
        payers: bill.payers.clone(),
        evidence,
        stdout_hashes: distinct(hashes.collect()),
        exit_statuses: distinct(statuses.collect()),
        trouble,
    })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The stack for people. See [`ArmFindings::name`].
fn name(column: &Column<'_>, evidence: &[LevelEvidence]) -> String {
    let chosen = evidence.iter().filter(|level| !level.layer.contains("accel="));
    let mut said: Vec<&str> = chosen
        .filter_map(|level| level.facts.iter().find(|fact| fact.key == "accelerator"))
        .map(|fact| fact.value.as_str())
        .collect();
    said.extend((column.part() == "baseline-again").then_some("again"));
    let stack = line(&column.arm.stack.to_string());
    if said.is_empty() { stack } else { format!("{stack} ({})", line(&said.join(", "))) }
}

fn judged(column: &Column<'_>, judge: &Judge<'_>, trouble: Option<&Trouble>) -> (Verdict, String) {
    if column.counted.is_empty() {
        let reason = trouble.map_or("no trial of it has ended yet", |trouble| &trouble.why);
        let because = format!("no number of it counts: {reason}");
        return (Verdict::Invalid { reason: reason.into() }, because);
    }
    if column.part() != "compared" {
        let because = match column.part() {
            "baseline" => "what the others are compared with",
            _ => "the same once more: how far it is from itself is the noise floor",
        };
        return (Verdict::Baseline, String::from(because));
    }
    verdict::of(&Case {
        baseline: &judge.stack,
        overhead: judge.baseline.overhead(&column.counted, "wall_ns"),
        noise: judge.noise,
        margin: judge.margin,
    })
}

fn point(trial: &StoredTrial, first_began_ns: u64) -> TrialPoint {
    let whole = |metric| trial.sample(metric).map(|sample| sample.whole);
    TrialPoint {
        block: trial.id.block,
        position: trial.id.position,
        attempt: trial.attempt,
        at_ns: trial.began_at.0.saturating_sub(first_began_ns),
        wall_ns: whole("wall_ns"),
        start_ns: whole("start_ns"),
        state: trial.state.word().into(),
        why: line(&trial.why),
        disturbances: trial.disturbances.iter().map(disturbance).collect(),
    }
}

fn disturbance(found: &Disturbance) -> DisturbanceFinding {
    let (value, limit) = (found.value, found.limit);
    DisturbanceFinding { key: line(&found.key), value, limit, what: line(&found.words()) }
}

fn evidence(column: &Column<'_>, proofs: &Proofs) -> Vec<LevelEvidence> {
    let first = column.counted.iter().chain(&column.ended).find_map(|trial| trial.evidence);
    let levels = first.and_then(|number| proofs.get(&number)).map_or(&[][..], Vec::as_slice);
    let level = |level: &surtax_instrument::wire::LevelFacts| LevelEvidence {
        layer: line(&level.layer),
        facts: level.facts.iter().map(key_value).collect(),
    };
    levels.iter().map(level).collect()
}

fn key_value(fact: &Fact) -> KeyValue {
    KeyValue { key: line(&fact.key), value: line(&fact.value), source: line(&fact.source) }
}

/// Why an arm has no numbers, or fewer: its last trial that did not succeed; what is `void` is no sign.
fn trouble(ledger: &Ledger, column: &Column<'_>) -> Result<Option<Trouble>, Fault> {
    let is_trouble = |trial: &&&StoredTrial| {
        use TrialState::{Disturbed, Done, Running, Void};
        !matches!(trial.state, Done | Disturbed | Void | Running)
    };
    let Some(last) = column.ended.iter().rev().find(is_trouble) else { return Ok(None) };
    let (why, hint) = match last.why.split_once("\n  hint: ") {
        Some((why, hint)) => (why, Some(hint)),
        None => (last.why.as_str(), None),
    };
    let why = match (&last.exit_status, last.state) {
        (Some(status), TrialState::Failed) => format!("the command failed: {status}"),
        _ => String::from(why),
    };
    let tail = ledger.tail(column.arm.index, last.state, Stream::Stderr)?;
    Ok(Some(Trouble {
        why: super::foreign::lines(&why),
        remedy: last.remedy.as_deref().or(hint).map(line),
        stderr: tail.as_deref().and_then(last_words),
    }))
}

fn first_began(trials: &[StoredTrial]) -> u64 {
    trials.iter().map(|trial| trial.began_at.0).min().unwrap_or(0)
}

fn run_facts(
    plan: &Plan,
    run: &Run,
    trials: &[StoredTrial],
    blocks_done: u32,
    margin: f64,
) -> RunFacts {
    let last_ended = trials.iter().filter_map(|trial| trial.ended_at).map(|at| at.0).max();
    RunFacts {
        id: line(&run.id),
        title: line(&plan.title),
        command: plan.command.clone(),
        cwd: line(&plan.cwd.to_string_lossy()),
        repeat_with: line(&plan.repeat_with()),
        began_at: calendar::rfc3339(run.began_at),
        seed: plan.seed,
        blocks_planned: plan.runs,
        blocks_done,
        state: run.state.word().into(),
        wall_ns: last_ended.unwrap_or(0).saturating_sub(first_began(trials)),
        baseline: line(&plan.baseline.to_string()),
        equivalence_margin: margin,
        precision: plan.precision(),
    }
}

/// Blocks in which every arm that ever counts has ended; an arm that was given up holds back none.
fn blocks_done(columns: &[Column<'_>]) -> u32 {
    let counts = columns.iter().any(|column| !column.counted.is_empty());
    let mut whole = 0;
    let mut arms: BTreeMap<u32, usize> = BTreeMap::new();
    for column in columns.iter().filter(|column| !counts || !column.counted.is_empty()) {
        whole += 1;
        let is_to_come = |state| matches!(state, TrialState::Void | TrialState::Disturbed);
        let ended = column.ended.iter().filter(|trial| !is_to_come(trial.state));
        for block in ended.map(|trial| trial.id.block).collect::<BTreeSet<_>>() {
            *arms.entry(block).or_default() += 1;
        }
    }
    let done = arms.values().filter(|count| **count == whole).count();
    u32::try_from(done).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod odd_ledgers;
#[cfg(test)]
pub(super) mod tests;
