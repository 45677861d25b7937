//! Two ways of doing one thing, alternating in one run, and the ratio of their medians.
//!
//! Each pair is a block; which of the two goes first changes from pair to pair. The interval is that
//! of `surtax-statistics`, as in a report.

use std::time::Duration;
use surtax_instrument::clock;
use surtax_statistics::{Block, Estimate, overhead};

/// Runs `ours` and `theirs` `count` times each, alternating, and prints one line.
pub fn compare(
    what: &str,
    bar: &str,
    count: u32,
    mut ours: impl FnMut() -> Duration,
    mut theirs: impl FnMut() -> Duration,
) -> Estimate {
    ours();
    theirs();
    let mut blocks = Vec::new();
    for pair in 0..count {
        let (our_time, their_time) = if pair % 2 == 0 {
            let first = ours();
            (first, theirs())
        } else {
            let first = theirs();
            (ours(), first)
        };
        let block = Block::new(&[their_time.as_secs_f64()], &[our_time.as_secs_f64()]);
        blocks.push(block.expect("durations are positive"));
    }
    let estimate = overhead(&blocks).expect("there are enough pairs");
    println!(
        "{what}: ratio {:.4} [{:.4}, {:.4}], bar {bar}, N = {count} pairs",
        estimate.ratio, estimate.low, estimate.high
    );
    estimate
}

/// How long `work` took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = clock::monotonic_raw();
    let done = work();
    (clock::monotonic_raw().since(began).into(), done)
}
