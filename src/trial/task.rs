//! The parts of a trial that only a workload has: its tool's version, its set-up, reading its numbers,
//! its clean-up. Nothing of that is measured, and of an ordinary command there is none.

use super::meeting::Bridge;
use super::opposite::{self, Opposite};
use crate::fault::Fault;
use crate::layer::{Network, Unavailable};
use crate::plan::Plan;
use crate::stack::StackSpec;
use crate::stack::rise::{Ground, Standing};
use crate::workload::definition::Version;
use crate::workload::{
    Definition, Histogrammed, Instanced, Metric, OUTPUT_LIMIT, Reading, SETTING, Workload,
};
use std::collections::BTreeMap;
use surtax_instrument::wire::{Command, Fact, Instance, Outcome, Output, Status};
use surtax_statistics::{Sample, Summary};

/// How much of what a failed set-up said last is told, in characters.
const SAID_MAX: usize = 300;

/// What an instance took, by the clock of the innermost level.
const WALL_OF_INSTANCE: &str = "wall_ns";

/// What is between two settings of one start.
const THEN: &str = "; then ";

/// Whether a server says that somebody else listens where it should, in whatever words.
fn is_taken(said: &str) -> bool {
    let said = said.to_lowercase();
    ["address already in use", "address in use", "eaddrinuse"]
        .iter()
        .any(|sign| said.contains(sign))
}

/// What a plan's trials do beside their command.
pub(super) struct Task {
    pub(super) workload: Option<Workload>,
    pub(super) definition: Option<Definition>,
    /// Of a workload of which several run at once: each.
    pub(super) instances: Vec<Definition>,
    /// How many run at once.
    pub(super) count: u32,
    /// Where its server listens, if that had to be settled.
    pub(super) port: Option<Fact>,
    pub(super) role: Role,
}

/// What a workload is in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that is measured.
    Measured,
    /// The neighbour of this number, counted from 0.
    Neighbour(usize),
}

impl Role {
    /// What a workload in this role executes.
    pub(super) fn definition(self, workload: &Workload) -> Result<Definition, Fault> {
        let mut definition = workload.resolve()?;
        if let (Self::Neighbour(_), Some(words)) = (self, &definition.beside) {
            definition.command.clone_from(words);
        }
        Ok(definition)
    }
}

/// What is known before the command runs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Prepared {
    /// What the tool said about itself.
    pub(super) facts: Vec<Fact>,
    /// Why no number of it will be believed.
    pub(super) flaw: Option<String>,
}

impl Task {
    pub(super) fn of(plan: &Plan) -> Result<Self, Fault> {
        let definition =
            plan.workload.as_ref().map(crate::workload::Workload::resolve).transpose()?;
        let count = plan.conduct.instances;
        let instances = match &plan.workload {
            Some(workload) if count > 1 => workload.instances(count)?,
            _ => Vec::new(),
        };
        let (workload, role) = (plan.workload.clone(), Role::Measured);
        Ok(Self { workload, definition, instances, count, port: None, role })
    }

    /// That of a neighbour, which goes on for as long as its workload can.
    ///
    /// # Errors
    /// As [`Workload::resolve`].
    pub(super) fn beside(workload: &Workload, place: usize) -> Result<Self, Fault> {
        let (workload, role) = (workload.for_long()?, Role::Neighbour(place));
        let definition = Some(role.definition(&workload)?);
        let (instances, count) = (Vec::new(), 1);
        Ok(Self { workload: Some(workload), definition, instances, count, port: None, role })
    }

    /// Makes of the command so many as the plan has at once.
    pub(super) fn multiply(&self, command: &mut Command) {
        if self.count < 2 {
            return;
        }
        let bytes = |words: &Vec<String>| words.iter().map(|word| word.clone().into()).collect();
        command.instances = match self.definition {
            Some(_) => self.instances.iter().map(|it| bytes(&it.command)).collect(),
            None => (0..self.count).map(|_| command.argv.clone()).collect(),
        };
    }

    /// How many ran at once, where that was asked for.
    pub(super) fn instances(&self) -> Option<Fact> {
        let source = "the agent, which let them go at once and told how each ended";
        (self.count > 1).then(|| Fact::new("instances", self.count.to_string(), source))
    }

