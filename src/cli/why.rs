//! `surtax why`: what a stack's overhead consists of, by counts and prices.

use super::completions::candidates;
use super::run_and_report::{OpenedLab, findings_at, new_on_shelf, shelf_directories, text, turn};
use super::{Format, Globals, answer, consent, exit_code, measure, note, progress};
use crate::campaign::{Campaign, counting};
use crate::driver::registered;
use crate::fault::Fault;
use crate::finding::prices::WORKLOAD;
use crate::finding::{Findings, why};
use crate::ledger::{Ledger, PriceSample, RunState, TrialState, shelf};
use crate::plan::{Arm, ArmPart, Draft, Plan};
use crate::report::why as report;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use surtax_engines::price::PRICES;

/// For how long each price is measured in a trial, in milliseconds.
const EACH_MS: u32 = 20;

/// Size of arrays for prices that explain nothing, in bytes.
const ARRAY_BYTES: u32 = 1 << 20;

/// Flags of `surtax why`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/why.txt"))]
pub struct Arguments {
    /// The run: a file, a part of a name that `surtax list` shows, or `last`.
    #[arg(value_name = "RUN", default_value = "last", add = candidates::run())]
    pub run: String,
    /// Takes the prices from this run of `surtax prices`, and measures none.
    #[arg(long, value_name = "RUN", add = candidates::run())]
    prices: Option<String>,
    /// Measures prices in so many starts of each stack.
    #[arg(long, value_name = "COUNT", default_value_t = 9, value_parser = clap::value_parser!(u32).range(6..=1000))]
    runs: u32,
    /// Counts and prices once more, where the run is explained already.
    #[arg(long)]
    again: bool,
    /// Executes the command of a run that was not begun here.
    #[arg(long)]
    yes: bool,
    /// Begins when no other surtax works on this machine any more.
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    let path = shelf::find(&shelf::directories()?, &arguments.run)?;
    let findings = findings_at(&path, globals)?;
    let is_complete = if arguments.again || arguments.prices.is_some() || !is_explained(&findings) {
        require_question(&findings)?;
        explain(arguments, &path, globals)?
    } else {
        true
    };
    let findings = findings_at(&path, globals)?;
    let shown = match globals.format() {
        Format::Table => report::page(&findings, globals.look()),
        format => text(&findings, format, globals.look()),
    };
    answer(&shown)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(exit_code::INTERRUPTED) })
}

/// Tells whether every stack with an overhead is explained.
fn is_explained(findings: &Findings) -> bool {
    let mut wanted = findings.arms.iter().filter(|arm| why::is_to_explain(arm)).peekable();
    wanted.peek().is_some() && wanted.all(|arm| arm.why.is_some())
}

/// Refuses a run in which nothing can be explained.
fn require_question(findings: &Findings) -> Result<(), Fault> {
    if findings.run.state == RunState::Running.word() {
        return Err(Fault::user("the run is not over: a surtax works on it")
            .hint("ask again when it has ended"));
    }
    if findings.run.is_of_fixed_time {
        return Err(Fault::user(
            "its workload runs for a time that it is told: no stack takes it more of that",
        )
        .hint("explain a run of a command that ends by itself"));
    }
    match findings.arms.iter().any(why::is_to_explain) {
        true => Ok(()),
        false => Err(Fault::user("no stack of the run has an overhead that could be explained")
            .hint("`surtax show` says why; an overhead takes at least three blocks")),
    }
}

