//! From a question to its answer: the lab, the ledger, the campaign, and what is printed.

use super::exit_code::{self, INTERRUPTED};
use super::measure::Question;
use super::results::{RunFlags, hold};
use super::resume::Arguments as Resume;
use super::{Format, Globals, answer, consent, note, place, program, progress, within_reach};
use crate::campaign::Campaign;
use crate::campaign::interrupts::{Asker, Interrupts, Urgency};
use crate::fault::Fault;
use crate::finding::foreign::line;
use crate::finding::{Findings, kept, why};
use crate::lab::turn::{self, Turn, Worker};
use crate::lab::{self, Lab, Limits};
use crate::layer::{Site, View};
use crate::ledger::{Key, Ledger, RunState, machine, shelf};
use crate::meter::Metering;
use crate::plan::{Plan, shell_path};
use crate::prove::{Bench, Notebook, Selection};
use crate::report::terminal::Look;
use crate::report::{export, html, markdown, terminal};
use crate::stack::start::StartContext;
use crate::trial::command;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;
use surtax_instrument::clock;

/// A lab, and what stacks need beside it.
pub(super) struct OpenedLab {
    lab: Arc<Lab>,
    agent: PathBuf,
    cache: PathBuf,
}

impl OpenedLab {
    /// Opens the lab of this process; says what an earlier one had left.
    pub(super) fn open(globals: &Globals) -> Result<Self, Fault> {
        let lab = Lab::open()?;
        for line in &lab.sweep_report().undone {
            note(&format!("removed what an earlier run had left: {line}"), globals);
        }
        for line in &lab.sweep_report().kept {
            note(&format!("cannot remove what an earlier run left: {line}; `surtax gc`"), globals);
        }
        let agent = lab.agent()?;
        Ok(Self { lab: Arc::new(lab), agent, cache: lab::cache_directory()? })
    }

    /// Returns what the stacks of this plan stand on.
    pub(super) fn context<'a>(&'a self, plan: &'a Plan) -> StartContext<'a> {
        StartContext {
            lab: &self.lab,
            level: 0,
            agent: &self.agent,
            cache: &self.cache,
            writable: &plan.writable,
            cwd: &plan.cwd,
            command: None,
            network: None,
            start_deadline: plan.start_deadline(),
        }
    }

    /// Returns the site at which a layer is asked about, or started.
    pub(super) fn site<'a>(
        &'a self,
        view: &'a View,
        limits: &'a Limits,
        start_deadline: Duration,
    ) -> Site<'a> {
        let (lab, agent, cache) = (&self.lab, &self.agent, &self.cache);
        Site {
            lab,
            level: 0,
            agent,
            cache,
            view,
            command: None,
            limits,
            carries_layers: false,
            network: None,
            start_deadline,
        }
    }

    /// Listens to Ctrl-C from now on.
    pub(super) fn interrupts(&self, globals: &Globals) -> Result<Interrupts, Fault> {
        let lab: Weak<Lab> = Arc::downgrade(&self.lab);
        let kill = move || {
            if let Some(lab) = lab.upgrade() {
                lab.kill_everything();
            }
        };
        let globals = globals.clone();
        Interrupts::listen(kill, move |urgency, asker| {
            if let Some(text) = interrupted(urgency, asker) {
                note(text, &globals);
            }
        })
    }

    /// Does something on a bench of this lab, which is gone afterwards.
    pub(super) fn with_bench<T>(
        &self,
        interrupts: &Interrupts,
        ended: &dyn Fn(),
        notebook: &Notebook,
        selection: &Selection,
        work: impl FnOnce(&Bench<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let Self { lab, agent, cache } = self;
        work(&Bench::new(lab, agent, cache, interrupts, ended, notebook, selection)?)
    }

    /// Takes everything away; says what had to be forced.
    pub(super) fn close(self, globals: &Globals) -> Result<(), Fault> {
        // The thread that listens to Ctrl-C holds the lab only while it kills.
        let Some(lab) = Arc::into_inner(self.lab) else {
            return Err(Fault::machine("the lab was still in use at its end"));
        };
        for line in lab.close()? {
            note(&format!("removed by force: {line}"), globals);
        }
        Ok(())
    }
}

