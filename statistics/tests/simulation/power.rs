//! The smallest detectable effect: how often a run of that size finds it.

use crate::noise::{Noise, run};
use crate::{estimate, share};
use surtax_statistics::{Sample, detectable_effect, quantile};

/// Returns how often the interval excludes 1 when the true cost is what such runs call detectable.
fn power(noise: Noise, block_count: usize, run_count: u32) -> f64 {
    let effects: Vec<f64> = (0..run_count)
        .map(|seed| detectable_effect(&estimate(&run(noise, block_count, 1.0, seed.into()))))
        .collect();
    let cost = 1.0 + quantile(&Sample::counts(&effects).unwrap(), 0.5);
    // Other seeds: the runs that find it are not those that said what can be found.
    share(run_count, |seed| !estimate(&run(noise, block_count, cost, seed + (1 << 32))).holds(1.0))
}

#[test]
fn the_smallest_detectable_effect_is_found_in_about_eighty_of_a_hundred_runs() {
    for (noise, block_count, run_count) in [
        (Noise::Lognormal(0.03), 3, 1000),
        (Noise::Lognormal(0.1), 5, 1000),
        (Noise::Lognormal(0.01), 7, 1000),
        (Noise::Lognormal(0.03), 10, 1000),
        (Noise::Lognormal(0.03), 20, 500),
        (Noise::Drift, 10, 500),
    ] {
        let found = power(noise, block_count, run_count);
        println!("{noise:?}, {block_count} blocks: {found}");
        assert!((0.75..=0.87).contains(&found), "{found} of {block_count} blocks, {noise:?}");
    }
}

#[test]
#[ignore = "prints the table of powers; takes minutes"]
fn power_table() {
    for noise in [
        Noise::Lognormal(0.01),
        Noise::Lognormal(0.03),
        Noise::Lognormal(0.1),
        Noise::Bursts,
        Noise::Drift,
        Noise::Bimodal,
    ] {
        for block_count in [3, 4, 5, 6, 7, 8, 10, 15, 20, 40] {
            let found = power(noise, block_count, 4000);
            println!("{noise:?}, {block_count} blocks: {:.1} % found", 100.0 * found);
        }
    }
}
