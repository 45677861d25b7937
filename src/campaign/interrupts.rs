//! Ctrl-C: once is "finish what you are doing", twice is "stop now"; both end tidy.
//!
//! The first SIGINT or SIGTERM lets the running trial end and starts no other. The second of them,
//! or a SIGHUP, whose terminal is gone, kills whatever runs in our rooms: everyone who waits for it
//! then learns that it is gone, and takes the ordinary way out.

use crate::fault::{Doing, Fault};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Requests of the user to stop, so far.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    count: Arc<AtomicU8>,
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
    /// Listens from now on. `kill` is called, once, when it is urgent; `say` tells the user.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn listen(
        kill: impl Fn() + Send + 'static,
        say: impl Fn(Urgency) + Send + 'static,
    ) -> Result<Self, Fault> {
        let interrupts = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).doing("listen for Ctrl-C")?;
        let count = Arc::clone(&interrupts.count);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let steps = if signal == SIGHUP { 2 } else { 1 };
                let before = count.load(Ordering::SeqCst);
                let now = before.saturating_add(steps);
                count.store(now, Ordering::SeqCst);
                say(urgency(now));
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

fn urgency(count: u8) -> Urgency {
    match count {
        0 => Urgency::None,
        1 => Urgency::AfterThisTrial,
        _ => Urgency::Now,
    }
}
