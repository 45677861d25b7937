//! `surtax why`: what a stack's overhead consists of, by counts and prices.

mod confirm;

use super::completions::candidates;
use super::run_and_report::{OpenedLab, findings_at, new_on_shelf, shelf_directories, text, turn};
use super::{Format, Globals, answer, consent, exit_code, measure, note, progress, within_reach};
use crate::campaign::{Campaign, counting};
use crate::driver::registered;
use crate::fault::Fault;
use crate::finding::foreign::line;
use crate::finding::prices::WORKLOAD;
use crate::finding::{Findings, why};
use crate::ledger::machine::{self, MACHINE_HASH};
use crate::ledger::{Counted, Ledger, PriceSample, RunState, shelf};
use crate::plan::{Arm, Plan};
use crate::report::why as report;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use surtax_instrument::wire::Fact;

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
    #[arg(long, value_name = "COUNT", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(6..=1000))]
    runs: u32,
    /// Counts and prices once more, where the run is explained already.
    #[arg(long)]
    again: bool,
    /// Exchanges one part of each explained stack after the other, and says of the causes that this
    /// touches whether the time changes: `gvisor` once with `directfs=false`, say.
    #[arg(long)]
    confirm: bool,
    /// Executes the command of a run that was not begun here.
    #[arg(long)]
    yes: bool,
    /// Begins when no other surtax works on this machine any more.
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    let path = shelf::find(&shelf::directories()?, &arguments.run)?;
    let mut findings = findings_at(&path, globals)?;
    let is_asked = arguments.again || arguments.prices.is_some() || !is_explained(&findings);
    if is_asked {
        require_question(&findings)?;
    }
    let mut is_complete = true;
    if is_asked || arguments.confirm {
        let plan = require_wanted(&path, arguments)?;
        let _turn = turn(arguments.wait, globals)?;
        if is_asked {
            is_complete = explain(arguments, (&plan, &path), globals)?;
            findings = findings_at(&path, globals)?;
        }
        if arguments.confirm && is_complete {
            (findings.confirmed, is_complete) =
                confirm::confirm((&findings, &plan), arguments.runs, globals)?;
            note_last(&path, globals)?;
        }
    }
    let shown = match globals.format() {
        Format::Table => report::page(&findings, globals.look()),
        format => text(&findings, format, globals.look()),
    };
    answer(&shown)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(exit_code::INTERRUPTED) })
}

/// Refuses to execute the command of a run that nobody here wants executed, or that another machine
/// has timed. Returns its plan.
fn require_wanted(path: &Path, arguments: &Arguments) -> Result<Plan, Fault> {
    let ledger = Ledger::open(path)?;
    let plan = ledger.plan()?;
    let of = |facts: &[Fact]| {
        facts.iter().find(|fact| fact.key == MACHINE_HASH).map(|fact| fact.value.clone())
    };
    if of(&ledger.machine()?) != of(&machine::facts(&[])) {
        return Err(Fault::user(
            "the run was made on another machine, whose times no price of this one explains",
        )
        .hint("run `surtax why` where it was made, or repeat the run here"));
    }
    if !ledger.is_made_here() {
        ledger.require_own()?;
        consent::require(&plan, path, arguments.yes)?;
    }
    within_reach::refuse(&plan, Some(path), &[])?;
    Ok(plan)
}

