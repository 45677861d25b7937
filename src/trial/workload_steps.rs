//! What a workload does around its command: it says its version and sets up before, and is read and cleans up after.

use super::acts::Who;
use super::companion::{Companion, Place, Seen};
use super::iterate::Ran;
use super::opposite::Opposite;
use super::stage::{Placed, Stage};
use super::task::settings;
use crate::fault::Fault;
use surtax_instrument::wire::Fact;

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
            stage.placed.with_steps(deadline, |task, command, run| task.prepare(command, run))?;
        (self.0, self.1) = (prepared.facts, prepared.flaw);
        Ok(())
    }

    fn end(&mut self, stage: &mut Stage<'_>, runs: &[Ran], seen: &mut Seen) -> Result<(), Fault> {
        let Placed { task, standing, opposite, .. } = &*stage.placed;
        seen.prove(Place::Workload, std::mem::take(&mut self.0));
        seen.prove(Place::Workload, task.instances());
        seen.prove(Place::Workload, task.places(standing));
        seen.prove(Place::Peer, opposite.iter().flat_map(Opposite::facts));
        seen.flaws.prepared = self.1.take();
        match task.read(runs.iter().map(|ran| &ran.outcome)) {
            Ok(reading) => {
                seen.prove(Place::Settings, settings(&reading));
                seen.workload = reading;
            }
            Err(why) => seen.flaws.reading = Some(why),
        }
        let deadline = stage.plan.command_deadline();
        stage.placed.with_steps(deadline, |task, command, run| task.clean_up(command, run))
    }

    fn explained(&self, stage: &Stage<'_>, fault: Fault) -> Fault {
        stage.placed.task.explained(fault)
    }
}
