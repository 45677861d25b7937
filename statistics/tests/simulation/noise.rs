//! Runs with a known cost and a known kind of noise.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use surtax_statistics::Block;

/// Noise that disturbs a trial; numbers are standard deviations of the logarithm.
#[derive(Clone, Copy, Debug)]
pub enum Noise {
    /// Multiplicative and symmetric in logarithms.
    Lognormal(f64),
    /// Lognormal 3 %, and every tenth trial is slowed by a power law without a mean.
    Bursts,
    /// Lognormal 3 % on a machine that drifts by 5 % from block to block, upward.
    Drift,
    /// Lognormal 1 %, and three trials of ten run in a mode that is 12 % slower.
    Bimodal,
    /// Exponential: trials are only ever slowed.
    Skewed(f64),
    /// Student's t with three degrees of freedom, of the scale of 3 %.
    HeavyTail,
    /// Lognormal 3 %, and the first place of a block is 6 % slower.
    Position,
    /// Lognormal 3 %, and before one trial of twelve the machine takes another level, 12 % around
    /// its own.
    Steps,
    /// Noise that disturbs one trial still disturbs the next: autoregressive, 0.9.
    Autocorrelated,
    /// Lognormal 3 %, and one trial of thirty takes up to five times as long.
    Outliers,
}

/// Ten shapes, of the kinds and about the sizes of those that the simulated layer has.
pub const SHAPES: [Noise; 10] = [
    Noise::Lognormal(0.03),
    Noise::Drift,
    Noise::Bursts,
    Noise::HeavyTail,
    Noise::Bimodal,
    Noise::Position,
    Noise::Steps,
    Noise::Skewed(0.03),
    Noise::Autocorrelated,
    Noise::Outliers,
];

/// Times of the trials of one block.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub baseline: f64,
    pub baseline_again: f64,
    pub arm: f64,
}

impl Times {
    pub fn block(&self) -> Block {
        Block::new(&[self.baseline, self.baseline_again], &[self.arm]).unwrap()
    }

    pub fn pair(&self) -> Block {
        Block::new(&[self.baseline], &[self.baseline_again]).unwrap()
    }
}

/// One run of `block_count` blocks in which the arm truly costs `cost`.
pub fn run(noise: Noise, block_count: usize, cost: f64, seed: u64) -> Vec<Times> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // What the machine is slower by at the moment, in logarithms.
    let mut machine = 0.0;
    let block = |_| {
        if let Noise::Drift = noise {
            machine += 0.01 + 0.05 * normal(&mut random);
        }
        let first = if let Noise::Position = noise { random.random_range(0..3) } else { 3 };
        let mut trial = |arm| {
            machine = after(machine, noise, &mut random);
            let place = if arm == first { 0.06 } else { 0.0 };
            (machine + place + ln_noise(noise, &mut random)).exp()
        };
        Times { baseline: trial(0), baseline_again: trial(1), arm: cost * trial(2) }
    };
    (0..block_count).map(block).collect()
}

/// The machine at the next trial.
fn after(machine: f64, noise: Noise, random: &mut ChaCha8Rng) -> f64 {
    match noise {
        Noise::Steps if random.random_bool(1.0 / 12.0) => 0.12 * normal(random),
        Noise::Autocorrelated => 0.9 * machine + 0.03 * (1.0_f64 - 0.81).sqrt() * normal(random),
        _ => machine,
    }
}

/// By how much the logarithm of one trial's time is off.
pub fn ln_noise(noise: Noise, random: &mut ChaCha8Rng) -> f64 {
    match noise {
        Noise::Lognormal(deviation) => deviation * normal(random),
        Noise::Drift | Noise::Position | Noise::Steps => 0.03 * normal(random),
        Noise::Autocorrelated => 0.01 * normal(random),
        Noise::HeavyTail => {
            let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
            0.03 * normal(random) / squares.sqrt()
        }
        Noise::Outliers => {
            let ln_times = random.random::<f64>() * 5.0_f64.ln();
            0.03 * normal(random) + if random.random_bool(1.0 / 30.0) { ln_times } else { 0.0 }
        }
        Noise::Bursts => {
            let burst = 0.05 / random.random::<f64>().max(1e-3).powf(0.7);
            0.03 * normal(random) + if random.random_bool(0.1) { burst } else { 0.0 }
        }
        Noise::Skewed(deviation) => -deviation * (1.0 - random.random::<f64>()).ln(),
        Noise::Bimodal => 0.01 * normal(random) + if random.random_bool(0.3) { 0.12 } else { 0.0 },
    }
}

/// Box and Muller, Annals of Mathematical Statistics 29(2), 1958.
pub fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}