/// Says what a request to stop does, and whose it was where that was not this terminal's.
fn interrupted(urgency: Urgency, asker: Asker) -> Option<&'static str> {
    Some(match (urgency, asker) {
        (Urgency::None, _) => return None,
        (Urgency::AfterThisTrial, Asker::Terminal) => {
            "interrupted: finishing the running trial; once more kills it"
        }
        (Urgency::AfterThisTrial, Asker::Page) => {
            "asked to end by the button of a page of `surtax serve`: finishing the running trial; \
             Ctrl-C kills it"
        }
        (Urgency::Now, _) => "interrupted again: killing what runs and cleaning up",
    })
}

/// Answers a question: runs its plan into a new ledger and prints what was found.
pub(super) fn measure(question: &Question, globals: &Globals) -> Result<ExitCode, Fault> {
    let plan = &question.plan;
    program::require(plan)?;
    for stack in &plan.stacks {
        command::require_short(&command::command(plan, stack))?;
    }
    let shelf = match &question.output {
        Some(_) => None,
        None => Some(shelf_directories(globals)?.swap_remove(0)),
    };
    // On a shelf its name is not known yet, and its directory is.
    let run = question.output.clone().or_else(|| Some(shelf.as_ref()?.join("run")));
    let results: Vec<&Path> = question.results.paths().collect();
    within_reach::refuse(plan, run.as_deref(), &results)?;
    let _turn = turn(question.results.wait, globals)?;
    within_reach::refuse(plan, run.as_deref(), &results)?; // the wait may have been long
    let key = Key::of_this_machine().map_err(|fault| {
        note(&format!("going on with this run will have to be confirmed: {fault}"), globals);
    });
    let metering = Metering::begin(&plan.meters)?;
    let (key, machine) = (key.ok(), machine::facts(&[]));
    let ledger = match &shelf {
        None => Ledger::create_first(question.output.clone(), plan, &machine, key.as_ref())?,
        Some(shelf) => {
            let names = shelf::names(shelf, &plan.title, clock::wall())?;
            Ledger::create_first(names, plan, &machine, key.as_ref())?
        }
    };
    if let Some(text) = shelf::unreadable(ledger.path()) {
        note(&text, globals);
    }
    // Without a home there is no folder, and nothing is asked for by `last`.
    let noted = shelf::directories().map(|it| shelf::note_last(&it[0], question.output.as_deref()));
    if let Ok(Err(fault)) = noted {
        note(&format!("`last` will not be this run: {fault}"), globals);
    }
    carry_out(plan, (ledger, metering), &question.results, globals)
}

/// The ledger of a new run in the folder of runs.
pub(super) fn new_on_shelf(plan: &Plan, globals: &Globals) -> Result<Ledger, Fault> {
    let shelf = shelf_directories(globals)?.swap_remove(0);
    let names = shelf::names(&shelf, &plan.title, clock::wall())?;
    let key = Key::of_this_machine().ok();
    Ledger::create_first(names, plan, &machine::facts(&[]), key.as_ref())
}

/// The folders of all runs, first the one for new ones; where the one that was named is none of
/// them, that is said.
pub(super) fn shelf_directories(globals: &Globals) -> Result<Vec<PathBuf>, Fault> {
    let directories = shelf::directories()?;
    if let Some(text) = directories.first().and_then(|first| shelf::ignored(first)) {
        note(&text, globals);
    }
    Ok(directories)
}

