//! Steps of a workload around its command: it says its version and sets up before, and is read and
//! cleans up after.

use super::acts::Who;
use super::companion::{Companion, FactPlace, Seen};
use super::iterate::TimedRun;
use super::peer::Peer;
use super::stage::{Placed, Stage};
use super::trial_workload::TrialWorkload;
use super::workload_reading::settings;
use crate::fault::Fault;
use crate::fault::last_words::cause_of;
use crate::workload::Definition;
use crate::workload::definition::Version;
use surtax_instrument::wire::{Cause, Command, Fact, Outcome, Status};

/// Largest number of characters told of what a failed set-up said last.
const SAID_MAX: usize = 300;

/// The steps, with what they found before the command.
#[derive(Default)]
pub(super) struct WorkloadSteps(Vec<Fact>, Option<String>);

impl Companion for WorkloadSteps {
    fn who(&self) -> Who {
        Who::Workload
    }

    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        let deadline = stage.plan.command_deadline();
        let prepared =
            stage.placed.with_steps(deadline, |work, command, run| work.prepare(command, run))?;
        (self.0, self.1) = (prepared.facts, prepared.flaw);
        Ok(())
    }

    fn end(
        &mut self,
        stage: &mut Stage<'_>,
        runs: &[TimedRun],
        seen: &mut Seen,
    ) -> Result<(), Fault> {
        let Placed { work, running, peer, .. } = &*stage.placed;
        seen.prove(FactPlace::Workload, std::mem::take(&mut self.0));
        seen.prove(FactPlace::Workload, work.instances());
        seen.prove(FactPlace::Workload, work.places(running));
        seen.prove(FactPlace::Peer, peer.iter().flat_map(Peer::facts));
        seen.flaws.prepared = self.1.take();
        match work.read(runs.iter().map(|ran| &ran.outcome)) {
            Ok(reading) => {
                seen.prove(FactPlace::Settings, settings(&reading));
                seen.workload = reading;
            }
            Err(why) => seen.flaws.reading = Some(why),
        }
        let deadline = stage.plan.command_deadline();
        stage.placed.with_steps(deadline, |work, command, run| work.clean_up(command, run))
    }

    fn explained(&self, stage: &Stage<'_>, fault: Fault) -> Fault {
        stage.placed.work.explained(fault)
    }
}

/// Facts gathered before the command runs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Prepared {
    /// Facts that the tool stated about itself.
    pub(super) facts: Vec<Fact>,
    /// Reason why no number of it will be believed.
    pub(super) flaw: Option<String>,
}

impl TrialWorkload {
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
            require_success(&named("the set-up", &step), &ended)
                .map_err(|fault| self.explained(fault))?;
        }
        Ok(prepared)
    }

    /// Says which package a tool is in that could not be started, by us or by a shell, and what
    /// helps where a medium is full.
    pub(super) fn explained(&self, fault: Fault) -> Fault {
        match fault.cause {
            Some(Cause::NoSpace) => fault
                .hint("take a smaller data set (the workload's parameters), or a larger medium"),
            Some(Cause::PortTaken) => match self.definition.as_ref().and_then(|it| it.port) {
                Some(port) => fault.hint(free(port)),
                None => fault,
            },
            Some(Cause::NoSuchProgram | Cause::NoSuchLibrary) => {
                match self.definition.as_ref().and_then(Definition::remedy) {
                    Some(remedy) => fault.hint(remedy),
                    None => fault,
                }
            }
            _ => fault,
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
            require_success(&named("the clean-up", &step), &ended)?;
        }
        Ok(())
    }
}

/// Advises what to do about a port that somebody else has.
fn free(port: u16) -> String {
    let whose = crate::lab::listener(port).map_or_else(String::new, |who| format!(" of {who}"));
    format!(
        "port {port} is taken here: wait for the end{whose}, or take another by the workload's \
         `port=`"
    )
}

/// Another command in the place of the one that is measured.
pub(super) fn like(command: &Command, argv: &[String]) -> Command {
    let argv = argv.iter().map(|word| word.clone().into_bytes()).collect();
    Command { argv, instances: Vec::new(), ..command.clone() }
}

