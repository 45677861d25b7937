//! The protocol of one trial. The order of the lines in [`run`], and the list in `companions`, are
//! the protocol.

use super::acts::{Act, Acts, Who};
use super::came_of::{broken, judge};
use super::clock_check::ClockCheck;
use super::command::{command, padding, variable_of};
use super::companion::{Companion, Seen};
use super::conditions::ConditionReader;
use super::counting::Counting;
use super::energy::Energy;
use super::host_conditions::HostConditions;
use super::iterate::TimedRun;
use super::looking::Looking;
use super::measured::{Around, Judged, put_together};
use super::neighbour::Neighbours;
use super::oom::{self, Lookout};
use super::pids;
use super::program::Program;
use super::stage::{NotPlaced, Placed, Stage};
use super::timeline::{PhaseKind, Recorder, Timeline};
use super::trial_workload::TrialWorkload;
use super::usage::{Bill, PeerUsage};
use super::workload_steps::WorkloadSteps;
use super::{Record, TrialResult, disturbance};
use crate::driver;
use crate::fault::Fault;
use crate::layer::StackSpec;
use crate::plan::{Plan, TrialId};
use crate::stack::start::StartContext;
use std::path::Path;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To time the command, bare of all that would make it slower.
    Timing,
    /// To count what it asks of its kernel, however long that takes.
    Counting,
}

/// Runs one trial, from the machine as it is to a record. What goes wrong is in the record. `acts`
/// is told of each act.
#[must_use]
pub fn run(
    trial: TrialId,
    stack: &StackSpec,
    (plan, purpose): (&Plan, Purpose),
    context: &StartContext<'_>,
    acts: Acts<'_>,
) -> Record {
    std::thread::sleep(plan.conduct.settle());
    let began_at = clock::wall();
    let padding = padding(plan, trial);
    let mut reader = ConditionReader::open(Path::new("/"), context.lab.hierarchies());
    let before = reader.read();

    let name = format!("{}-{}-{}", trial.block, trial.position, trial.arm);
    let asked_at = clock::monotonic_raw();
    let mut lookout = Lookout::begin(context.lab, &name);
    let mut leftovers = Vec::new();
    let mut stop_wall = Nanoseconds(0);
    let (mut conditions, mut kept) = (None, Kept::default());
    let (stood_at, result) = match place(plan, stack, context, (&name, padding), acts) {
        Err(NotPlaced { fault, leftovers: left, stood_at }) => {
            leftovers.extend(left);
            (stood_at, broken(lookout.not_started(stack, fault)))
        }
        Ok(mut placed) => {
            lookout.remember();
            let may_look = purpose == Purpose::Timing;
            let times = (asked_at, placed.stood_at);
            let recorder = Recorder::of(plan.conduct, stack, context.level, times, may_look);
            let meant = (oom::is_meant(&placed.command), pids::is_meant(&placed.command));
            let neighbours = Beside { plan, purpose, trial, context, name: &name };
            let beside = (&mut lookout, &mut reader, &mut leftovers);
            let watched = (recorder, &mut kept);
            let judged = accompanied(&mut placed, &neighbours, (stack, watched), beside, acts);
            let judged = judged.map_err(|fault| placed.running.explained(fault));
            let (left, took) = placed.stop(acts);
            leftovers.extend(left);
            stop_wall = took;
            let result = match judged {
                Err(fault) => broken(lookout.explained(stack, fault)),
                Ok(Judged { measured, flaw, conditions: mut around, .. }) => {
                    let (met, ended) = lookout.judged(stack, &measured, meant);
                    around.extend(met);
                    conditions = Some(around);
                    judge(plan.conduct, measured, ended, flaw)
                }
            };
            (times.1, result)
        }
    };
    let mut conditions = conditions.unwrap_or_else(|| reader.since(&before));
    conditions.extend(lookout.exceeded());
    conditions.push((String::from("environment_padding_bytes"), f64::from(padding)));
    let is_done = matches!(result, TrialResult::Done(_));
    let disturbances = if is_done { disturbance::judge(&conditions) } else { Vec::new() };
    Record {
        trial,
        began_at,
        result,
        start_wall: stood_at.since(asked_at),
        stop_wall,
        conditions,
        disturbances,
        timeline: kept.timeline,
        ran: kept.ran,
        energies: Vec::new(),
        leftovers,
    }
}

/// Starts the workload of a plan in one of its stacks.
fn place(
    plan: &Plan,
    stack: &StackSpec,
    context: &StartContext<'_>,
    (name, padding): (&str, u32),
    acts: Acts<'_>,
) -> Result<Placed, NotPlaced> {
    let work = TrialWorkload::of(plan).map_err(NotPlaced::before)?;
    let mut command = command(plan, stack);
    command.env.extend(variable_of(padding));
    work.multiply(&mut command);
    Placed::place(work, stack, command, context, name, acts)
}