    /// The steps of a set-up or a clean-up, those of each instance where they differ.
    fn steps(&self, of: fn(&Definition) -> &Vec<Vec<String>>) -> Vec<Vec<String>> {
        let mut steps: Vec<Vec<String>> = Vec::new();
        let all = if self.count < 2 { self.definition.as_slice() } else { &self.instances };
        let count = all.first().map_or(0, |first| of(first).len());
        for place in 0..count {
            let first = steps.len();
            for step in all.iter().filter_map(|it| of(it).get(place)) {
                if !steps[first..].contains(step) {
                    steps.push(step.clone());
                }
            }
        }
        steps
    }

    /// The command that runs in the stack, which is the server of a workload whose client is outside.
    pub(super) fn inside(&self, command: &Command) -> Command {
        opposite::inside(self.definition.as_ref(), command)
    }

    /// The other side of a workload that has two, with the port of either settled.
    pub(super) fn opposite(
        &mut self,
        standing: &Standing,
        command: &mut Command,
        ground: &Ground<'_>,
        name: &str,
    ) -> Result<Option<Opposite>, Fault> {
        self.settle_port(standing.network(), ground.lab, command)?;
        let Some(definition) = &self.definition else { return Ok(None) };
        if let Some((network, port)) = self.served_by(standing) {
            opposite::call(definition, network, port, command)?;
            return Ok(None);
        }
        let sides = if self.count < 2 { std::slice::from_ref(definition) } else { &self.instances };
        Opposite::open(definition, sides, standing, command, ground, name)
    }

    /// The bridge on which both sides meet, where neither makes one.
    pub(super) fn between(
        &self,
        stack: &StackSpec,
        ground: &Ground<'_>,
        name: &str,
    ) -> Result<Option<Bridge>, Fault> {
        let Some(definition) = &self.definition else { return Ok(None) };
        Bridge::between(definition, stack, ground, name)
    }

