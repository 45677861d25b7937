//! Families of equal arms: how often any of them is called different.

use crate::noise::{Noise, Times, run};
use crate::share;
use surtax_statistics::{Block, holm, p_value};

const ARMS: u64 = 20;

/// Tells whether any of twenty equal arms is called different at 5 %.
fn any_rejection(noise: Noise, block_count: usize, family: u64) -> bool {
    let p = |arm: u64| {
        let times = run(noise, block_count, 1.0, family * ARMS + arm);
        p_value(&times.iter().map(Times::block).collect::<Vec<Block>>()).unwrap()
    };
    holm(&(0..ARMS).map(p).collect::<Vec<_>>()).iter().any(|&adjusted| adjusted < 0.05)
}

#[test]
fn of_twenty_equal_arms_any_is_called_different_in_at_most_five_of_a_hundred_families() {
    for (noise, block_count, run_count) in [
        (Noise::Lognormal(0.03), 5, 500),
        (Noise::Lognormal(0.03), 10, 500),
        (Noise::Bimodal, 3, 500),
        (Noise::Bimodal, 4, 500),
        (Noise::Bimodal, 6, 500),
        (Noise::Lognormal(0.03), 20, 100),
        (Noise::Bursts, 12, 300),
        (Noise::Drift, 12, 300),
        (Noise::Bimodal, 12, 300),
    ] {
        let wrong = share(run_count, |family| any_rejection(noise, block_count, family));
        println!("{noise:?}, {block_count} blocks: {wrong}");
        assert!(wrong <= 0.05, "{wrong} of the families of {block_count} blocks, {noise:?}");
    }
}

#[test]
#[ignore = "prints the table of families; takes minutes"]
fn family_table() {
    for noise in [Noise::Lognormal(0.03), Noise::Bursts, Noise::Drift, Noise::Bimodal] {
        for block_count in [3, 5, 6, 7, 9, 10, 12, 15, 16, 20, 40, 80] {
            let wrong = share(4000, |family| any_rejection(noise, block_count, family));
            println!("{noise:?}, {block_count} blocks: {:.2} % of families", 100.0 * wrong);
        }
    }
}
