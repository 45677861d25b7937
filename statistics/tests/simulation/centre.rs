//! Bias of the estimate in ten shapes of noise, and of other centres of the same blocks.

use crate::noise::{Noise, SHAPES, run};
use crate::{COST, estimate, share};

/// Centres of the same blocks, off the truth in logarithms: ours, the Hodges–Lehmann centre of the
/// blocks' log-ratios, their mean.
fn candidates(noise: Noise, block_count: usize, seed: u64) -> [f64; 3] {
    let times = run(noise, block_count, COST, seed);
    let mut ratios: Vec<f64> = times.iter().map(|it| it.block().ratio().ln()).collect();
    ratios.sort_by(f64::total_cmp);
    let count = f64::from(u32::try_from(ratios.len()).unwrap());
    let mean = ratios.iter().sum::<f64>() / count;
    [estimate(&times).ratio.ln(), hodges_lehmann(&ratios), mean].map(|it| it - COST.ln())
}

/// The median of all means of two, counted out.
fn hodges_lehmann(values: &[f64]) -> f64 {
    let with_later = |(i, a): (usize, &f64)| {
        values[i..].iter().map(|b| f64::midpoint(*a, *b)).collect::<Vec<_>>()
    };
    let mut means: Vec<f64> = values.iter().enumerate().flat_map(with_later).collect();
    means.sort_by(f64::total_cmp);
    f64::midpoint(means[(means.len() - 1) / 2], means[means.len() / 2])
}

/// The share that is above the truth, and the root of the mean square, of each candidate.
fn judge(noise: Noise, block_count: usize, run_count: u32) -> [(f64, f64); 3] {
    let all: Vec<[f64; 3]> =
        (0..run_count).map(|seed| candidates(noise, block_count, seed.into())).collect();
    std::array::from_fn(|way| {
        let above = share(run_count, |seed| all[usize::try_from(seed).unwrap()][way] > 0.0);
        let squares: f64 = all.iter().map(|it| it[way].powi(2)).sum();
        (above, (squares / f64::from(run_count)).sqrt())
    })
}

#[test]
fn about_as_many_estimates_are_above_the_truth_as_below_whatever_the_shape_of_the_noise() {
    for block_count in [6, 10, 13, 20] {
        for noise in SHAPES {
            let [(ours, _), (of_blocks, _), _] = judge(noise, block_count, 2000);
            println!("{noise:?}, {block_count} blocks: {ours} and {of_blocks}");
            assert!((0.45..=0.55).contains(&ours), "{noise:?}, {block_count} blocks: {ours}");
        }
    }
}

#[test]
fn a_centre_that_skewed_noise_does_not_move_scatters_no_more_for_that() {
    for block_count in [3, 6, 10, 13, 20] {
        for noise in SHAPES {
            let [(_, ours), (_, of_blocks), _] = judge(noise, block_count, 2000);
            assert!(ours < 1.02 * of_blocks, "{noise:?}, {block_count} blocks: {ours} {of_blocks}");
        }
    }
}

#[test]
#[ignore = "prints the table behind the choice of the centre"]
fn centre_table() {
    println!("above %, root mean square %: ours | Hodges-Lehmann of the blocks | their mean");
    for block_count in [3, 4, 5, 6, 8, 10, 12, 13, 15, 16, 20, 40] {
        let mut sums = [(0.0, 0.0); 3];
        for noise in SHAPES {
            let row = judge(noise, block_count, 10_000)
                .map(|(above, root)| (100.0 * above, 100.0 * root));
            for (sum, it) in sums.iter_mut().zip(row) {
                *sum = (sum.0 + it.0 / 10.0, sum.1 + it.1 / 10.0);
            }
            println!("n={block_count} {noise:?}: {row:.2?}");
        }
        println!("all n={block_count}: {sums:.2?}");
    }
}