/// Has `last` be the run that is explained, and not what was measured for that.
fn note_last(path: &Path, globals: &Globals) -> Result<(), Fault> {
    shelf_directories(globals).and_then(|it| shelf::note_last(&it[0], Some(path)))
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
fn explain(
    arguments: &Arguments,
    (plan, path): (&Plan, &Path),
    globals: &Globals,
) -> Result<bool, Fault> {
    let ledger = Ledger::open(path)?;
    let (arms, known, state) =
        (counting::arms(plan, &ledger)?, ledger.counted()?, ledger.run()?.state);
    drop(ledger);
    let of_others = match &arguments.prices {
        None => None,
        Some(run) => Some(prices_of(&shelf::find(&shelf::directories()?, run)?, &arms)?),
    };
    let opened = OpenedLab::open(globals)?;
    let mut ledger = Ledger::amend(path)?;
    if ledger.plan()? != *plan {
        let shown = path.display();
        return Err(Fault::user(format!("the run in `{shown}` is another one since it was read"))
            .hint("see what it is now: ask once more"));
    }
    let work = |ledger: &mut Ledger| -> Result<bool, Fault> {
        let interrupts = opened.interrupts(globals)?;
        let uncounted: Vec<Arm> = arms
            .iter()
            .filter(|arm| {
                let is_known = known.get(&arm.index).is_some_and(|it| it.why.is_none());
                arguments.again || !is_known
            })
            .cloned()
            .collect();
        let told = |arm: &Arm| note(&format!("counts system calls in `{arm}`"), globals);
        let context = opened.context(plan);
        if !counting::count(plan, (&uncounted, ledger), &context, &interrupts, told)? {
            return Ok(false);
        }
        require_counted(&ledger.counted()?)?;
        let prices = match of_others {
            Some(prices) => prices,
            None => {
                let draft = plan.pricing(&arms, arguments.runs)?;
                let plan = measure::complete(draft, &measure::defaults(&registered())?)?.plan;
                note("measures what primitives cost in the same stacks", globals);
                let (mut list, context) = (new_on_shelf(&plan, globals)?, opened.context(&plan));
                let mut observer = progress::of_plan(&plan, [], globals);
                let observer = observer.as_mut();
                let campaign = Campaign::new(&plan, &mut list, &context, observer, &interrupts);
                if campaign.run()? == RunState::Interrupted {
                    return Ok(false);
                }
                list.price_samples(&arms)?
            }
        };
        require_prices(&prices, &arms)?;
        ledger.keep_prices(&prices).map(|()| true)
    };
    let worked = work(&mut ledger);
    let ended = ledger.finish(state);
    let noted = note_last(path, globals);
    let closed = opened.close(globals);
    let is_complete = worked?;
    ended.and(noted).and(closed).map(|()| is_complete)
}

/// Refuses to go on where nobody could count anything.
fn require_counted(counted: &BTreeMap<u32, Counted>) -> Result<(), Fault> {
    if counted.values().any(|it| it.why.is_none()) {
        return Ok(());
    }
    let why = counted.values().find_map(|it| it.why.clone()).unwrap_or_default();
    let why = line(&why);
    Err(Fault::machine(format!("nobody could count the command's system calls: {why}"))
        .hint("run as root, and not in a container"))
}

/// Refuses prices of which the baseline or all others have none: those that are kept are better.
fn require_prices(prices: &[PriceSample], arms: &[Arm]) -> Result<(), Fault> {
    let has = |arm: &Arm| prices.iter().any(|it| it.arm == arm.index);
    let (baseline, others): (Vec<&Arm>, Vec<&Arm>) =
        arms.iter().partition(|arm| !arm.is_compared());
    if baseline.into_iter().any(has) && others.into_iter().any(has) {
        return Ok(());
    }
    Err(Fault::machine("the baseline, or all that is compared with it, has no prices")
        .hint("see why: `surtax list` has the run that was to measure them"))
}

/// The prices of a run of `surtax prices` that is kept.
fn prices_of(path: &Path, arms: &[Arm]) -> Result<Vec<PriceSample>, Fault> {
    let ledger = Ledger::open(path)?;
    let is_ours = ledger.is_made_here() || shelf::is_of_sudo(path);
    let is_list = ledger.plan()?.workload.is_some_and(|it| it.name == WORKLOAD);
    if !is_ours || !is_list {
        let shown = path.display();
        return Err(Fault::user(format!(
            "the run in `{shown}` is no price list of this machine's"
        ))
        .hint("name a run of `surtax prices` that was made here, or leave `--prices` out"));
    }
    let prices = ledger.price_samples(arms)?;
    if prices.is_empty() {
        let shown = path.display();
        return Err(Fault::user(format!("the run in `{shown}` has no prices of these stacks"))
            .hint("leave `--prices` out, and they are measured"));
    }
    Ok(prices)
}
