//! Shifts of a level in a series of runs: from which run on a cost is another one, and by how much.
//!
//! At each place where the series may be cut, the two sides are compared by Student's t of their
//! log-ratios; the largest of these t is the likelihood-ratio statistic of a shift at an unknown
//! place (Hawkins, "Testing a Sequence of Observations for a Shift in Location", JASA 72(357),
//! 1977). Where none is one, each stretch inside the series is compared with what is around it, for
//! a level that came and went (circular binary segmentation: Olshen and others, Biostatistics 5(4),
//! 2004). Each t is held against the quantile for as many comparisons as there are (Bonferroni),
//! which promises too much for none. What is between two shifts is looked at again.
//!
//! What one run is from the next decides, and not what its interval says; but no two levels are
//! called apart that the runs' own intervals cannot tell apart.

use crate::confidence::Confidence;
use crate::normal;
use crate::overhead::{Estimate, Method};
use crate::student::critical_value;
use std::ops::Sub;

/// Chance that a stretch without a shift has one found in it, at most: half of it for one that
/// stays, half for one that goes again.
const FALSE_SHIFT: f64 = 0.01;

/// Runs on each side of a shift, at least: what one run says alone may be that run's.
const SIDE_MIN: usize = 2;

/// Chance of the quantile that a shift must exceed without any one of its runs.
const WITHOUT_ONE: f64 = 0.01;

/// Logarithms that differ by less are equal, but for how they were added.
const EQUAL: f64 = 1e-9;

/// A shift of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Index of the first run of the new level.
    pub at: usize,
    /// The new level over the one before it.
    pub step: Estimate,
}

/// Sums over runs, for the level of any stretch of them.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    /// Of the logarithms of their ratios, less the first one's.
    value: f64,
    square: f64,
    /// Of the variances that their intervals claim.
    own_variance: f64,
}

/// Two levels.
#[derive(Clone, Copy, Debug)]
struct Levels {
    /// The second less the first.
    difference: f64,
    /// Standard error of the difference by the scatter of the runs around their levels.
    error: f64,
    /// The same by the intervals of the runs.
    own_error: f64,
    freedom: u32,
}

/// The shifts of a series in the order of time; none where it has fewer than four runs.
///
/// ```
/// use surtax_statistics::{Block, overhead, shifts};
///
/// let run = |ratio: f64| {
///     let block = |by: f64| Block::new(&[1.0], &[ratio * by]);
///     overhead(&[block(0.99)?, block(1.0)?, block(1.01)?, block(1.0)?]).map_err(Into::into)
/// };
/// let series: Result<Vec<_>, Box<dyn std::error::Error>> =
///     [1.20, 1.21, 1.19, 1.20, 1.31, 1.29, 1.30].map(run).into_iter().collect();
/// let found = shifts(&series?);
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].at, 4);
/// assert!(found[0].step.holds(1.30 / 1.20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn shifts(series: &[Estimate]) -> Vec<Shift> {
    let sums = Sums::up_to_each(series);
    let mut places = Vec::new();
    segment(&sums, 0, series.len(), &mut places);
    places.sort_unstable();
    let ends = places.iter().skip(1).copied().chain([series.len()]);
    let begins = std::iter::once(0).chain(places.iter().copied());
    let shift = |((begin, &at), end): ((usize, &usize), usize)| {
        let [before, after] = [sums[at] - sums[begin], sums[end] - sums[at]];
        Shift { at, step: Levels::of(before, after).step(end - begin) }
    };
    begins.zip(&places).zip(ends).map(shift).collect()
}

/// Finds the places in a stretch of a series.
fn segment(sums: &[Sums], begin: usize, end: usize, places: &mut Vec<usize>) {
    let all = sums[end] - sums[begin];
    // An inside that reaches to the end is a level that stays.
    let inside = |from: usize, to: usize| {
        let inside = sums[to] - sums[from];
        ([from, to], Levels::of(all - inside, inside))
    };
    // One run far off makes a level of itself and its neighbour: t knows no bound to how far.
    let rests_on_many = |[from, to]: [usize; 2], levels: &Levels| {
        let within = sums[to] - sums[from];
        (begin..end).all(|index| {
            let one = sums[index + 1] - sums[index];
            let is_inside = (from..to).contains(&index);
            let (outside, within) = match is_inside {
                true => (all - within, within - one),
                false => (all - within - one, within),
            };
            Levels::of(outside, within).agree_with(levels)
        })
    };
    let last = end.saturating_sub(SIDE_MIN);
    let stays = || (begin + SIDE_MIN..=last).map(move |at| inside(at, end));
    let goes = || {
        let to = |from: usize| (from + SIDE_MIN..=last).map(move |to| inside(from, to));
        (begin + SIDE_MIN..=last).flat_map(to)
    };
    let accepted =
        |(place, levels): ([usize; 2], Levels)| rests_on_many(place, &levels).then_some(place);
    let found = best(stays()).and_then(accepted).or_else(|| best(goes()).and_then(accepted));
    let Some(found) = found else { return };
    let found: Vec<usize> = found.into_iter().filter(|at| *at < end).collect();
    places.extend(&found);
    let begins = std::iter::once(begin).chain(found.iter().copied());
    for (begin, end) in begins.zip(found.iter().copied().chain([end])) {
        segment(sums, begin, end, places);
    }
}

