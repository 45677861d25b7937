//! Looks at payers again and again while a command runs, in a thread of its own.
//!
//! A look that is late is not made up for: its time is that at which it was made. What it costs is
//! this surtax's own, and told.

use super::watch::{Meter, groups};
use crate::layer::{Payer, Source};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use surtax_instrument::amount::{Amounts, CPU_SYSTEM, CPU_USER};
use surtax_instrument::clock;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::probe::process::Usage;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Reading;

/// Readings of one level at a moment; of what grows, since the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Begin of the look, by the level's `CLOCK_MONOTONIC_RAW`.
    pub at: Nanoseconds,
    /// Amounts that each payer had used by then, as far as they could be read.
    pub readings: Vec<Reading>,
}

/// The thread that looks. Dropped, it ends.
pub struct Sampler {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Nanoseconds>>,
}

/// A payer, and what it had used before.
struct Sampled {
    payer: Payer,
    meter: Meter,
    first: Option<Amounts>,
    last: Option<Usage>,
    /// CPU time since the first look: a counter may divide what it had before otherwise later.
    cpu: (Nanoseconds, Nanoseconds),
}

impl Sampler {
    /// Begins to look at these payers of a level, in these hierarchies, so often, and at once for
    /// the first time. `take` is told what was seen.
    pub fn begin(
        payers: Vec<Payer>,
        level: u8,
        hierarchies: &Hierarchies,
        every: Duration,
        mut take: impl FnMut(Sample) + Send + 'static,
    ) -> Self {
        let hierarchies = hierarchies.clone().of_all(groups(&payers));
        let opened = payers.into_iter().filter_map(|payer| {
            let meter = Meter::open(&payer, &hierarchies)?;
            let cpu = (Nanoseconds(0), Nanoseconds(0));
            Some(Sampled { payer, meter, first: None, last: None, cpu })
        });
        let mut all: Vec<Sampled> = opened.collect();
        let mut due = clock::monotonic_raw();
        take(sample(&mut all, level));
        let (end, ended) = channel::<()>();
        // Where no thread can be had, nobody looks.
        let thread = std::thread::Builder::new().spawn(move || {
            loop {
                let now = clock::monotonic_raw();
                due = clock::next_due(due, every.into(), now);
                let wait = due.since(now).into();
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    take(sample(&mut all, level));
                    return clock::thread_cpu();
                }
                take(sample(&mut all, level));
            }
        });
        Self { end: Some(end), thread: thread.ok() }
    }

    /// Looks for the last time, and ends. Returns the CPU time that all looks but the first took.
    pub fn end(mut self) -> Nanoseconds {
        self.finish()
    }

    fn finish(&mut self) -> Nanoseconds {
        drop(self.end.take());
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.finish();
    }
}

fn sample(all: &mut [Sampled], level: u8) -> Sample {
    let at = clock::monotonic_raw();
    Sample { at, readings: all.iter_mut().map(|it| it.reading(level)).collect() }
}

impl Sampled {
    fn reading(&mut self, level: u8) -> Reading {
        let amounts = self.used();
        let Payer { name, role, carries_workload, is_shared, .. } = &self.payer;
        let (role, carries_workload, is_shared) = (*role, *carries_workload, *is_shared);
        Reading { payer: name.clone(), role, level, amounts, carries_workload, is_shared }
    }

    /// Amounts that it has used since the first look; none where it cannot be read now.
    fn used(&mut self) -> Amounts {
        let Some(now) = self.meter.moment(&self.payer.source) else { return Amounts::NONE };
        if let Some(last) = &self.last {
            let (user, system) = now.cpu.since(last.cpu);
            self.cpu = (self.cpu.0 + user, self.cpu.1 + system);
        }
        let first = self.first.get_or_insert_with(|| now.amounts.clone());
        let used = now.amounts.since(first);
        let counts_cpu = !matches!(self.payer.source, Source::Link(_));
        self.last = Some(now);
        match counts_cpu {
            true => used.with(CPU_USER, self.cpu.0.0).with(CPU_SYSTEM, self.cpu.1.0),
            false => used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use surtax_instrument::amount::{CPU_IDLE, MEMORY_USED};
    use surtax_instrument::wire::Role;

    /// Samples of this process and this machine while it works for so long.
    fn samples(work: Duration, every: Duration) -> Vec<Sample> {
        let source = Source::Process(std::process::id());
        let mut payers = vec![Payer::new("we", Role::Workload, source)];
        payers.extend(Payer::whole_machine());
        let all = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&all);
        let hierarchies = Hierarchies::discover().unwrap();
        let take = move |sample| theirs.lock().unwrap().push(sample);
        let sampler = Sampler::begin(payers, 3, &hierarchies, every, take);
        let begun = clock::thread_cpu();
        while Duration::from(clock::thread_cpu().since(begun)) < work {}
        assert!(sampler.end() > Nanoseconds(0));
        Arc::into_inner(all).unwrap().into_inner().unwrap()
    }

    #[test]
    fn work_is_seen_to_grow_from_nothing_and_each_look_has_its_time() {
        let seen = samples(Duration::from_millis(300), Duration::from_millis(50));
        assert!(seen.len() >= 5, "{}", seen.len());
        assert!(seen.is_sorted_by(|a, b| a.at < b.at));
        let of = |sample: &Sample, payer: &str| {
            let reading = sample.readings.iter().find(|it| it.payer == payer).unwrap();
            assert_eq!(reading.level, 3);
            reading.amounts.clone()
        };
        let used = |sample: &Sample| {
            let amounts = of(sample, "we");
            amounts.get(CPU_USER).unwrap() + amounts.get(CPU_SYSTEM).unwrap()
        };
        assert_eq!(used(&seen[0]), 0);
        assert!(used(seen.last().unwrap()) >= 300_000_000);
        assert!(seen.is_sorted_by(|a, b| used(a) <= used(b)));
        assert!(of(&seen[1], "we").get(MEMORY_USED).unwrap() > 0);
        let whole = of(seen.last().unwrap(), "the machine");
        assert!(whole.get(CPU_USER).unwrap() >= 100_000_000, "{whole:?}");
        assert!(whole.get(CPU_IDLE).is_some());
    }

    #[test]
    fn somebody_who_cannot_be_read_has_no_amounts_and_no_zero() {
        let hierarchies = Hierarchies::discover().unwrap();
        let all = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&all);
        let take = move |sample| theirs.lock().unwrap().push(sample);
        let payers = vec![Payer::untold("a server", Role::Engine)];
        Sampler::begin(payers, 0, &hierarchies, Duration::from_secs(60), take).end();
        let all = all.lock().unwrap();
        assert_eq!(all.len(), 2, "the first look and the last");
        let known = |sample: &Sample| sample.readings.iter().any(|it| it.amounts != Amounts::NONE);
        assert!(!all.iter().any(known), "{all:?}");
    }
}
