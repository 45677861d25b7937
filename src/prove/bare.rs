//! Bare runs: simulated times straight into the statistics, without a plan, a lab or a ledger.
//!
//! What the whole path finds is held against them, and parts of the method can be left out of them
//! on purpose, to see that the bars notice.

use crate::plan::order;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use surtax_statistics::{
    Block, NoiseFloor, TooFew, Unusable, Verdict, noise_floor, overhead, verdict,
};

/// Half-width of the equivalence margin, as plans have it unless told.
const MARGIN: f64 = 0.03;

/// In which order the arms of a block run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArmOrder {
    /// As surtax does it.
    Shuffled,
    /// The compared arm is always the first.
    #[cfg(test)]
    Fixed,
}

/// Source of the noise floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    /// The baseline's second arm.
    SecondArm,
    /// Nowhere, without a second arm: a difference is one as soon as the interval says so.
    #[cfg(test)]
    Dropped,
}

/// A run that is about to be simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) blocks: u32,
    pub(super) cost: f64,
    /// Deviation of the logarithm of every time.
    pub(super) deviation: f64,
    /// By how much the logarithm is larger in the first place of a block.
    pub(super) position: f64,
    pub(super) order: ArmOrder,
    pub(super) floor: Floor,
}

impl Run {
    /// Ten blocks of equal arms under lognormal noise of 3 %.
    pub(super) fn equal(seed: u64) -> Self {
        let (order, floor) = (ArmOrder::Shuffled, Floor::SecondArm);
        Self { seed, blocks: 10, cost: 1.0, deviation: 0.03, position: 0.0, order, floor }
    }

    /// Tells whether the verdict is `differs`; a run too short for one has none.
    pub(super) fn differs(&self) -> bool {
        let Ok(blocks) = self.blocks() else { return false };
        let noise = match self.floor {
            Floor::SecondArm => self.noise_floor(),
            #[cfg(test)]
            Floor::Dropped => self.noise_floor().map(|noise| NoiseFloor { floor: 0.0, ..noise }),
        };
        match (overhead(&blocks), noise) {
            (Ok(estimate), Ok(noise)) => verdict(&estimate, &noise, MARGIN) == Verdict::Differs,
            _ => false,
        }
    }

    /// Returns what is found of the overhead.
    #[cfg(test)]
    pub(super) fn estimate(&self) -> surtax_statistics::Estimate {
        overhead(&self.blocks().unwrap()).unwrap()
    }

    fn blocks(&self) -> Result<Vec<Block>, Unusable> {
        let block = |[first, again, arm]: &[f64; 3]| match self.floor {
            Floor::SecondArm => Block::new(&[*first, *again], &[*arm]),
            #[cfg(test)]
            Floor::Dropped => Block::new(&[*first], &[*arm]),
        };
        self.times().iter().map(block).collect()
    }

    fn noise_floor(&self) -> Result<NoiseFloor, TooFew> {
        let pairs = self.times();
        let pairs =
            pairs.iter().filter_map(|[first, again, _]| Block::new(&[*first], &[*again]).ok());
        noise_floor(&pairs.collect::<Vec<_>>())
    }

    /// The times of every block: baseline, baseline again, the compared arm.
    fn times(&self) -> Vec<[f64; 3]> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let block = |block| {
            let first = match self.order {
                ArmOrder::Shuffled => order::of_block(self.seed, block, 3).first().copied(),
                #[cfg(test)]
                ArmOrder::Fixed => Some(2),
            };
            let mut time = |arm: u32| {
                let (radius, angle): (f64, f64) = (random.random(), random.random());
                let normal =
                    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
                let place = if first == Some(arm) { self.position } else { 0.0 };
                (self.deviation * normal + place).exp()
            };
            [time(0), time(1), self.cost * time(2)]
        };
        (0..self.blocks).map(block).collect()
    }
}