/// Counts and prices what the run lacks, into its ledger. Returns false where it was interrupted.
fn explain(arguments: &Arguments, path: &Path, globals: &Globals) -> Result<bool, Fault> {
    let ledger = Ledger::open(path)?;
    let (plan, state) = (ledger.plan()?, ledger.run()?.state);
    if !ledger.is_made_here() {
        ledger.require_own()?;
        consent::require(&plan, path, arguments.yes)?;
    }
    let arms = counting::arms(&plan, &ledger)?;
    let known = ledger.counted()?;
    drop(ledger);
    let of_others = match &arguments.prices {
        None => None,
        Some(run) => Some(prices_of(&shelf::find(&shelf::directories()?, run)?, &arms)?),
    };
    let _turn = turn(arguments.wait, globals)?;
    let mut ledger = Ledger::resume(path)?;
    let opened = OpenedLab::open(globals)?;
    let work = |ledger: &mut Ledger| -> Result<bool, Fault> {
        let interrupts = opened.interrupts(globals)?;
        let uncounted: Vec<Arm> = arms
            .iter()
            .filter(|arm| arguments.again || !known.contains_key(&arm.index))
            .cloned()
            .collect();
        let told = |arm: &Arm| note(&format!("counts system calls in `{arm}`"), globals);
        let context = opened.context(&plan);
        if !counting::count(&plan, (&uncounted, ledger), &context, &interrupts, told)? {
            return Ok(false);
        }
        let prices = match of_others {
            Some(prices) => prices,
            None => {
                let plan = price_plan(&plan, &arms, arguments.runs)?;
                note("measures what primitives cost in the same stacks", globals);
                let (mut list, context) = (new_on_shelf(&plan, globals)?, opened.context(&plan));
                let mut observer = progress::of_plan(&plan, [], globals);
                let observer = observer.as_mut();
                let campaign = Campaign::new(&plan, &mut list, &context, observer, &interrupts);
                if campaign.run()? == RunState::Interrupted {
                    return Ok(false);
                }
                prices_in(&list, &arms)?
            }
        };
        ledger.keep_prices(&prices).map(|()| true)
    };
    let worked = work(&mut ledger);
    let ended = ledger.finish(state);
    // The run that is explained is the one that is talked of, and not its price list.
    let noted = shelf_directories(globals).and_then(|it| shelf::note_last(&it[0], Some(path)));
    let closed = opened.close(globals);
    let is_complete = worked?;
    ended.and(noted).and(closed).map(|()| is_complete)
}

/// The plan by which prices are measured in the stacks of a run.
fn price_plan(plan: &Plan, arms: &[Arm], runs: u32) -> Result<Plan, Fault> {
    let workload = format!("{WORKLOAD}:each={EACH_MS},array_bytes={ARRAY_BYTES}");
    let draft = Draft {
        title: Some(format!("{WORKLOAD} for: {}", plan.title).chars().take(200).collect()),
        stacks: arms.iter().map(|arm| arm.stack.clone()).collect(),
        baseline: Some(plan.baseline.clone()),
        workload: Some(Workload::find(&workload)?),
        runs: Some(runs),
        ..Draft::default()
    };
    Ok(measure::complete(draft, &measure::defaults(&registered())?)?.plan)
}

/// The prices of a run of `surtax prices` that is kept.
fn prices_of(path: &Path, arms: &[Arm]) -> Result<Vec<PriceSample>, Fault> {
    let prices = prices_in(&Ledger::open(path)?, arms)?;
    if prices.is_empty() {
        let shown = path.display();
        return Err(Fault::user(format!("the run in `{shown}` has no prices of these stacks"))
            .hint("leave `--prices` out, and they are measured"));
    }
    Ok(prices)
}

/// The prices in a ledger, by the arms of another run that have the same stack.
fn prices_in(ledger: &Ledger, arms: &[Arm]) -> Result<Vec<PriceSample>, Fault> {
    let own = ledger.plan()?.arms().into_iter();
    let own = own.filter(|arm| arm.part() != ArmPart::BaselineAgain && arm.beside.is_empty());
    let by_stack: BTreeMap<String, u32> =
        own.map(|arm| (arm.stack.to_string(), arm.index)).collect();
    let arm_of: BTreeMap<u32, u32> = arms
        .iter()
        .filter_map(|arm| Some((*by_stack.get(&arm.stack.to_string())?, arm.index)))
        .collect();
    let mut prices = Vec::new();
    for trial in ledger.trials()?.iter().filter(|it| it.state == TrialState::Done) {
        let Some(arm) = arm_of.get(&trial.id.arm) else { continue };
        for price in PRICES {
            let sample = trial.sample(price.name);
            prices.extend(sample.map(|sample| PriceSample {
                arm: *arm,
                block: trial.id.block,
                price: price.name.into(),
                operation_ns: sample.value,
            }));
        }
    }
    Ok(prices)
}
