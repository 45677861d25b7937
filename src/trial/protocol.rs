//! The protocol of one trial. The order of the lines in [`run`] and `measure` is the protocol.

use super::held_against::{self, Host, Kernel};
use super::iterate::{self, Ran};
use super::meeting::Bridge;
use super::neighbour::Neighbours;
use super::oom::{self, Lookout};
use super::opposite::Opposite;
use super::quiet::{self, Quiet};
use super::sandwich::Sandwich;
use super::task::{Task, settings};
use super::together;
use super::watch::Watch;
use super::{Evidence, Measured, Record, TrialResult};
use super::{cold, disturbance};
use crate::agent::{Link, Pulse, refused, unexpected};
use crate::fault::{Blame, Fault};
use crate::layer::{Payer, Source};
use crate::plan::{Cache, Plan, TrialId};
use crate::stack::rise::{Ground, Standing};
use crate::stack::{Deeper, StackSpec};
use crate::workload::{OUTPUT_LIMIT, Reading};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Command, Fact, Outcome, Reading as PayerReading, Reply, Request, Status, require_short as fits,
};

/// How much of the end of each output stream of the command is kept, in bytes.
const KEEP_OUTPUT: u32 = 16 << 10;

/// The variable whose length differs from trial to trial.
const PADDING: &[u8] = b"SURTAX_PADDING";

/// Why a workload has no numbers though it printed some: they are in the time of its own level.
const CLOCK_RAN_WRONG: &str = "the clock that it was measured by ran wrong";

/// Why what was measured cannot be believed, if it cannot.
type Flaw = Option<String>;

/// What this machine was doing: stable key, value.
type Conditions = Vec<(String, f64)>;

/// How long an agent may take at least beyond the command's own deadline to say that it killed it, and a starter to
/// read its counters.
const GRACE: Duration = Duration::from_secs(30);

/// Runs one trial, from the machine as it is to a record. What goes wrong is in the record.
#[must_use]
pub fn run(trial: TrialId, stack: &StackSpec, plan: &Plan, ground: &Ground<'_>) -> Record {
    std::thread::sleep(plan.conduct.settle());
    let began_at = clock::wall();
    let padding = padding(plan, trial);
    let mut quiet = Quiet::open(Path::new("/"), &[]);
    let before = quiet.read();

    let asked_at = clock::monotonic_raw();
    let name = format!("{}-{}-{}", trial.block, trial.position, trial.arm);
    let mut command = command(plan, stack);
    command.env.extend(variable_of(padding));
    let task = Task::of(plan);
    if let Ok(task) = &task {
        task.multiply(&mut command);
    }
    let inside = task.as_ref().map_or_else(|_| command.clone(), |task| task.inside(&command));
    let between = task.as_ref().map_or(Ok(None), |task| task.between(stack, ground, &name));
    let mut lookout = Lookout::begin(ground.lab, &name);
    let raised = between.as_ref().map_err(Clone::clone).and_then(|between| {
        let network = between.as_ref().map(Bridge::path);
        let network = network.as_deref().or(ground.network);
        stack.raise(&Ground { command: Some(&inside), network, ..*ground }, &name)
    });
    let start_wall = clock::monotonic_raw().since(asked_at);

    let mut leftovers = Vec::new();
    let mut stop_wall = Nanoseconds(0);
    let mut conditions = None;
    let result = match raised {
        Err(fault) => broken(&lookout.explained(stack, fault)),
        Ok(mut standing) => {
            lookout.remember();
            standing.tell(&mut command);
            let measured = task
                .and_then(|mut task| {
                    let mut opposite = task.opposite(&standing, &mut command, ground, &name)?;
                    let neighbours = plan.neighbours(trial.arm);
                    let mut beside = Neighbours::raise(neighbours, &command, ground, &name)?;
                    let quota_millis = quota(stack);
                    let trial = What { plan, level: ground.level, task: &task, quota_millis };
                    let mut sides = Sides { opposite: &mut opposite, beside: &mut beside };
                    let measured = measure(&mut standing, &mut sides, &command, &trial);
                    let measured = lookout.looked(measured);
                    leftovers.extend(beside.stop());
                    leftovers.extend(opposite.into_iter().flat_map(Opposite::stop));
                    measured
                })
                .map_err(|fault| standing.explained(fault));
            let stopping_at = clock::monotonic_raw();
            match standing.stop() {
                Ok(left) => leftovers.extend(left),
                Err(fault) => leftovers.push(fault.message),
            }
            stop_wall = clock::monotonic_raw().since(stopping_at);
            match measured {
                Err(fault) => broken(&lookout.explained(stack, fault)),
                Ok((measured, flaw, mut around)) => {
                    let killed = lookout.of_trial(stack, &measured.readings, &measured.outcome);
                    let killed = killed.filter(|_| !oom::is_meant(&command));
                    around.extend(killed.iter().map(oom::condition));
                    conditions = Some(around);
                    judge(measured, killed.map(|it| it.reason()), flaw)
                }
            }
        }
    };
    leftovers.extend(between.ok().flatten().into_iter().flat_map(Bridge::close));
    let mut conditions = conditions.unwrap_or_else(|| quiet.since(&before));
    conditions.push((String::from("environment_padding_bytes"), f64::from(padding)));
    let is_done = matches!(result, TrialResult::Done(_));
    let disturbances = if is_done { disturbance::judge(&conditions) } else { Vec::new() };
    Record { trial, began_at, result, start_wall, stop_wall, conditions, disturbances, leftovers }
}

