//! Conversation with the inside of a layer: its first frame, what it sees, its last one.

use crate::agent::{Link, Listener, unexpected};
use crate::fault::Fault;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Fact, PROTOCOL, Reply, Request};

/// Hint for an inside that says nothing at all.
const MORE_TIME: &str = "allow it more with `--start-deadline`, if it is only slow";

/// Shortest time limit for an answer of the inside.
const ANSWER_LEAST: Duration = Duration::from_secs(20);

/// Returns the time limit for an inside to answer a question that is soon answered: on a machine
/// where a start may take long, so may that.
pub(super) fn patience(start_deadline: Duration) -> Duration {
    start_deadline.max(ANSWER_LEAST)
}

/// Asks for the end, and waits for the last frame.
pub(super) fn stop_and_wait(link: &mut Link, patience: Duration) -> Result<(), Fault> {
    link.send(&Request::Stop)?;
    wait_for_last(link.listener.as_mut(), patience)
}

/// Waits for the last frame, past whatever was on its way: for so long, also where one frame after
/// another is there already.
pub(super) fn wait_for_last(listener: &mut dyn Listener, patience: Duration) -> Result<(), Fault> {
    let began = clock::monotonic_raw();
    loop {
        let passed = Duration::from(clock::monotonic_raw().since(began));
        let left = patience.saturating_sub(passed);
        if listener.receive(left)?.reply == Reply::Stopped {
            return Ok(());
        }
        if left.is_zero() {
            return Err(listener.silence(patience));
        }
    }
}

/// Waits for the first frame.
pub(super) fn greet(
    link: &mut Link,
    who: &str,
    deadline: Duration,
    has_ended: &mut dyn FnMut() -> bool,
) -> Result<Nanoseconds, Fault> {
    let asked = clock::monotonic_raw();
    // Nobody starts in no time, also who was quick enough to have spoken already.
    let answer = if deadline.is_zero() {
        Err(link.listener.silence(deadline))
    } else {
        link.listener.receive_from_living(deadline, has_ended)
    };
    let first = answer.map_err(|fault| {
        let is_silent = Duration::from(clock::monotonic_raw().since(asked)) >= deadline;
        let is_bare = fault.hint.is_none();
        if is_silent && is_bare { fault.hint(MORE_TIME) } else { fault }
    })?;
    match first.reply {
        Reply::Hello(hello) if hello.protocol == PROTOCOL => Ok(first.at),
        Reply::Hello(hello) => Err(Fault::bug(format!(
            "the agent in `{who}` speaks protocol {}, and this program {PROTOCOL}",
            hello.protocol
        ))),
        other => Err(unexpected(&other, "nothing: it was to say hello")),
    }
}

/// Asks an inside what it sees.
pub(super) fn identify(link: &mut Link, patience: Duration) -> Result<Vec<Fact>, Fault> {
    match link.ask(&Request::Identify, patience)?.reply {
        Reply::Identity(facts) => Ok(facts),
        other => Err(unexpected(&other, "the question what it sees")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::Talker;

    #[test]
    fn an_inside_that_talks_without_end_is_given_up_in_time() {
        let talker = |ahead| Talker::new(Reply::Written, ahead, Reply::Stopped);
        let long = Duration::from_secs(20);
        assert_eq!(wait_for_last(&mut talker(2), long), Ok(()));
        let fault = wait_for_last(&mut talker(usize::MAX), Duration::from_millis(20)).unwrap_err();
        assert_eq!(fault.message, "it did not stop");
    }
}
