//! Two ways of doing one thing, alternating in one run, and the ratio of their medians.
//!
//! Each pair is a block; which of the two goes first changes from pair to pair. The interval is that
//! of `surtax-statistics` over the pairs, as in a report.

use crate::figure::{Figure, Sheet};
use std::ops::RangeInclusive;
use std::time::Duration;
use surtax_statistics::{Block, Sample, overhead, quantile};

/// Runs `ours` and `theirs` alternating, `usual` times each unless told otherwise, after one of each
/// that does not count. Prints the ratio, and what both took.
pub fn compare(
    sheet: &mut Sheet,
    name: &str,
    bar: Option<RangeInclusive<f64>>,
    usual: u32,
    mut ours: impl FnMut() -> Duration,
    mut theirs: impl FnMut() -> Duration,
) {
    let count = sheet.count(usual);
    ours();
    theirs();
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for pair in 0..count {
        if pair % 2 == 0 {
            our_times.push(ours().as_secs_f64());
            their_times.push(theirs().as_secs_f64());
        } else {
            their_times.push(theirs().as_secs_f64());
            our_times.push(ours().as_secs_f64());
        }
    }
    let pairs = our_times.iter().zip(&their_times);
    let blocks: Vec<Block> = pairs
        .map(|(our, their)| Block::new(&[*their], &[*our]).expect("durations are positive"))
        .collect();
    let paired = overhead(&blocks).expect("an interval needs three pairs");
    let (our, their) = (median(&our_times), median(&their_times));
    let interval = Some((paired.low, paired.high));
    sheet.put(&Figure { name, value: our / their, interval, unit: "", bar, count });
    println!("  medians: ours {:.2} ms, theirs {:.2} ms", our * 1e3, their * 1e3);
}

fn median(values: &[f64]) -> f64 {
    quantile(&Sample::new(values).expect("durations are positive"), 0.5)
}
