//! Wall time, and what a workload measures, against the baseline: what each compared arm says
//! alone, and as one of several.
//!
//! Of many comparisons some exclude 1 by chance. A difference therefore counts only where Holm's
//! adjustment of the p-values of all of them leaves it one; where there is one comparison, its
//! interval decides alone. The family is every interval that gets a verdict: of each compared arm
//! that on wall time, and those on every metric of the workload.

use crate::finding::ProgressPoint;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::estimate::{Baseline, Measure, float, interval};
use surtax_statistics::{
    Block, Confidence, Estimate, TooFew, detectable_effect, holm, overhead, overhead_at, p_value,
};

/// The chance that any of a run's stacks is called different, were all of them alike.
const FAMILY_LEVEL: f64 = 0.05;

/// As many points show how an interval came to be.
const POINTS_MAX: usize = 60;

/// From so many blocks on, an interval takes milliseconds.
const MANY: usize = 1_000;

/// The first number of blocks that has an interval.
const BLOCKS_MIN: usize = 3;

/// The wall time of one arm.
pub(crate) struct Wall {
    /// Overhead in wall time, of an arm that is compared.
    pub(crate) overhead: Result<Compared, TooFew>,
    /// Interval of the overhead over the first blocks, and over more and more of them.
    pub(crate) progress: Vec<ProgressPoint>,
}

/// One comparison of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Compared {
    /// The overhead with its 95 % interval.
    pub(crate) estimate: Estimate,
    /// The same at the confidence that each of so many comparisons is asked for.
    pub(crate) strict: Estimate,
    /// The chance of such an overhead, were there none.
    pub(crate) p_value: f64,
    /// The same by Holm, as one of [`family`](Self::family) comparisons.
    pub(crate) p_value_adjusted: f64,
    /// Number of comparisons that this is one of.
    pub(crate) family: usize,
}

impl Compared {
    /// Tells whether a difference may be called one among so many comparisons.
    pub(crate) fn is_beyond_chance(&self) -> bool {
        self.family == 1 || self.p_value_adjusted < FAMILY_LEVEL
    }

    /// The smallest overhead that would be found, as a share, in 80 of 100 runs of so many blocks.
    ///
    /// By the level that the first of the comparisons must pass; what comes after it in Holm's
    /// order passes a lower one, so this is rather too large.
    pub(crate) fn detectable_effect(&self) -> Option<f64> {
        Some(detectable_effect(&self.strict)).filter(|effect| effect.is_finite())
    }
}

/// Overhead of one arm by one metric; `None` of the baseline, and where a ratio has no meaning.
pub(crate) type Overhead = Option<Result<Compared, TooFew>>;

/// The wall time of every column; `None` of the baseline, and where a ratio has no meaning. And
/// what the metrics of a workload say of every column, metric by metric.
pub(crate) fn of_columns(
    columns: &[ArmTrials<'_>],
    baseline: &Baseline<'_>,
    of_workload: &[Measure],
) -> (Vec<Option<Wall>>, Vec<Vec<Overhead>>) {
    let of_metric = |measure: &Measure| -> Vec<Option<Vec<Block>>> {
        let of = |column: &ArmTrials<'_>| {
            baseline.blocks(&column.counted, measure).filter(|_| column.arm.is_compared())
        };
        columns.iter().map(of).collect()
    };
    let mut blocks = of_metric(&Measure::wall());
    blocks.extend(of_workload.iter().flat_map(of_metric));
    let mut overheads = family(&blocks);
    let of_metrics = overheads.split_off(columns.len());
    let wall = |(blocks, overhead): (&Option<Vec<Block>>, _)| {
        let progress =
            progress(blocks.as_ref()?, |blocks| surtax_statistics::overhead(blocks).ok());
        Some(Wall { overhead: overhead?, progress })
    };
    let walls = blocks.iter().zip(overheads).map(wall).collect();
    (walls, of_metrics.chunks(columns.len().max(1)).map(<[Overhead]>::to_vec).collect())
}

