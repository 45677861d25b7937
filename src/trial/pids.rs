//! Says, of a process that could not be made, which layer's limit on their number is the likely
//! reason: the kernel says only that the resource is unavailable for the moment.

use crate::fault::Fault;
use crate::layer::{LayerSpec, StackSpec};
use surtax_instrument::wire::Cause;

/// With so many processes and threads every container starts a command; LXC and Podman fail with 2.
const START_LEAST: u32 = 32;

/// The same fault; where a limit may be its reason and nothing else is advised, with a hint.
#[must_use]
pub fn explained(stack: &StackSpec, fault: Fault) -> Fault {
    let limited = stack.layers.iter().rev().filter_map(|layer| Some((limit(layer)?, layer)));
    let smallest = limited.min_by_key(|(count, _)| *count);
    let is_it = fault.hint.is_none() && fault.cause == Some(Cause::TooManyProcesses);
    let Some((count, layer)) = smallest.filter(|_| is_it) else { return fault };
    let (kind, least) = (&layer.kind, count.saturating_mul(2).max(START_LEAST));
    fault.hint(format!(
        "the limit `pids={count}` may be too small: give it `{kind}:pids={least}` or more"
    ))
}

fn limit(layer: &LayerSpec) -> Option<u32> {
    layer.limits().ok()?.pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_could_not_be_made_is_explained_by_the_smallest_limit() {
        let hint = |stack: &str, cause: Option<Cause>| {
            let stack = crate::driver::parse(stack).unwrap();
            explained(&stack, Fault::machine("cannot start `true`").because(cause)).hint
        };
        let error = std::io::Error::from_raw_os_error(libc::EAGAIN);
        let cause = Cause::of_start(&error);
        for (stack, told) in [
            ("runc:pids=1", "the limit `pids=1` may be too small: give it `runc:pids=32` or more"),
            ("runc:pids=60+crun:pids=40", "`pids=40` may be too small: give it `crun:pids=80`"),
        ] {
            let found = hint(stack, cause);
            assert!(found.as_ref().is_some_and(|hint| hint.contains(told)), "{stack}: {found:?}");
        }
        assert_eq!(hint("runc", cause), None);
        assert_eq!(hint("runc:pids=1", Some(Cause::NoSuchProgram)), None);
    }
}
