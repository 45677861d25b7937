//! Runs with a known cost and a known kind of noise.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use surtax_statistics::Block;

/// What disturbs a trial; numbers are standard deviations of the logarithm.
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
}

/// What the trials of one block took.
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
    let mut drift = 0.0;
    let block = |_| {
        if let Noise::Drift = noise {
            drift += 0.01 + 0.05 * normal(&mut random);
        }
        let mut trial = || (drift + ln_noise(noise, &mut random)).exp();
        Times { baseline: trial(), baseline_again: trial(), arm: cost * trial() }
    };
    (0..block_count).map(block).collect()
}

/// By how much the logarithm of one trial's time is off.
pub fn ln_noise(noise: Noise, random: &mut ChaCha8Rng) -> f64 {
    match noise {
        Noise::Lognormal(deviation) => deviation * normal(random),
        Noise::Drift => 0.03 * normal(random),
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
