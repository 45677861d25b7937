//! Simulated runs with a known cost: how often intervals hold it, and how often verdicts are wrong.
//!
//! The tables behind the choice of method, of the rule that stops and of the p-value, of the power,
//! and of the warm-up; with what was not chosen beside the first (ten minutes): `cargo test
//! --release -p surtax-statistics --test simulation -- --ignored --nocapture`.

#![expect(clippy::unwrap_used, reason = "a run that cannot be evaluated must fail its test")]

mod bootstrap;
mod centre;
mod coverage;
mod family;
mod noise;
mod power;
mod stopping;
mod warm_up;

use bootstrap::Bootstrap;
use noise::{Noise, Times, run};
use surtax_statistics::{
    Block, Confidence, Estimate, Method, NoiseFloor, Sample, Verdict, critical_value, noise_floor,
    overhead, overhead_at, quantile, quantile_interval, verdict,
};

const COST: f64 = 1.07;

fn estimate(times: &[Times]) -> Estimate {
    overhead(&times.iter().map(Times::block).collect::<Vec<_>>()).unwrap()
}

fn floor(times: &[Times]) -> NoiseFloor {
    noise_floor(&times.iter().map(Times::pair).collect::<Vec<_>>()).unwrap()
}

/// The share of `run_count` simulated runs of which `is` is true.
fn share(run_count: u32, is: impl Fn(u64) -> bool) -> f64 {
    f64::from((0..run_count).map(|seed| u32::from(is(seed.into()))).sum::<u32>())
        / f64::from(run_count)
}

fn coverage(noise: Noise, block_count: usize, run_count: u32) -> f64 {
    share(run_count, |seed| estimate(&run(noise, block_count, COST, seed)).holds(COST))
}

#[test]
fn a_cost_of_seven_percent_under_three_percent_noise_is_held_in_93_of_100_runs() {
    for block_count in [3, 5, 8, 10, 20, 40] {
        let held = coverage(Noise::Lognormal(0.03), block_count, 100);
        println!("{block_count} blocks: {held}");
        assert!(held >= 0.93, "{held} of the runs of {block_count} blocks");
    }
}

#[test]
fn lognormal_noise_is_covered_at_every_number_of_blocks() {
    for (deviation, block_count, run_count) in [
        (0.01, 3, 4000),
        (0.03, 6, 4000),
        (0.03, 5, 4000),
        (0.1, 8, 4000),
        (0.03, 10, 4000),
        (0.03, 20, 2000),
        (0.1, 40, 1000),
    ] {
        let held = coverage(Noise::Lognormal(deviation), block_count, run_count);
        assert!(held >= 0.94, "{held} of the runs of {block_count} blocks, {deviation}");
    }
}

#[test]
fn bursts_and_drift_and_a_slow_mode_are_covered() {
    for noise in [Noise::Bursts, Noise::Drift, Noise::Bimodal] {
        for (block_count, run_count) in [(3, 1000), (10, 1000), (40, 500)] {
            let held = coverage(noise, block_count, run_count);
            assert!(held >= 0.93, "{held} of the runs of {block_count} blocks, {noise:?}");
        }
    }
}

#[test]
fn equal_arms_are_called_different_in_less_than_one_of_a_hundred_runs() {
    for noise in [Noise::Lognormal(0.03), Noise::Bursts, Noise::Bimodal] {
        for (block_count, run_count) in [(3, 1000), (5, 1000), (10, 1000), (20, 500)] {
            let wrong = share(run_count, |seed| {
                let times = run(noise, block_count, 1.0, seed);
                verdict(&estimate(&times), &floor(&times), 0.02) == Verdict::Differs
            });
            assert!(wrong <= 0.01, "{wrong} of the runs of {block_count} blocks, {noise:?}");
        }
    }
}

#[test]
fn a_cost_of_seven_percent_under_three_percent_noise_is_found_in_nine_of_ten_runs_of_ten_blocks() {
    let found = share(500, |seed| {
        let times = run(Noise::Lognormal(0.03), 10, COST, seed);
        verdict(&estimate(&times), &floor(&times), 0.02) == Verdict::Differs
    });
    assert!(found >= 0.9, "{found}");
}

#[test]
fn equal_arms_are_found_equivalent_when_the_noise_is_small_against_the_margin() {
    let found = share(300, |seed| {
        let times = run(Noise::Lognormal(0.01), 10, 1.0, seed);
        verdict(&estimate(&times), &floor(&times), 0.02) == Verdict::Equivalent
    });
    assert!(found >= 0.9, "{found}");
    // TOST's promise: a cost on the margin itself passes at most 1 in 40 times.
    let wrong = share(1000, |seed| {
        let times = run(Noise::Lognormal(0.01), 10, 1.02, seed);
        estimate(&times).within(0.02)
    });
    assert!(wrong <= 0.035, "{wrong}");
}

#[test]
fn the_median_of_one_arm_is_covered_as_often_as_the_binomial_says() {
    // Twelve values, third to tenth: 1 - 2 × (1 + 12 + 66) / 2¹² = 0.961.
    let held = share(4000, |seed| {
        let times: Vec<f64> =
            run(Noise::Lognormal(0.1), 12, 1.0, seed).iter().map(|t| t.arm).collect();
        let sample = Sample::new(&times).unwrap();
        let interval = quantile_interval(&sample, 0.5, Confidence::P95).unwrap();
        interval.low <= 1.0 && 1.0 <= interval.high
    });
    assert!((held - 0.961).abs() < 0.01, "{held}");
}