/// Continues a run.
pub(super) fn resume(arguments: &Resume, globals: &Globals) -> Result<ExitCode, Fault> {
    let Resume { run, results, yes } = arguments;
    results.require_places()?;
    let path = shelf::find(&shelf::directories()?, run)?;
    let ledger = Ledger::open(&path)?;
    results.gate.require_metrics(&ledger.plan()?)?;
    results.gate.require_looks(Some(&ledger.plan()?))?;
    if ledger.run()?.state == RunState::Finished {
        note("the run is finished: nothing is left to do, and this is what it found", globals);
        return conclude(&ledger, RunState::Finished, results, globals);
    }
    let plan = ledger.plan()?;
    if !ledger.is_made_here() {
        ledger.require_own()?;
        consent::require(&plan, &path, *yes)?;
    }
    let paths: Vec<&Path> = results.paths().collect();
    within_reach::refuse(&plan, Some(&path), &paths)?;
    drop(ledger);
    let _turn = turn(results.wait, globals)?;
    within_reach::refuse(&plan, Some(&path), &paths)?;
    let metering = Metering::begin(&plan.meters)?;
    let ledger = Ledger::resume(&path)?;
    if ledger.plan()? != plan {
        let shown = path.display();
        return Err(Fault::user(format!(
            "the run in `{shown}` was exchanged for another meanwhile"
        ))
        .hint("see what it is now: ask once more"));
    }
    let done = ledger.done()?.len();
    note(
        &format!("goes on where it stopped: {done} trials are done and stay as they are"),
        globals,
    );
    carry_out(&plan, (ledger, metering), results, globals)
}

fn carry_out(
    plan: &Plan,
    (mut ledger, metering): (Ledger, Metering),
    results: &RunFlags,
    globals: &Globals,
) -> Result<ExitCode, Fault> {
    let opened = OpenedLab::open(globals)?;
    let interrupts = opened.interrupts(globals)?;
    let done = ledger.done()?;
    let mut observer = progress::of_plan(plan, done, globals);
    let context = opened.context(plan);
    let undecided = |ledger: &Ledger| Ok(results.gate.why_go_on(&kept::findings(ledger)?));
    let campaign = Campaign::new(plan, &mut ledger, &context, observer.as_mut(), &interrupts);
    let ended = campaign.asking(&undecided).metered(metering).run();
    drop(observer);
    // The lab is closed whatever happened; the first fault is the one that is told. What could not
    // be taken away is told last: it takes nothing from what was measured.
    let closed = opened.close(globals);
    let code = conclude(&ledger, ended?, results, globals)?;
    closed.map(|()| code)
}

/// Waits for the others if that is asked for; else says who works here, too.
pub(super) fn turn(is_awaited: bool, globals: &Globals) -> Result<Option<Turn>, Fault> {
    let named = |workers: &[Worker]| -> String {
        let one = |it: &Worker| format!("process {} (`{}`)", it.pid, line(&it.line));
        let more = match workers.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        workers.first().map(one).unwrap_or_default() + &more
    };
    if is_awaited {
        let told = |workers: &[Worker]| {
            let whom = match workers.is_empty() {
                true => String::from("another surtax that waits"),
                false => named(workers),
            };
            note(&format!("waits for {whom}"), globals);
        };
        return Turn::wait(told).map(Some);
    }
    let workers = turn::workers()?;
    if !workers.is_empty() {
        note(
            &format!(
                "another surtax works on this machine, and each disturbs what the other measures: \
                 {}; `--wait` begins when it has ended",
                named(&workers)
            ),
            globals,
        );
    }
    Ok(None)
}

