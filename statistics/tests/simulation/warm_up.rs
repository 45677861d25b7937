//! Warm-up: how often a planted one is found, and how often one is found where there is none.

use crate::noise::{Noise, ln_noise, normal};
use crate::share;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use surtax_statistics::{Steadiness, WarmUp, warm_up};

/// Boots that share nothing but the warm-up: each has a speed of its own, and wanders by `walk` (a
/// standard deviation of the logarithm) from one iteration to the next.
#[derive(Clone, Copy, Debug)]
struct Boots {
    noise: Noise,
    walk: f64,
    boot_count: usize,
    iteration_count: usize,
}

impl Boots {
    /// Returns the warm-up that is found when the leading iterations take so many times as long.
    fn found(&self, slower: &[f64], seed: u64) -> WarmUp {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let boot = |_| {
            let mut own = 0.05 * normal(&mut random);
            let time = |iteration| {
                own += self.walk * normal(&mut random);
                let ln_time = own + ln_noise(self.noise, &mut random);
                ln_time.exp() * slower.get(iteration).unwrap_or(&1.0)
            };
            (0..self.iteration_count).map(time).collect()
        };
        warm_up(&(0..self.boot_count).map(boot).collect::<Vec<_>>()).unwrap()
    }

    /// The share of arms without a warm-up of which one is said.
    fn false_rate(&self, run_count: u32) -> f64 {
        share(run_count, |seed| self.found(&[], seed).iteration_count > 0)
    }
}

const SHAPES: [(Noise, f64); 6] = [
    (Noise::Lognormal(0.01), 0.0),
    (Noise::Lognormal(0.1), 0.0),
    (Noise::Bursts, 0.0),
    (Noise::Bimodal, 0.0),
    (Noise::Skewed(0.1), 0.0),
    (Noise::Lognormal(0.01), 0.02),
];

#[test]
fn where_there_is_no_warm_up_one_is_found_in_at_most_two_of_a_hundred_arms() {
    for (noise, walk) in SHAPES {
        for (boot_count, iteration_count) in [(3, 4), (5, 10), (10, 6), (30, 5)] {
            let boots = Boots { noise, walk, boot_count, iteration_count };
            let wrong = boots.false_rate(2000);
            println!("{boots:?}: {wrong}");
            assert!(wrong <= 0.02, "{wrong} of the arms of {boots:?}");
        }
    }
}

#[test]
fn a_planted_warm_up_of_one_to_three_iterations_is_found_whole() {
    let (noise, walk) = (Noise::Lognormal(0.01), 0.0);
    for (boot_count, iteration_count) in [(5, 8), (10, 10), (20, 8)] {
        let boots = Boots { noise, walk, boot_count, iteration_count };
        for leading in 1..=3 {
            // 30 % at first, 8 % at last.
            let slower = &[1.3, 1.15, 1.08][3 - leading..];
            let is_whole = |seed| {
                let found = boots.found(slower, seed);
                let leading_f64 = f64::from(u32::try_from(leading).unwrap());
                let mean = slower.iter().product::<f64>().powf(1.0 / leading_f64);
                let is_near = (found.ratio / mean - 1.0).abs() < 0.03;
                let is_steady = found.steadiness == Steadiness::Reached;
                found.iteration_count == leading && is_near && is_steady
            };
            let whole = share(200, is_whole);
            println!("{boots:?}, {leading} slower: {whole}");
            assert!(whole >= 0.95, "{leading}: {whole} of the arms of {boots:?}");
        }
    }
}

#[test]
fn an_arm_that_speeds_up_to_its_end_is_never_steady() {
    let noise = Noise::Lognormal(0.01);
    let boots = Boots { noise, walk: 0.0, boot_count: 10, iteration_count: 8 };
    let slower = [1.35, 1.30, 1.25, 1.20, 1.15, 1.10, 1.05, 1.0];
    let never = share(200, |seed| boots.found(&slower, seed).steadiness == Steadiness::Never);
    assert!(never >= 0.99, "{never}");
}

#[test]
#[ignore = "prints the table of warm-ups; takes minutes"]
fn warm_up_table() {
    println!("found where there is none % | first iteration 3, 5, 10 % slower: found %");
    for (noise, walk) in SHAPES {
        for boot_count in [3, 4, 5, 6, 8, 9, 10, 15, 20, 40] {
            for iteration_count in [4, 5, 10, 20] {
                let boots = Boots { noise, walk, boot_count, iteration_count };
                let found = |slower: f64| {
                    let is_found = |seed| boots.found(&[slower], seed + (1 << 32)).iteration_count;
                    100.0 * share(2000, |seed| is_found(seed) > 0)
                };
                println!(
                    "{noise:?} walk {walk} n={boot_count} of {iteration_count}: {:.2} | {:.1} \
                     {:.1} {:.1}",
                    100.0 * boots.false_rate(10_000),
                    found(1.03),
                    found(1.05),
                    found(1.1),
                );
            }
        }
    }
}
