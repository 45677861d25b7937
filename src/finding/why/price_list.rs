//! Prices by stack, block by block: what one operation costs more than in the baseline.

use crate::finding::{Spread, estimate};
use crate::ledger::PriceSample;
use std::collections::BTreeMap;
use surtax_statistics::{Confidence, Sample, quantile_interval};

/// Prices that are made of two: the name, the one that holds both, what is taken from it, and into
/// how many parts the rest falls.
///
/// A switch is what one by a pipe costs over a byte that goes through one without; and a KiB that
/// is read what 64 of them cost over 4.
const DERIVED: [(&str, &str, &str, f64); 2] = [
    ("context_switch", "context_switch_pipe", "pipe_write_read", 1.0),
    ("read_kib", "file_read_64_kib", "file_read", 60.0),
];

/// Prices of two stacks, in the blocks in which both have them.
pub(super) struct Priced {
    /// By name and block: the baseline's, the stack's.
    prices: BTreeMap<String, BTreeMap<u32, (f64, f64)>>,
}

impl Priced {
    /// Those of an arm, beside those of the baseline.
    pub(super) fn of(baseline: &[&PriceSample], arm: &[&PriceSample]) -> Self {
        let mut prices: BTreeMap<String, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
        let known: BTreeMap<(&str, u32), f64> =
            baseline.iter().map(|it| ((it.price.as_str(), it.block), it.operation_ns)).collect();
        for it in arm {
            if let Some(base) = known.get(&(it.price.as_str(), it.block)) {
                let both = (*base, it.operation_ns);
                prices.entry(it.price.clone()).or_default().insert(it.block, both);
            }
        }
        for (name, whole, part, parts) in DERIVED {
            let (Some(all), Some(without)) = (prices.get(whole), prices.get(part)) else {
                continue;
            };
            let net = |(block, it): (&u32, &(f64, f64))| {
                let less = without.get(block)?;
                let of = |all: f64, less: f64| (all - less).max(0.0) / parts;
                Some((*block, (of(it.0, less.0), of(it.1, less.1))))
            };
            let net: BTreeMap<u32, (f64, f64)> = all.iter().filter_map(net).collect();
            if !net.is_empty() {
                prices.insert(name.into(), net);
            }
        }
        Self { prices }
    }

    /// Tells whether there is a price of this name.
    pub(super) fn has(&self, price: &str) -> bool {
        self.prices.get(price).is_some_and(|blocks| !blocks.is_empty())
    }

    /// Tells whether there is no price at all.
    pub(super) fn is_empty(&self) -> bool {
        self.prices.is_empty()
    }

    /// The medians of a price: the baseline's, the stack's.
    pub(super) fn medians(&self, price: &str) -> Option<(f64, f64)> {
        let blocks = self.prices.get(price)?;
        let of = |side: fn(&(f64, f64)) -> f64| {
            estimate::median(&blocks.values().map(side).collect::<Vec<_>>())
        };
        of(|it| it.0).zip(of(|it| it.1))
    }

    /// Cost of operations over that of the baseline's, each divided by the CPUs that it is spread
    /// over: of each price, how many there are in the baseline and in the stack. With the interval
    /// of the median over the blocks. `None` where nothing of it has a price in enough of them.
    pub(super) fn extra<'a>(
        &self,
        counts: impl IntoIterator<Item = (&'a str, (f64, f64))>,
        over: (f64, f64),
    ) -> Option<Spread> {
        let mut sums: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
        let mut priced = 0;
        for (price, (base_count, own_count)) in counts {
            let Some(blocks) = self.prices.get(price) else { continue };
            priced += 1;
            for (block, (base, own)) in blocks {
                let sum = sums.entry(*block).or_default();
                let more = own_count * own / over.1 - base_count * base / over.0;
                *sum = (sum.0 + 1, sum.1 + more);
            }
        }
        let whole = sums.into_values().filter(|(count, _)| *count == priced);
        spread(&whole.map(|(_, sum)| sum).collect::<Vec<_>>())
    }
}

/// The median of these values with its interval by order statistics, which a few that were
/// disturbed do not move; `None` of too few.
fn spread(values: &[f64]) -> Option<Spread> {
    // A sample takes nothing below zero, and its order is the same from anywhere.
    let lowest = values.iter().copied().fold(0.0, f64::min);
    let shifted: Vec<f64> = values.iter().map(|value| value - lowest).collect();
    let found = quantile_interval(&Sample::counts(&shifted).ok()?, 0.5, Confidence::P95).ok()?;
    let [ns, low_ns, high_ns] = [found.quantile, found.low, found.high].map(|it| it + lowest);
    Some(Spread { ns, low_ns, high_ns })
}
