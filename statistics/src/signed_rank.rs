//! The Hodges–Lehmann estimate and its distribution-free interval, from Wilcoxon's signed ranks.
//!
//! Both are read off the averages of all pairs of values, each value with itself included (the
//! Walsh averages): the estimate is their median, the interval an order statistic from each end. If
//! the values are symmetric about their centre the interval covers at least as often as it says,
//! whatever the shape of the noise; a burst moves one value and not the whole interval, as it would
//! with a mean. Source: Hodges and Lehmann, Annals of Mathematical Statistics 34(2), 1963;
//! Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition, 2014, sections 3.1
//! to 3.3.
//!
//! The pairs are counted, and no more of them stored than there are values: time n per count, and
//! about log n counts per order statistic.

use crate::confidence::Confidence;
use crate::normal;

/// Up to this many values the null distribution is exact; above, normal with its continuity
/// correction.
const EXACT_UP_TO: usize = 64;

/// Times after which it is not asked where a rank should lie: values with many ties have gaps.
const GUESSES: u32 = 12;

/// The median of the Walsh averages of `sorted`, which is ascending and not empty.
pub(crate) fn hodges_lehmann(sorted: &[f64]) -> f64 {
    let count = pair_count(sorted.len());
    let lower = walsh_average(sorted, count.div_ceil(2));
    if count % 2 == 1 {
        return lower;
    }
    f64::midpoint(lower, walsh_average(sorted, count / 2 + 1))
}

/// The ends of the interval; `None` when a single value could move one of them as far as it likes.
///
/// A value is in as many averages as there are values. Unless an end has more averages beyond it
/// than that, ranks are no safer from a burst than Student's t, and coarser.
pub(crate) fn interval(sorted: &[f64], confidence: Confidence) -> Option<(f64, f64)> {
    if !is_robust(sorted.len(), confidence) {
        return None;
    }
    let rank = end_rank(sorted.len(), confidence.tail())?;
    let from_above = pair_count(sorted.len()) + 1 - rank;
    Some((walsh_average(sorted, rank), walsh_average(sorted, from_above)))
}

/// Says whether so many values have an [`interval`].
pub(crate) fn is_robust(n: usize, confidence: Confidence) -> bool {
    end_rank(n, confidence.tail()).is_some_and(|rank| rank > n)
}

/// The chance of so few averages on one side of a centre that is the true one; two-sided.
///
/// `is_below` and `is_not_above` say of an average where it lies. An average on the centre counts
/// for both sides, as in the interval, whose ends belong to it.
pub(crate) fn p_value(
    sorted: &[f64],
    is_below: impl Fn(f64) -> bool,
    is_not_above: impl Fn(f64) -> bool,
) -> f64 {
    let not_above = count_while(sorted, is_not_above);
    let not_below = pair_count(sorted.len()) - count_while(sorted, is_below);
    (2.0 * chance_up_to(sorted.len(), not_above.min(not_below))).min(1.0)
}

/// The chance that the signed-rank statistic of `n` values does not exceed `limit`.
fn chance_up_to(n: usize, limit: usize) -> f64 {
    if n > EXACT_UP_TO {
        let (mean, deviation) = moments(n);
        return normal::share_below((limit as f64 + 0.5 - mean) / deviation);
    }
    null_distribution(n).into_iter().take(limit + 1).sum()
}

fn pair_count(n: usize) -> usize {
    n * (n + 1) / 2
}

