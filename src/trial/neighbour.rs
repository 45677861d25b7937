//! Neighbours of a trial: what runs in other stacks while it is measured, and the proof that it did
//! all the while.
//!
//! A neighbour is started before the command, which waits until it uses CPU time, and ended after
//! it, however long that takes: the deadline of a command is none of its. One that ends by itself
//! while the command runs, or uses no CPU time meanwhile, makes the trial invalid: then nobody
//! knows beside what the command ran. What it uses is in no bill, and is not taken for a
//! disturbance either. Of one with two sides both run, and either counts.

use super::acts::Who;
use super::command_run::{begin, finish};
use super::companion::{Companion, FactPlace, Seen};
use super::conditions::real;
use super::cpu_wait::CpuWait;
use super::iterate::TimedRun;
use super::overheard::Overheard;
use super::peer::{Peer, Side};
use super::stage::{NotPlaced, Placed, Stage};
use super::trial_workload::TrialWorkload;
use super::workload_steps::like;
use crate::agent::{Listener, refused};
use crate::fault::Fault;
use crate::layer::Payer;
use crate::plan::Neighbour;
use crate::stack::start::StartContext;
use crate::stack::watch::Watch;
use crate::workload::Definition;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Fact, Reading, Reply, Request};

/// Time limit for a neighbour until it is seen to work.
const WARM: Duration = Duration::from_secs(10);

/// Interval at which it is looked at until then.
const LOOK: Duration = Duration::from_millis(20);

/// Time limit for a neighbour to end when it is told to.
const LAST: Duration = Duration::from_secs(10);

/// The most replies that are looked at in one look for the end of a command. Its agent has few to
/// give, and may be one that never ends.
const REPLIES_MOST: usize = 64;

/// All neighbours of one trial.
#[derive(Default)]
pub(super) struct Neighbours {
    all: Vec<Beside>,
    /// The wait of the command's agent and of this surtax for a CPU.
    cpu_wait: Option<CpuWait>,
}

/// One of them.
struct Beside {
    placed: Placed,
    definition: Definition,
    words: String,
    /// The sides that run, in the order in which they began.
    running: Vec<(Side, Nanoseconds)>,
    watch: Option<Watch>,
    payer_count: usize,
}

impl Neighbours {
    /// Starts the stack of each.
    ///
    /// # Errors
    /// What could not be started, and what was left of those that had been.
    pub(super) fn start(
        neighbours: &[Neighbour],
        command: &Command,
        context: &StartContext<'_>,
        name: &str,
    ) -> Result<Self, NotPlaced> {
        let mut started = Self::default();
        for (place, neighbour) in neighbours.iter().enumerate() {
            let name = format!("{name}-beside-{place}");
            match Beside::prepare(neighbour, place, command, context, &name) {
                Ok(beside) => started.all.push(beside),
                Err(NotPlaced { fault, mut leftovers, stood_at }) => {
                    leftovers.extend(Box::new(started).stop());
                    let fault = during(&neighbour.to_string(), fault);
                    return Err(NotPlaced { fault, leftovers, stood_at });
                }
            }
        }
        Ok(started)
    }
}

impl Companion for Neighbours {
    fn who(&self) -> Who {
        Who::Neighbours
    }

    /// Sets each up, starts it, and waits until it works.
    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        for beside in &mut self.all {
            let started = beside.start(stage);
            let explained = |fault| beside.placed.work.explained(fault);
            started.map_err(|fault| during(&beside.words, explained(fault)))?;
        }
        Ok(())
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        for beside in &mut self.all {
            let payers = beside.payers();
            beside.payer_count = payers.len();
            beside.watch = Some(Watch::begin(payers, stage.level, stage.hierarchies));
        }
        self.cpu_wait = CpuWait::begin(stage.placed.running.agent());
    }

    fn pause(&mut self) {
        self.cpu_wait.iter_mut().for_each(CpuWait::pause);
    }

    fn resume(&mut self) {
        self.cpu_wait.iter_mut().for_each(CpuWait::resume);
    }

    /// Notes what they used since then, whether all of them still ran at the end, and how long they
    /// can have kept the command's agent and this surtax from a CPU.
    fn end(&mut self, _: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let waited = self.cpu_wait.take().and_then(CpuWait::end);
        let mut used_by_all = Nanoseconds(0);
        for (place, beside) in self.all.iter_mut().enumerate() {
            let ended = beside.ended().map_err(|fault| during(&beside.words, fault))?;
            let words = &beside.words;
            let readings = beside.watch.take().map(Watch::end).unwrap_or_default();
            let used = used(&readings);
            used_by_all += used.unwrap_or(Nanoseconds(0));
            seen.payer_count += beside.payer_count;
            if let Some(status) = ended {
                let advice = beside.advice();
                seen.flaws.neighbour = Some(format!(
                    "its neighbour `{words}` ended before the command did, with {status}: {advice}"
                ));
            } else if used.is_none() {
                seen.flaws.neighbour = Some(format!(
                    "what its neighbour `{words}` used while the command ran could not be read"
                ));
            } else if used == Some(Nanoseconds(0)) {
                seen.flaws.neighbour =
                    Some(format!("its neighbour `{words}` used no CPU time while the command ran"));
            }
            let source = "its agent told of no end, and its CPU time";
            let ran = Fact::new(format!("neighbour_{place}"), words, source);
            let of_both = beside.placed.peer.iter().flat_map(Peer::facts);
            let of_both = of_both.map(|Fact { key, value, source }| {
                Fact::new(format!("neighbour_{place}_{key}"), value, source)
            });
            seen.prove(FactPlace::Neighbours, std::iter::once(ran).chain(of_both));
            let used = used.map(|used| (format!("neighbour_{place}_cpu_ns"), real(used.0)));
            seen.conditions.extend(used);
            seen.beside.extend(readings);
        }
        if let Some(waited) = waited {
            seen.conditions.push((String::from("cpu_wait_ns"), real(waited.0)));
            seen.kept_waiting = waited.min(used_by_all);
        }
        Ok(())
    }

    fn stop(self: Box<Self>) -> Vec<String> {
        let mut left = Vec::new();
        for mut beside in self.all {
            beside.end();
            left.extend(beside.placed.stop(&mut |_, _| {}).0);
        }
        left
    }
}

