//! Neighbours of a trial: what runs in other stacks while it is measured, and the proof that it did all the while.
//!
//! A neighbour is started before the command, which waits until it uses CPU time, and ended after it, however long that
//! takes: the deadline of a command is none of its. One that ends by itself while the command runs, or uses no CPU time meanwhile, makes the trial invalid: then nobody knows beside
//! what the command ran. What it uses is in no bill, and is not taken for a disturbance either. Of one with two sides both
//! run, and either counts.

use super::meeting::Bridge;
use super::opposite::{Opposite, Side};
use super::protocol::{begin, finish};
use super::task::{Task, like, require_success};
use super::watch::Watch;
use crate::agent::refused;
use crate::fault::Fault;
use crate::layer::Payer;
use crate::plan::{Neighbour, Plan};
use crate::stack::rise::{Ground, Standing};
use crate::workload::Definition;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Fact, Reading, Reply, Request};

/// How long a neighbour may take until it is seen to work.
const WARM: Duration = Duration::from_secs(10);

/// How often it is looked at until then.
const LOOK: Duration = Duration::from_millis(20);

/// How long one may take to end when it is told to.
const LAST: Duration = Duration::from_secs(10);

/// All neighbours of one trial.
#[derive(Default)]
pub(super) struct Neighbours {
    all: Vec<Beside>,
    level: u8,
}

/// One of them.
struct Beside {
    standing: Standing,
    /// The other side, of a workload that has two.
    opposite: Option<Opposite>,
    /// The bridge between both, where neither makes one.
    between: Option<Bridge>,
    definition: Definition,
    command: Command,
    words: String,
    /// The sides that run, in the order in which they began.
    running: Vec<(Side, Nanoseconds)>,
    watch: Option<Watch>,
    payer_count: usize,
}

/// What neighbours used while the command ran.
#[derive(Default)]
pub(super) struct Seen {
    /// Of every payer.
    pub(super) readings: Vec<Reading>,
    /// How many payers there were.
    pub(super) payer_count: usize,
    /// What proves that they ran.
    pub(super) facts: Vec<Fact>,
    /// What they used, as a condition.
    pub(super) conditions: Vec<(String, f64)>,
    /// Why the trial cannot be believed, if it cannot.
    pub(super) flaw: Option<String>,
}

impl Neighbours {
    /// Raises the stack of each, where the arm of this number has any.
    ///
    /// # Errors
    /// What could not be started; nothing of it is left then.
    pub(super) fn raise(
        neighbours: &[Neighbour],
        command: &Command,
        ground: &Ground<'_>,
        name: &str,
    ) -> Result<Self, Fault> {
        let mut all = Vec::new();
        for (place, neighbour) in neighbours.iter().enumerate() {
            let name = format!("{name}-beside-{place}");
            let raised = Beside::raise(neighbour, place, command, ground, &name);
            all.push(raised.map_err(|fault| during(&neighbour.to_string(), fault))?);
        }
        Ok(Self { all, level: ground.level })
    }

    /// Sets each up, starts it, and waits until it works.
    ///
    /// # Errors
    /// One that fails, or does nothing.
    pub(super) fn start(&mut self, plan: &Plan) -> Result<(), Fault> {
        let level = self.level;
        for beside in &mut self.all {
            let words = beside.words.clone();
            beside.start(plan, level).map_err(|fault| during(&words, fault))?;
        }
        Ok(())
    }

    /// Begins to watch what they use.
    pub(super) fn watch(&mut self) {
        for beside in &mut self.all {
            let payers = beside.payers();
            beside.payer_count = payers.len();
            beside.watch = Some(Watch::begin(payers, self.level));
        }
    }

    /// What they used since then, and whether all of them still ran at the end.
    ///
    /// # Errors
    /// A link's.
    pub(super) fn look(&mut self) -> Result<Seen, Fault> {
        let mut seen = Seen::default();
        for (place, beside) in self.all.iter_mut().enumerate() {
            let words = beside.words.clone();
            let ended = beside.ended().map_err(|fault| during(&words, fault))?;
            let readings = beside.watch.take().map(Watch::end).unwrap_or_default();
            let used = used(&readings);
            seen.payer_count += beside.payer_count;
            if let Some(status) = ended {
                let advice = beside.advice();
                seen.flaw = Some(format!(
                    "its neighbour `{words}` ended before the command did, with {status}: {advice}"
                ));
            } else if used == Nanoseconds(0) {
                seen.flaw =
                    Some(format!("its neighbour `{words}` used no CPU time while the command ran"));
            }
            let source = "its agent told of no end, and its CPU time";
            seen.facts.push(Fact::new(format!("neighbour_{place}"), &words, source));
            let of_both = beside.opposite.iter().flat_map(Opposite::facts);
            seen.facts.extend(of_both.map(|Fact { key, value, source }| {
                Fact::new(format!("neighbour_{place}_{key}"), value, source)
            }));
            #[expect(clippy::cast_precision_loss, reason = "a day in nanoseconds is below 2^53")]
            let used = used.0 as f64;
            seen.conditions.push((format!("neighbour_{place}_cpu_ns"), used));
            seen.readings.extend(readings);
        }
        Ok(seen)
    }

    /// Ends them all; what was left of any.
    pub(super) fn stop(self) -> Vec<String> {
        let mut left = Vec::new();
        for mut beside in self.all {
            beside.end();
            left.extend(beside.opposite.into_iter().flat_map(Opposite::stop));
            left.extend(beside.standing.stop().unwrap_or_else(|fault| vec![fault.message]));
            left.extend(beside.between.into_iter().flat_map(Bridge::close));
        }
        left
    }
}