/// Says what a run found, where it is kept, and whether a threshold is crossed.
fn conclude(
    ledger: &Ledger,
    state: RunState,
    results: &RunFlags,
    globals: &Globals,
) -> Result<ExitCode, Fault> {
    let mut findings = findings_of(ledger, globals)?;
    hold(&results.gate, &mut findings);
    let report = results.report.as_deref();
    let reported = report.map(|path| (path, place::write(path, html::html(&findings).as_bytes())));
    let exported = results.exports.write(&findings);
    if !results.exports.take_standard_output() {
        answer(&text(&findings, globals.format(), globals.look()))?;
    }
    let is_reported = reported.as_ref().is_some_and(|(_, written)| written.is_ok());
    let kept = ledger.path().display();
    let kept_words = shell_path(ledger.path());
    if !ledger.is_named() {
        let gone =
            format!("the run is not kept: `{kept}` was removed or replaced while it was measured");
        return Err(Fault::machine(gone).hint(
            "what is above is all that there is of it; name a place that nobody cleans up with \
             `--output`",
        ));
    }
    let mut more = String::from(match state {
        RunState::Interrupted => "; `surtax resume last` continues it",
        _ if !is_reported => "; `surtax report last` writes it as HTML",
        _ => "",
    });
    if state == RunState::Finished && why::is_to_ask(&findings) {
        more += "; `surtax why last` says what a stack takes more time for";
    }
    if !is_on_shelf(ledger.path()) {
        more = more.replace(" last`", &format!(" {kept_words}`"));
    }
    note(&format!("the run is kept in `{kept}`{more}"), globals);
    if let Some((path, written)) = reported {
        // Told last: what was measured is told and kept whether or not there is a page of it.
        written.map_err(|fault| still_kept(fault, &kept_words))?;
        note(&format!("the report is `{}`", path.display()), globals);
    }
    exported.map_err(|fault| still_kept(fault, &kept_words))?;
    Ok(match state {
        RunState::Interrupted => ExitCode::from(INTERRUPTED),
        RunState::Finished | RunState::Running => match exit_code::without_answer(&findings) {
            Some(code) => ExitCode::from(code),
            None => exit_code::of_thresholds(&findings, results.gate.undecided),
        },
    })
}

/// Adds to the fault of a file that could not be written that nothing is lost.
fn still_kept(fault: Fault, run: &str) -> Fault {
    let again = format!("the run is kept: `surtax report {run}`, `surtax export {run}`");
    match &fault.hint {
        Some(hint) => {
            let hint = format!("{hint}; {again}");
            fault.hint(hint)
        }
        None => fault.hint(again),
    }
}

/// Tells whether `last` means this run.
fn is_on_shelf(path: &Path) -> bool {
    let is_of = |directory: &PathBuf| path.parent() == Some(directory);
    shelf::directories().is_ok_and(|directories| directories.iter().any(is_of))
}

/// Findings of a run that is kept; says where nobody here vouches for it.
pub(super) fn findings(run: &str, globals: &Globals) -> Result<(PathBuf, Findings), Fault> {
    let path = shelf::find(&shelf::directories()?, run)?;
    let findings = findings_at(&path, globals)?;
    Ok((path, findings))
}

/// Findings of the run in a file; says where nobody here vouches for it.
pub(super) fn findings_at(path: &Path, globals: &Globals) -> Result<Findings, Fault> {
    findings_of(&Ledger::open(path)?, globals)
}

/// Findings of a ledger; says where nobody here vouches for it.
pub(super) fn findings_of(ledger: &Ledger, globals: &Globals) -> Result<Findings, Fault> {
    let findings = kept::findings(ledger)?;
    if kept::is_foreign(&findings) {
        note(
            &format!(
                "the run in `{}` was not begun by this user on this machine, or its plan was \
                 changed: its numbers, and the command that repeats it, are those of whoever wrote \
                 it",
                ledger.path().display()
            ),
            globals,
        );
    }
    Ok(findings)
}

/// Findings in one of the forms.
pub(super) fn text(findings: &Findings, format: Format, look: Look) -> String {
    match format {
        Format::Table => terminal::render(findings, look),
        Format::Json => export::json(findings),
        Format::Csv => export::csv(findings),
        Format::Markdown => markdown::markdown(findings),
    }
}
