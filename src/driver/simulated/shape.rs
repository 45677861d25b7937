//! Shapes of noise: what disturbs a simulated trial, as a pure function of its place in the run.
//!
//! Two things make a trial slow. What is its own is drawn from a stream that no other trial has.
//! What is the machine's (a drift, a step, a burst) is a function of the seed and of the instant,
//! so that all arms see the same machine, whichever of them runs just then. The simulation in the
//! tests of `statistics` draws its noise itself: it knows no rooms and no instants, and its bars
//! are tied to the numbers that its own seeds give.

use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;

/// The second part of the key of what is the machine's.
const PURPOSE: &[u8; 24] = b"surtax: simulated noise.";

/// Instants in a block; a block of fewer trials leaves the rest of them idle.
const INSTANTS: u64 = 16;

/// Position of a trial in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialPosition {
    pub(super) seed: u64,
    pub(super) block: u32,
    pub(super) position: u32,
}

/// Distribution of the logarithm of a trial's time around the true one. Sizes are in deviations of
/// `noise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Normal in the logarithm, and nothing else.
    Lognormal,
    /// The machine wanders, and becomes slower over the run.
    Drift,
    /// Now and then the machine is slow for up to four trials, by a power law.
    Bursts,
    /// Student's t with three degrees of freedom: few trials, but those far off on both sides.
    HeavyTail,
    /// Three trials of ten run in a mode that is four deviations slower.
    Bimodal,
    /// The first place of a block is two deviations slower.
    Position,
    /// In every fourth block, somewhere in it, the machine takes another level.
    Steps,
    /// Exponential: trials are only ever slowed.
    Skewed,
    /// Noise that disturbs one trial still disturbs the next (autoregressive, 0.9).
    Autocorrelated,
    /// One trial of thirty takes up to five times as long.
    Outliers,
}

/// Every shape with its name in a stack's text.
pub(super) const SHAPES: [(&str, Shape); 10] = [
    ("lognormal", Shape::Lognormal),
    ("drift", Shape::Drift),
    ("bursts", Shape::Bursts),
    ("heavy-tail", Shape::HeavyTail),
    ("bimodal", Shape::Bimodal),
    ("position", Shape::Position),
    ("steps", Shape::Steps),
    ("skewed", Shape::Skewed),
    ("autocorrelated", Shape::Autocorrelated),
    ("outliers", Shape::Outliers),
];

/// The names alone, for the descriptor.
pub const NAMES: &[&str] = &[
    "lognormal", "drift", "bursts", "heavy-tail", "bimodal", "position", "steps", "skewed",
    "autocorrelated", "outliers",
];

impl Shape {
    pub(super) fn named(name: &str) -> Option<Self> {
        SHAPES.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }

    /// By how much the logarithm of one trial's time is off. `own` is the trial's own stream.
    pub(super) fn ln_noise(self, deviation: f64, place: TrialPosition, own: &mut impl Rng) -> f64 {
        let machine = Machine::of(place.seed);
        let now = u64::from(place.block) * INSTANTS + u64::from(place.position).min(INSTANTS - 1);
        deviation
            * match self {
                Self::Lognormal => normal(own),
                Self::Drift => normal(own) + machine.drift(now),
                Self::Bursts => normal(own) + machine.burst(now),
                Self::HeavyTail => {
                    // Its variance is 3; so the deviation is that of the others.
                    let squares: f64 = (0..3).map(|_| normal(own).powi(2)).sum();
                    normal(own) / squares.sqrt()
                }
                Self::Bimodal => normal(own) / 3.0 + if own.random_bool(0.3) { 4.0 } else { 0.0 },
                Self::Position => normal(own) + if place.position == 0 { 2.0 } else { 0.0 },
                Self::Steps => normal(own) + machine.level(place.block, now),
                Self::Skewed => -(1.0 - own.random::<f64>()).ln(),
                Self::Autocorrelated => normal(own) / 3.0 + machine.lingering(now),
                Self::Outliers => {
                    let normal = normal(own);
                    let is_one = own.random_bool(1.0 / 30.0);
                    let ln_times = own.random::<f64>() * 5.0_f64.ln();
                    return deviation * normal + if is_one { ln_times } else { 0.0 };
                }
            }
    }
}

/// Noise that is the machine's, at any instant: numbers drawn by index, and not one after another.
struct Machine {
    stream: ChaCha8Rng,
}