/// Every comparison of a run, as one of all.
fn family(blocks: &[Option<Vec<Block>>]) -> Vec<Option<Result<Compared, TooFew>>> {
    let p_values: Vec<Option<f64>> =
        blocks.iter().map(|blocks| p_value(blocks.as_ref()?).ok()).collect();
    let known: Vec<f64> = p_values.iter().flatten().copied().collect();
    let mut adjusted = holm(&known).into_iter();
    let of_arm = |(blocks, p_value): (&Option<Vec<Block>>, Option<f64>)| {
        let adjusted = p_value.and_then(|_| adjusted.next());
        Some(compared(blocks.as_ref()?, p_value.zip(adjusted), known.len()))
    };
    blocks.iter().zip(p_values).map(of_arm).collect()
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

/// Returns how the interval of these blocks, which are in their order in time, came to be; `known`
/// makes it of the first of them.
pub(crate) fn progress(
    blocks: &[Block],
    known: impl Fn(&[Block]) -> Option<Estimate>,
) -> Vec<ProgressPoint> {
    let point = |count: usize| {
        let estimate = known(blocks.get(..count)?)?;
        let block_count = u32::try_from(count).unwrap_or(u32::MAX);
        Some(ProgressPoint { block_count, overhead: interval(&estimate) })
    };
    looks(blocks.len()).into_iter().filter_map(point).collect()
}

/// At which numbers of blocks the interval is computed: at each, or farther and farther apart,
/// since a width halves only with four times as many. Beyond [`MANY`] twice as far each time, so
/// that all looks together cost no more than a few at all blocks.
fn looks(block_count: usize) -> Vec<usize> {
    let many = std::iter::successors(Some(block_count), |count| Some(count / 2));
    let mut late: Vec<usize> = many.take_while(|count| *count > MANY).collect();
    late.reverse();
    let early = block_count.min(MANY);
    let points = POINTS_MAX.saturating_sub(late.len()).max(2);
    if early < BLOCKS_MIN + points {
        return (BLOCKS_MIN..=early).collect();
    }
    let (least, last) = (count(BLOCKS_MIN), count(points - 1));
    let growth = (count(early) / least).ln() / last;
    let look = |place: usize| {
        let blocks = (least * (growth * count(place)).exp()).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between three and the number of blocks, but for rounding"
        )]
        let blocks = blocks as usize;
        blocks.min(early)
    };
    let mut looks: Vec<usize> = (0..points - 1).map(look).chain([early]).chain(late).collect();
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests {
    use crate::finding::wall::*;

    #[test]
    fn looks_are_few_reach_from_three_blocks_to_all_and_never_repeat() {
        assert!(looks(2).is_empty());
        assert_eq!(looks(5), [3, 4, 5]);
        for count in [62, 63, 100, 1000, 1001, 25_000, 10_000_000] {
            let looks = looks(count);
            assert!(looks.len() <= POINTS_MAX, "{count}: {}", looks.len());
            assert_eq!((looks.first(), looks.last()), (Some(&3), Some(&count)));
            assert!(looks.windows(2).all(|pair| pair[0] < pair[1]), "{looks:?}");
            let cost: usize = looks.iter().sum();
            assert!(cost <= 2 * count + 20 * MANY, "{count}: {cost}");
        }
    }

    #[test]
    fn the_last_point_of_the_progress_is_the_interval_itself() {
        let blocks: Vec<Block> = (0..100)
            .map(|block| Block::new(&[1.0], &[1.1 + 0.001 * f64::from(block * 7 % 11)]).unwrap())
            .collect();
        let progress = progress(&blocks, |blocks| overhead(blocks).ok());
        let last = progress.last().unwrap();
        assert_eq!(last.block_count, 100);
        assert_eq!(last.overhead, interval(&overhead(&blocks).unwrap()));
        let width = |point: &ProgressPoint| point.overhead.high - point.overhead.low;
        assert!(width(&progress[0]) > width(last));
    }

    /// Between 0 and 1; the same every time.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            for (left, by) in [(true, 13), (false, 7), (true, 17)] {
                self.0 ^= if left { self.0 << by } else { self.0 >> by };
            }
            float(self.0 >> 11) / float(1 << 53)
        }

        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * (1.0 - self.next()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.next()).cos()
        }
    }

    const SHAPES: [&str; 3] = ["lognormal", "slow mode", "bursts"];

    /// A time under noise of a shape.
    fn time(shape: &str, chance: &mut Chance) -> f64 {
        match shape {
            "lognormal" => (0.03 * chance.normal()).exp(),
            "slow mode" => {
                let slow = if chance.next() < 0.3 { 1.2 } else { 1.0 };
                (0.01 * chance.normal()).exp() * slow
            }
            _ => {
                let burst = if chance.next() < 0.1 { 1.0 + chance.next() } else { 1.0 };
                (0.01 * chance.normal()).exp() * burst
            }
        }
    }

    /// In so many runs with equal arms and a dear one: how often any of the equal ones is called
    /// different, and how often the dear one is, in percent.
    fn called(runs: u32, equal: usize, blocks: usize, cost: f64, shape: &str) -> (f64, f64) {
        let mut chance = Chance(88_172_645_463_325_252);
        let (mut wrong, mut found) = (0, 0);
        for _ in 0..runs {
            let mut time = || time(shape, &mut chance);
            let base: Vec<[f64; 2]> = (0..blocks).map(|_| [time(), time()]).collect();
            let pair = |base: &[f64; 2]| Block::new(&base[..1], &base[1..]).unwrap();
            let pairs: Vec<Block> = base.iter().map(pair).collect();
            let noise = surtax_statistics::noise_floor(&pairs).unwrap();
            let mut arm = |cost: f64| {
                let block = |base: &[f64; 2]| Block::new(base, &[cost * time()]).unwrap();
                Some(base.iter().map(block).collect::<Vec<Block>>())
            };
            let mut arms: Vec<_> = (1..equal).map(|_| arm(1.0)).collect();
            let differs = |compared: Compared| {
                let verdict = surtax_statistics::verdict(&compared.estimate, &noise, 0.03);
                verdict == surtax_statistics::Verdict::Differs && compared.is_beyond_chance()
            };
            let mut is_called = |last| {
                arms.push(last);
                let found = family(&arms).into_iter().map(|it| differs(it.unwrap().unwrap()));
                let found: Vec<bool> = found.collect();
                arms.pop();
                found
            };
            wrong += u32::from(is_called(arm(1.0)).contains(&true));
            found += u32::from(is_called(arm(cost)).last() == Some(&true));
        }
        let share = |count: u32| 100.0 * f64::from(count) / f64::from(runs);
        (share(wrong), share(found))
    }

    #[test]
    fn of_twenty_equal_arms_any_differs_in_less_than_five_of_a_hundred_runs_of_few_blocks() {
        for blocks in [5, 7, 9] {
            let (wrong, found) = called(150, 20, blocks, 1.2, "lognormal");
            assert!(wrong < 5.0 && found > 90.0, "{blocks} blocks: {wrong} %, {found} %");
            let (wrong, _) = called(150, 20, blocks, 1.2, "slow mode");
            assert!(wrong < 5.0, "{blocks} blocks with a slow mode: {wrong} %");
        }
    }

    #[test]
    #[ignore = "prints the numbers of decision 6; takes minutes"]
    fn table_of_families() {
        for (shape, equal) in SHAPES.into_iter().flat_map(|shape| [(shape, 5), (shape, 20)]) {
            for blocks in [5, 6, 7, 8, 9, 10, 12, 20] {
                let (wrong, found) = called(2_000, equal, blocks, 1.1, shape);
                println!(
                    "{shape}, {equal} arms, {blocks} blocks: {wrong:.2} % wrong, {found:.1} % found"
                );
            }
        }
    }
}
