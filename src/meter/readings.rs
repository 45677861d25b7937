//! Readings of one meter, and the energy between two times that follows from them.
//!
//! A reading is of the middle between its question and its answer. Between two readings the power
//! goes straight from one to the other.

use super::Counted;
use std::collections::VecDeque;
use std::time::Duration;
use surtax_instrument::quantity::{Nanoseconds, whole};

/// Most readings that are kept: those of two hours at ten a second.
const MOST: usize = 72_000;

/// Times the usual time between two readings for which nothing may be known.
const GAP: u32 = 5;

/// Power at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) at: Nanoseconds,
    pub(super) microwatts: u64,
}

/// Readings of one meter, the latest of them.
#[derive(Debug)]
pub(super) struct Readings {
    every: Duration,
    all: VecDeque<Reading>,
    counted: Counted,
}

/// Energy by one meter in one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Used {
    /// In microjoules, per run.
    Energy(u64),
    /// Nothing is known.
    Unknown(Why),
}

/// Reason why nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A run was shorter than the time between two readings.
    TooShort,
    /// The meter said nothing for too long.
    Silent,
}

impl Why {
    /// The reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::TooShort => "a run is shorter than the time between two readings",
            Self::Silent => "the meter said nothing for too long",
        }
    }
}

impl Readings {
    /// None of a meter that is read so often.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, all: VecDeque::new(), counted: Counted::default() }
    }

    /// Adds what was answered between two times.
    pub(super) fn add(&mut self, asked: Nanoseconds, answered: Nanoseconds, microwatts: u64) {
        self.counted.read += 1;
        self.counted.late += u64::from(Duration::from(answered.since(asked)) > self.every);
        let at = asked + Nanoseconds(answered.since(asked).0 / 2);
        if let Some(last) = self.all.back() {
            let step = last.microwatts.abs_diff(microwatts);
            let least = self.counted.resolution_uw.unwrap_or(u64::MAX);
            self.counted.resolution_uw =
                Some(step.min(least)).filter(|_| step > 0).or(self.counted.resolution_uw);
            if at <= last.at {
                return;
            }
        }
        if self.all.len() == MOST {
            self.all.pop_front();
        }
        self.all.push_back(Reading { at, microwatts });
    }

    /// Notes that a reading did not come.
    pub(super) fn fail(&mut self, why: String) {
        self.counted.failed += 1;
        self.counted.failure = Some(why);
    }

    /// Returns how often it was read.
    pub(super) fn counted(&self) -> Counted {
        self.counted.clone()
    }

    /// Time of the last reading.
    pub(super) fn last_at(&self) -> Option<Nanoseconds> {
        self.all.back().map(|it| it.at)
    }

    /// The readings from one time on and before another.
    pub(super) fn between(&self, from: Nanoseconds, to: Nanoseconds) -> Vec<Reading> {
        self.all.iter().filter(|it| it.at >= from && it.at < to).copied().collect()
    }

    /// The mean energy of runs in these times, of a meter that is so late.
    pub(super) fn used(&self, times: &[[Nanoseconds; 2]], delay: Nanoseconds) -> Used {
        let mut sum_uj = 0.0;
        for [from, to] in times {
            if Duration::from(to.since(*from)) < self.every {
                return Used::Unknown(Why::TooShort);
            }
            match self.energy_uj(*from + delay, *to + delay) {
                Some(energy_uj) => sum_uj += energy_uj,
                None => return Used::Unknown(Why::Silent),
            }
        }
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
        match count {
            0 => Used::Unknown(Why::TooShort),
            count => Used::Energy(whole((sum_uj / f64::from(count)).round())),
        }
    }

    /// Energy between two times, in microjoules; `None` where readings are missing.
    fn energy_uj(&self, from: Nanoseconds, to: Nanoseconds) -> Option<f64> {
        let before = self.all.iter().rposition(|it| it.at <= from)?;
        let after = self.all.iter().position(|it| it.at >= to)?;
        let longest = Nanoseconds::from(self.every * GAP);
        let mut energy_uj = 0.0;
        for (one, next) in self.all.range(before..after).zip(self.all.range(before + 1..=after)) {
            if next.at.since(one.at) > longest {
                return None;
            }
            let (start, end) = (one.at.max(from), next.at.min(to));
            let power = |at: Nanoseconds| {
                let part = at.since(one.at).0 as f64 / next.at.since(one.at).0 as f64;
                let (one, next) = (one.microwatts as f64, next.microwatts as f64);
                one + (next - one) * part
            };
            energy_uj += f64::midpoint(power(start), power(end)) * end.since(start).seconds();
        }
        Some(energy_uj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(ms: u64) -> Nanoseconds {
        Nanoseconds(ms * MS)
    }

    /// A meter that is read every 100 ms, of a machine that takes 12.5 W, and 37.5 W from 2 s to
    /// 5 s; it is so late.
    fn stepped(late_ms: u64) -> Readings {
        let mut readings = Readings::new(Duration::from_millis(100));
        for at in (0..80_u64).map(|place| place * 100) {
            let is_busy = (2000..5000).contains(&at.saturating_sub(late_ms));
            readings.add(ms(at), ms(at), if is_busy { 37_500_000 } else { 12_500_000 });
        }
        readings
    }

    fn joules(used: Used) -> f64 {
        let Used::Energy(microjoules) = used else { panic!("{used:?}") };
        microjoules as f64 / 1e6
    }

    #[test]
    fn a_step_has_the_energy_of_its_power_and_time() {
        let busy = [[ms(2000), ms(5000)]];
        let of = |late, delay| joules(stepped(late).used(&busy, ms(delay)));
        assert!((of(0, 0) - 112.5).abs() < 1.5, "{}", of(0, 0));
        assert!((of(600, 600) - 112.5).abs() < 1.5, "{}", of(600, 600));
        // Taken for one that is not late, it has missed 600 ms of it.
        assert!((of(600, 0) - 97.5).abs() < 1.5, "{}", of(600, 0));
        let idle = joules(stepped(0).used(&[[ms(100), ms(1100)], [ms(6000), ms(7000)]], ms(0)));
        assert!((idle - 12.5).abs() < 0.01, "{idle}");
    }

    #[test]
    fn of_a_short_run_and_of_a_silent_meter_nothing_is_known() {
        let readings = stepped(0);
        let used = |from, to| readings.used(&[[ms(from), ms(to)]], ms(0));
        assert_eq!(used(1000, 1050), Used::Unknown(Why::TooShort));
        assert_eq!(used(7000, 9000), Used::Unknown(Why::Silent), "it ends before");
        let mut gap = Readings::new(Duration::from_millis(100));
        for at in [0, 100, 700, 800] {
            gap.add(ms(at), ms(at), 1);
        }
        assert_eq!(gap.used(&[[ms(0), ms(800)]], ms(0)), Used::Unknown(Why::Silent));
        assert_eq!(gap.used(&[], ms(0)), Used::Unknown(Why::TooShort));
    }

    #[test]
    fn readings_are_counted_with_those_that_came_late_and_their_smallest_step() {
        let mut readings = Readings::new(Duration::from_millis(100));
        for (asked, answered, microwatts) in
            [(0, 1, 50), (100, 250, 50), (300, 301, 80), (400, 401, 70)]
        {
            readings.add(ms(asked), ms(answered), microwatts);
        }
        readings.fail(String::from("gone"));
        let counted = readings.counted();
        assert_eq!((counted.read, counted.failed, counted.late), (4, 1, 1));
        assert_eq!((counted.resolution_uw, counted.failure.as_deref()), (Some(10), Some("gone")));
    }
}