impl Beside {
    /// Starts its stack, and the outside where its workload has another side.
    fn prepare(
        neighbour: &Neighbour,
        place: usize,
        command: &Command,
        context: &StartContext<'_>,
        name: &str,
    ) -> Result<Self, NotPlaced> {
        let Neighbour { workload, stack } = neighbour;
        let work = TrialWorkload::beside(workload, place).map_err(NotPlaced::before)?;
        let no_workload = || NotPlaced::before(Fault::bug("a neighbour has no workload"));
        let definition = work.definition.clone().ok_or_else(no_workload)?;
        let words = definition.command.clone();
        // Both sides go on through all warm-ups and iterations, each of which may take as long as a
        // command may.
        let endless = Command { deadline: Nanoseconds(0), ..like(command, &words) };
        let on = StartContext { network: None, ..*context };
        let placed = Placed::place(work, stack, endless, &on, name, &mut |_, _| {})?;
        Ok(Self {
            definition,
            placed,
            words: neighbour.to_string(),
            running: Vec::new(),
            watch: None,
            payer_count: 0,
        })
    }

    /// Lists who works for it on this level.
    fn payers(&self) -> Vec<Payer> {
        let outside = self.placed.peer.as_ref().map(Peer::payers).unwrap_or_default();
        self.placed.running.payers().into_iter().chain(outside).collect()
    }

    fn start(&mut self, stage: &Stage<'_>) -> Result<(), Fault> {
        let deadline = stage.plan.command_deadline();
        let prepared =
            self.placed.with_steps(deadline, |work, command, run| work.prepare(command, run))?;
        if let Some(why) = prepared.flaw {
            return Err(Fault::machine(why));
        }
        let Placed { peer, running, command, .. } = &mut self.placed;
        self.running = match peer {
            Some(peer) => peer.begin(running)?.to_vec(),
            None => {
                let began = begin(running, command, &mut Overheard::default())?;
                vec![(Side::Stack, began)]
            }
        };
        let waiting = clock::monotonic_raw();
        while Duration::from(clock::monotonic_raw().since(waiting)) < WARM {
            let watch = Watch::begin(self.payers(), stage.level, stage.hierarchies);
            std::thread::sleep(LOOK);
            if let Some(status) = self.ended()? {
                let what = format!("it ended before the command began, with {status}");
                return Err(Fault::machine(what).hint(self.advice()));
            }
            if used(&watch.end()).is_some_and(|used| used > Nanoseconds(0)) {
                return Ok(());
            }
        }
        Err(Fault::machine(format!("it used no CPU time in {} s", WARM.as_secs())))
    }

    /// Returns how it has ended, if it has told of that.
    fn ended(&mut self) -> Result<Option<String>, Fault> {
        for place in 0..self.running.len() {
            let (side, _) = self.running[place];
            let link = self.placed.running(side).link()?;
            if let Some(how) = told_of_its_end(link.listener.as_mut())? {
                self.running.remove(place);
                return Ok(Some(how));
            }
        }
        Ok(None)
    }

    /// Advises what helps where it has ended too early.
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
            let running = self.placed.running(side);
            let told = running.link().and_then(|link| link.send(&Request::Cancel));
            if told.is_ok() {
                let _ = finish(running, began, LAST, &mut Overheard::default());
            }
        }
        let _ = self.placed.with_steps(LAST, |work, command, run| work.clean_up(command, run));
    }
}

/// Returns how the command in a stack has ended, if its agent has told of that.
///
/// # Errors
/// The machine's: the agent is gone. The inside's: it says one thing after another, and no end.
fn told_of_its_end(listener: &mut dyn Listener) -> Result<Option<String>, Fault> {
    for _ in 0..REPLIES_MOST {
        let Some(said) = listener.wait(Duration::ZERO)? else { return Ok(None) };
        match said.reply {
            Reply::Exited(outcome) => return Ok(Some(outcome.status.to_string())),
            Reply::Failed(failure) => return Ok(Some(refused(failure).message)),
            _ => {}
        }
    }
    Err(Fault::inside(format!("its agent gave {REPLIES_MOST} replies that nobody had asked for")))
}

fn during(words: &str, fault: Fault) -> Fault {
    fault.during(format!("the neighbour `{words}`"))
}

/// The CPU time of all payers that carry nobody else, as this level counts it; `None` where that of
/// one could not be read.
fn used(readings: &[Reading]) -> Option<Nanoseconds> {
    readings.iter().try_fold(Nanoseconds(0), |sum, it| Some(sum + it.cpu_total()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::Talker;
    use crate::fault::Blame;
    use surtax_instrument::wire::Failure;

    #[test]
    fn an_agent_that_talks_without_end_is_not_listened_to_without_end() {
        let end = Reply::Failed(Failure::of("no memory"));
        let talker = |ahead| Talker::new(Reply::Written, ahead, end.clone());
        let said = told_of_its_end(&mut talker(2));
        assert_eq!(said, Ok(Some(String::from("no memory"))));
        let fault = told_of_its_end(&mut talker(usize::MAX)).unwrap_err();
        assert_eq!(fault.blame, Blame::Inside);
        assert!(fault.message.starts_with("its agent gave 64 replies"), "{fault}");
    }
}
