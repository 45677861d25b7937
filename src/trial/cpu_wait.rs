//! Counts how long a command's agent and this surtax wait for a CPU while others have them, by this
//! host's scheduler: beside neighbours a late answer is no lie for as long.
//!
//! Of the agent it is the first thread, which waits for the command; of surtax all threads, of
//! which one hears the answer.

use surtax_instrument::probe::process::{all_waited_for_cpu, waited_for_cpu};
use surtax_instrument::quantity::Nanoseconds;

/// The counters of both.
pub(super) struct CpuWait {
    agent: u32,
    /// Values at the beginning, and what they rose by in pauses.
    before: Nanoseconds,
    paused: Option<Nanoseconds>,
}

impl CpuWait {
    /// Reads them for the first time. `None` where the agent is no process of this level, or this
    /// kernel does not say.
    pub(super) fn begin(agent: Option<u32>) -> Option<Self> {
        let agent = agent?;
        Some(Self { agent, before: read(agent)?, paused: None })
    }

    /// Looks away: what they wait until [`Self::resume`] is left out.
    pub(super) fn pause(&mut self) {
        self.paused = read(self.agent);
    }

    /// Looks again.
    pub(super) fn resume(&mut self) {
        if let Some((now, paused)) = read(self.agent).zip(self.paused.take()) {
            self.before += now.since(paused);
        }
    }

    /// Returns what they waited since the beginning.
    pub(super) fn end(self) -> Option<Nanoseconds> {
        Some(read(self.agent)?.since(self.before))
    }
}

fn read(agent: u32) -> Option<Nanoseconds> {
    Some(waited_for_cpu(agent).ok()? + all_waited_for_cpu().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_in_a_pause_is_left_out_and_nobody_is_asked_who_is_not_there() {
        let ourselves = std::process::id();
        assert!(CpuWait::begin(None).is_none() && CpuWait::begin(Some(0)).is_none());
        let mut wait = CpuWait::begin(Some(ourselves)).unwrap();
        // As if all that was waited until now had been waited in a pause.
        (wait.before, wait.paused) = (Nanoseconds(0), Some(Nanoseconds(0)));
        wait.resume();
        assert!(wait.before > Nanoseconds(0) && wait.paused.is_none());
        let before = wait.before;
        wait.resume();
        assert_eq!(wait.before, before, "there was no pause");
        let gone = CpuWait { agent: 0, before, paused: None };
        assert_eq!(gone.end(), None);
    }
}
