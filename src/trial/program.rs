//! Asks which file the command was: before it, without a look into the file, so that nothing of it
//! is in a cache because of us; and after it, with its content.
//!
//! Whoever writes into the file meanwhile, or puts another there, changes its state. What was read
//! then is not what ran, and it is said so in place of the hash.

use super::acts::Who;
use super::command_run::grace;
use super::companion::{Companion, FactPlace, Seen};
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::agent::unexpected;
use crate::fault::Fault;
use surtax_instrument::wire::{COMMAND_FILE_STATE, Command, Fact, Reply, Request};

/// Key of the fact that the file was changed, or another, when the command had ended.
pub(crate) const CHANGED: &str = "command_file_changed";

/// The look at the file.
#[derive(Default)]
pub(super) struct Program {
    before: Option<String>,
}

impl Companion for Program {
    fn who(&self) -> Who {
        Who::Program
    }

    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        let (_, state) = ask(stage, Request::Locate)?;
        self.before = state;
        Ok(())
    }

    fn end(&mut self, stage: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let (facts, after) = ask(stage, Request::Resolve)?;
        seen.prove(FactPlace::Program, held_against(self.before.as_deref(), facts, after));
        Ok(())
    }
}

/// Asks for facts, of which the state of the file is given apart.
fn ask(
    stage: &mut Stage<'_>,
    question: fn(Command) -> Request,
) -> Result<(Vec<Fact>, Option<String>), Fault> {
    let command = stage.inside();
    let running = &mut stage.placed.running;
    let grace = grace(running);
    match running.link()?.ask(&question(command), grace)?.reply {
        Reply::Identity(mut facts) => {
            let is_state = |fact: &mut Fact| fact.key == COMMAND_FILE_STATE;
            let state = facts.extract_if(.., is_state).last().map(|fact| fact.value);
            Ok((facts, state))
        }
        other => Err(unexpected(&other, "the question which file the command is")),
    }
}

/// Facts that are known of the file that ran. Of one whose state nobody told before, such as an
/// image's, they are as they were told.
fn held_against(before: Option<&str>, facts: Vec<Fact>, after: Option<String>) -> Vec<Fact> {
    if before.is_none() || before == after.as_deref() {
        return facts;
    }
    let said = match after {
        Some(_) => "it was changed while the command ran",
        None => "it is gone",
    };
    let kept = facts.into_iter().filter(|fact| fact.key == "command_file");
    kept.chain([Fact::new(CHANGED, said, "stat(2) before and after the command")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(before: Option<&str>, after: Option<&str>) -> Vec<String> {
        let read = ["command_file", "command_file_bytes", "command_file_xxh3"];
        let read = if after.is_some() { read.as_slice() } else { &[] };
        let facts = read.iter().map(|key| Fact::new(*key, "it", "a test")).collect();
        let found = held_against(before, facts, after.map(String::from));
        found.into_iter().map(|fact| fact.key).collect()
    }

    #[test]
    fn what_is_read_of_a_file_that_was_changed_meanwhile_is_no_fact_of_what_ran() {
        let all = ["command_file", "command_file_bytes", "command_file_xxh3"];
        assert_eq!(keys(Some("1:2 9 0.5"), Some("1:2 9 0.5")), all);
        assert_eq!(keys(Some("1:2 9 0.5"), Some("1:2 9 0.6")), ["command_file", CHANGED]);
        assert_eq!(keys(Some("1:2 9 0.5"), None), [CHANGED]);
    }

    #[test]
    fn who_shows_no_files_says_what_it_said_before() {
        assert_eq!(keys(None, Some("1:2 9 0.5")).len(), 3, "an appliance's image");
        assert_eq!(keys(None, None), [""; 0]);
    }
}
