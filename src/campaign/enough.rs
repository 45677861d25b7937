//! Decides when a plan that names a precision has measured enough: by the width of the intervals
//! alone.
//!
//! A rule that stopped when something is significant would find something in the end, whatever is
//! true. The width says nothing about which way a difference goes, so stopping on it keeps the
//! intervals honest; `surtax-statistics` measures by how much (`stopping`).

use crate::ledger::{StoredTrial, TrialState};
use crate::plan::Plan;
use crate::trial::{Record, TrialResult};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;
use surtax_statistics::{
    Block, ByBlock, LOOK_FROM, blocks_to_precision, is_narrow_enough, overhead, relative_half_width,
};

/// The wall times so far, and the numbers of a workload's first metric, by block and arm.
#[derive(Clone, Debug)]
pub struct Enough {
    precision: f64,
    measures: Vec<Measure>,
}

/// One metric of all trials.
#[derive(Clone, Debug)]
struct Measure {
    metric: String,
    blocks: BTreeMap<u32, BTreeMap<u32, f64>>,
}

/// Metric that every trial has.
const WALL: &str = "wall_ns";

/// Answer of the widths after a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Too few blocks have been run: an interval may be narrow by accident.
    TooEarly,
    /// This arm is known least.
    Wide(Widest),
    /// All are known as well as was asked for.
    Narrow,
}

/// The arm that is known least.
#[derive(Clone, Debug, PartialEq)]
pub struct Widest {
    /// Number of the arm.
    pub arm: u32,
    /// Metric of the workload; `None` where it is the wall time.
    pub metric: Option<String>,
    /// Half the width of its interval, as a share of its ratio.
    pub half_width: f64,
    /// About how many blocks more would do; nothing when no number would.
    pub more_blocks: Option<u32>,
}

impl Enough {
    /// Goes on from what is in a ledger; of a plan that names no precision there is nothing to
    /// know.
    #[must_use]
    pub fn of(plan: &Plan, trials: &[StoredTrial]) -> Option<Self> {
        let mut enough = Self { precision: plan.precision()?, measures: measures(plan) };
        for trial in trials.iter().filter(|trial| trial.state == TrialState::Done) {
            for measure in &mut enough.measures {
                if let Some(sample) = trial.sample(&measure.metric) {
                    measure.put(trial.id.block, trial.id.arm, sample.value);
                }
            }
        }
        Some(enough)
    }

    /// Takes a trial that has ended.
    pub fn learn(&mut self, record: &Record) {
        let TrialResult::Done(measured) = &record.result else { return };
        let wall = Duration::from(measured.wall).as_secs_f64() * 1e9;
        for measure in &mut self.measures {
            let own = measured.workload.metrics.iter().find(|it| it.name == measure.metric);
            let value = if measure.metric == WALL { Some(wall) } else { own.map(|it| it.value) };
            if let Some(value) = value {
                measure.put(record.trial.block, record.trial.arm, value);
            }
        }
    }

    /// Looks at every metric of every arm but the first and those that were dropped. What has no
    /// number yet, or no ratio, is not waited for.
    #[must_use]
    pub fn look(&self, dropped: &BTreeSet<u32>) -> Look {
        if self.measures.iter().all(|measure| measure.blocks.len() < LOOK_FROM) {
            return Look::TooEarly;
        }
        let widest = self.measures.iter().filter_map(|it| it.widest(self.precision, dropped));
        widest
            .max_by(|one, other| one.half_width.total_cmp(&other.half_width))
            .map_or(Look::Narrow, Look::Wide)
    }
}

/// Returns what a precision is of: the wall time, where that says something, and the workload's
/// first metric that is always there.
fn measures(plan: &Plan) -> Vec<Measure> {
    let workload = plan.workload.as_ref().and_then(|workload| workload.resolve().ok());
    let has_wall = workload.as_ref().is_none_or(|workload| !workload.is_of_fixed_time);
    let own = workload.and_then(|workload| workload.main_metric());
    let names = has_wall.then(|| String::from(WALL)).into_iter().chain(own);
    names.map(|metric| Measure { metric, blocks: BTreeMap::new() }).collect()
}

