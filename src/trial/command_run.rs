//! One run of a command in a stack that stands: begun, waited for, and what the inside says of it.

use super::concurrency;
use super::iterate::TimedRun;
use super::overheard::Overheard;
use crate::agent::{Answer, Heard, Heartbeat, Link, Stamped, refused, unexpected};
use crate::fault::Fault;
use crate::stack::Deeper;
use crate::stack::start::RunningStack;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Reply, Request};

/// Least time that an agent may take beyond the command's own deadline to say that it killed it,
/// and a starter to read its counters.
const GRACE: Duration = Duration::from_secs(30);

/// Time after the command's own deadline at which a silent agent may be frozen: a command of root's
/// with namespaces of its own writes to the files of its own group, in which the agent is too.
const WAKE_AFTER: Duration = Duration::from_secs(5);

/// Time between two such attempts.
const WAKE_AGAIN: Duration = Duration::from_millis(100);

/// Returns how long an inside may take beyond what it was asked to do.
pub(super) fn grace(running: &RunningStack) -> Duration {
    running.patience().max(GRACE)
}

/// Runs the command once.
///
/// # Errors
/// It could not be started, or somebody does not answer.
pub(super) fn execute(
    running: &mut RunningStack,
    command: &Command,
    deadline: Duration,
    ear: &mut Overheard,
) -> Result<TimedRun, Fault> {
    let began = begin(running, command, ear)?;
    finish(running, began, deadline, ear)
}

/// Starts a command; the host's time at which it was about to begin.
///
/// # Errors
/// It could not be started.
pub(super) fn begin(
    running: &mut RunningStack,
    command: &Command,
    ear: &mut Overheard,
) -> Result<Nanoseconds, Fault> {
    let grace = grace(running);
    let link = running.link()?;
    ear.run_begins();
    let asked = clock::monotonic_raw();
    link.send(&Request::Run(command.clone()))?;
    // However much is said meanwhile.
    let until = asked + grace.into();
    let started = loop {
        let left = until.since(clock::monotonic_raw()).into();
        if let Some(said) = ear.take(link.receive(left)?)? {
            break said;
        }
    };
    match started.reply {
        Reply::Started { at } => ear.saw(at, [asked, started.at]),
        Reply::Failed(failure) => return Err(refused(failure)),
        other => return Err(unexpected(&other, "the request to run the command")),
    }
    link.send(&Request::Go)?;
    Ok(started.at)
}

/// Waits for the end of a command that was begun.
///
/// # Errors
/// It does not end, or the inside says what cannot be.
pub(super) fn finish(
    running: &mut RunningStack,
    began: Nanoseconds,
    deadline: Duration,
    ear: &mut Overheard,
) -> Result<TimedRun, Fault> {
    let below = running.deeper();
    let grace = grace(running);
    let (link, room) = running.link_and_room()?;
    end_of(link, began, (deadline, grace), (below, ear), || room.thaw())
}

/// Waits for the end of a command. An agent that is silent too long is woken: once where it owes
/// an answer, and again and again after the command's deadline, since it may be frozen as often.
fn outlasted(
    link: &mut Link,
    heartbeat: &mut Heartbeat,
    (deadline, grace): (Duration, Duration),
    ear: &mut Overheard,
    mut wake: impl FnMut(),
) -> Result<Stamped, Fault> {
    let began = clock::monotonic_raw();
    let (whole, late) = (deadline.saturating_add(grace), WAKE_AFTER.min(grace / 2));
    let mut was_woken = false;
    loop {
        let passed = Duration::from(clock::monotonic_raw().since(began));
        let left = whole.saturating_sub(passed);
        let until_late = deadline.saturating_add(late).saturating_sub(passed);
        let patience = if until_late.is_zero() { WAKE_AGAIN } else { until_late };
        match link.outlast(heartbeat, patience.min(left))? {
            Heard::Reply(said) => {
                if let Some(ended) = ear.take(*said)? {
                    return Ok(ended);
                }
                if ear.wants_clock() && !heartbeat.is_owed() {
                    link.ask_meanwhile(heartbeat)?;
                }
                // A starter that looks is no sign that the level below it lives.
                match heartbeat.overdue() {
                    _ if left.is_zero() => return Err(link.listener.silence(whole)),
                    Some(fault) if was_woken => return Err(link.listener.silence(fault)),
                    Some(_) => was_woken = true,
                    None if until_late.is_zero() => {}
                    None => continue,
                }
            }
            Heard::Nothing if left.is_zero() => return Err(link.listener.silence(whole)),
            Heard::Nothing => {}
            Heard::NoAnswer(fault) if was_woken => return Err(fault),
            Heard::NoAnswer(_) => was_woken = true,
        }
        wake();
    }
}

/// Waits for the next reply that is no sample.
fn next(
    link: &mut Link,
    heartbeat: &mut Heartbeat,
    grace: Duration,
    ear: &mut Overheard,
) -> Result<Stamped, Fault> {
    let until = clock::monotonic_raw() + grace.into();
    loop {
        let left = until.since(clock::monotonic_raw()).into();
        let said = heartbeat.wait(link.listener.as_mut(), || Ok(false), left)?;
        if let Some(said) = ear.take(said)? {
            return Ok(said);
        }
    }
}

/// The same over a link; `below` is which levels a starter at its other end may speak for, where
/// there is one, and `wake` wakes the other end.
fn end_of(
    link: &mut Link,
    began: Nanoseconds,
    (deadline, grace): (Duration, Duration),
    (below, ear): (Option<Deeper>, &mut Overheard),
    wake: impl FnMut(),
) -> Result<TimedRun, Fault> {
    let mut heartbeat = Heartbeat::default();
    let ended = outlasted(link, &mut heartbeat, (deadline, grace), ear, wake)?;
    match ended.reply {
        Reply::Ended { at } => ear.saw(at, [began, ended.at]),
        Reply::Failed(failure) => return Err(refused(failure)),
        other => return Err(unexpected(&other, "the end of the command")),
    }
    let between = ended.at.since(began);
    let exited = next(link, &mut heartbeat, grace, ear)?;
    let mut outcome = match exited.reply {
        Reply::Exited(outcome) => *outcome,
        Reply::Failed(failure) => return Err(refused(failure)),
        other => return Err(unexpected(&other, "what the command that has ended was")),
    };
    concurrency::show(&mut outcome);
    let mut bill = match below.map(|below| (below, link.receive(grace))) {
        None => Vec::new(),
        Some((below, bill)) => match bill?.reply {
            Reply::Bill(readings) => below.checked(readings)?,
            other => return Err(unexpected(&other, "the end of a nested command")),
        },
    };
    let machine = std::mem::take(&mut outcome.machine);
    ear.require_of_the_machine(&machine)?;
    bill.extend(machine);
    heartbeat.settle(link.listener.as_mut(), grace)?;
    for Answer { asked, at, passed, answered } in heartbeat.answers() {
        ear.clocks.keep(asked, passed.into_iter().chain([(ear.innermost(), at)]), answered);
    }
    Ok(TimedRun { began, between, outcome, bill })
}

#[cfg(test)]
mod tests;