#[test]
fn a_quantile_of_one_arm_is_covered_as_often_as_the_binomial_says() {
    // The p90 of the normal is 1.2816 deviations above its median.
    let truth = (0.1_f64 * 1.281_552).exp();
    for (count, run_count) in [(36, 4000), (100, 2000)] {
        let held = share(run_count, |seed| {
            let times: Vec<f64> =
                run(Noise::Lognormal(0.1), count, 1.0, seed).iter().map(|t| t.arm).collect();
            let sample = Sample::new(&times).unwrap();
            let interval = quantile_interval(&sample, 0.9, Confidence::P95).unwrap();
            interval.low <= truth && truth <= interval.high
        });
        let any = Sample::new(&vec![1.0; count]).unwrap();
        let promised = quantile_interval(&any, 0.9, Confidence::P95).unwrap().confidence;
        assert!((held - promised).abs() < 0.012, "{held} of {count} values, {promised}");
    }
}

/// The ratio of the arm's median to that of all baseline values, blocks resampled.
fn bootstrap_holds(times: &[Times], seed: u64) -> bool {
    let median = |values: Vec<f64>| quantile(&Sample::new(&values).unwrap(), 0.5);
    let ratio = |drawn: &[Times]| {
        median(drawn.iter().map(|t| t.arm).collect())
            / median(drawn.iter().flat_map(|t| [t.baseline, t.baseline_again]).collect())
    };
    let draws = Bootstrap { resample_count: 300, seed };
    let bounds = draws.interval(times, Confidence::P95, ratio).unwrap();
    bounds.low <= COST && COST <= bounds.high
}

#[test]
fn the_bootstrap_of_a_ratio_of_medians_covers_nine_of_ten_from_its_fewest_blocks_on() {
    for block_count in [Bootstrap::BLOCKS_MIN, 20] {
        let held = share(200, |seed| {
            bootstrap_holds(&run(Noise::Lognormal(0.03), block_count, COST, seed), seed)
        });
        assert!(held >= 0.88, "{held} of the runs of {block_count} blocks");
    }
}

/// Student's t at every number of blocks: the alternative that was not chosen.
fn student(times: &[Times], confidence: Confidence) -> (f64, f64) {
    let ln_ratios: Vec<f64> = times.iter().map(|t| t.block().ratio().ln()).collect();
    let count = f64::from(u32::try_from(ln_ratios.len()).unwrap());
    let mean = ln_ratios.iter().sum::<f64>() / count;
    let squares = ln_ratios.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let t = critical_value(u32::try_from(ln_ratios.len() - 1).unwrap(), confidence);
    let half = t * (squares / (count - 1.0) / count).sqrt();
    ((mean - half).exp(), (mean + half).exp())
}

fn median_half_width(of: impl Fn(u64) -> f64) -> f64 {
    quantile(&Sample::counts(&(0..1000).map(of).collect::<Vec<_>>()).unwrap(), 0.5)
}

#[test]
#[ignore = "prints the table behind the choice of method; takes minutes"]
fn table() {
    const RUNS: u32 = 20_000;
    println!(
        "coverage %, median half-width | coverage of t, its half-width | bootstrap | A/A wrong % | \
         7 % found %: verdict, interval alone"
    );
    for noise in [
        Noise::Lognormal(0.01),
        Noise::Lognormal(0.03),
        Noise::Lognormal(0.1),
        Noise::Bursts,
        Noise::Drift,
        Noise::Bimodal,
    ] {
        for block_count in [3, 4, 5, 6, 7, 8, 10, 20, 40, 100] {
            let simulate = |seed| run(noise, block_count, COST, seed);
            let student_holds = |(low, high): (f64, f64)| low <= COST && COST <= high;
            let differs = |cost, seed| {
                let times = run(noise, block_count, cost, seed);
                verdict(&estimate(&times), &floor(&times), 0.0) == Verdict::Differs
            };
            let bootstrap = if block_count >= Bootstrap::BLOCKS_MIN {
                share(2000, |seed| bootstrap_holds(&simulate(seed), seed))
            } else {
                f64::NAN
            };
            println!(
                "{noise:?} n={block_count}: {:.1} {:.4} | {:.1} {:.4} | {:.1} | {:.2} | {:.1} \
                 {:.1}",
                100.0 * coverage(noise, block_count, RUNS),
                median_half_width(|seed| estimate(&simulate(seed)).half_width()),
                100.0
                    * share(RUNS, |seed| student_holds(student(&simulate(seed), Confidence::P95))),
                median_half_width(|seed| {
                    let (low, high) = student(&simulate(seed), Confidence::P95);
                    (high - low) / 2.0
                }),
                100.0 * bootstrap,
                100.0 * share(RUNS, |seed| differs(1.0, seed)),
                100.0 * share(2000, |seed| differs(COST, seed)),
                100.0 * share(2000, |seed| !estimate(&simulate(seed)).holds(1.0)),
            );
        }
    }
}

#[test]
fn twenty_arms_of_two_hundred_blocks_are_worked_through() {
    // No clock may be read here; `time` of this test in release gives the cost of the whole.
    for arm in 0..20 {
        let blocks: Vec<Block> =
            run(Noise::Lognormal(0.03), 200, COST, arm).iter().map(Times::block).collect();
        let found = overhead_at(&blocks, Confidence::P95).unwrap();
        assert!(found.method == Method::SignedRank && found.half_width() < 0.01);
    }
}