/// What is the same for all of a trial.
struct What<'a> {
    plan: &'a Plan,
    level: u8,
    task: &'a Task,
    /// The least CPU time that a level of the stack is limited to, in thousandths of a CPU.
    quota_millis: Option<u32>,
}

/// What stands beside the stack.
struct Sides<'a> {
    opposite: &'a mut Option<Opposite>,
    beside: &'a mut Neighbours,
}

/// Warms up, watches, runs the command in its iterations, and reads what everybody used. Gives back what was
/// measured, why it cannot be believed if it cannot, and the conditions right around the command.
fn measure(
    standing: &mut Standing,
    Sides { opposite, beside }: &mut Sides<'_>,
    command: &Command,
    &What { plan, level, task, quota_millis }: &What<'_>,
) -> Result<(Measured, Flaw, Conditions), Fault> {
    let patience = standing.patience();
    let sandwich = Sandwich::take(standing.link()?, patience)?;
    let prepared = task.prepare(command, |command| outcome(standing, command, plan))?;
    beside.start(plan)?;
    for _ in 0..plan.warm_up {
        once(standing, opposite, command, plan).map_err(|fault| task.explained(fault))?;
    }
    let payers = standing.payers();
    let payer_count = payers.len();
    let mut quiet = Quiet::open(Path::new("/"), &groups(&payers));
    let before = quiet.read();
    let outside = opposite.as_ref().map(Opposite::payers).unwrap_or_default();
    let outside_count = outside.len();
    beside.watch();
    let watch_outside = Watch::begin(outside, level);
    let watch = Watch::begin(payers.clone(), level);
    let runs = iterations(standing, opposite, command, plan);
    let runs = runs.map_err(|fault| task.explained(fault))?;
    let mut readings = watch.end();
    let group = held_against::of_the_group(&payers, &readings);
    let outside = watch_outside.end();
    let seen = beside.look()?;
    let after = quiet.read();
    let mut conditions = quiet.between(
        &before,
        &after,
        used_by_all(
            readings.iter().chain(&outside).chain(&seen.readings),
            payer_count + outside_count + seen.payer_count,
        ),
    );
    conditions.extend(seen.conditions);
    conditions.extend(quiet::stood_still(runs.iter().map(|ran| &ran.outcome)));
    conditions.extend(quiet::left_running(runs.iter().map(|ran| &ran.outcome)));
    conditions.extend(together::at_once(&runs));
    let (is_guest_time_void, rates) = rates(standing, opposite, sandwich)?;
    conditions.extend(rates);
    readings = iterate::per_iteration(readings, &runs);
    let read = task.read(runs.iter().map(|ran| &ran.outcome));
    task.clean_up(command, |command| outcome(standing, command, plan))?;
    let mut levels = standing.evidence().to_vec();
    if let Some(innermost) = levels.last_mut() {
        innermost.facts.extend(sandwich.facts());
        innermost.facts.extend(prepared.facts);
        innermost.facts.extend(task.instances());
        innermost.facts.extend(task.places(standing));
        innermost.facts.extend(seen.facts);
        innermost.facts.extend(opposite.iter().flat_map(Opposite::facts));
        innermost.facts.extend(read.iter().flat_map(settings));
        let inside = opposite.as_ref().map_or(command, |opposite| opposite.inside());
        innermost.facts.extend(program(standing, inside)?);
    }
    let evidence = Evidence::of(levels)
        .map_err(|layer| Fault::bug(format!("`{layer}` proved nothing about itself")))?;
    let clock = opposite.as_ref().map_or(sandwich, |it| it.clock_of_the_client(sandwich));
    let kernel = Kernel::shared(sandwich, evidence.levels());
    let is_of_the_timed = opposite.is_none();
    let kernel = kernel.map(|kernel| Kernel { group, is_of_the_timed, ..kernel });
    let lie = Host { clock, quota_millis, kernel }.contradicts(&runs);
    conditions.extend(held_against::excess(clock, &runs));
    let iterations = iterate::iterations(&runs, clock);
    let (wall, outcome) = iterate::whole(&iterations, runs)?;
    let flaw = lie.or(prepared.flaw).or(seen.flaw).or_else(|| read.as_ref().err().cloned());
    let read = if flaw.is_none() { read.unwrap_or_default() } else { Reading::default() };
    let workload = if is_guest_time_void { read.without_numbers(CLOCK_RAN_WRONG) } else { read };
    let measured =
        Measured { wall, outcome, readings, iterations, workload, evidence, is_guest_time_void };
    Ok((measured, flaw, conditions))
}

