//! Counts kept while requests go and answers come: without allocation.

use crate::net::Worst;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::quantity::Nanoseconds;

/// Latencies and counters of one measurement, or of one thread's part of it.
#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) reads: Histogram,
    pub(super) updates: Histogram,
    /// By a schedule: how long after its time each request was begun.
    pub(super) delays: Histogram,
    pub(super) worst: Worst,
    /// Time at which it begins.
    pub(super) began: Nanoseconds,
    /// Time from which no more requests begin.
    pub(super) until: Nanoseconds,
    /// CPU time of this process meanwhile.
    pub(super) cpu_ns: u64,
    /// Answers that came before that.
    pub(super) in_time_count: u64,
    pub(super) sent_count: u64,
    /// By a schedule: requests that were due.
    pub(super) due_count: u64,
    /// Requests whose answer has not come.
    pub(super) lost_count: u64,
    pub(super) hit_count: u64,
    pub(super) miss_count: u64,
    /// Values that are not those that were written.
    pub(super) wrong_count: u64,
    /// Requests that the server did not do.
    pub(super) refused_count: u64,
    /// Answers that are not as long as expected: where a key is missing, say.
    pub(super) odd_count: u64,
    /// Reason why the server did not do the first of them.
    pub(super) refusal: Option<String>,
    pub(super) received_bytes: u64,
}

impl Record {
    /// An empty one of a time, with a list of so many of the longest.
    pub(super) fn of(began: Nanoseconds, until: Nanoseconds, worst: usize) -> Self {
        Self { worst: Worst::of(worst), began, until, ..Self::default() }
    }

    /// A request that was answered.
    #[inline]
    pub(super) fn note(&mut self, is_set: bool, from: Nanoseconds, to: Nanoseconds) {
        let latency_ns = to.since(from).0;
        if is_set { &mut self.updates } else { &mut self.reads }.record(latency_ns);
        self.worst.note(from.since(self.began).0, latency_ns);
        self.in_time_count += u64::from(to < self.until);
    }

    /// Adds another thread's part.
    pub(super) fn merge(&mut self, other: Self) {
        self.reads.merge(&other.reads);
        self.updates.merge(&other.updates);
        self.delays.merge(&other.delays);
        other.worst.list().into_iter().for_each(|(began, took)| self.worst.note(began, took));
        self.in_time_count += other.in_time_count;
        self.sent_count += other.sent_count;
        self.due_count += other.due_count;
        self.lost_count += other.lost_count;
        self.hit_count += other.hit_count;
        self.miss_count += other.miss_count;
        self.wrong_count += other.wrong_count;
        self.refused_count += other.refused_count;
        self.odd_count += other.odd_count;
        self.refusal = self.refusal.take().or(other.refusal);
        self.received_bytes += other.received_bytes;
    }

    /// All latencies, of reads and updates.
    pub(super) fn all(&self) -> Histogram {
        let mut all = self.reads.clone();
        all.merge(&self.updates);
        all
    }

    /// Returns the time in which requests were begun, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.until.since(self.began).seconds()
    }

    /// Answers per second.
    pub(super) fn rate(&self) -> f64 {
        self.in_time_count as f64 / self.seconds()
    }

    /// Returns the share of what was due that was not answered.
    pub(super) fn shortfall(&self) -> f64 {
        let answered = self.due_count.min(self.reads.count() + self.updates.count());
        (self.due_count - answered) as f64 / self.due_count as f64
    }
}
