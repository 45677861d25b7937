//! Asks which file the command was, after it has ended, so that it was in no cache because of us.

use super::acts::Who;
use super::command_run::grace;
use super::companion::{Companion, FactPlace, Seen};
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::agent::unexpected;
use crate::fault::Fault;
use surtax_instrument::wire::{Reply, Request};

/// The look at the file.
pub(super) struct Program;

impl Companion for Program {
    fn who(&self) -> Who {
        Who::Program
    }

    fn end(&mut self, stage: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let command = stage.inside();
        let running = &mut stage.placed.running;
        let grace = grace(running);
        match running.link()?.ask(&Request::Resolve(command), grace)?.reply {
            Reply::Identity(facts) => {
                seen.prove(FactPlace::Program, facts);
                Ok(())
            }
            other => Err(unexpected(&other, "the question which file the command is")),
        }
    }
}
