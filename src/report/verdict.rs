//! The verdict on an arm, and the sentence that a person would say for it.

use super::Verdict;
use super::estimate::interval;
use super::number::{self, percent};
use surtax_statistics::{self as statistics, Estimate, NoiseFloor, TooFew, blocks_needed};

/// From this ratio on, percents are hard to read.
const FACTORS_FROM: f64 = 3.0;

/// What the verdict rests on.
pub(super) struct Case<'a> {
    /// The baseline's stack.
    pub(super) baseline: &'a str,
    /// The overhead in wall time; `None` where there is no ratio.
    pub(super) overhead: Option<Result<Estimate, TooFew>>,
    /// The noise floor, where the baseline has one.
    pub(super) noise: Option<NoiseFloor>,
    /// Half-width of the equivalence margin, as a share.
    pub(super) margin: f64,
}

/// The verdict on an arm that has trials that count, and why.
pub(super) fn of(case: &Case<'_>) -> (Verdict, String) {
    let baseline = case.baseline;
    match (case.overhead, case.noise) {
        (None, _) => {
            (Verdict::Inconclusive, format!("its wall time has no ratio to that of `{baseline}`"))
        }
        (Some(Err(TooFew { have, need })), _) => (
            Verdict::Inconclusive,
            format!(
                "an interval takes {need} blocks in which it and `{baseline}` count, and there {}",
                if have == 1 { "is 1".into() } else { format!("are {have}") }
            ),
        ),
        (Some(Ok(estimate)), None) => (
            Verdict::Inconclusive,
            format!(
                "{}, but `{baseline}` has too few trials to say how much it differs from itself",
                difference(&estimate, baseline)
            ),
        ),
        (Some(Ok(estimate)), Some(noise)) => judged(&estimate, &noise, case),
    }
}

fn judged(estimate: &Estimate, noise: &NoiseFloor, case: &Case<'_>) -> (Verdict, String) {
    let Case { baseline, margin, .. } = case;
    let blocks = number::count(estimate.block_count, "block");
    match statistics::verdict(estimate, noise, *margin) {
        statistics::Verdict::Differs => {
            let small = if estimate.within(*margin) {
                format!(", which is within the margin of ±{}", percent(*margin))
            } else {
                String::new()
            };
            let words = format!(
                "{}{small} (95 % interval {}; {blocks})",
                difference(estimate, baseline),
                bounds(estimate)
            );
            (Verdict::Differs, words)
        }
        statistics::Verdict::Equivalent => {
            let words = format!(
                "as fast as `{baseline}` within ±{} (95 % interval {}; {blocks})",
                percent(*margin),
                signed_bounds(estimate)
            );
            (Verdict::Equivalent, words)
        }
        statistics::Verdict::Inconclusive => {
            (Verdict::Inconclusive, undecided(estimate, noise, case))
        }
    }
}

fn undecided(estimate: &Estimate, noise: &NoiseFloor, case: &Case<'_>) -> String {
    let Case { baseline, margin, .. } = case;
    let blocks = number::count(estimate.block_count, "block");
    if !estimate.holds(1.0) {
        return format!(
            "{} (95 % interval {}; {blocks}), but `{baseline}` is as far from itself: the noise \
             floor is {}",
            difference(estimate, baseline),
            bounds(estimate),
            departure(noise.floor)
        );
    }
    let more = match blocks_needed(estimate, *margin) {
        Some(0) | None => String::new(),
        Some(more) => format!("; about {} would decide", number::count(more, "more block")),
    };
    format!(
        "anything from {} to {} (95 % interval; {blocks}){more}",
        share(estimate.low, estimate),
        way(estimate.high, estimate, baseline)
    )
}

/// `5 % faster`, as exact as the interval allows.
fn share(ratio: f64, Estimate { low, high, .. }: &Estimate) -> String {
    let word = if ratio < 1.0 { "faster" } else { "slower" };
    format!("{} {word}", number::percent_within(ratio - 1.0, *low, *high))
}

