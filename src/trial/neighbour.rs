//! Neighbours of a trial: what runs in other stacks while it is measured, and the proof that it did all the while.
//!
//! A neighbour is started before the command, which waits until it uses CPU time, and ended after it, however long that
//! takes: the deadline of a command is none of its. One that ends by itself while the command runs, or uses no CPU time meanwhile, makes the trial invalid: then nobody knows beside
//! what the command ran. What it uses is in no bill, and is not taken for a disturbance either.

use super::protocol::{begin, finish};
use super::task::{like, require_success};
use super::watch::Watch;
use crate::agent::refused;
use crate::fault::Fault;
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

/// What the parameters are called that say for how long a workload works.
const LASTING: [&str; 3] = ["time", "seconds", "duration"];

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
    definition: Definition,
    command: Command,
    words: String,
    began: Option<Nanoseconds>,
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
            let definition = neighbour.workload.resolve()?;
            let words = definition.beside.as_ref().unwrap_or(&definition.command);
            let mut command = like(command, words);
            let ground = Ground { command: Some(&command), network: None, ..*ground };
            let raised = neighbour.stack.raise(&ground, &format!("{name}-beside-{place}"));
            let words = neighbour.to_string();
            let standing = raised.map_err(|fault| during(&words, fault))?;
            standing.tell(&mut command);
            let (began, watch, payer_count) = (None, None, 0);
            all.push(Beside { standing, definition, command, words, began, watch, payer_count });
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
            let payers = beside.standing.payers();
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
            left.extend(beside.standing.stop().unwrap_or_else(|fault| vec![fault.message]));
        }
        left
    }
}

impl Beside {
    fn start(&mut self, plan: &Plan, level: u8) -> Result<(), Fault> {
        for step in &self.definition.setup {
            let began = begin(&mut self.standing, &like(&self.command, step))?;
            let ended = finish(&mut self.standing, began, plan.command_deadline())?;
            require_success("the set-up", step, &ended.outcome)?;
        }
        // It goes on through all warm-ups and iterations, each of which may take as long as a command may.
        let running = Command { deadline: Nanoseconds(0), ..self.command.clone() };
        self.began = Some(begin(&mut self.standing, &running)?);
        let waiting = clock::monotonic_raw();
        while Duration::from(clock::monotonic_raw().since(waiting)) < WARM {
            let watch = Watch::begin(self.standing.payers(), level);
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
        let link = self.standing.link()?;
        while let Some(said) = link.listener.wait(Duration::ZERO)? {
            let how = match said.reply {
                Reply::Exited(outcome) => outcome.status.to_string(),
                Reply::Failed(failure) => refused(failure).message,
                _ => continue,
            };
            self.began = None;
            return Ok(Some(how));
        }
        Ok(None)
    }

    /// What helps where it has ended too early.
    fn advice(&self) -> String {
        let Definition { beside, parameters, .. } = &self.definition;
        let lasting = parameters.iter().find(|it| LASTING.contains(&it.name.as_str()));
        match lasting.filter(|_| beside.is_none()) {
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
        let Some(began) = self.began.take() else { return };
        let told = self.standing.link().and_then(|link| link.send(&Request::Cancel));
        if told.is_ok() {
            let _ = finish(&mut self.standing, began, LAST);
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

fn during(words: &str, fault: Fault) -> Fault {
    fault.during(format!("the neighbour `{words}`"))
}

/// The CPU time of all payers that carry nobody else, as this level counts it.
fn used(readings: &[Reading]) -> Nanoseconds {
    readings.iter().fold(Nanoseconds(0), |sum, it| sum + it.cpu_user + it.cpu_system)
}
