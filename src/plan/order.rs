//! The order of arms inside a block: random, and the same for ever after for one seed.
//!
//! A block holds every arm once. Its order depends on the seed and on the number of the block and
//! on nothing else, so that block 700 of a resumed run needs none of the 700 before it. Every step
//! down to the bounded draw is written here and held by a golden test: a library that draws in
//! another way would reorder the trials of every old ledger.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The second part of the key, so that no other use of the same seed draws the same numbers.
const PURPOSE: &[u8; 24] = b"surtax: order of a block";

/// The arms `0..arm_count` in the order of one block.
///
/// ChaCha8 with the seed in its key and the block as its stream, and a Fisher-Yates shuffle from
/// the end (Knuth, TAOCP vol. 2, algorithm 3.4.2 P), each draw without bias by rejection.
#[must_use]
pub fn of_block(seed: u64, block: u32, arm_count: u32) -> Vec<u32> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..].copy_from_slice(PURPOSE);
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(u64::from(block));

    let mut arms: Vec<u32> = (0..arm_count).collect();
    for unshuffled in (2..=arm_count).rev() {
        arms.swap(unshuffled as usize - 1, below(unshuffled, &mut random) as usize);
    }
    arms
}

/// A number below `bound`, each as likely as any other.
fn below(bound: u32, random: &mut ChaCha8Rng) -> u32 {
    let surplus = (u32::MAX % bound + 1) % bound;
    loop {
        let drawn = random.next_u32();
        if drawn <= u32::MAX - surplus {
            return drawn % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_a_seed_is_the_same_for_ever() {
        assert_eq!(of_block(0, 0, 7), GOLDEN[0]);
        assert_eq!(of_block(0, 1, 7), GOLDEN[1]);
        assert_eq!(of_block(1, 0, 7), GOLDEN[2]);
        assert_eq!(of_block(u64::MAX, u32::MAX, 7), GOLDEN[3]);
    }

    /// Computed by an independent ChaCha8 and shuffle, written in Python from RFC 8439.
    const GOLDEN: [[u32; 7]; 4] = [
        [1, 2, 5, 0, 6, 4, 3],
        [3, 5, 2, 4, 1, 0, 6],
        [2, 4, 3, 1, 0, 5, 6],
        [4, 6, 3, 0, 2, 5, 1],
    ];

    #[test]
    fn every_order_of_three_arms_is_about_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for block in 0..6000 {
            *counts.entry(of_block(42, block, 3)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Chi-squared with 5 degrees of freedom is above 20.5 once in a thousand.
        let chi_squared: f64 =
            counts.values().map(|&n| f64::from(n - 1000_i32).powi(2) / 1e3).sum();
        assert!(chi_squared < 20.5, "{counts:?}");
    }

    #[test]
    fn a_block_of_no_or_one_arm_is_no_special_case() {
        assert_eq!(of_block(9, 9, 0), [0u32; 0]);
        assert_eq!(of_block(9, 9, 1), [0]);
    }

    proptest! {
        #[test]
        fn every_block_holds_every_arm_once(seed: u64, block: u32, arm_count in 0u32..40) {
            let mut order = of_block(seed, block, arm_count);
            order.sort_unstable();
            prop_assert_eq!(order, (0..arm_count).collect::<Vec<_>>());
        }
    }
}