    /// The network and the port at which what was booted serves by itself, for a workload that has a server.
    fn served_by<'a>(&self, standing: &'a Standing) -> Option<(&'a Network, u16)> {
        self.definition.as_ref()?.server.as_ref()?;
        let network = standing.network()?;
        Some((network, network.serves?))
    }

    /// Where the sides were, if what was booted is the server; the port of another one, if that was settled.
    pub(super) fn places(&self, standing: &Standing) -> Vec<Fact> {
        let Some((network, port)) = self.served_by(standing) else {
            return self.port.clone().into_iter().collect();
        };
        let address = network.workload.unwrap_or(network.outside);
        vec![
            Fact::new("client_place", "beside the image, which is the server", "the recipe"),
            Fact::new("server_address", format!("{address}:{port}"), "the recipe, and its answers"),
        ]
    }

    /// Why a stack cannot have its side of a workload that has two.
    pub(super) fn gap(&self, stack: &StackSpec) -> Option<Unavailable> {
        opposite::gap(self.definition.as_ref()?, stack)
    }

    /// Asks the tool for its version, and sets up; `run` runs a command in the stack.
    pub(super) fn prepare(
        &self,
        command: &Command,
        mut run: impl FnMut(&Command) -> Result<Outcome, Fault>,
    ) -> Result<Prepared, Fault> {
        let Some(definition) = &self.definition else { return Ok(Prepared::default()) };
        let mut prepared = Prepared::default();
        if let Some(version) = &definition.version {
            let ended = run(&like(command, &version.command));
            let ended = ended.map_err(|fault| self.explained(fault))?;
            match version_of(version, &ended) {
                Ok(found) => {
                    let asked = version.command.join(" ");
                    prepared.facts.push(Fact::new("workload_version", &found, &asked));
                }
                Err(why) => prepared.flaw = Some(why),
            }
        }
        for step in self.steps(|it| &it.setup) {
            let ended = run(&like(command, &step)).map_err(|fault| self.explained(fault))?;
            require_success("the set-up", &step, &ended).map_err(|fault| self.explained(fault))?;
        }
        Ok(prepared)
    }

    /// Says which package a tool is in that could not be started, by us or by a shell, and what helps where a
    /// medium is full.
    pub(super) fn explained(&self, fault: Fault) -> Fault {
        if fault.message.contains("No space left on device") {
            return fault
                .hint("take a smaller data set (the workload's parameters), or a larger medium");
        }
        let port = self.definition.as_ref().and_then(|it| it.port);
        if let Some(port) = port.filter(|_| is_taken(&fault.message)) {
            let whose =
                crate::lab::listener(port).map_or_else(String::new, |who| format!(" of {who}"));
            return fault.hint(format!(
                "port {port} is taken here: wait for the end{whose}, or take another by the workload's `port=`"
            ));
        }
        let remedy = self.definition.as_ref().and_then(Definition::remedy);
        // A shell ends with 127 where it does not find a program.
        let signs = ["cannot start `", "ended with exit 127"];
        match remedy.filter(|_| signs.iter().any(|sign| fault.message.contains(sign))) {
            Some(remedy) => fault.hint(remedy),
            None => fault,
        }
    }

    /// Cleans up.
    pub(super) fn clean_up(
        &self,
        command: &Command,
        mut run: impl FnMut(&Command) -> Result<Outcome, Fault>,
    ) -> Result<(), Fault> {
        for step in self.steps(|it| &it.cleanup) {
            let ended = run(&like(command, &step))?;
            require_success("the clean-up", &step, &ended)?;
        }
        Ok(())
    }

    /// The numbers of all runs of the command: medians, and histograms merged. Nothing of runs that
    /// failed.
    ///
    /// # Errors
    /// Why they cannot be believed.
    pub(super) fn read<'a>(
        &self,
        outcomes: impl Iterator<Item = &'a Outcome>,
    ) -> Result<Reading, String> {
        let mut readings = Vec::new();
        for outcome in outcomes.filter(|outcome| outcome.status == Status::Exit(0)) {
            readings.push(if self.count < 2 {
                self.read_one(&outcome.stdout, &outcome.stderr)?
            } else {
                self.read_each(outcome)?
            });
        }
        Ok(whole(readings))
    }

    /// The numbers of several instances that ran at once, and the time that each took.
    fn read_each(&self, outcome: &Outcome) -> Result<Reading, String> {
        let (asked, ran) = (self.count, outcome.instances.len());
        if u32::try_from(ran) != Ok(asked) {
            return Err(format!("{asked} instances were to run at once, and {ran} are known of"));
        }
        let read = |(number, it): (u32, &Instance)| {
            let read = self.read_one(&it.stdout, &it.stderr);
            read.map_err(|why| format!("instance {number} of {asked}: {why}"))
        };
        let readings: Vec<Reading> =
            (0..).zip(&outcome.instances).map(read).collect::<Result<_, _>>()?;
        let mut all =
            self.definition.as_ref().map_or_else(Reading::default, |it| it.together(readings));
        #[expect(clippy::cast_precision_loss, reason = "a day in nanoseconds is below 2^53")]
        let wall = |(instance, it): (u32, &Instance)| Instanced {
            instance,
            metric: String::from(WALL_OF_INSTANCE),
            unit: "ns",
            value: it.wall.0 as f64,
        };
        all.instances.extend((0..).zip(&outcome.instances).map(wall));
        Ok(all)
    }

    /// The numbers in what one process printed.
    fn read_one(&self, stdout: &Output, stderr: &Output) -> Result<Reading, String> {
        let Some(definition) = &self.definition else { return Ok(Reading::default()) };
        if u64::try_from(stdout.tail.len()) != Ok(stdout.length.0) {
            return Err(format!(
                "it printed {}, and no more than {} KiB are read, of several instances together 640",
                stdout.length,
                OUTPUT_LIMIT >> 10
            ));
        }
        let said = [&stdout.tail, &stderr.tail].map(|it| String::from_utf8_lossy(it));
        definition.read_beside(&said[0], &said[1])
    }
}

/// What a workload says that it was measured with.
pub(super) fn settings(read: &Reading) -> Vec<Fact> {
    let fact = |(name, value): &(String, String)| {
        Fact::new(format!("{SETTING}{name}"), value, "what the workload says")
    };
    read.settings.iter().map(fact).collect()
}

/// Another command in the place of the one that is measured.
pub(super) fn like(command: &Command, argv: &[String]) -> Command {
    let argv = argv.iter().map(|word| word.clone().into_bytes()).collect();
    Command { argv, instances: Vec::new(), ..command.clone() }
}

fn version_of(version: &Version, ended: &Outcome) -> Result<String, String> {
    // Some tools print their version on standard error, and some leave with a status that says nothing.
    let said = [&ended.stdout.tail, &ended.stderr.tail].map(|tail| String::from_utf8_lossy(tail));
    let [stdout, stderr] = said;
    version.read(if stdout.trim().is_empty() { &stderr } else { &stdout })
}