/// A step by its words.
pub(super) fn named(what: &str, step: &[String]) -> String {
    format!("{what} `{}`", step.join(" "))
}

fn version_of(version: &Version, ended: &Outcome) -> Result<String, String> {
    // Some tools print their version on standard error, and some leave with a status that says
    // nothing.
    let said = [&ended.stdout.tail, &ended.stderr.tail].map(|tail| String::from_utf8_lossy(tail));
    let [stdout, stderr] = said;
    version.read(if stdout.trim().is_empty() { &stderr } else { &stdout })
}

/// Refuses a step that failed, with its last words and the cause that they tell of.
///
/// # Errors
/// The machine's.
fn require_success(what: &str, ended: &Outcome) -> Result<(), Fault> {
    if ended.status == Status::Exit(0) {
        return Ok(());
    }
    let said = [&ended.stderr.tail, &ended.stdout.tail].map(|tail| String::from_utf8_lossy(tail));
    let said = said.iter().map(|said| said.trim()).find(|said| !said.is_empty());
    // What a program says last is why it ended.
    let last = said.map(|said| {
        let before = said.chars().count().saturating_sub(SAID_MAX);
        said.chars().skip(before).collect::<String>()
    });
    // A shell ends with 127 where it does not find a program.
    let absent = (ended.status == Status::Exit(127)).then_some(Cause::NoSuchProgram);
    let cause = last.as_deref().and_then(cause_of).or(absent);
    let told = last.map_or(String::from(", and said nothing"), |last| format!(": {last}"));
    let status = &ended.status;
    Err(Fault::machine(format!("{what} of the workload ended with {status}{told}")).because(cause))
}

/// Requires that a server succeeded. Where its client failed, too, both are told: either may be why
/// the other did.
///
/// # Errors
/// The machine's, as [`require_success`].
pub(super) fn require_server(server: &Outcome, client: &Outcome) -> Result<(), Fault> {
    require_success("the server", server).map_err(|mut fault| {
        if let Err(of_client) = require_success("the client", client) {
            fault.message = format!("{}; {}", fault.message, of_client.message);
            fault.cause = fault.cause.or(of_client.cause);
        }
        fault
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::Amounts;
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
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
        }
    }

    #[test]
    fn a_server_that_failed_with_its_client_is_told_with_what_that_said() {
        let lost = ended(3, "", "the other side has hung up");
        let why = |client| require_server(&lost, &client).unwrap_err().message;
        let of_server = "the server of the workload ended with exit 3: the other side has hung up";
        assert_eq!(why(ended(0, "", "")), of_server);
        let of_client = "the client of the workload ended with exit 2: both ends would poll";
        assert_eq!(why(ended(2, "", "both ends would poll")), format!("{of_server}; {of_client}"));
        assert_eq!(require_server(&ended(0, "", ""), &lost), Ok(()));
    }

    #[test]
    fn a_failed_step_is_told_with_what_was_said_last_on_either_stream() {
        let told = |stdout: &str, stderr: &str| {
            require_success("the set-up `false`", &ended(1, stdout, stderr)).unwrap_err().message
        };
        let begin = "the set-up `false` of the workload ended with exit 1";
        assert_eq!(told("", "\n"), format!("{begin}, and said nothing"));
        assert_eq!(told("out\n", ""), format!("{begin}: out"));
        assert_eq!(told("out\n", "err\n"), format!("{begin}: err"));
        let long = format!("{}the reason", "x".repeat(2 * SAID_MAX));
        assert!(told(&long, "").ends_with("xthe reason"));
        assert!(require_success("the set-up", &ended(0, "", "err")).is_ok());
    }

    #[test]
    fn causes_are_told_of_a_step_that_failed() {
        let cause = |code: i32, said: &str| {
            require_success("the server", &ended(code, "", said)).unwrap_err().cause
        };
        assert_eq!(cause(1, "bind: Address already in use"), Some(Cause::PortTaken));
        assert_eq!(cause(127, "sh: 1: fio: not found"), Some(Cause::NoSuchProgram));
        let loader = "fio: error while loading shared libraries: libaio.so.1: cannot open shared \
                      object file";
        assert_eq!(cause(127, loader), Some(Cause::NoSuchLibrary));
        assert_eq!(cause(1, "no"), None);
    }
}
