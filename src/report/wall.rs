//! Wall time against the baseline: what each compared arm says alone, and as one of several.
//!
//! Of many comparisons some exclude 1 by chance. A difference therefore counts only where Holm's
//! adjustment of the p-values of all of them leaves it one; where there is one comparison, its
//! interval decides alone. The family is every compared arm that has an interval: a verdict is given
//! on wall time, and on nothing else.

use super::ProgressPoint;
use super::compare::Column;
use super::estimate::{Baseline, float, interval};
use surtax_statistics::{
    Block, Confidence, Estimate, TooFew, detectable_effect, holm, overhead, overhead_at, p_value,
};

/// The chance that any of a run's stacks is called different, were all of them alike.
const FAMILY_LEVEL: f64 = 0.05;

/// As many points show how an interval came to be.
const POINTS_MAX: usize = 60;

/// The first number of blocks that has an interval.
const BLOCKS_MIN: usize = 3;

/// The wall time of one arm.
pub(super) struct Wall {
    /// What it costs, of an arm that is compared.
    pub(super) overhead: Result<Compared, TooFew>,
    /// Its interval over the first blocks, and over more and more of them.
    pub(super) progress: Vec<ProgressPoint>,
}

/// One comparison of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    /// The overhead with its 95 % interval.
    pub(super) estimate: Estimate,
    /// The same at the confidence that each of so many comparisons is asked for.
    pub(super) strict: Estimate,
    /// The chance of such an overhead, were there none.
    pub(super) p_value: f64,
    /// The same by Holm, as one of [`family`](Self::family) comparisons.
    pub(super) p_value_adjusted: f64,
    /// How many comparisons there are.
    pub(super) family: usize,
}

impl Compared {
    /// Whether a difference may be called one among so many comparisons.
    pub(super) fn is_beyond_chance(&self) -> bool {
        self.family == 1 || self.p_value_adjusted < FAMILY_LEVEL
    }

    /// The smallest overhead that would be found, as a share, in 80 of 100 runs of so many blocks.
    ///
    /// By the level that the first of the comparisons must pass; what comes after it in Holm's
    /// order passes a lower one, so this is rather too large.
    pub(super) fn detectable_effect(&self) -> Option<f64> {
        Some(detectable_effect(&self.strict)).filter(|effect| effect.is_finite())
    }

    /// The fewest blocks whose ranks can give a p-value that is small enough: that of n blocks is at
    /// least 2 / 2ⁿ.
    pub(super) fn ranks_needed(&self) -> usize {
        let chance = |blocks: &u32| 2.0 / 2.0_f64.powf(f64::from(*blocks));
        let asked = FAMILY_LEVEL / count(self.family);
        (1..64).find(|blocks| chance(blocks) < asked).map_or(64, |blocks: u32| blocks as usize)
    }
}

/// The wall time of every column; `None` of the baseline, and where a ratio has no meaning.
pub(super) fn of_columns(columns: &[Column<'_>], baseline: Baseline<'_>) -> Vec<Option<Wall>> {
    let blocks: Vec<Option<Vec<Block>>> = columns
        .iter()
        .map(|column| baseline.blocks(&column.counted, "wall_ns").filter(|_| column.is_compared()))
        .collect();
    let p_values: Vec<Option<f64>> =
        blocks.iter().map(|blocks| p_value(blocks.as_ref()?).ok()).collect();
    let known: Vec<f64> = p_values.iter().flatten().copied().collect();
    let mut adjusted = holm(&known).into_iter();
    let mut walls = Vec::new();
    for (blocks, p_value) in blocks.iter().zip(p_values) {
        let adjusted = p_value.and_then(|_| adjusted.next());
        walls.push(blocks.as_ref().map(|blocks| Wall {
            overhead: compared(blocks, p_value.zip(adjusted), known.len()),
            progress: progress(blocks),
        }));
    }
    walls
}

fn compared(
    blocks: &[Block],
    p_values: Option<(f64, f64)>,
    family: usize,
) -> Result<Compared, TooFew> {
    let estimate = overhead(blocks)?;
    let strict = match Confidence::new(1.0 - FAMILY_LEVEL / count(family)) {
        Some(confidence) if family > 1 => overhead_at(blocks, confidence)?,
        _ => estimate,
    };
    // Blocks that have an interval have a p-value.
    let (p_value, p_value_adjusted) = p_values.unwrap_or((1.0, 1.0));
    Ok(Compared { estimate, strict, p_value, p_value_adjusted, family })
}

fn count(number: usize) -> f64 {
    float(u64::try_from(number).unwrap_or(u64::MAX))
}

/// How the interval of these blocks, which are in their order in time, came to be.
pub(super) fn progress(blocks: &[Block]) -> Vec<ProgressPoint> {
    let point = |count: usize| {
        let estimate = overhead(blocks.get(..count)?).ok()?;
        let block_count = u32::try_from(count).unwrap_or(u32::MAX);
        Some(ProgressPoint { block_count, overhead: interval(&estimate) })
    };
    looks(blocks.len()).into_iter().filter_map(point).collect()
}

/// At which numbers of blocks the interval is computed: at each, or farther and farther apart, since
/// a width halves only with four times as many.
fn looks(block_count: usize) -> Vec<usize> {
    if block_count < BLOCKS_MIN + POINTS_MAX {
        return (BLOCKS_MIN..=block_count).collect();
    }
    let (least, last) = (count(BLOCKS_MIN), count(POINTS_MAX - 1));
    let growth = (count(block_count) / least).ln() / last;
    let look = |place: usize| {
        let blocks = (least * (growth * count(place)).exp()).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between three and the number of blocks, but for rounding"
        )]
        let blocks = blocks as usize;
        blocks.min(block_count)
    };
    let mut looks: Vec<usize> = (0..POINTS_MAX - 1).map(look).chain([block_count]).collect();
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_reach_from_three_blocks_to_all_and_never_repeat() {
        assert!(looks(2).is_empty());
        assert_eq!(looks(5), [3, 4, 5]);
        for count in [62, 63, 100, 1000, 25_000, 10_000_000] {
            let looks = looks(count);
            assert!(looks.len() <= POINTS_MAX, "{count}: {}", looks.len());
            assert_eq!((looks.first(), looks.last()), (Some(&3), Some(&count)));
            assert!(looks.windows(2).all(|pair| pair[0] < pair[1]), "{looks:?}");
        }
    }

    #[test]
    fn the_last_point_of_the_progress_is_the_interval_itself() {
        let blocks: Vec<Block> = (0..100)
            .map(|block| Block::new(&[1.0], &[1.1 + 0.001 * f64::from(block * 7 % 11)]).unwrap())
            .collect();
        let progress = progress(&blocks);
        let last = progress.last().unwrap();
        assert_eq!(last.block_count, 100);
        assert_eq!(last.overhead, interval(&overhead(&blocks).unwrap()));
        let width = |point: &ProgressPoint| point.overhead.high - point.overhead.low;
        assert!(width(&progress[0]) > width(last));
    }

    #[test]
    fn ranks_of_seven_blocks_are_enough_for_three_comparisons_and_not_for_four() {
        let estimate = overhead(&[Block::new(&[1.0], &[1.1]).unwrap(); 7]).unwrap();
        let of = |family| {
            let (p_value, p_value_adjusted) = (0.0, 0.0);
            Compared { estimate, strict: estimate, p_value, p_value_adjusted, family }
                .ranks_needed()
        };
        assert_eq!((of(1), of(3), of(4), of(20)), (6, 7, 8, 10));
    }
}
