//! Counts the command's system calls, in a trial that is in no time.
//!
//! Whoever sees the command's agent as a process counts: this surtax, or else a starter or the
//! agent on a deeper level, whose word it then is.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::fault::Fault;
use std::io;
use surtax_instrument::calls::Counter;
use surtax_instrument::wire::Calls;

/// System calls of one run of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedCalls {
    /// True where this level's kernel counted; else it is the word of a deeper one.
    pub is_of_this_level: bool,
    /// Calls, or why nobody could count them.
    pub calls: Calls,
}

/// The counter of this level, where the command's agent is a process of it.
#[derive(Default)]
pub(super) struct Counting {
    counter: Option<io::Result<Counter>>,
}

impl Companion for Counting {
    fn who(&self) -> Who {
        Who::Counting
    }

    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        stage.placed.command.counts_calls = stage.placed.running.agent().is_none();
        Ok(())
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        self.counter = stage.placed.running.agent().map(Counter::begin);
    }

    fn end(&mut self, _: &mut Stage<'_>, runs: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let own = self.counter.take().map(|counter| Calls::of(counter.and_then(Counter::end)));
        let is_of_this_level = own.is_some();
        let told = || runs.first().and_then(|ran| ran.outcome.calls.as_deref().cloned());
        let nobody =
            || Calls { failure: String::from("nobody there counts them"), ..Calls::default() };
        let calls = own.or_else(told).unwrap_or_else(nobody);
        seen.calls = Some(CountedCalls { is_of_this_level, calls });
        Ok(())
    }
}
