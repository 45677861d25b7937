//! Readings of one meter, and the energy between two times that follows from them.
//!
//! A reading is of the middle between its question and its answer. Between two readings of a run
//! the power goes straight from one to the other.

use super::Counted;
use std::collections::VecDeque;
use std::time::Duration;
use surtax_instrument::quantity::{Nanoseconds, whole};

/// Most readings that are kept: those of two hours at fifty a second.
const MOST: usize = 360_000;

/// Fewest readings of a run: with fewer, most of its energy would be a guess.
const INSIDE: usize = 3;

/// Longest reason that is kept, in bytes.
const WHY_MAX: usize = 500;

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
    /// A run was too short for a few readings.
    TooShort,
    /// The meter said nothing for too long.
    Silent,
}

impl Why {
    /// The reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::TooShort => "a run is over before the meter was read three times",
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

    /// Goes on counting from what was counted before.
    pub(super) fn go_on_from(&mut self, before: &Counted) {
        let counted = &mut self.counted;
        counted.read = counted.read.saturating_add(before.read);
        counted.failed = counted.failed.saturating_add(before.failed);
        counted.late = counted.late.saturating_add(before.late);
        let both = [counted.resolution_uw, before.resolution_uw];
        counted.resolution_uw = both.into_iter().flatten().min();
        counted.failure = counted.failure.take().or_else(|| before.failure.clone());
    }

    /// Notes that a reading did not come.
    pub(super) fn fail(&mut self, why: String) {
        self.counted.failed += 1;
        let end = why.floor_char_boundary(WHY_MAX.min(why.len()));
        self.counted.failure = Some(why[..end].to_owned());
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
        let [first, end] = [from, to].map(|time| self.all.partition_point(|it| it.at < time));
        self.all.range(first..end.max(first)).copied().collect()
    }

    /// Returns the median energy of runs in these times, of a meter that is so late.
    pub(super) fn used(&self, times: &[[Nanoseconds; 2]], delay: Nanoseconds) -> Used {
        let mut each = Vec::new();
        for [from, to] in times {
            match self.energy_uj(*from + delay, *to + delay) {
                Ok(energy_uj) => each.push(energy_uj),
                Err(why) => return Used::Unknown(why),
            }
        }
        each.sort_by(f64::total_cmp);
        let [low, high] = [each.len().saturating_sub(1) / 2, each.len() / 2];
        match (each.get(low), each.get(high)) {
            (Some(low), Some(high)) => Used::Energy(whole(f64::midpoint(*low, *high).round())),
            _ => Used::Unknown(Why::TooShort),
        }
    }

    /// Energy between two times, in microjoules. What the first and the last reading in between
    /// say holds to the ends: a straight line to those before and after would have part of that.
    fn energy_uj(&self, from: Nanoseconds, to: Nanoseconds) -> Result<f64, Why> {
        let before = self.all.partition_point(|it| it.at <= from).checked_sub(1);
        let before = before.ok_or(Why::Silent)?;
        let after = self.all.partition_point(|it| it.at < to);
        if after == self.all.len() {
            return Err(Why::Silent);
        }
        let longest = Nanoseconds::from(self.every * GAP);
        let mut around = self.all.range(before..after).zip(self.all.range(before + 1..=after));
        if around.any(|(one, next)| next.at.since(one.at) > longest) {
            return Err(Why::Silent);
        }
        let inside = self.between(from, to);
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else {
            return Err(Why::TooShort);
        };
        if inside.len() < INSIDE {
            return Err(Why::TooShort);
        }
        let ends = first.microwatts as f64 * first.at.since(from).seconds()
            + last.microwatts as f64 * to.since(last.at).seconds();
        let pieces = inside.windows(2).map(|pair| {
            let [one, next] = [0, 1].map(|place| pair[place].microwatts as f64);
            f64::midpoint(one, next) * pair[1].at.since(pair[0].at).seconds()
        });
        Ok(ends + pieces.sum::<f64>())
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
        assert_eq!(used(1010, 1050), Used::Unknown(Why::TooShort));
        assert_eq!(used(7000, 9000), Used::Unknown(Why::Silent), "it ends before");
        let mut gap = Readings::new(Duration::from_millis(100));
        for at in [0, 100, 700, 800] {
            gap.add(ms(at), ms(at), 1);
        }
        assert_eq!(gap.used(&[[ms(0), ms(800)]], ms(0)), Used::Unknown(Why::Silent));
        assert_eq!(used(1050, 1250), Used::Unknown(Why::TooShort), "two readings of it");
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
        // Another session of the run goes on with them.
        let mut later = Readings::new(Duration::from_millis(100));
        later.add(ms(0), ms(1), 50);
        later.go_on_from(&counted);
        let counted = later.counted();
        assert_eq!((counted.read, counted.failed, counted.late), (5, 1, 1));
        assert_eq!(counted.resolution_uw, Some(10));
        later.fail("é".repeat(WHY_MAX));
        assert_eq!(later.counted().failure.unwrap().len(), WHY_MAX);
    }
}
