//! `surtax enter`: a shell, or a command, in any stack.

use super::completions::candidates;
use super::measure::{complete, defaults, variable};
use super::run_and_report::OpenedLab;
use super::{Globals, note, within_reach};
use crate::driver;
use crate::driver::registered;
use crate::fault::Fault;
use crate::layer::{StackSpec, Unavailable};
use crate::plan::{CheckedPlan, Draft, Plan, Word, duration};
use crate::stack::shell;
use crate::stack::start::StartContext;
use crate::trial::oom::Lookout;
use crate::trial::{check, command};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use surtax_instrument::wire::Status;

/// The room of a visit.
const ROOM: &str = "enter";

/// Flags of `surtax enter`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples\n  surtax enter qemu+runc\n  surtax enter gvisor -- dmesg")]
pub struct Arguments {
    /// The stack, such as `runc` or `qemu:memory=1G+docker`.
    #[arg(value_name = "STACK", add = candidates::stack())]
    stack: String,
    /// Keeps what is written below this directory; all other writes are thrown away.
    ///
    /// Refused is one by which a command could change what root starts or obeys, this machine's
    /// settings, or results: `/etc`, all of `/var/lib`.
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
    /// Sets a variable of the environment; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(variable))]
    env: Vec<(String, Word)>,
    /// Gives the inside no variables but those of `--env` and SURTAX_PEER; otherwise it gets those
    /// that surtax was called with, with what keys and tokens are among them.
    #[arg(long)]
    clear_env: bool,
    /// Gives up on a layer that takes longer than this to start [default: 3m].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    start_deadline: Option<Duration>,
    /// The command and its arguments, after `--`; by default the shell named by SHELL.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns the stack to enter, as a plan with one stack, its baseline, and what to say of it.
    ///
    /// # Errors
    /// The user's: an unknown layer or option, a directory that is not there.
    pub fn visit(&self) -> Result<CheckedPlan, Fault> {
        let descriptors = registered();
        let stack = StackSpec::parse_with(&self.stack, &descriptors)?;
        let command = match self.command.as_slice() {
            [] => vec![std::env::var_os("SHELL").map_or_else(|| Word::from("/bin/sh"), Word::from)],
            command => command.iter().cloned().map(Word::from).collect(),
        };
        let draft = Draft {
            stacks: vec![stack.clone()],
            baseline: Some(stack),
            command,
            environment: self.env.clone(),
            inherit_environment: self.clear_env.then_some(false),
            writable: self.writable.clone(),
            runs: Some(1),
            start_deadline: self.start_deadline,
            ..Draft::default()
        };
        let around = defaults(&descriptors)?;
        // Its other notes are of trials.
        let notes = draft.links_note(&around.cwd).collect();
        complete(draft, &around).map(|checked| CheckedPlan { notes, ..checked })
    }
}

/// Enters, and exits as the command did: its code, or 128 and the number of its signal.
pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    let CheckedPlan { plan, notes } = arguments.visit()?;
    notes.iter().for_each(|text| note(text, globals));
    within_reach::refuse(&plan, None, &[])?;
    command::require_short(&command::command(&plan, &plan.baseline))?;
    let opened = OpenedLab::open(globals)?;
    let ended = visit(&plan, &opened, globals);
    let closed = opened.close(globals);
    let status = ended?;
    closed?;
    Ok(match status {
        Status::Exit(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Status::Signal(number) => ExitCode::from(u8::try_from(128 + number).unwrap_or(255)),
        Status::Deadline | Status::Cancelled => ExitCode::from(1),
    })
}

fn visit(plan: &Plan, opened: &OpenedLab, globals: &Globals) -> Result<Status, Fault> {
    if std::io::stdin().is_terminal() {
        note(&format!("starting `{}`", plan.baseline), globals);
    }
    let mut command = command::command(plan, &plan.baseline);
    let asked = command.clone();
    let context = StartContext { command: Some(&asked), ..opened.context(plan) };
    if let Some(arm) = plan.arms().first() {
        check::check(arm, plan, &context)?.map_err(Unavailable::fault)?;
    }
    let mut lookout = Lookout::begin(context.lab, ROOM);
    let started = plan.baseline.start(&context, ROOM);
    let stack = &plan.baseline;
    let running = started.map_err(|fault| lookout.not_started(stack, fault))?;
    lookout.remember();
    if std::io::stdin().is_terminal() {
        let kept = match plan.writable.as_slice() {
            _ if driver::writes_stay_elsewhere(&plan.baseline) => {
                String::from("what you write here stays on the other machine")
            }
            [] => String::from("what you write here is thrown away when you leave"),
            _ => {
                String::from("what you write outside of `--writable` is thrown away when you leave")
            }
        };
        note(&kept, globals);
    }
    running.tell(&mut command);
    let left = shell::run(running, command, || lookout.look());
    let (status, leftovers) = left.map_err(|fault| lookout.explained(stack, fault))?;
    if let Some(ended) = lookout.ended(&plan.baseline) {
        note(&format!("{}\n  hint: {}", ended.why, ended.hint), globals);
    }
    for line in leftovers {
        note(&format!("removed by force: {line}"), globals);
    }
    Ok(status)
}
