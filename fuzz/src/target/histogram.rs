//! Histograms as a ledger holds them: bytes that a guest or a stranger may have written.

use super::Target;
use surtax_statistics::Histogram;

pub const TARGET: Target =
    Target { name: "histogram", run, seeds, folders: &[], longest: 64 << 10 };

fn run(bytes: &[u8]) {
    if let Ok(mut histogram) = Histogram::from_bytes(bytes) {
        let again = Histogram::from_bytes(&histogram.to_bytes());
        assert_eq!(again.as_ref(), Ok(&histogram), "it is written otherwise");
        for share in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(histogram.quantile(share).is_some(), histogram.count() > 0);
        }
        histogram.merge(&again.unwrap_or_default());
    }
}

/// An empty one, one time, and times of every size.
fn seeds() -> Vec<Vec<u8>> {
    let of = |times: &[u64]| {
        let mut histogram = Histogram::new();
        for time in times {
            histogram.record(*time).expect("a time below an hour");
        }
        histogram.to_bytes()
    };
    let every: Vec<u64> = (0..41).map(|bits| 1 << bits).collect();
    vec![of(&[]), of(&[1]), of(&[5, 70_000]), of(&every)]
}