/// How clocks ran that are not the host's: whether what was measured by one is void, and the conditions.
fn rates(
    standing: &mut Standing,
    opposite: &mut Option<Opposite>,
    sandwich: Sandwich,
) -> Result<(bool, Conditions), Fault> {
    let (mut is_void, mut conditions) = (false, Conditions::new());
    if let Some(rate) = opposite.as_mut().map_or(Ok(None), Opposite::rate)? {
        is_void |= rate.is_void();
        conditions.extend(rate.conditions_of("client_"));
    }
    if !sandwich.is_shared() {
        let patience = standing.patience();
        let rate = sandwich.rate_until(Sandwich::take(standing.link()?, patience)?);
        is_void |= rate.is_void();
        conditions.extend(rate.conditions_of(""));
    }
    Ok((is_void, conditions))
}

/// Runs the command as often as the plan has it in one start, or until it fails.
fn iterations(
    standing: &mut Standing,
    opposite: &mut Option<Opposite>,
    command: &Command,
    plan: &Plan,
) -> Result<Vec<Ran>, Fault> {
    let mut runs: Vec<Ran> = Vec::new();
    for _ in 0..plan.conduct.iterations {
        if plan.conduct.cache == Cache::Cold {
            cold::drop_caches(standing.link()?, runs.is_empty())?;
        }
        let ran = once(standing, opposite, command, plan)?;
        let goes_on = ran.outcome.status == Status::Exit(0);
        runs.push(ran);
        if !goes_on {
            break;
        }
    }
    Ok(runs)
}

