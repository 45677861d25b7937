//! Check that it does not matter which place in its block a trial has.
//!
//! The order is random, so that no arm profits; but a first place that is slower adds noise to all.

use crate::finding::Caution;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::signs::caution;
use crate::finding::estimate::median;
use crate::finding::number::percent;
use crate::ledger::StoredTrial;
use std::collections::BTreeMap;
use surtax_statistics::{Block, Confidence, overhead_at};

/// With fewer blocks nothing is said.
const BLOCKS_MIN: usize = 8;

/// A smaller effect is not worth a word.
const NEGLIGIBLE: f64 = 0.005;

/// The first place of a block against the others, each trial by the median of its own arm.
pub(super) fn caution_of(columns: &[ArmTrials<'_>]) -> Option<Caution> {
    let mut blocks: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    for column in columns {
        let walls = || {
            let wall = |trial: &&StoredTrial| Some((trial.id, trial.sample("wall_ns")?.value));
            column.counted.iter().filter_map(wall)
        };
        let Some(middle) = median(&walls().map(|(_, wall)| wall).collect::<Vec<_>>()) else {
            continue;
        };
        for (id, wall) in walls() {
            blocks.entry(id.block).or_default().insert(id.position, wall / middle);
        }
    }
    let pairs: Vec<Block> = blocks.values().filter_map(first_against_others).collect();
    if pairs.len() < BLOCKS_MIN {
        return None;
    }
    let found = overhead_at(&pairs, Confidence::P99).ok().filter(|found| !found.holds(1.0))?;
    if (found.ratio - 1.0).abs() < NEGLIGIBLE {
        return None;
    }
    let how = if found.ratio > 1.0 { "slower" } else { "faster" };
    Some(caution(
        "position",
        format!(
            "the first trial of a block is {how} than the others, by {}: the order is random, so \
             it favours no stack, but it widens every interval",
            percent((found.ratio - 1.0).abs())
        ),
        "let the machine come to rest before each trial: `--settle 2s`",
    ))
}

fn first_against_others(block: &BTreeMap<u32, f64>) -> Option<Block> {
    let first = *block.get(&0)?;
    let others: Vec<f64> =
        block.iter().filter(|(place, _)| **place > 0).map(|(_, ratio)| *ratio).collect();
    Block::new(&others, &[first]).ok()
}

#[cfg(test)]
mod tests {
    use crate::finding::compare;
    use crate::ledger::Ledger;
    use crate::ledger::fixture::{add, done, ledger};
    use crate::plan::TrialId;

    /// Ten blocks of three arms; the trial in the first place takes so much more.
    fn says_position(factor: f64) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.surtax");
        let mut written = ledger(&file, &["native", "runc"]);
        for (block, position) in (0..10u32).flat_map(|b| (0..3u32).map(move |p| (b, p))) {
            let arm = (position + block) % 3;
            let wobble = f64::from((block * 7 + arm * 3) % 5) * 1e6;
            let first = if position == 0 { factor } else { 1.0 };
            let wall = (1e9 * f64::from(arm + 1) + wobble) * first;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            add(&mut written, &done(TrialId { block, position, arm }, wall as u64));
        }
        drop(written);
        let findings = compare(&Ledger::open(&file).unwrap()).unwrap();
        findings.cautions.into_iter().find(|it| it.code == "position").map(|it| it.finding)
    }

    #[test]
    fn a_first_place_that_is_slower_is_told_of() {
        let finding = says_position(1.08).unwrap();
        assert!(finding.contains("slower than the others, by 8 %"), "{finding}");
        assert!(says_position(0.95).unwrap().contains("faster"));
    }

    #[test]
    fn where_all_places_are_alike_nothing_is_said() {
        assert_eq!(says_position(1.0), None);
    }
}