/// `12 % slower than native`, `4.5 times as slow as native`.
fn way(ratio: f64, estimate: &Estimate, baseline: &str) -> String {
    if ratio >= FACTORS_FROM {
        return format!("{} times as slow as `{baseline}`", number::trimmed(ratio, 1));
    }
    format!("{} than `{baseline}`", share(ratio, estimate))
}

/// How far a ratio is from 1: a share, or a factor where that reads better.
pub(super) fn departure(share: f64) -> String {
    if share >= 0.5 {
        format!("a factor of {}", number::trimmed(share + 1.0, 1))
    } else {
        percent(share)
    }
}

/// The estimate in words.
fn difference(estimate: &Estimate, baseline: &str) -> String {
    way(estimate.ratio, estimate, baseline)
}

/// The interval in the words of [`difference`]: `9 % to 15 %` slower, or faster.
fn bounds(estimate: &Estimate) -> String {
    let Estimate { ratio, low, high, .. } = *estimate;
    let share = |ratio: f64| number::percent_within(ratio - 1.0, low, high);
    if ratio >= FACTORS_FROM {
        format!("{} to {}", number::trimmed(low, 1), number::trimmed(high, 1))
    } else if ratio < 1.0 {
        format!("{} to {}", share(high), share(low))
    } else {
        format!("{} to {}", share(low), share(high))
    }
}

/// The interval with its signs: `[−1, +2] %`.
fn signed_bounds(estimate: &Estimate) -> String {
    let shown = number::overhead(&interval(estimate));
    let bounds = shown.find('[').and_then(|start| shown.get(start..)).unwrap_or(&shown);
    format!("{bounds} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_statistics::{Block, noise_floor, overhead};

    fn case(ratios: &[f64], noise: f64) -> (Verdict, String) {
        let blocks = |ratios: &[f64]| -> Vec<Block> {
            ratios.iter().map(|ratio| Block::new(&[1.0], &[*ratio]).unwrap()).collect()
        };
        of(&Case {
            baseline: "native",
            overhead: Some(overhead(&blocks(ratios))),
            noise: noise_floor(&blocks(&[1.0 - noise, 1.0, 1.0 + noise, 1.0])).ok(),
            margin: 0.03,
        })
    }

    #[test]
    fn each_verdict_says_why_in_a_sentence() {
        let (verdict, because) = case(&[1.12, 1.10, 1.14, 1.12, 1.09, 1.15], 0.001);
        assert_eq!(verdict, Verdict::Differs);
        assert_eq!(because, "12 % slower than `native` (95 % interval 9 % to 15 %; 6 blocks)");
        let (verdict, because) = case(&[1.0, 1.001, 0.999, 1.0, 1.001, 0.999], 0.001);
        assert_eq!(verdict, Verdict::Equivalent);
        assert!(
            because.starts_with("as fast as `native` within ±3 % (95 % interval "),
            "{because}"
        );
        let (verdict, because) = case(&[1.1, 0.9, 1.12, 0.95, 1.0, 1.04], 0.001);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(
            because.starts_with("anything from ") && because.contains(" % slower than `native`"),
            "{because}"
        );
        assert!(
            because.contains("; 6 blocks); about") && because.ends_with("more blocks would decide"),
            "{because}"
        );
    }

    #[test]
    fn what_is_faster_is_said_to_be_faster_with_its_bounds_in_order() {
        let (_, because) = case(&[0.9, 0.91, 0.89, 0.9, 0.91, 0.89], 0.001);
        assert!(
            because.starts_with("10 % faster than `native` (95 % interval 9 % to 11 %"),
            "{because}"
        );
        let (_, because) = case(&[8.0, 8.1, 7.9, 8.0], 0.001);
        assert!(because.starts_with("8 times as slow as `native`"), "{because}");
    }

    #[test]
    fn a_difference_below_the_noise_floor_is_not_one() {
        let (verdict, because) = case(&[1.05, 1.051, 1.049, 1.05, 1.05], 0.2);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(because.contains("the noise floor is"), "{because}");
    }

    #[test]
    fn too_few_blocks_say_how_many_are_needed() {
        let (verdict, because) = case(&[1.05], 0.01);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert_eq!(
            because,
            "an interval takes 3 blocks in which it and `native` count, and there is 1"
        );
    }
}