impl Measure {
    fn put(&mut self, block: u32, arm: u32, value: f64) {
        self.blocks.entry(block).or_default().insert(arm, value);
    }

    /// The arm that is known least, if it is not known well enough.
    fn widest(&self, precision: f64, dropped: &BTreeSet<u32>) -> Option<Widest> {
        let arms: BTreeSet<u32> = self.blocks.values().flat_map(BTreeMap::keys).copied().collect();
        let mut widest: Option<Widest> = None;
        for arm in arms.into_iter().filter(|arm| *arm > 0 && !dropped.contains(arm)) {
            let Some(Ok(estimate)) = self.pairs(arm).map(|blocks| overhead(&blocks)) else {
                continue;
            };
            let half_width = relative_half_width(&estimate);
            let is_wider = widest.as_ref().is_none_or(|widest| widest.half_width < half_width);
            if is_wider && !is_narrow_enough(&estimate, precision) {
                let more = blocks_to_precision(&estimate, precision);
                let more_blocks = more.and_then(|more| u32::try_from(more).ok());
                let metric = (self.metric != WALL).then(|| self.metric.clone());
                widest = Some(Widest { arm, metric, half_width, more_blocks });
            }
        }
        widest
    }

    /// The second baseline arm against the first; any other against both. `None` where one block
    /// has no ratio: then the report has none either.
    fn pairs(&self, arm: u32) -> Option<Vec<Block>> {
        let baselines = if arm == 1 { 0..=0 } else { 0..=1 };
        let of = |arms: RangeInclusive<u32>| -> ByBlock {
            let in_block = |(block, all): (&u32, &BTreeMap<u32, f64>)| {
                let values = all.range(arms.clone());
                values.map(|(_, value)| (*block, *value)).collect::<Vec<_>>()
            };
            self.blocks.iter().flat_map(in_block).collect()
        };
        Block::paired(&of(baselines), &of(arm..=arm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes so many blocks: 1 s, about 1 s, and an arm of twice that which wobbles by `noise`
    /// either way.
    fn blocks(count: u32, noise: f64) -> Enough {
        Enough { precision: 0.02, measures: vec![measure(WALL, count, noise)] }
    }

    fn measure(metric: &str, count: u32, noise: f64) -> Measure {
        let mut measure = Measure { metric: String::from(metric), blocks: BTreeMap::new() };
        for block in 0..count {
            let wobble = noise * (f64::from(block * 7 % 11) / 5.0 - 1.0);
            for (arm, value) in [(0, 1.0), (1, 1.001), (2, 2.0 * (1.0 + wobble))] {
                measure.put(block, arm, value);
            }
        }
        measure
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

    #[test]
    fn a_metric_of_the_workload_is_waited_for_when_wall_time_is_narrow() {
        let count = 2 * least();
        let mut enough = blocks(count, 0.0);
        assert_eq!(enough.look(&BTreeSet::new()), Look::Narrow);
        enough.measures.push(measure("rate", count, 0.1));
        let Look::Wide(widest) = enough.look(&BTreeSet::new()) else {
            panic!("a rate that wobbles by a tenth is not known to 2 %");
        };
        assert_eq!((widest.arm, widest.metric.as_deref()), (2, Some("rate")));
    }

    #[test]
    fn a_number_that_the_report_gives_no_ratio_of_is_not_waited_for() {
        let mut enough = blocks(2 * least(), 0.1);
        assert!(matches!(enough.look(&BTreeSet::new()), Look::Wide(_)));
        enough.measures[0].put(1, 2, 0.0);
        assert_eq!(enough.look(&BTreeSet::new()), Look::Narrow);
    }
}
