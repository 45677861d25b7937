//! The host's end of the agent: a link that carries requests and stamps what comes back.
//!
//! Only host stamps become durations. A stamp is taken by the thread that reads the channel, as
//! soon as a whole frame is there, before anybody else looks at it.

mod console;
mod keep_alive;
mod relay;
mod stream;

use crate::fault::Fault;
pub use console::ConsoleTail;
pub use keep_alive::KeptAlive;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Reply, Request};

/// A reply and the host time at which it was complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// What was said.
    pub reply: Reply,
    /// `CLOCK_MONOTONIC_RAW` of the host (or the simulated layer's own time).
    pub at: Nanoseconds,
}

/// The half of a link that speaks.
pub trait Speaker: Send {
    /// Sends one request.
    ///
    /// # Errors
    /// The machine's, when the other end is gone; with the last lines of its console.
    fn send(&mut self, request: &Request) -> Result<(), Fault>;
}

/// The half of a link that listens.
pub trait Listener: Send {
    /// Waits for the next reply, at most until `deadline` has passed.
    ///
    /// # Errors
    /// The machine's: nothing came in time, the other end is gone, or what came is malformed; with
    /// the last lines of its console.
    fn receive(&mut self, deadline: Duration) -> Result<Stamped, Fault>;
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
        Ok(relay::over(name, self))
    }
}

/// What the inside could not do, as a fault of the machine.
#[must_use]
pub fn refused(failure: surtax_instrument::wire::Failure) -> Fault {
    let fault = Fault::machine(failure.what);
    if failure.hint.is_empty() { fault } else { fault.hint(failure.hint) }
}

/// A bug: the other end answered, but not this question.
#[must_use]
pub fn unexpected(reply: &Reply, to: &str) -> Fault {
    let text = format!("{reply:?}");
    let start: String = text.chars().take(80).collect();
    Fault::bug(format!("an agent answered `{start}` to {to}"))
}
