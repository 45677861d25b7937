//! Coverage in ten shapes of noise: how often the true cost lies outside the interval, at what
//! width.

use crate::noise::{Noise, SHAPES, run};
use crate::{COST, estimate, floor, median_half_width, share, student};
use surtax_statistics::{Block, Confidence, Estimate, Verdict, overhead_at, verdict};

/// The share of runs in all shapes together whose interval does not hold the cost.
fn outside(block_count: usize, run_count: u32) -> f64 {
    let of = |noise: Noise| {
        share(run_count, |seed| !estimate(&run(noise, block_count, COST, seed)).holds(COST))
    };
    let shares = SHAPES.map(of);
    println!("{block_count} blocks: {shares:.4?}");
    shares.iter().sum::<f64>() / 10.0
}

#[test]
fn over_ten_shapes_of_noise_so_few_are_outside_that_a_thousand_runs_show_the_promise() {
    // A share of 2.6 % gives more than 38 of 1,000 once in a hundred times.
    for (block_count, run_count) in [(3, 600), (6, 1000), (10, 1000), (12, 500), (20, 300)] {
        let outside = outside(block_count, run_count);
        assert!(outside <= 0.026, "{outside} of the runs of {block_count} blocks");
    }
}

#[test]
fn a_slow_mode_that_makes_few_blocks_alike_by_luck_is_not_believed() {
    let wrong = share(10_000, |seed| !estimate(&run(Noise::Bimodal, 3, 1.0, seed)).holds(1.0));
    assert!(wrong <= 0.01, "{wrong}");
}

#[test]
fn an_arm_with_noise_of_its_own_is_covered_as_often_as_is_promised() {
    // What the baseline is like within a block says nothing of it, and must not make it surer.
    for block_count in [3, 6, 10, 20] {
        let wrong = share(4000, |seed| {
            let (quiet, loud) = (Noise::Lognormal(0.01), Noise::Lognormal(0.06));
            let baseline = run(quiet, block_count, 1.0, seed);
            let arm = run(loud, block_count, COST, seed + (1 << 32));
            let pairs = baseline.iter().zip(&arm);
            let blocks: Vec<Block> = pairs
                .map(|(it, arm)| Block::new(&[it.baseline, it.baseline_again], &[arm.arm]).unwrap())
                .collect();
            !overhead_at(&blocks, Confidence::P95).unwrap().holds(COST)
        });
        println!("{block_count} blocks: {wrong}");
        assert!(wrong <= 0.05, "{wrong} of the runs of {block_count} blocks");
    }
}

/// Ways to make the interval, the one in use first.
fn candidates(noise: Noise, block_count: usize, cost: f64, seed: u64) -> [(f64, f64); 3] {
    let times = run(noise, block_count, cost, seed);
    let ends = |found: Estimate| (found.low, found.high);
    [
        ends(estimate(&times)),
        student(&times, Confidence::P95),
        student(&times, Confidence::new(0.98).unwrap()),
    ]
}

#[test]
#[ignore = "prints the table behind the level of intervals; takes minutes"]
fn coverage_table() {
    const RUNS: u32 = 4000;
    println!("outside %, median half-width %: ours | t at 95 % | t at 98 % || 5 % found %");
    for block_count in [3, 4, 5, 6, 8, 10, 12, 13, 16, 20, 40] {
        let mut sums = [0.0; 3];
        for noise in SHAPES {
            let row: [(f64, f64); 3] = std::array::from_fn(|way| {
                let ends = |seed| candidates(noise, block_count, COST, seed)[way];
                let outside = share(RUNS, |seed| ends(seed).0 > COST || ends(seed).1 < COST);
                let width = median_half_width(|seed| (ends(seed).1 - ends(seed).0) / 2.0);
                sums[way] += 10.0 * outside;
                (100.0 * outside, 100.0 * width)
            });
            let found = share(RUNS, |seed| {
                let times = run(noise, block_count, 1.05, seed);
                verdict(&estimate(&times), &floor(&times), 0.03) == Verdict::Differs
            });
            println!("{noise:?} n={block_count}: {row:.2?} || {:.1}", 100.0 * found);
        }
        println!("all n={block_count}: {sums:.2?}");
    }
}
