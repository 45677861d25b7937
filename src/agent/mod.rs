//! The host's end of the agent: a link that carries requests and stamps what comes back.
//!
//! Both halves of a link bear the seal of a session of its own, which ends with the first frame
//! that does not. Only host stamps become durations. A stamp is taken by the thread that reads the
//! channel, as soon as a whole frame is there, before anybody else looks at it.

pub(crate) mod ssh_bootstrap;
mod call;
mod console;
mod frames;
mod heartbeat;
mod relay;
mod stream;
mod voice;

#[cfg(test)]
pub(crate) mod tests;

use crate::fault::Fault;
pub use call::Call;
pub use console::ConsoleTail;
pub use heartbeat::{Answer, Heard, Heartbeat};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Cause, Command, FORGED, Reply, Request};

/// A reply and the host time at which it was complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Reply that came.
    pub reply: Reply,
    /// `CLOCK_MONOTONIC_RAW` of the host (or the simulated layer's own time).
    pub at: Nanoseconds,
}

/// Time limit for an inside to take a request, and to answer one: an agent among a thousand busy
/// processes is slow, too.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// No limit: a person, or a command that has not read its input yet, may take any time. The
/// deadline of a command is kept by its agent.
pub const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Silence after which it is looked whether somebody who is listened to is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The half of a link that speaks.
pub trait Speaker: Send {
    /// Sends one request, which is to be taken within [`PATIENCE`].
    ///
    /// # Errors
    /// The machine's, when the other end is gone; with the last lines of its console.
    fn send(&mut self, request: &Request) -> Result<(), Fault> {
        self.send_within(request, PATIENCE)
    }

    /// Sends one request to whoever may take so long to take it: input waits until a command reads.
    ///
    /// # Errors
    /// As [`Speaker::send`].
    fn send_within(&mut self, request: &Request, patience: Duration) -> Result<(), Fault>;
}

/// The half of a link that listens.
pub trait Listener: Send {
    /// Waits for the next reply, at most so long; `None` if nothing came in time.
    ///
    /// # Errors
    /// The machine's: the other end is gone, or what came is malformed; with the last lines of its
    /// console.
    fn wait(&mut self, limit: Duration) -> Result<Option<Stamped>, Fault>;

    /// The fault that nothing came within `limit`, with the last lines of the other end's console.
    fn silence(&self, limit: Duration) -> Fault;

    /// Waits for the next reply, which is to come within `limit`.
    ///
    /// # Errors
    /// The machine's: see [`Self::wait`] and [`Self::silence`].
    fn receive(&mut self, limit: Duration) -> Result<Stamped, Fault> {
        self.wait(limit)?.ok_or_else(|| self.silence(limit))
    }

    /// Waits for the next reply, which is to come within `limit`, and not past the end of whoever
    /// carries the other end: a child of theirs may keep the channel open.
    ///
    /// # Errors
    /// As [`Self::receive`].
    fn receive_from_living(
        &mut self,
        limit: Duration,
        has_ended: &mut dyn FnMut() -> bool,
    ) -> Result<Stamped, Fault> {
        let began = clock::monotonic_raw();
        let mut is_dead = false;
        loop {
            let passed = Duration::from(clock::monotonic_raw().since(began));
            let left = limit.saturating_sub(passed);
            match self.wait(left.min(LOOK_AGAIN))? {
                Some(reply) => return Ok(reply),
                None if is_dead => return Err(self.silence(passed + LOOK_AGAIN)),
                None if left <= LOOK_AGAIN => return Err(self.silence(limit)),
                // To look costs whoever starts some time. What was said before is on its way.
                None => is_dead = has_ended(),
            }
        }
    }
}

/// A way to talk to an agent or a starter. Its halves may be used by two threads.
pub struct Link {
    /// Carries requests.
    pub speaker: Box<dyn Speaker>,
    /// Carries replies.
    pub listener: Box<dyn Listener>,
}

impl Link {
    /// Sends one request. See [`Speaker::send`].
    ///
    /// # Errors
    /// The machine's, when the other end is gone.
    pub fn send(&mut self, request: &Request) -> Result<(), Fault> {
        self.speaker.send(request)
    }

    /// Waits for the next reply. See [`Listener::receive`].
    ///
    /// # Errors
    /// The machine's, when none came.
    pub fn receive(&mut self, deadline: Duration) -> Result<Stamped, Fault> {
        self.listener.receive(deadline)
    }

    /// Waits for the next reply of an inside that works for long, and asks meanwhile whether it is
    /// there.
    ///
    /// # Errors
    /// The machine's: see [`Heartbeat::wait`].
    pub fn outlast(&mut self, heartbeat: &mut Heartbeat, limit: Duration) -> Result<Heard, Fault> {
        let Self { speaker, listener } = self;
        let ask = || speaker.send(&Request::Clock).map(|()| true);
        heartbeat.look(listener.as_mut(), ask, limit)
    }

    /// Asks an inside that works what time it is there. Its answer is the heartbeat's.
    ///
    /// # Errors
    /// The machine's, when the other end is gone.
    pub fn ask_meanwhile(&mut self, heartbeat: &mut Heartbeat) -> Result<(), Fault> {
        heartbeat.asks(|| self.speaker.send(&Request::Clock).map(|()| true))
    }

    /// Sends one request and waits for its answer; a [`Reply::Failed`] becomes a fault.
    ///
    /// # Errors
    /// The machine's, or what the other end says it could not do.
    pub fn ask(&mut self, request: &Request, deadline: Duration) -> Result<Stamped, Fault> {
        self.send(request)?;
        let answer = self.receive(deadline)?;
        match answer.reply {
            Reply::Failed(failure) => Err(refused(failure)),
            _ => Ok(answer),
        }
    }

    /// Starts `command` on the inside and gives a link to it, over this one.
    ///
    /// # Errors
    /// This link's.
    pub fn relay(mut self, name: &str, command: Command) -> Result<Self, Fault> {
        self.send(&Request::Relay(command))?;
        relay::over(name, self)
    }
}

/// Turns what the inside could not do into a fault of the machine, or of the inside where it was
/// forged.
#[must_use]
pub fn refused(failure: surtax_instrument::wire::Failure) -> Fault {
    let fault = match failure.cause {
        Some(Cause::Forged) => Fault::inside(failure.what),
        _ => Fault::machine(failure.what),
    };
    let fault = fault.because(failure.cause);
    if failure.hint.is_empty() { fault } else { fault.hint(failure.hint) }
}

/// The other end answered with its seal, but not this question: a command that can read the agent's
/// memory may speak for it.
#[must_use]
pub fn unexpected(reply: &Reply, to: &str) -> Fault {
    let text = format!("{reply:?}");
    let start: String = text.chars().take(80).collect();
    Fault::inside(format!("an agent answered `{start}` to {to}"))
        .hint("look whether the command touches the agent; if it does not, report this as a bug")
}

/// Makes the fault for what was written into the channel of `who`, and not by its agent.
fn forged(who: &str) -> Fault {
    let what = format!(
        "{FORGED} the agent's channel of `{who}`: a frame that does not bear this session's seal"
    );
    Fault::inside(what)
        .because(Cause::Forged)
        .hint("look at what the command starts: it reads or writes where only the agent does")
}