/// Runs the command once, or both sides of a workload that has two.
fn once(
    standing: &mut Standing,
    opposite: &mut Option<Opposite>,
    command: &Command,
    plan: &Plan,
) -> Result<Ran, Fault> {
    match opposite {
        Some(opposite) => opposite.run(standing, plan.command_deadline()),
        None => execute(standing, command, plan.command_deadline()),
    }
}

/// The least CPU time that a level of a stack is limited to, in thousandths of a CPU.
fn quota(stack: &StackSpec) -> Option<u32> {
    stack.layers.iter().filter_map(|layer| layer.limits().ok()?.cpu_millis).min()
}

/// Which file the command was, asked after it has ended so that it was in no cache because of us.
fn program(standing: &mut Standing, command: &Command) -> Result<Vec<Fact>, Fault> {
    let grace = grace(standing);
    match standing.link()?.ask(&Request::Resolve(command.clone()), grace)?.reply {
        Reply::Identity(facts) => Ok(facts),
        other => Err(unexpected(&other, "the question which file the command is")),
    }
}

/// The groups among the payers.
fn groups(payers: &[Payer]) -> Vec<PathBuf> {
    let group = |payer: &Payer| match &payer.source {
        Source::Group(path) => Some(path.clone()),
        _ => None,
    };
    payers.iter().filter_map(group).collect()
}

/// What those used who worked for the trial on this level, who carry the command and its other side; unknown if
/// one of them could not be read, or there is nobody to read.
fn used_by_all<'a>(
    readings: impl Iterator<Item = &'a PayerReading> + Clone,
    payer_count: usize,
) -> Option<Nanoseconds> {
    let is_whole = payer_count > 0 && readings.clone().count() == payer_count;
    let sum = |sum, reading: &PayerReading| sum + reading.cpu_user + reading.cpu_system;
    is_whole.then(|| readings.fold(Nanoseconds(0), sum))
}

/// How a command that is not measured ended.
fn outcome(standing: &mut Standing, command: &Command, plan: &Plan) -> Result<Outcome, Fault> {
    Ok(execute(standing, command, plan.command_deadline())?.outcome)
}

/// How long an inside may take beyond what it was asked to do.
fn grace(standing: &Standing) -> Duration {
    standing.patience().max(GRACE)
}

/// Runs the command once.
fn execute(standing: &mut Standing, command: &Command, deadline: Duration) -> Result<Ran, Fault> {
    let began = begin(standing, command)?;
    finish(standing, began, deadline)
}

/// Starts a command; the host's time at which it was about to begin.
pub(super) fn begin(standing: &mut Standing, command: &Command) -> Result<Nanoseconds, Fault> {
    let grace = grace(standing);
    let link = standing.link()?;
    let started = link.ask(&Request::Run(command.clone()), grace)?;
    let Reply::Started { .. } = started.reply else {
        return Err(unexpected(&started.reply, "the request to run the command"));
    };
    link.send(&Request::Go)?;
    Ok(started.at)
}

/// Waits for the end of a command that was begun.
pub(super) fn finish(
    standing: &mut Standing,
    began: Nanoseconds,
    deadline: Duration,
) -> Result<Ran, Fault> {
    let below = (standing.depth() > 1).then(|| standing.deeper());
    let grace = grace(standing);
    end_of(standing.link()?, began, (deadline, grace), below)
}

