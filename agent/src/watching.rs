//! Looks at this machine as a whole while a command runs, where its kernel is its own.
//!
//! Between two looks nothing is done: the one `poll` of the agent ends when the next is due.

use std::path::Path;
use std::time::Duration;
use surtax_instrument::amount::Amounts;
use surtax_instrument::clock;
use surtax_instrument::probe::machine::{self, Machine};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reading, Reply, Watching};

/// A machine that is looked at.
pub struct Watched {
    machine: Machine,
    level: u8,
    /// Amounts that each had used when the command was to begin, by its name.
    before: Vec<(String, Amounts)>,
    every: Nanoseconds,
    /// Time of the next look, where there is one.
    next: Option<Nanoseconds>,
}

impl Watched {
    /// Looks for the first time, if that is wanted of this level.
    pub fn begin(watching: Option<&Watching>) -> Option<Self> {
        let Watching { kernel_begin_ns, level, every } = watching?;
        if clock::is_one_kernel(*kernel_begin_ns, clock::kernel_begin_ns()) {
            return None;
        }
        let mut machine = Machine::open(Path::new("/"));
        let before = machine::whole(&mut machine);
        let next = (*every > Nanoseconds(0)).then(clock::monotonic_raw);
        Some(Self { machine, level: *level, before, every: *every, next })
    }

    /// Returns the time until the next look; `None` where there is none.
    pub fn time_left(&self) -> Option<Duration> {
        self.next.map(|next| next.since(clock::monotonic_raw()).into())
    }

    /// Looks, if it is time to.
    pub fn look(&mut self) -> Option<Reply> {
        let now = clock::monotonic_raw();
        let due = self.next.filter(|next| now >= *next)?;
        self.next = Some(clock::next_due(due, self.every, now));
        Some(self.sample())
    }

    /// Looks for the last time: what is seen now, where somebody looks again and again.
    pub fn last_look(&mut self) -> Option<Reply> {
        self.next.take().map(|_| self.sample())
    }

    /// Returns what was used since the command was to begin.
    pub fn readings(&mut self) -> Vec<Reading> {
        let now = machine::whole(&mut self.machine);
        let since = |(name, now): (String, Amounts)| {
            let before = self.before.iter().find(|(known, _)| *known == name);
            let amounts = now.since(before.map_or(&Amounts::NONE, |(_, before)| before));
            machine::reading(name, self.level, amounts)
        };
        now.into_iter().map(since).collect()
    }

    fn sample(&mut self) -> Reply {
        Reply::Sampled { at: clock::monotonic_raw(), readings: self.readings() }
    }
}