/// Parts of a trial that are kept however it ended.
#[derive(Default)]
struct Kept {
    timeline: Option<Timeline>,
    ran: Vec<[Nanoseconds; 2]>,
}

/// Inputs from which neighbours are started.
struct Beside<'a> {
    plan: &'a Plan,
    purpose: Purpose,
    trial: TrialId,
    context: &'a StartContext<'a>,
    name: &'a str,
}

/// Measures with all companions, and takes away what they started.
fn accompanied(
    placed: &mut Placed,
    &Beside { plan, purpose, trial, context, name }: &Beside<'_>,
    (stack, (recorder, kept)): (&StackSpec, (Recorder, &mut Kept)),
    (lookout, reader, leftovers): (&mut Lookout<'_>, &mut ConditionReader, &mut Vec<String>),
    acts: Acts<'_>,
) -> Result<Judged, Fault> {
    let neighbours = plan.neighbours(trial.arm);
    let neighbours = Neighbours::start(neighbours, &placed.command, context, name);
    let neighbours = neighbours.map_err(|NotPlaced { fault, leftovers: left, .. }| {
        leftovers.extend(left);
        fault
    })?;
    let has_neighbours = !plan.neighbours(trial.arm).is_empty();
    if has_neighbours {
        acts(Who::Neighbours, Act::Start);
    }
    let (has_two_sides, level) = (placed.peer.is_some(), context.level);
    // Another machine's energy is not told by the counters of this one, nor is a guest's believed.
    let has_energy = level == 0 && !driver::runs_elsewhere(stack);
    let neighbours = has_neighbours.then_some(neighbours);
    let mut all = companions(neighbours, has_two_sides, has_energy);
    if purpose == Purpose::Counting {
        all.push(Box::new(Counting::default()));
    }
    let hierarchies = context.lab.hierarchies();
    let payers = Vec::new();
    let mut stage = Stage { placed, plan, level, hierarchies, reader, payers, recorder };
    // Groups are looked at before anything is taken away.
    let measured = lookout.looked(measure(&mut stage, &mut all, acts));
    for it in all.into_iter().rev() {
        if it.who() == Who::Neighbours {
            acts(Who::Neighbours, Act::Stop);
        }
        leftovers.extend(it.stop());
    }
    let Stage { placed, recorder, .. } = stage;
    // What this machine takes is not what that one does.
    kept.ran = if has_energy { recorder.ran() } else { Vec::new() };
    kept.timeline = recorder.finish(measured.is_err());
    let (runs, seen) = measured?;
    let around = Around::of(placed, stack, level, &seen);
    let judged = put_together(runs, seen, around)?;
    if judged.has_our_kernel {
        kept.timeline.iter_mut().for_each(|it| it.forget_machines_beyond(level));
    }
    Ok(judged)
}

/// Lists who is there beside the command. They prepare and begin in this order, and end and are
/// stopped in the other.
fn companions(
    neighbours: Option<Neighbours>,
    has_two_sides: bool,
    has_energy: bool,
) -> Vec<Box<dyn Companion>> {
    let mut all: Vec<Box<dyn Companion>> = vec![
        Box::new(WorkloadSteps::default()),
        Box::new(Program::default()),
        Box::new(ClockCheck::default()),
        Box::new(Looking::default()),
        Box::new(HostConditions::default()),
    ];
    all.extend(neighbours.map(|it| Box::new(it) as Box<dyn Companion>));
    if has_two_sides {
        all.push(Box::new(PeerUsage::default()));
    }
    all.push(Box::new(Bill::default()));
    if has_energy {
        all.push(Box::new(Energy::default()));
    }
    all
}

/// Warms up, watches, runs the command in its iterations, and hears what everybody saw.
fn measure(
    stage: &mut Stage<'_>,
    all: &mut [Box<dyn Companion>],
    acts: Acts<'_>,
) -> Result<(Vec<TimedRun>, Seen), Fault> {
    for it in all.iter_mut() {
        acts(it.who(), Act::Prepare);
        it.prepare(stage)?;
    }
    for _ in 0..stage.plan.warm_up {
        acts(Who::Command, Act::WarmUp);
        let warmed = stage.run(PhaseKind::WarmUp);
        warmed.map_err(|fault| explained(stage, all, fault))?;
    }
    stage.cool(true).map_err(|fault| explained(stage, all, fault))?;
    stage.payers = stage.placed.running.payers();
    for it in all.iter_mut() {
        acts(it.who(), Act::Begin);
        it.begin(stage);
    }
    let runs = stage.iterate(all, acts).map_err(|fault| explained(stage, all, fault))?;
    let mut seen = Seen::default();
    for it in all.iter_mut().rev() {
        acts(it.who(), Act::End);
        it.end(stage, &runs, &mut seen)?;
    }
    Ok((runs, seen))
}

/// A failure of the command, with what companions know of it.
fn explained(stage: &Stage<'_>, all: &[Box<dyn Companion>], fault: Fault) -> Fault {
    all.iter().rev().fold(fault, |fault, it| it.explained(stage, fault))
}
