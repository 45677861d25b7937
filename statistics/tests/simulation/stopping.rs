//! The rule that stops: how often the interval holds the true cost at the block where it stops.

use crate::noise::{Noise, run};
use crate::{COST, Times};
use surtax_statistics::{
    Block, Estimate, LOOK_FROM, is_narrow_enough, overhead, relative_half_width,
};

/// No cell that is simulated takes as many.
const BLOCKS_MAX: usize = 3000;

/// Above this share of the precision the next looks are skipped, see [`look_after`].
const FAR: f64 = 1.2;

/// The estimate of a run that looks after every block, at the block where it stops.
fn stopped(noise: Noise, precision: f64, seed: u64) -> Estimate {
    // The first blocks of a longer run are those of the shorter one.
    let mut drawn = 4 * LOOK_FROM;
    let mut blocks = draw(noise, drawn, seed);
    let mut block_count = LOOK_FROM;
    while block_count <= BLOCKS_MAX {
        if block_count > drawn {
            drawn = 2 * block_count;
            blocks = draw(noise, drawn, seed);
        }
        let found = overhead(&blocks[..block_count]).unwrap();
        if is_narrow_enough(&found, precision) {
            return found;
        }
        block_count += look_after(&found, precision);
    }
    panic!("{noise:?} at {precision}: not narrow after {BLOCKS_MAX} blocks")
}

fn draw(noise: Noise, block_count: usize, seed: u64) -> Vec<Block> {
    run(noise, block_count, COST, seed).iter().map(Times::block).collect()
}

/// After how many blocks to look again. A width that is a fifth too large does not shrink by a
/// sixth within 3 % more blocks, so those looks are not simulated.
fn look_after(found: &Estimate, precision: f64) -> usize {
    if relative_half_width(found) > FAR * precision { 1 + found.block_count * 3 / 100 } else { 1 }
}

/// The share of runs whose interval holds the cost where they stop, and the blocks that they took.
fn coverage(noise: Noise, precision: f64, run_count: u32) -> (f64, f64) {
    let (mut held, mut blocks) = (0, 0);
    for seed in 0..run_count {
        let found = stopped(noise, precision, seed.into());
        held += u32::from(found.holds(COST));
        blocks += u32::try_from(found.block_count).unwrap();
    }
    (f64::from(held) / f64::from(run_count), f64::from(blocks) / f64::from(run_count))
}

#[test]
fn a_run_that_stops_at_its_precision_still_covers() {
    for (noise, precision, run_count) in [
        (Noise::Lognormal(0.01), 0.01, 300),
        (Noise::Lognormal(0.03), 0.03, 300),
        (Noise::Lognormal(0.03), 0.05, 600),
        (Noise::Lognormal(0.1), 0.2, 600),
        (Noise::Bursts, 0.05, 300),
        (Noise::Drift, 0.03, 300),
        (Noise::Bimodal, 0.1, 300),
    ] {
        let (held, blocks) = coverage(noise, precision, run_count);
        println!("{noise:?} at {precision}: {held}, {blocks} blocks");
        assert!(held >= 0.95, "{held} of the runs of {noise:?} at {precision}");
    }
}

#[test]
#[ignore = "prints the table behind the rule; takes minutes"]
fn stopping_table() {
    println!("coverage % where the rule stops | blocks on average | runs");
    let mut worst = 1.0_f64;
    for noise in [
        Noise::Lognormal(0.01),
        Noise::Lognormal(0.03),
        Noise::Lognormal(0.1),
        Noise::Bursts,
        Noise::Drift,
        Noise::Bimodal,
    ] {
        for precision in [0.01, 0.014, 0.02, 0.03, 0.05] {
            // Where it takes hundreds of blocks luck has little say.
            let is_long = matches!(noise, Noise::Lognormal(it) if it > 0.05) && precision < 0.02;
            let run_count = if is_long { 4_000 } else { 20_000 };
            let (held, blocks) = coverage(noise, precision, run_count);
            println!("{noise:?} at {precision}: {:.2} | {blocks:.0} | {run_count}", 100.0 * held);
            worst = worst.min(held);
        }
    }
    assert!(worst >= 0.95, "{worst}");
}
