//! Ctrl-C: once is "finish what you are doing", twice is "stop now"; both end tidy.
//!
//! The first SIGINT or SIGTERM lets the running trial end and starts no other. The second of them,
//! or a SIGHUP, whose terminal is gone, kills whatever runs in our rooms: everyone who waits for it
//! then learns that it is gone, and takes the ordinary way out. SIGUSR1 is a first one however
//! often it comes: who asks by it (`surtax serve`) need not know who asked before.

use crate::fault::{Doing, Fault};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Requests of the user to stop, so far.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    count: Arc<AtomicU8>,
}

/// Whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Ctrl-C, or a signal like it.
    Terminal,
    /// A page of `surtax serve`.
    Page,
}

/// Urgency of these requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Go on.
    None,
    /// Finish the running trial.
    AfterThisTrial,
    /// Everything that ran has been killed.
    Now,
}

impl Interrupts {
    /// Listens from now on. `kill` is called, once, when it is urgent; `say` tells the user, also
    /// who asked.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn listen(
        kill: impl Fn() + Send + 'static,
        say: impl Fn(Urgency, Asker) + Send + 'static,
    ) -> Result<Self, Fault> {
        let interrupts = Self::default();
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).doing("listen for Ctrl-C")?;
        let count = Arc::clone(&interrupts.count);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let before = count.load(Ordering::SeqCst);
                let now = after(before, signal);
                count.store(now, Ordering::SeqCst);
                if now == before {
                    continue;
                }
                let asker = if signal == SIGUSR1 { Asker::Page } else { Asker::Terminal };
                say(urgency(now), asker);
                if urgency(now) == Urgency::Now {
                    kill();
                }
            }
        });
        Ok(interrupts)
    }

    /// Returns how urgent it is by now.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        urgency(self.count.load(Ordering::SeqCst))
    }
}

/// Number of requests after another one; a number that stays says nothing new.
fn after(count: u8, signal: i32) -> u8 {
    match signal {
        SIGHUP => count.saturating_add(2),
        SIGUSR1 => count.max(1),
        _ => count.saturating_add(1),
    }
}

fn urgency(count: u8) -> Urgency {
    match count {
        0 => Urgency::None,
        1 => Urgency::AfterThisTrial,
        _ => Urgency::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_ctrl_c_kills_and_a_second_request_of_a_page_does_not() {
        let urgency_of = |signals: &[i32]| urgency(signals.iter().copied().fold(0, after));
        assert_eq!(urgency_of(&[SIGINT]), Urgency::AfterThisTrial);
        assert_eq!(urgency_of(&[SIGUSR1, SIGUSR1, SIGUSR1]), Urgency::AfterThisTrial);
        assert_eq!(urgency_of(&[SIGINT, SIGUSR1]), Urgency::AfterThisTrial);
        assert_eq!(urgency_of(&[SIGUSR1, SIGTERM]), Urgency::Now);
        assert_eq!(urgency_of(&[SIGINT, SIGINT]), Urgency::Now);
        assert_eq!(urgency_of(&[SIGHUP]), Urgency::Now);
    }
}
