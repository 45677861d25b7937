//! Checks whether clocks that are not the host's ran as they should: that of the innermost level,
//! and that of a client in another stack.

use super::acts::Who;
use super::clock_sync::{ClockSync, Rate};
use super::companion::{Companion, FactPlace, Seen};
use super::iterate::TimedRun;
use super::peer::Peer;
use super::stage::{Placed, Stage};
use crate::fault::Fault;

/// The clock of the innermost level, as it was before anything ran.
#[derive(Default)]
pub(super) struct ClockCheck(Option<ClockSync>);

impl Companion for ClockCheck {
    fn who(&self) -> Who {
        Who::Clock
    }

    /// Asks for the time, before the warm-up: the longer it is until the second time, the more is
    /// known.
    fn prepare(&mut self, stage: &mut Stage<'_>) -> Result<(), Fault> {
        let running = &mut stage.placed.running;
        let (patience, ear) = (running.patience(), &mut stage.recorder.ear);
        let innermost = ear.innermost();
        let taken = ClockSync::take_into(running.link()?, patience, innermost, &mut ear.clocks);
        self.0 = Some(taken?);
        Ok(())
    }

    fn end(&mut self, stage: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let Placed { running, peer, .. } = &mut *stage.placed;
        let mut note = |rate: Rate, whose: &str| {
            seen.is_guest_time_void |= rate.is_void();
            seen.conditions.extend(rate.conditions_of(whose));
        };
        if let Some(rate) = peer.as_mut().map_or(Ok(None), Peer::rate)? {
            note(rate, "client_");
        }
        let Some(clock) = self.0 else { return Ok(()) };
        if !clock.is_shared() {
            let (patience, ear) = (running.patience(), &mut stage.recorder.ear);
            let innermost = ear.innermost();
            let now = ClockSync::take_into(running.link()?, patience, innermost, &mut ear.clocks);
            note(clock.rate_until(now?), "");
        }
        seen.prove(FactPlace::Clock, clock.facts());
        seen.clock = Some(clock);
        Ok(())
    }
}