impl Machine {
    fn of(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..].copy_from_slice(PURPOSE);
        Self { stream: ChaCha8Rng::from_seed(key) }
    }

    /// The numbers of an index, in a lane of their own.
    fn at(&self, lane: u64, index: u64) -> ChaCha8Rng {
        let mut stream = self.stream.clone();
        stream.set_stream(lane);
        // Four numbers of two words each are the most that is drawn at one index.
        stream.set_word_pos(u128::from(index) * 8);
        stream
    }

    /// A random walk: half a deviation a trial, and a third of one upward a block.
    fn drift(&self, now: u64) -> f64 {
        let mut stream = self.at(1, 0);
        let walk: f64 = (0..now).map(|_| 0.5 * normal(&mut stream)).sum();
        walk + whole(now) / whole(INSTANTS) / 3.0
    }

    /// Sums what is left of the bursts that began at this instant or at one of the three before it.
    fn burst(&self, now: u64) -> f64 {
        let began = now.saturating_sub(3)..=now;
        let size = |at: u64| {
            let mut drawn = self.at(2, at);
            let begins = drawn.random_bool(0.05);
            let (lasts, size) = (drawn.random_range(0..4_u64), drawn.random::<f64>());
            if begins && at + lasts >= now { 1.7 / size.max(1e-3).powf(0.7) } else { 0.0 }
        };
        began.map(size).sum()
    }

    /// The level of a machine that takes another one in every fourth block, at one of its first
    /// four instants.
    fn level(&self, block: u32, now: u64) -> f64 {
        let step = |block: u32| {
            let mut drawn = self.at(3, u64::from(block));
            let happens = drawn.random_bool(0.25);
            let at = u64::from(block) * INSTANTS + drawn.random_range(0..4_u64);
            (happens && at <= now).then(|| 4.0 * normal(&mut drawn))
        };
        (0..=block).rev().find_map(step).unwrap_or(0.0)
    }

    /// A stationary process of deviation 1, from as many past numbers as still matter.
    fn lingering(&self, now: u64) -> f64 {
        const KEPT: f64 = 0.9;
        const PAST: u64 = 60;
        let past = now.saturating_sub(PAST)..=now;
        let sum = past.fold(0.0, |sum, at| KEPT * sum + normal(&mut self.at(4, at)));
        sum * (1.0 - KEPT * KEPT).sqrt()
    }
}

/// Box and Muller, Annals of Mathematical Statistics 29(2), 1958.
fn normal(random: &mut impl Rng) -> f64 {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (TAU * angle).cos()
}

fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(shape: Shape, block: u32, position: u32, own: u64) -> f64 {
        let place = TrialPosition { seed: 7, block, position };
        shape.ln_noise(0.03, place, &mut ChaCha8Rng::seed_from_u64(own))
    }

    /// Returns the noise that all arms would see: the same number of the trial's own, at every
    /// place.
    fn machine(shape: Shape) -> Vec<f64> {
        let places = (0..40).flat_map(|block| (0..3).map(move |position| (block, position)));
        places.map(|(block, position)| noise(shape, block, position, 1)).collect()
    }

    #[test]
    fn every_shape_has_the_name_on_the_descriptor() {
        assert_eq!(SHAPES.map(|(name, _)| name), NAMES);
        assert_eq!(Shape::named("drift"), Some(Shape::Drift));
        assert_eq!(Shape::named("drfit"), None);
    }

    #[test]
    fn a_place_has_the_same_noise_for_ever_and_finite_noise_everywhere() {
        for (name, shape) in SHAPES {
            for own in 0..500 {
                let once = noise(shape, 3, 1, own);
                assert!(once.is_finite(), "{name}");
                assert_eq!(once.to_bits(), noise(shape, 3, 1, own).to_bits(), "{name}");
            }
        }
    }

    #[test]
    fn what_is_the_machines_depends_on_the_instant_and_not_on_the_arm() {
        for (shape, has_machine) in [
            (Shape::Lognormal, false),
            (Shape::HeavyTail, false),
            (Shape::Bimodal, false),
            (Shape::Skewed, false),
            (Shape::Outliers, false),
            (Shape::Drift, true),
            (Shape::Bursts, true),
            (Shape::Position, true),
            (Shape::Steps, true),
            (Shape::Autocorrelated, true),
        ] {
            let seen = machine(shape);
            let differs = seen.iter().any(|value| value.to_bits() != seen[0].to_bits());
            assert_eq!(differs, has_machine, "{shape:?}");
        }
        // Two arms that draw other numbers of their own see the same drift between two instants.
        let slope = |own| noise(Shape::Drift, 9, 2, own) - noise(Shape::Drift, 0, 0, own);
        assert!((slope(1) - slope(2)).abs() < 1e-12);
    }

    #[test]
    fn a_skewed_machine_never_speeds_up_and_an_outlier_is_a_matter_of_one_in_thirty() {
        let draws = |shape| (0..3000).map(move |own| noise(shape, 0, 1, own));
        assert!(draws(Shape::Skewed).all(|value| value >= 0.0));
        let far = draws(Shape::Outliers).filter(|value| *value > 0.2).count();
        assert!((50..150).contains(&far), "{far}");
    }
}
