//! The host's end of the agent: a link that carries requests and stamps what comes back.
//!
//! Only host stamps become durations. A stamp is taken by the thread that reads the channel, as
//! soon as a whole frame is there, before anybody else looks at it.

mod link;

use crate::fault::Fault;
pub use link::{ConsoleTail, StreamLink};
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reply, Request};

/// A reply and the host time at which it was complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// What was said.
    pub reply: Reply,
    /// `CLOCK_MONOTONIC_RAW` of the host (or the simulated layer's own time).
    pub at: Nanoseconds,
}

/// A way to talk to an agent or a starter.
pub trait Link: Send {
    /// Sends one request.
    ///
    /// # Errors
    /// The machine's, when the other end is gone; with the last lines of its console.
    fn send(&mut self, request: &Request) -> Result<(), Fault>;

    /// Waits for the next reply, at most until `deadline` has passed.
    ///
    /// # Errors
    /// The machine's: nothing came in time, the other end is gone, or what came is malformed; with
    /// the last lines of its console.
    fn receive(&mut self, deadline: Duration) -> Result<Stamped, Fault>;
}