impl Beside {
    /// Raises its stack, and the outside where its workload has another side.
    fn raise(
        neighbour: &Neighbour,
        place: usize,
        command: &Command,
        ground: &Ground<'_>,
        name: &str,
    ) -> Result<Self, Fault> {
        let Neighbour { workload, stack } = neighbour;
        let mut task = Task::beside(workload, place)?;
        let words = task.definition.as_ref().map(|it| it.command.as_slice()).unwrap_or_default();
        let mut command = like(command, words);
        let inside = task.inside(&command);
        let between = task.between(stack, ground, name)?;
        let network = between.as_ref().map(Bridge::path);
        let on = Ground { command: Some(&inside), network: network.as_deref(), ..*ground };
        let standing = stack.raise(&on, name)?;
        standing.tell(&mut command);
        // Both sides go on through all warm-ups and iterations, each of which may take as long as a command may.
        let mut endless = Command { deadline: Nanoseconds(0), ..command };
        let opposite = task.opposite(&standing, &mut endless, ground, name)?;
        let no_workload = || Fault::bug("a neighbour has no workload");
        Ok(Self {
            standing,
            opposite,
            between,
            definition: task.definition.ok_or_else(no_workload)?,
            command: endless,
            words: neighbour.to_string(),
            running: Vec::new(),
            watch: None,
            payer_count: 0,
        })
    }

    /// Who works for it, on this level.
    fn payers(&self) -> Vec<Payer> {
        let outside = self.opposite.as_ref().map(Opposite::payers).unwrap_or_default();
        self.standing.payers().into_iter().chain(outside).collect()
    }

    /// What stands on one of its sides.
    fn standing(&mut self, side: Side) -> &mut Standing {
        match (side, &mut self.opposite) {
            (Side::Outside, Some(opposite)) => opposite.outside(),
            _ => &mut self.standing,
        }
    }

    fn start(&mut self, plan: &Plan, level: u8) -> Result<(), Fault> {
        let deadline = plan.command_deadline();
        for step in &self.definition.setup {
            let step_command = Command { deadline: deadline.into(), ..like(&self.command, step) };
            let began = begin(&mut self.standing, &step_command)?;
            let ended = finish(&mut self.standing, began, deadline)?;
            require_success("the set-up", step, &ended.outcome)?;
        }
        self.running = match &mut self.opposite {
            Some(opposite) => opposite.begin(&mut self.standing)?.to_vec(),
            None => vec![(Side::Stack, begin(&mut self.standing, &self.command)?)],
        };
        let waiting = clock::monotonic_raw();
        while Duration::from(clock::monotonic_raw().since(waiting)) < WARM {
            let watch = Watch::begin(self.payers(), level);
            std::thread::sleep(LOOK);
            if let Some(status) = self.ended()? {
                let what = format!("it ended before the command began, with {status}");
                return Err(Fault::machine(what).hint(self.advice()));
            }
            if used(&watch.end()) > Nanoseconds(0) {
                return Ok(());
            }
        }
        Err(Fault::machine(format!("it used no CPU time in {} s", WARM.as_secs())))
    }

    /// How it has ended, if it has told of that.
    fn ended(&mut self) -> Result<Option<String>, Fault> {
        for place in 0..self.running.len() {
            let (side, _) = self.running[place];
            if let Some(how) = told_of_its_end(self.standing(side))? {
                self.running.remove(place);
                return Ok(Some(how));
            }
        }
        Ok(None)
    }

    /// What helps where it has ended too early.
    fn advice(&self) -> String {
        let Definition { beside, .. } = &self.definition;
        match self.definition.lasting().filter(|_| beside.is_none()) {
            Some(it) => format!("let it run for longer, by its parameter `{}`", it.name),
            None if beside.is_some() => {
                String::from("give its stack what it needs, or another limit")
            }
            None => {
                String::from("take one that goes on until it is ended, such as `adversary.load`")
            }
        }
    }

    /// Ends its command, if that runs. What fails here is seen when its stack is stopped.
    fn end(&mut self) {
        if self.running.is_empty() {
            return;
        }
        while let Some((side, began)) = self.running.pop() {
            let standing = self.standing(side);
            let told = standing.link().and_then(|link| link.send(&Request::Cancel));
            if told.is_ok() {
                let _ = finish(standing, began, LAST);
            }
        }
        for step in &self.definition.cleanup {
            let cleaned = begin(&mut self.standing, &like(&self.command, step))
                .and_then(|began| finish(&mut self.standing, began, LAST));
            if cleaned.is_err() {
                return;
            }
        }
    }
}

/// How the command in a stack has ended, if its agent has told of that.
fn told_of_its_end(standing: &mut Standing) -> Result<Option<String>, Fault> {
    let link = standing.link()?;
    while let Some(said) = link.listener.wait(Duration::ZERO)? {
        match said.reply {
            Reply::Exited(outcome) => return Ok(Some(outcome.status.to_string())),
            Reply::Failed(failure) => return Ok(Some(refused(failure).message)),
            _ => {}
        }
    }
    Ok(None)
}

fn during(words: &str, fault: Fault) -> Fault {
    fault.during(format!("the neighbour `{words}`"))
}

/// The CPU time of all payers that carry nobody else, as this level counts it.
fn used(readings: &[Reading]) -> Nanoseconds {
    readings.iter().fold(Nanoseconds(0), |sum, it| sum + it.cpu_user + it.cpu_system)
}