/// The place of the largest t, if that is a shift as the best of them all.
fn best<P>(all: impl Iterator<Item = (P, Levels)>) -> Option<(P, Levels)> {
    let mut comparisons: u32 = 0;
    let counted = all.inspect(|_| comparisons += 1);
    let best = counted.max_by(|(_, one), (_, other)| one.t().total_cmp(&other.t()));
    best.filter(|(_, levels)| levels.differ(comparisons))
}

impl Sums {
    /// Sums of no run, of the first, of the first two, and so on.
    fn up_to_each(series: &[Estimate]) -> Vec<Self> {
        let first = series.first().map_or(0.0, |run| run.ratio.ln());
        let mut sums = vec![Self::default()];
        sums.extend(series.iter().scan(Self::default(), |sums, run| {
            let half = (run.high / run.low).ln() / 2.0;
            let error = half / normal::quantile(1.0 - run.confidence.tail());
            let value = run.ratio.ln() - first;
            *sums = Self {
                count: sums.count + 1.0,
                value: sums.value + value,
                square: sums.square + value * value,
                own_variance: sums.own_variance + error * error,
            };
            Some(*sums)
        }));
        sums
    }

    fn level(self) -> f64 {
        self.value / self.count
    }

    /// Sum of the squares of what each run is from their level.
    fn scatter(self) -> f64 {
        match self.square - self.value * self.level() {
            scatter if scatter > self.count * EQUAL * EQUAL => scatter,
            _ => 0.0,
        }
    }

    /// Variance of the level, as the intervals have it.
    fn own_variance_of_level(self) -> f64 {
        self.own_variance / (self.count * self.count)
    }
}

impl Sub for Sums {
    type Output = Self;

    fn sub(self, fewer: Self) -> Self {
        Self {
            count: self.count - fewer.count,
            value: self.value - fewer.value,
            square: self.square - fewer.square,
            own_variance: self.own_variance - fewer.own_variance,
        }
    }
}

impl Levels {
    /// Those of two sets of runs, of which each has one at least.
    fn of(one: Sums, other: Sums) -> Self {
        let freedom = (one.count + other.count - 2.0).max(0.0);
        let variance = (one.scatter() + other.scatter()) / freedom.max(1.0);
        let own_variance = one.own_variance_of_level() + other.own_variance_of_level();
        Self {
            difference: other.level() - one.level(),
            error: (variance * (1.0 / one.count + 1.0 / other.count)).sqrt(),
            own_error: own_variance.max(0.0).sqrt(),
            freedom: whole(freedom),
        }
    }

    /// Student's t, without its sign.
    fn t(&self) -> f64 {
        match self.difference.abs() / self.error {
            t if t.is_nan() || self.difference.abs() < EQUAL => 0.0,
            t => t,
        }
    }

    /// Tells whether they are two, as the best of so many comparisons.
    fn differ(&self, comparisons: u32) -> bool {
        let share = 1.0 - FALSE_SHIFT / 2.0 / f64::from(comparisons);
        let of_each = Confidence::new(share).unwrap_or(Confidence::P99);
        let own = self.own_error * normal::quantile(1.0 - of_each.tail());
        self.t() > critical_value(self.freedom, of_each) && self.difference.abs() > own
    }

    /// Tells whether they are apart, and in the same direction as others are.
    fn agree_with(&self, others: &Self) -> bool {
        let quantile = Confidence::new(1.0 - WITHOUT_ONE).unwrap_or(Confidence::P99);
        let is_apart = self.t() > critical_value(self.freedom, quantile);
        is_apart && (self.difference > 0.0) == (others.difference > 0.0)
    }