/// The same over a link; `below` is which levels a starter at its other end may speak for, where there is one.
fn end_of(
    link: &mut Link,
    began: Nanoseconds,
    (deadline, grace): (Duration, Duration),
    below: Option<Deeper>,
) -> Result<Ran, Fault> {
    let mut pulse = Pulse::default();
    let ended = link.outlast(&mut pulse, deadline.saturating_add(grace))?;
    match ended.reply {
        Reply::Ended { .. } => {}
        Reply::Failed(failure) => return Err(refused(failure)),
        other => return Err(unexpected(&other, "the end of the command")),
    }
    let between = ended.at.since(began);
    let exited = pulse.wait(link.listener.as_mut(), || Ok(false), grace)?;
    let mut outcome = match exited.reply {
        Reply::Exited(outcome) => outcome,
        Reply::Failed(failure) => return Err(refused(failure)),
        other => return Err(unexpected(&other, "what the command that has ended was")),
    };
    together::show(&mut outcome);
    let bill = match below.map(|below| (below, link.receive(grace))) {
        None => Vec::new(),
        Some((below, bill)) => match bill?.reply {
            Reply::Bill(readings) => below.checked(readings)?,
            other => return Err(unexpected(&other, "the end of a nested command")),
        },
    };
    pulse.settle(link.listener.as_mut(), grace)?;
    Ok(Ran { between, outcome, bill })
}

/// The command of a plan in one of its stacks: in the caller's environment, with the plan's variables
/// over it, and those of the stack over both.
#[must_use]
pub fn command(plan: &Plan, stack: &StackSpec) -> Command {
    let mut environment = BTreeMap::new();
    if plan.inherit_environment {
        let inherited = std::env::vars_os();
        environment.extend(inherited.map(|(key, value)| (key.into_vec(), value.into_vec())));
    }
    environment.extend(
        plan.environment
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())),
    );
    environment.extend(stack.variables().map(|(key, value)| (key.into(), value.into())));
    Command {
        argv: plan.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        instances: Vec::new(),
        env: environment.into_iter().collect(),
        cwd: plan.cwd.as_os_str().as_bytes().to_vec(),
        keep_bytes: if plan.workload.is_some() { OUTPUT_LIMIT } else { KEEP_OUTPUT },
        deadline: plan.command_deadline().into(),
        terminal: false,
    }
}

/// How much longer the environment is in this trial, in bytes: the same whenever the plan is run.
fn padding(plan: &Plan, trial: TrialId) -> u32 {
    let limit = plan.conduct.padding_limit_bytes;
    if limit == 0 {
        return 0;
    }
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&plan.seed.to_le_bytes());
    for (at, number) in [(8, trial.block), (12, trial.position), (16, trial.arm)] {
        seed[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(seed).random_range(1..=limit)
}

/// A variable of so many bytes, its name and `=` not counted; none for 0.
fn variable_of(padding: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let length = usize::try_from(padding).unwrap_or(0);
    (length > 0).then(|| (PADDING.to_vec(), vec![b'.'; length]))
}

/// Refuses a command that no agent would accept, before anything is started.
///
/// # Errors
/// The user's: with its environment it does not fit into one frame.
pub fn require_short(command: &Command) -> Result<(), Fault> {
    fits(&Request::Run(command.clone())).map_err(|error| {
        Fault::user(format!("the command is too long with its environment: {error}"))
            .hint("put it into a script, or make its arguments and variables fewer")
    })
}

/// Only a command that ended by itself with status 0 counts, and of a workload only what can be believed; and none of
/// whose stack the kernel has killed somebody.
fn judge(measured: Measured, killed: Flaw, flaw: Flaw) -> TrialResult {
    let measured = Box::new(measured);
    if let Some(why) = killed {
        return TrialResult::Invalid { why, measured: Some(measured) };
    }
    match flaw {
        _ if measured.outcome.status != Status::Exit(0) => TrialResult::CommandFailed(measured),
        Some(why) => TrialResult::Invalid { why, measured: Some(measured) },
        None => TrialResult::Done(measured),
    }
}

/// A trial without an outcome. What somebody inside made of it is invalid.
fn broken(fault: &Fault) -> TrialResult {
    let why = fault.to_string();
    match fault.blame {
        Blame::Inside => TrialResult::Invalid { why, measured: None },
        Blame::User | Blame::Machine | Blame::Surtax => TrialResult::Broken { why },
    }
}

#[cfg(test)]
mod tests;
