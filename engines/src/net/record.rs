//! Counts that a client keeps while it measures.

use super::client_options::ClientOptions;
use super::worst::Worst;
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::quantity::Nanoseconds;

/// Latencies and counters of one measurement.
#[derive(Default)]
pub(super) struct Record {
    pub(super) latencies: Histogram,
    pub(super) worst: Worst,
    /// Time at which it began.
    pub(super) began: Nanoseconds,
    /// Time at which it is to end.
    pub(super) until: Nanoseconds,
    /// Time that it took, in nanoseconds.
    pub(super) took_ns: u64,
    /// CPU time of this process meanwhile.
    pub(super) cpu_ns: u64,
    /// Requests without a response.
    pub(super) lost_count: u64,
    /// By a schedule: requests that were sent at all.
    pub(super) sent_count: u64,
    /// By a schedule: requests that were due.
    pub(super) due_count: u64,
    /// By a schedule: how long after its time each was sent.
    pub(super) delays: Histogram,
}

impl Record {
    fn new(asked: &ClientOptions) -> Self {
        Self { worst: Worst::of(asked.worst), ..Self::default() }
    }

    /// Does `round` for the warm-up, which is forgotten, and then for the measurement.
    ///
    /// # Errors
    /// Those of a round.
    pub(super) fn take<E>(
        asked: &ClientOptions,
        mut round: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        if let Some(warm_up) = asked.warm_up {
            let mut forgotten = Self::new(asked);
            forgotten.began = clock::monotonic_raw();
            forgotten.until = forgotten.began + warm_up.into();
            round(&mut forgotten)?;
        }
        let mut record = Self::new(asked);
        let cpu = clock::process_cpu();
        record.began = clock::monotonic_raw();
        record.until = record.began + asked.time.into();
        round(&mut record)?;
        record.took_ns = clock::monotonic_raw().since(record.began).0;
        record.cpu_ns = clock::process_cpu().since(cpu).0;
        Ok(record)
    }

    /// Does one transaction after another until the time is over: the end of one is the begin of
    /// the next, with one look at the clock for each. `transact` is told when it begins, and says
    /// whether it was answered.
    ///
    /// # Errors
    /// Those of a transaction.
    #[inline]
    pub(super) fn repeat<E>(
        &mut self,
        mut transact: impl FnMut(Nanoseconds) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut at = clock::monotonic_raw();
        loop {
            let is_answered = transact(at)?;
            let now = clock::monotonic_raw();
            if is_answered {
                self.note(at, now);
            } else {
                self.lost_count += 1;
            }
            if now >= self.until {
                return Ok(());
            }
            at = now;
        }
    }

    /// A transaction that has ended.
    #[inline]
    pub(super) fn note(&mut self, from: Nanoseconds, to: Nanoseconds) {
        let latency_ns = to.since(from).0;
        self.latencies.record(latency_ns);
        self.worst.note(from.since(self.began).0, latency_ns);
    }
}