    /// The second over the first; the interval is that of the larger error.
    fn step(&self, runs: usize) -> Estimate {
        let confidence = Confidence::P95;
        let half = critical_value(self.freedom, confidence) * self.error.max(self.own_error);
        let end = |half: f64| (self.difference + half).exp();
        Estimate {
            ratio: end(0.0),
            low: end(-half),
            high: end(half),
            confidence,
            block_count: runs,
            method: Method::Student,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number of runs, which are few"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// A run of this log-ratio, whose interval claims an error of 1 %.
    fn run(value: f64) -> Estimate {
        let half = 0.01 * 1.96;
        let end = |by: f64| (value + by).exp();
        let confidence = Confidence::P95;
        let method = Method::SignedRank;
        let block_count = 10;
        Estimate {
            ratio: end(0.0),
            low: end(-half),
            high: end(half),
            confidence,
            block_count,
            method,
        }
    }

    /// Normal noise of 1 %.
    fn noise(random: &mut ChaCha8Rng) -> f64 {
        0.01 * normal::quantile(random.random_range(1e-12..1.0 - 1e-12))
    }

    /// A series of so many runs, which are dearer by `step` from the run `at` on.
    fn series(seed: u64, length: usize, at: usize, step: f64) -> Vec<Estimate> {
        noisy_series(seed, length, at, step, 1.0)
    }

    /// The same where runs scatter so many times as much as their intervals claim.
    fn noisy_series(seed: u64, length: usize, at: usize, step: f64, times: f64) -> Vec<Estimate> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let level = |index| if index >= at { step } else { 0.0 };
        (0..length).map(|index| run(level(index) + times * noise(&mut random))).collect()
    }

    #[test]
    fn of_a_thousand_series_without_a_shift_hardly_one_in_a_hundred_has_one() {
        for (length, times) in [4, 6, 12, 40].into_iter().flat_map(|it| [(it, 1.0), (it, 3.0)]) {
            let is_shifted =
                |seed: &u64| !shifts(&noisy_series(*seed, length, 0, 0.0, times)).is_empty();
            let count = (0..1000).filter(is_shifted).count();
            // 1 % exceeds it once in a thousand campaigns.
            assert!(count <= 21, "{count} of 1,000 series of {length} runs, {times} times");
        }
    }

    #[test]
    fn a_shift_of_five_errors_is_found_where_it_is_and_its_interval_holds_it() {
        let step = 0.05_f64;
        for (length, at, least) in [(8, 4, 120), (12, 8, 180), (20, 10, 195), (20, 17, 180)] {
            let (mut there, mut held) = (0, 0);
            for seed in 0..200 {
                let found = shifts(&series(seed, length, at, step));
                let near = found.iter().find(|it| it.at.abs_diff(at) <= 1);
                there += u32::from(near.is_some());
                held += u32::from(near.is_some_and(|it| it.step.holds(step.exp())));
            }
            assert!(there >= least, "{there} of 200 at {at} of {length}");
            assert!(held * 100 >= there * 88, "{held} of {there} at {at} of {length}");
        }
    }

    #[test]
    fn two_shifts_are_two_and_one_odd_run_is_none() {
        let mut up_and_down = series(1, 24, 8, 0.1);
        for run in &mut up_and_down[16..] {
            *run = Estimate {
                ratio: run.ratio / 1.1,
                low: run.low / 1.1,
                high: run.high / 1.1,
                ..*run
            };
        }
        let places: Vec<usize> = shifts(&up_and_down).iter().map(|it| it.at).collect();
        assert_eq!(places, [8, 16]);
        for length in [12, 24, 30, 60] {
            for at in [0, 1, length / 2, length - 2, length - 1] {
                let mut odd = series(2, length, 0, 0.0);
                odd[at] = run(0.5);
                assert_eq!(shifts(&odd), [], "the one at {at} of {length}");
            }
        }
    }

    #[test]
    fn exact_counts_have_the_levels_that_they_have() {
        let exact = |ratio: f64| Estimate { ratio, low: ratio, high: ratio, ..run(0.0) };
        let counts: Vec<Estimate> = [vec![exact(1.5); 3], vec![exact(1.7); 20]].concat();
        assert_eq!(shifts(&counts).iter().map(|it| it.at).collect::<Vec<_>>(), [3]);
        assert_eq!(shifts(&[exact(1.7); 30]), []);
    }

    #[test]
    fn levels_that_the_runs_cannot_tell_apart_are_one_however_little_they_scatter() {
        let level = |index| if index < 6 { 0.0 } else { 0.005 };
        let still: Vec<Estimate> = (0..12).map(|index| run(level(index))).collect();
        assert_eq!(shifts(&still), []);
        assert_eq!(shifts(&still[..1]), []);
        assert_eq!(shifts(&[]), []);
        let apart: Vec<Estimate> = (0..12).map(|index| run(10.0 * level(index))).collect();
        assert_eq!(shifts(&apart).iter().map(|it| it.at).collect::<Vec<_>>(), [6]);
    }
}
