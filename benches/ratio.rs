//! The ratio of what was measured in pairs, and the median of what was measured often.

use surtax_statistics::{Block, Estimate, Sample, overhead, quantile};

/// Ours over theirs with its interval, each pair a block. Takes three pairs.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Estimate {
    let pairs = ours.iter().zip(theirs);
    let blocks: Vec<Block> = pairs
        .map(|(our, their)| Block::new(&[*their], &[*our]).expect("what is measured is positive"))
        .collect();
    overhead(&blocks).expect("an interval needs three pairs")
}

/// The median of positive values.
pub fn median(values: &[f64]) -> f64 {
    quantile(&Sample::new(values).expect("what is measured is positive"), 0.5)
}
