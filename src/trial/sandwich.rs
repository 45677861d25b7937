//! The clock of the innermost level, sandwiched between two readings of the host's.
//!
//! The agent is asked for its time while the host looks at its own before and after. If every answer
//! lies between the two, the clock over there *is* the host's `CLOCK_MONOTONIC_RAW` (a container shares
//! its kernel), and the agent's own reading of how long the command took is host time, to the
//! microsecond. Otherwise the level has a clock of its own, and the duration is that between the
//! arrivals of two frames here, less the shortest way there and back that was seen: never less than
//! the command really took, and more by what the channel was late.

use crate::agent::{Link, unexpected};
use crate::fault::Fault;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Fact, Outcome, Reply, Request};

/// How many exchanges are made; the shortest one counts.
const EXCHANGES: u32 = 5;

/// How long one may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// What is known of the clock at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandwich {
    /// Every answer lay between the two readings here.
    is_shared: bool,
    /// The shortest way there and back.
    round_trip: Nanoseconds,
}

impl Sandwich {
    /// Asks a few times.
    ///
    /// # Errors
    /// The link's.
    pub fn take(link: &mut Link) -> Result<Self, Fault> {
        let mut sandwich = Self { is_shared: true, round_trip: Nanoseconds(u64::MAX) };
        for _ in 0..EXCHANGES {
            let before = clock::monotonic_raw();
            let answer = link.ask(&Request::Clock, DEADLINE)?;
            let Reply::Clock { at } = answer.reply else {
                return Err(unexpected(&answer.reply, "the question what time it is"));
            };
            sandwich.is_shared &= before <= at && at <= answer.at;
            sandwich.round_trip = sandwich.round_trip.min(answer.at.since(before));
        }
        Ok(sandwich)
    }

    /// What the command took in host time, given the time `between` its two frames here.
    #[must_use]
    pub fn wall(self, between: Nanoseconds, outcome: &Outcome) -> Nanoseconds {
        if self.is_shared { outcome.wall } else { between - self.round_trip }
    }

    /// The same, as evidence.
    #[must_use]
    pub fn facts(self) -> Vec<Fact> {
        let source = format!("{EXCHANGES} exchanges with the agent");
        vec![Fact::new("clock", if self.is_shared { "the host's" } else { "its own" }, source)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Listener, Speaker, Stamped};

    /// A level whose clock is the host's plus `ahead`.
    struct Other {
        ahead: u64,
    }

    impl Speaker for Other {
        fn send(&mut self, _: &Request) -> Result<(), Fault> {
            Ok(())
        }
    }

    impl Listener for Other {
        fn receive(&mut self, _: Duration) -> Result<Stamped, Fault> {
            let at = clock::monotonic_raw() + Nanoseconds(self.ahead);
            Ok(Stamped { reply: Reply::Clock { at }, at: clock::monotonic_raw() })
        }
    }

    fn sandwich(ahead: u64) -> Sandwich {
        let link = (Box::new(Other { ahead }), Box::new(Other { ahead }));
        Sandwich::take(&mut Link { speaker: link.0, listener: link.1 }).unwrap()
    }

    #[test]
    fn the_hosts_own_clock_is_recognised() {
        assert!(sandwich(0).is_shared);
    }

    #[test]
    fn a_clock_that_is_ahead_by_a_second_is_another_clock() {
        let taken = sandwich(1_000_000_000);
        assert!(!taken.is_shared);
        assert!(taken.round_trip < Nanoseconds(1_000_000_000));
    }
}
