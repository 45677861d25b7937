//! When a plan that names a precision has measured enough: by the width of the intervals alone.
//!
//! A rule that stopped when something is significant would find something in the end, whatever is
//! true. The width says nothing about which way a difference goes, so stopping on it keeps the
//! intervals honest; `surtax-statistics` measures by how much (`stopping`).

use super::{Record, TrialResult};
use crate::ledger::{StoredTrial, TrialState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use surtax_statistics::{
    Block, LOOK_FROM, blocks_to_precision, is_narrow_enough, overhead, relative_half_width,
};

/// The wall times so far, by block and arm.
#[derive(Clone, Debug)]
pub struct Enough {
    precision: f64,
    blocks: BTreeMap<u32, BTreeMap<u32, f64>>,
}

/// What the widths say after a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// So few blocks have been run that an interval may be narrow by accident.
    TooEarly,
    /// This arm is known least.
    Wide(Widest),
    /// All are known as well as was asked for.
    Narrow,
}

/// The arm that is known least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Widest {
    /// Which arm.
    pub arm: u32,
    /// Half the width of its interval, as a share of its ratio.
    pub half_width: f64,
    /// About how many blocks more would do; nothing when no number would.
    pub more_blocks: Option<u32>,
}

impl Enough {
    /// Goes on from what is in a ledger.
    #[must_use]
    pub fn of(precision: f64, trials: &[StoredTrial]) -> Self {
        let mut enough = Self { precision, blocks: BTreeMap::new() };
        for trial in trials.iter().filter(|trial| trial.state == TrialState::Done) {
            if let Some(wall) = trial.sample("wall_ns") {
                enough.put(trial.id.block, trial.id.arm, wall.value);
            }
        }
        enough
    }

    /// Takes a trial that has ended.
    pub fn learn(&mut self, record: &Record) {
        if let TrialResult::Done(measured) = &record.result {
            let wall = Duration::from(measured.wall).as_secs_f64() * 1e9;
            self.put(record.trial.block, record.trial.arm, wall);
        }
    }

    fn put(&mut self, block: u32, arm: u32, wall: f64) {
        self.blocks.entry(block).or_default().insert(arm, wall);
    }

    /// Looks at every arm but the first and those that were dropped. An arm that has no number yet,
    /// or no ratio, is not waited for.
    #[must_use]
    pub fn look(&self, dropped: &BTreeSet<u32>) -> Look {
        if self.blocks.len() < LOOK_FROM {
            return Look::TooEarly;
        }
        let arms: BTreeSet<u32> = self.blocks.values().flat_map(BTreeMap::keys).copied().collect();
        let mut widest: Option<Widest> = None;
        for arm in arms.into_iter().filter(|arm| *arm > 0 && !dropped.contains(arm)) {
            let Ok(estimate) = overhead(&self.pairs(arm)) else { continue };
            let half_width = relative_half_width(&estimate);
            let is_wider = widest.is_none_or(|widest| widest.half_width < half_width);
            if is_wider && !is_narrow_enough(&estimate, self.precision) {
                let more = blocks_to_precision(&estimate, self.precision);
                let more_blocks = more.and_then(|more| u32::try_from(more).ok());
                widest = Some(Widest { arm, half_width, more_blocks });
            }
        }
        widest.map_or(Look::Narrow, Look::Wide)
    }

    /// The second baseline arm against the first; any other against both.
    fn pairs(&self, arm: u32) -> Vec<Block> {
        let baselines = if arm == 1 { 0..=0 } else { 0..=1 };
        let pair = |walls: &BTreeMap<u32, f64>| {
            let baseline: Vec<f64> =
                walls.range(baselines.clone()).map(|(_, wall)| *wall).collect();
            Block::new(&baseline, &[*walls.get(&arm)?]).ok()
        };
        self.blocks.values().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many blocks: 1 s, 1 s, and an arm of twice that which wobbles by `noise` either way.
    fn blocks(count: u32, noise: f64) -> Enough {
        let mut enough = Enough { precision: 0.02, blocks: BTreeMap::new() };
        for block in 0..count {
            let wobble = noise * (f64::from(block * 7 % 11) / 5.0 - 1.0);
            for (arm, wall) in [(0, 1.0), (1, 1.001), (2, 2.0 * (1.0 + wobble))] {
                enough.put(block, arm, wall);
            }
        }
        enough
    }

    fn least() -> u32 {
        u32::try_from(LOOK_FROM).unwrap()
    }

    #[test]
    fn before_the_first_look_nothing_is_narrow() {
        assert_eq!(blocks(least() - 1, 0.0).look(&BTreeSet::new()), Look::TooEarly);
        assert_eq!(blocks(least(), 0.0).look(&BTreeSet::new()), Look::Narrow);
    }

    #[test]
    fn the_arm_that_is_known_least_is_named_with_what_it_would_take() {
        let Look::Wide(widest) = blocks(2 * least(), 0.1).look(&BTreeSet::new()) else {
            panic!("an arm that wobbles by a tenth is not known to 2 %");
        };
        assert_eq!(widest.arm, 2);
        assert!(widest.half_width > 0.02 && widest.more_blocks.is_some_and(|more| more > 0));
    }

    #[test]
    fn an_arm_that_was_dropped_is_not_waited_for() {
        assert_eq!(blocks(2 * least(), 0.1).look(&BTreeSet::from([2])), Look::Narrow);
    }
}
