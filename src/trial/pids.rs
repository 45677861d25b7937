//! Says which limit on the number of processes was reached: to who asks for one more, the kernel
//! says only that the resource is unavailable for the moment.
//!
//! It is known by what groups count, those of a guest too, and by the kernel's log; where these
//! say nothing, it is the likely reason of a process that could not be made. A trial in which it
//! happened does not count, whatever its command says: it did not do what it was asked to.

use super::Reason;
use super::command::is_engine;
use crate::fault::Fault;
use crate::layer::{LayerSpec, StackSpec};
use std::num::NonZero;
use surtax_instrument::wire::{Cause, Command};

/// With so many processes and threads every container starts a command; LXC and Podman fail with 2.
const START_LEAST: u32 = 32;

/// The engine that is to reach its limit.
const MEANT: &str = "forkbomb";

/// The same fault; where a limit is its reason, or may be, with what helps if nothing else does.
#[must_use]
pub fn explained(stack: &StackSpec, fault: Fault, was_refused: bool) -> Fault {
    let limit = smallest(stack);
    let is_likely = fault.hint.is_none() && fault.cause == Some(Cause::TooManyProcesses);
    let fault = match (was_refused, limit) {
        (true, _) => Fault { message: format!("{}; {}", reached(stack), fault.message), ..fault },
        (false, Some(_)) if is_likely => fault,
        (false, _) => return fault,
    };
    match fault.hint {
        Some(_) => fault,
        None => fault.hint(more(limit)),
    }
}

/// Returns in how many groups a process could not be made, as a condition of the trial.
pub(super) fn condition(refusals: NonZero<usize>) -> (String, f64) {
    (String::from("refused_group_count"), refusals.get() as f64)
}

/// As the reason of a trial that does not count, whose command may have ended well all the same:
/// what it could not start it has not done.
pub(super) fn reason(stack: &StackSpec) -> Reason {
    let why = format!("{}: a process could not be made", reached(stack));
    Reason { why, remedy: Some(more(smallest(stack))) }
}

/// Tells whether the command is there to reach its limit.
pub(super) fn is_meant(command: &Command) -> bool {
    is_engine(command, &[MEANT])
}

/// Describes which limit of a stack was reached, as far as that is known.
fn reached(stack: &StackSpec) -> String {
    let said = |(count, layer): (u32, &LayerSpec)| format!("`pids={count}` of `{}`", layer.kind);
    let all: Vec<String> = limits(stack).map(said).collect();
    match all.as_slice() {
        [] => String::from("a limit on processes was reached that no layer sets"),
        [one] => format!("the limit {one} was reached"),
        all => format!("a limit was reached, {}", all.join(" or ")),
    }
}

fn more(limit: Option<(u32, &LayerSpec)>) -> String {
    let Some((count, layer)) = limit else {
        return String::from(
            "find it, around surtax or inside (`pids.max` of a group, `TasksMax=` of a unit), and \
             raise it",
        );
    };
    let (kind, least) = (&layer.kind, count.saturating_mul(2).max(START_LEAST));
    format!("give it `{kind}:pids={least}` or more, or let the command start fewer processes")
}

/// The limits of a stack with their layers, the innermost first.
fn limits(stack: &StackSpec) -> impl Iterator<Item = (u32, &LayerSpec)> {
    let limit = |layer: &LayerSpec| layer.limits().ok()?.pids;
    stack.layers.iter().rev().filter_map(move |layer| Some((limit(layer)?, layer)))
}

/// Tells whether any of its layers has one.
pub(super) fn has_limit(stack: &StackSpec) -> bool {
    limits(stack).next().is_some()
}

/// The smallest of them; of equal ones the innermost.
fn smallest(stack: &StackSpec) -> Option<(u32, &LayerSpec)> {
    limits(stack).min_by_key(|(count, _)| *count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stack: &str, cause: Option<Cause>, was_refused: bool) -> Fault {
        let stack = crate::driver::parse(stack).unwrap();
        explained(&stack, Fault::machine("cannot start `true`").because(cause), was_refused)
    }

    #[test]
    fn a_process_that_could_not_be_made_is_explained_by_the_smallest_limit() {
        let error = std::io::Error::from_raw_os_error(libc::EAGAIN);
        let cause = Cause::of_start(&error);
        for (stack, told) in [
            ("runc:pids=1", "give it `runc:pids=32` or more"),
            ("runc:pids=60+crun:pids=40", "give it `crun:pids=80` or more"),
        ] {
            let found = said(stack, cause, false).hint;
            assert!(found.as_ref().is_some_and(|hint| hint.contains(told)), "{stack}: {found:?}");
        }
        assert_eq!(said("runc", cause, false).hint, None);
        assert_eq!(said("runc:pids=1", Some(Cause::NoSuchProgram), false).hint, None);
    }

    #[test]
    fn a_limit_that_the_kernel_names_is_the_reason() {
        let found = said("nspawn:pids=2", None, true);
        assert_eq!(
            found.message,
            "the limit `pids=2` of `nspawn` was reached; cannot start `true`"
        );
        assert!(found.hint.unwrap().starts_with("give it `nspawn:pids=32`"));
        let nested = said("runc:pids=20+crun:pids=19", None, true).message;
        assert!(
            nested.starts_with("a limit was reached, `pids=19` of `crun` or `pids=20` of `runc`")
        );
        let of_nobody = said("runc", None, true).message;
        assert!(of_nobody.starts_with("a limit on processes was reached that no layer sets"));
    }
}