/// The greatest rank, from 1, below which the centre lies with a chance of at most `tail`.
fn end_rank(n: usize, tail: f64) -> Option<usize> {
    if n > EXACT_UP_TO {
        return end_rank_normal(n, tail);
    }
    let chance = null_distribution(n);
    let mut below = 0.0;
    let mut rank = 0;
    for share in chance {
        below += share;
        // A hair of slack: 0.025 and a sum of powers of two differ by rounding only.
        if below > tail * (1.0 + 1e-12) {
            break;
        }
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

/// Chance of each value of the signed-rank statistic of `n` values, from 0 up.
fn null_distribution(n: usize) -> Vec<f64> {
    let mut chance = vec![0.0; pair_count(n) + 1];
    chance[0] = 1.0;
    for value_rank in 1..=n {
        for statistic in (0..chance.len()).rev() {
            let from = statistic.checked_sub(value_rank).map_or(0.0, |lower| chance[lower]);
            chance[statistic] = f64::midpoint(chance[statistic], from);
        }
    }
    chance
}

/// Mean and standard deviation of the signed-rank statistic of `n` values.
fn moments(n: usize) -> (f64, f64) {
    let n = n as f64;
    (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is floored, and compared with 1 before"
)]
fn end_rank_normal(n: usize, tail: f64) -> Option<usize> {
    let (mean, deviation) = moments(n);
    let rank = (mean + 0.5 + normal::quantile(tail) * deviation).floor();
    (rank >= 1.0).then_some(rank as usize)
}

/// The Walsh average of this rank, from 1: the least value that so many averages do not exceed.
///
/// Narrows a range until no more averages are in it than there are values, and looks at those: the
/// result is one of the averages exactly. Where the rank should lie if the averages were spread
/// evenly over the range is asked first; every third time, and after some always, the range is
/// halved over the values that a float can have, which ends whatever the values are.
fn walsh_average(sorted: &[f64], rank: usize) -> f64 {
    let mut low = place(sorted[0]);
    let mut high = place(sorted[sorted.len() - 1]);
    // How many averages do not exceed the last limit that was too low, and the last that was not.
    let (mut below, mut up_to) = (0, pair_count(sorted.len()));
    let mut floor = f64::NEG_INFINITY;
    let mut is_above = false;
    for turn in 1_u32.. {
        if low >= high || up_to - below <= sorted.len() {
            break;
        }
        let middle = if turn % 3 == 0 || turn > GUESSES {
            low + (high - low) / 2
        } else {
            // Beyond it, so that it is the other end that comes nearer.
            let beyond = sorted.len() as f64 * if is_above { -0.4 } else { 0.4 };
            let ends = (value_at(low), value_at(high));
            place(between(ends, (below, up_to), rank as f64 + beyond)).clamp(low, high - 1)
        };
        let limit = value_at(middle);
        let count = count_while(sorted, |average| average <= limit);
        is_above = count >= rank;
        if is_above {
            (high, up_to) = (middle, count);
        } else {
            (low, below, floor) = (middle + 1, count, limit);
        }
    }
    if low == high {
        return value_at(low);
    }
    let mut left = averages_between(sorted, floor, value_at(high));
    *left.select_nth_unstable_by(rank - below - 1, f64::total_cmp).1
}

/// The value that would have this rank if the ranks of a range were spread evenly over its values.
fn between((low, high): (f64, f64), (below, up_to): (usize, usize), rank: f64) -> f64 {
    let share = (rank - below as f64) / (up_to - below) as f64;
    low + (high - low) * share.clamp(0.0, 1.0)
}

/// Lists the Walsh averages that exceed `floor` and do not exceed `most`.
fn averages_between(sorted: &[f64], floor: f64, most: f64) -> Vec<f64> {
    let mut found = Vec::new();
    let mut end = sorted.len();
    for (start, &value) in sorted.iter().enumerate() {
        while end > start && f64::midpoint(value, sorted[end - 1]) > most {
            end -= 1;
        }
        if end <= start {
            break;
        }
        let averages = sorted[start..end].iter().rev().map(|&other| f64::midpoint(value, other));
        found.extend(averages.take_while(|average| *average > floor));
    }
    found
}

/// Of how many Walsh averages `is_low` is true, which is so of the lowest ones.
fn count_while(sorted: &[f64], is_low: impl Fn(f64) -> bool) -> usize {
    let mut end = sorted.len();
    let mut count = 0;
    for (start, &value) in sorted.iter().enumerate() {
        while end > start && !is_low(f64::midpoint(value, sorted[end - 1])) {
            end -= 1;
        }
        if end <= start {
            break;
        }
        count += end - start;
    }
    count
}

/// The place of a float among all floats, in their order.
fn place(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

/// The float at a place.
fn value_at(place: u64) -> f64 {
    f64::from_bits(if place >> 63 == 1 { place & !(1 << 63) } else { !place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walsh_averages(sorted: &[f64]) -> Vec<f64> {
        let mut averages = Vec::new();
        for (index, &a) in sorted.iter().enumerate() {
            averages.extend(sorted[index..].iter().map(|&b| f64::midpoint(a, b)));
        }
        averages.sort_by(f64::total_cmp);
        averages
    }

    #[test]
    fn three_values_have_six_averages_that_one_can_write_down() {
        // 1, 1.5, 2, 3.5, 4, 6: the median is between 2 and 3.5.
        assert_eq!(walsh_averages(&[1.0, 2.0, 6.0]), [1.0, 1.5, 2.0, 3.5, 4.0, 6.0]);
        assert!((hodges_lehmann(&[1.0, 2.0, 6.0]) - 2.75).abs() < 1e-15);
    }

    fn are_found(sorted: &[f64]) {
        for (index, &average) in walsh_averages(sorted).iter().enumerate() {
            let found = walsh_average(sorted, index + 1);
            assert!((found - average).abs() < 1e-300, "{found} is not {average} of {sorted:?}");
        }
    }

    #[test]
    fn counting_finds_the_same_averages_as_listing_and_sorting_them() {
        are_found(&[-3.0, -1.25, -0.5, 0.0, 0.0, 0.7, 2.0, 40.0]);
        are_found(&[5.0]);
        are_found(&[-1.0, 1.0]);
        are_found(&[2.5; 30]);
        are_found(&[-0.0, -0.0, 0.0, 0.0, 0.0, 1e-300, 1e300]);
    }

    #[test]
    fn they_are_found_among_many_too_with_ties_and_far_from_each_other() {
        let mut state = 7_u64;
        for (shape, spread) in [(1.0, 1e9), (5.0, 12.0), (9.0, 3.0)] {
            let mut values: Vec<f64> = (0..70)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let share = (state >> 40) as f64 / (1_u64 << 24) as f64 - 0.5;
                    (share * spread).round() * share.abs().powf(shape)
                })
                .collect();
            values.sort_by(f64::total_cmp);
            are_found(&values);
        }
    }

    #[test]
    fn end_ranks_are_those_of_the_printed_tables() {
        // Hollander, Wolfe and Chicken, table A.4: P(T ≤ 8) = 0.024 for n = 10, so the ninth
        // average.
        for (n, rank) in [(5, None), (6, Some(1)), (7, Some(3)), (8, Some(4)), (10, Some(9))] {
            assert_eq!(end_rank(n, 0.025), rank, "n = {n}");
        }
        assert_eq!(end_rank(20, 0.025), Some(53));
    }

    #[test]
    fn the_normal_approximation_takes_over_without_a_step() {
        let exact = end_rank(EXACT_UP_TO, 0.025);
        let approximate = end_rank_normal(EXACT_UP_TO, 0.025);
        assert!(exact.zip(approximate).is_some_and(|(a, b)| a.abs_diff(b) <= 2));
    }
}
