//! Computations of a report on its trials: every number of twenty arms over again.
//!
//! - **Measures** the time for overhead, verdict, p-value and smallest detectable effect of each
//!   arm, the noise floor, and Holm's adjustment of all. Arms cost 0 % to 9.5 % under lognormal
//!   noise of 3 %.
//! - **Peer** none: this is absolute.
//! - **Bar** 100 ms for 20 arms of 200 trials, the worst of 20 times: a campaign that looks after
//!   every block spends no more on that. `--count` is how often.
//! - **Command** `cargo bench --bench estimators -- --enforce`.

mod figure;

use figure::{Figure, Sheet};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;
use std::process::ExitCode;
use surtax_instrument::clock;
use surtax_statistics::{
    Block, NoiseFloor, detectable_effect, holm, noise_floor, overhead, p_value, verdict,
};

/// Arms beside the two of the baseline.
const ARMS: u32 = 20;

/// Trials of each arm.
const TRIALS: u32 = 200;

/// Number of times that all is computed; the worst counts.
const TIMES: u32 = 20;

/// Margin that is taken as equivalent.
const MARGIN: f64 = 0.03;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let count = sheet.count(TIMES);
    let (pairs, arms) = run();
    let mut worst = 0.0_f64;
    for _ in 0..count {
        let began = clock::monotonic_raw();
        black_box(compute(black_box(&pairs), black_box(&arms)));
        worst = worst.max(clock::monotonic_raw().since(began).seconds());
    }
    let name = format!("estimators: all of {ARMS} arms of {TRIALS} trials, worst");
    let (value, bar) = (worst * 1e3, Some(0.0..=100.0));
    sheet.put(&Figure { name: &name, value, interval: None, unit: "ms", bar, count });
    sheet.close()
}

/// Computes what a report shows of all arms; returns how many differ, so that nothing of it is left
/// out.
fn compute(pairs: &[Block], arms: &[Vec<Block>]) -> usize {
    let noise: NoiseFloor = noise_floor(pairs).expect("there are enough blocks");
    let mut p_values = Vec::new();
    for blocks in arms {
        let cost = overhead(blocks).expect("there are enough blocks");
        black_box((verdict(&cost, &noise, MARGIN), detectable_effect(&cost)));
        p_values.push(p_value(blocks).expect("there are enough blocks"));
    }
    holm(&p_values).into_iter().filter(|&adjusted| adjusted < 0.05).count()
}

/// The blocks of the baseline with itself, and those of each arm.
fn run() -> (Vec<Block>, Vec<Vec<Block>>) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut trial = |cost: f64| {
        let noise: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        cost * (0.03 * noise).exp()
    };
    let mut pairs = Vec::new();
    let mut arms = vec![Vec::new(); ARMS as usize];
    for _ in 0..TRIALS {
        let baseline = [trial(1.0), trial(1.0)];
        let block = |baseline: &[f64], arm: f64| Block::new(baseline, &[arm]).expect("times");
        pairs.push(block(&baseline[..1], baseline[1]));
        for (arm, blocks) in (0_u32..).zip(&mut arms) {
            blocks.push(block(&baseline, trial(1.0 + 0.005 * f64::from(arm))));
        }
    }
    (pairs, arms)
}
