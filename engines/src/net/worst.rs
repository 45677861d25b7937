//! The worst transactions, with their time: a bounded list, kept without allocation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// As many as were asked for, the least bad of them at hand.
#[derive(Clone)]
pub(crate) struct Worst {
    /// Latency and begin.
    kept: BinaryHeap<Reverse<(u64, u64)>>,
    limit: usize,
    /// Latency that must be exceeded to be kept, in nanoseconds.
    threshold_ns: u64,
}

impl Default for Worst {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Worst {
    /// An empty list of so many at most.
    pub(crate) fn of(limit: usize) -> Self {
        let threshold_ns = if limit == 0 { u64::MAX } else { 0 };
        Self { kept: BinaryHeap::with_capacity(limit), limit, threshold_ns }
    }

    /// Takes a transaction, if it is one of the worst so far.
    #[inline]
    pub(crate) fn note(&mut self, began_ns: u64, latency_ns: u64) {
        if latency_ns > self.threshold_ns {
            self.keep(began_ns, latency_ns);
        }
    }

    fn keep(&mut self, began_ns: u64, latency_ns: u64) {
        if self.kept.len() == self.limit {
            self.kept.pop();
        }
        self.kept.push(Reverse((latency_ns, began_ns)));
        if self.kept.len() == self.limit {
            self.threshold_ns = self.kept.peek().map_or(0, |Reverse((least, _))| *least);
        }
    }

    /// Begin and latency of each, the worst first.
    pub(crate) fn list(&self) -> Vec<(u64, u64)> {
        let mut list: Vec<_> =
            self.kept.iter().map(|Reverse((latency, began))| (*latency, *began)).collect();
        list.sort_unstable_by_key(|pair| Reverse(*pair));
        list.into_iter().map(|(latency, began)| (began, latency)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_list_is_the_head_of_all_sorted(
            latencies in prop::collection::vec(1_u64..50, 0..60), limit in 0_usize..10,
        ) {
            let mut worst = Worst::of(limit);
            for (began, latency) in (0_u64..).zip(&latencies) {
                worst.note(began, *latency);
            }
            let mut sorted = latencies.clone();
            sorted.sort_unstable_by_key(|latency| Reverse(*latency));
            sorted.truncate(limit);
            let listed: Vec<u64> = worst.list().iter().map(|(_, latency)| *latency).collect();
            prop_assert_eq!(listed, sorted);
            for (began, latency) in worst.list() {
                prop_assert_eq!(latencies[usize::try_from(began).unwrap()], latency);
            }
        }
    }
}