pub(super) fn require_success(what: &str, step: &[String], ended: &Outcome) -> Result<(), Fault> {
    if ended.status == Status::Exit(0) {
        return Ok(());
    }
    let said = [&ended.stderr.tail, &ended.stdout.tail].map(|tail| String::from_utf8_lossy(tail));
    let said = said.iter().map(|said| said.trim()).find(|said| !said.is_empty());
    let said = said.map_or(String::from(", and said nothing"), |said| {
        // What a program says last is why it ended.
        let before = said.chars().count().saturating_sub(SAID_MAX);
        format!(": {}", said.chars().skip(before).collect::<String>())
    });
    let (step, status) = (step.join(" "), &ended.status);
    Err(Fault::machine(format!("{what} `{step}` of the workload ended with {status}{said}")))
}

/// Several runs in one start as one reading: a metric counts where every run has it.
fn whole(readings: Vec<Reading>) -> Reading {
    let count = readings.len();
    let mut readings = readings.into_iter();
    let Some(mut all) = readings.next() else { return Reading::default() };
    if count == 1 {
        return all;
    }
    let mut of_instances: BTreeMap<(u32, String), Vec<f64>> = BTreeMap::new();
    let mut note_instances = |found: &[Instanced]| {
        for it in found {
            of_instances.entry((it.instance, it.metric.clone())).or_default().push(it.value);
        }
    };
    note_instances(&all.instances);
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut note = |metrics: &[Metric]| {
        for metric in metrics {
            values.entry(metric.name.clone()).or_default().push(metric.value);
        }
    };
    note(&all.metrics);
    for reading in readings {
        note(&reading.metrics);
        note_instances(&reading.instances);
        for absence in reading.absences {
            if all.absences.iter().all(|known| known.metric != absence.metric) {
                all.absences.push(absence);
            }
        }
        for Histogrammed { name, histogram } in reading.histograms {
            if let Some(sum) = all.histograms.iter_mut().find(|sum| sum.name == name) {
                sum.histogram.merge(&histogram);
            }
        }
        for ((_, known), (_, said)) in all.settings.iter_mut().zip(reading.settings) {
            if !known.split(THEN).any(|one| one == said) {
                *known = format!("{known}{THEN}{said}");
            }
        }
    }
    let settle = |value: &mut f64, values: Option<&Vec<f64>>| {
        let values = values.filter(|values| values.len() == count);
        let sample = values.and_then(|values| Sample::counts(values).ok());
        let median = sample.map(|sample| Summary::of(&sample).median);
        *value = median.unwrap_or(*value);
        median.is_some()
    };
    all.metrics.retain_mut(|it| settle(&mut it.value, values.get(&it.name)));
    all.instances.retain_mut(|it| {
        let key = (it.instance, it.metric.clone());
        settle(&mut it.value, of_instances.get(&key))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::quantity::{Bytes, Nanoseconds};
    use surtax_instrument::wire::Output;

    fn ended(code: i32, stdout: &str, stderr: &str) -> Outcome {
        let output = |text: &str| Output { tail: text.into(), ..Output::default() };
        Outcome {
            status: Status::Exit(code),
            wall: Nanoseconds(1),
            cpu_user: Nanoseconds(1),
            cpu_system: Nanoseconds(0),
            memory_peak: Bytes(1),
            stdout: output(stdout),
            stderr: output(stderr),
            instances: Vec::new(),
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
        }
    }

    #[test]
    fn a_failed_set_up_is_told_with_what_was_said_last_on_either_stream() {
        let step = [String::from("false")];
        let told = |stdout: &str, stderr: &str| {
            require_success("the set-up", &step, &ended(1, stdout, stderr)).unwrap_err().message
        };
        let begin = "the set-up `false` of the workload ended with exit 1";
        assert_eq!(told("", "\n"), format!("{begin}, and said nothing"));
        assert_eq!(told("out\n", ""), format!("{begin}: out"));
        assert_eq!(told("out\n", "err\n"), format!("{begin}: err"));
        let long = format!("{}the reason", "x".repeat(2 * SAID_MAX));
        assert!(told(&long, "").ends_with("xthe reason"));
        assert!(require_success("the set-up", &step, &ended(0, "", "err")).is_ok());
    }
}
