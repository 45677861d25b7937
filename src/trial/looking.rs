//! Looks at this level again and again while the command runs, where the trial has a timeline.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::conditions::real;
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::fault::Fault;
use crate::layer::Payer;
use crate::stack::sampler::Sampler;
use surtax_instrument::quantity::Nanoseconds;

/// Whoever looks at this level.
#[derive(Default)]
pub(super) struct Looking {
    sampler: Option<Sampler>,
    payers: Vec<Payer>,
    took: Nanoseconds,
}

impl Looking {
    /// Looks at these payers from now on.
    fn at(&mut self, payers: Vec<Payer>, stage: &Stage<'_>) {
        let Some(every) = stage.recorder.every else { return };
        self.finish();
        let keep = stage.recorder.keeper();
        let all: Vec<Payer> = payers.iter().cloned().chain(Payer::whole_machine()).collect();
        self.sampler = Some(Sampler::begin(all, stage.level, stage.hierarchies, every, keep));
        self.payers = payers;
    }

    fn finish(&mut self) {
        self.took += self.sampler.take().map(Sampler::end).unwrap_or_default();
    }
}

impl Companion for Looking {
    fn who(&self) -> Who {
        Who::Timeline
    }

    /// Looks also while it warms up.
    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        self.at(stage.placed.running.payers(), stage);
        Ok(())
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        if self.payers != stage.payers {
            self.at(stage.payers.clone(), stage);
        }
    }

    fn end(&mut self, stage: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        self.finish();
        if stage.recorder.every.is_some() {
            seen.conditions.push((String::from("timeline_cpu_ns"), real(self.took.0)));
        }
        Ok(())
    }

    fn stop(mut self: Box<Self>) -> Vec<String> {
        self.finish();
        Vec::new()
    }
}
