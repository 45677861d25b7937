//! The verdict on an arm, and the sentence that a person would say for it.

use crate::finding::Verdict;
use crate::finding::estimate::interval;
use crate::finding::number::{self, percent};
use crate::finding::wall::Compared;
use surtax_statistics::{
    self as statistics, Estimate, NoiseFloor, TooFew, blocks_needed, is_equivalent,
};

/// From this ratio on, percents are hard to read.
const FACTORS_FROM: f64 = 3.0;

/// Number of further blocks that may be asked of anybody; of a run that has made many, twice as
/// many as it has made.
const MORE_BLOCKS_REASONABLE: usize = 200;

/// Words in which a metric is spoken of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// Word for the metric: `wall time`, `number`.
    what: &'static str,
    /// Word for one value of it: `time`, `value`.
    one: &'static str,
    /// Word for dearer: `slower`, `worse`.
    dearer: &'static str,
    /// Word for cheaper: `faster`, `better`.
    cheaper: &'static str,
    /// Word for neither, without its ends: `fast` of `as fast as`.
    alike: &'static str,
}

/// Words in which wall time is spoken of.
pub(crate) const WALL_TIME: Words =
    Words { what: "wall time", one: "time", dearer: "slower", cheaper: "faster", alike: "fast" };

/// Words in which any other metric is spoken of, whichever way is better.
pub(crate) const ANY_METRIC: Words =
    Words { what: "number", one: "value", dearer: "worse", cheaper: "better", alike: "good" };

/// Facts that the verdict rests on.
pub(crate) struct Case<'a> {
    /// Words in which the metric is spoken of.
    pub(crate) words: Words,
    /// The baseline's stack.
    pub(crate) baseline: &'a str,
    /// The overhead in wall time; `None` where there is no ratio.
    pub(crate) overhead: Option<&'a Result<Compared, TooFew>>,
    /// The noise floor, where the baseline has one.
    pub(crate) noise: Option<NoiseFloor>,
    /// Half-width of the equivalence margin, as a share.
    pub(crate) margin: f64,
}

/// A verdict and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// One sentence.
    pub(crate) because: String,
    /// About how many more blocks would decide, where a reasonable number would.
    pub(crate) more_blocks: Option<u32>,
}

impl Judgement {
    /// One that no number of blocks would change.
    pub(crate) fn without(verdict: Verdict, because: String) -> Self {
        Self { verdict, because, more_blocks: None }
    }
}

/// The verdict on an arm that has trials that count, and why.
pub(crate) fn of(case: &Case<'_>) -> Judgement {
    let baseline = case.baseline;
    let undecided = |because| Judgement::without(Verdict::Inconclusive, because);
    match (case.overhead, case.noise) {
        (None, _) => undecided(format!(
            "its {what} has no ratio to that of `{baseline}`: a {one} that counts is zero or no \
             number",
            what = case.words.what,
            one = case.words.one
        )),
        (Some(Err(TooFew { have, need })), _) => {
            let there = if *have == 1 { "is 1".into() } else { format!("are {have}") };
            let because = format!(
                "an interval takes {need} blocks in which it and `{baseline}` count, and there \
                 {there}"
            );
            let more_blocks = u32::try_from(need - have).ok();
            Judgement { more_blocks, ..undecided(because) }
        }
        (Some(Ok(compared)), None) => undecided(format!(
            "{}, but `{baseline}` has too few trials to say how much it differs from itself",
            difference(&compared.estimate, case)
        )),
        (Some(Ok(compared)), Some(noise)) => judged(compared, &noise, case),
    }
}

fn judged(compared: &Compared, noise: &NoiseFloor, case: &Case<'_>) -> Judgement {
    let Case { baseline, margin, .. } = *case;
    let estimate = &compared.estimate;
    let is_within = is_equivalent(estimate, margin);
    let blocks = number::count(estimate.block_count, "block");
    let floor = departure(noise.floor);
    match statistics::verdict(estimate, noise, margin) {
        statistics::Verdict::Differs if compared.is_beyond_chance() => {
            let small = if is_within {
                format!(", and yet within the margin of ±{}", percent(margin))
            } else {
                String::new()
            };
            let because = format!(
                "{} (95 % interval {}; {blocks}), more than the noise floor, {floor}{small}",
                difference(estimate, case),
                bounds(estimate)
            );
            Judgement::without(Verdict::Differs, because)
        }
        statistics::Verdict::Differs | statistics::Verdict::Equivalent if is_within => {
            let because = format!(
                "as {alike} as `{baseline}` within the margin of ±{} (95 % interval {}; {blocks}; \
                 noise floor {floor}){}",
                percent(margin),
                signed_bounds(estimate),
                would_have_shown(compared, noise, margin),
                alike = case.words.alike
            );
            Judgement::without(Verdict::Equivalent, because)
        }
        _ => undecided(compared, noise, case),
    }
}

/// Judges what neither differs nor is the same.
fn undecided(compared: &Compared, noise: &NoiseFloor, case: &Case<'_>) -> Judgement {
    let Case { baseline, margin, .. } = *case;
    let estimate = &compared.estimate;
    let blocks = number::count(estimate.block_count, "block");
    let floor = departure(noise.floor);
    let more = more_blocks(compared, noise, margin);
    let would_decide = match more {
        Some(more) => format!(
            "about {} (`--runs {}`) would decide",
            number::count(more, "more block"),
            estimate.block_count + more
        ),
        None => String::from("no reasonable number of blocks would decide"),
    };
    let differs =
        format!("{} (95 % interval {}; {blocks})", difference(estimate, case), bounds(estimate));
    let apart = estimate.high / estimate.low;
    let because = if estimate.holds(1.0) && (UNKNOWN_FROM..f64::INFINITY).contains(&apart) {
        let factor = if apart > 1e4 { "10000 or more".into() } else { format!("{apart:.0}") };
        format!(
            "not known: the 95 % interval spans a factor of {factor} ({blocks}; noise floor \
             {floor}){}; {would_decide}",
            would_have_shown(compared, noise, f64::INFINITY)
        )
    } else if estimate.holds(1.0) {
        format!(
            "anything from {} to {} (95 % interval; {blocks}; noise floor {floor}), so neither a \
             difference nor within the margin of ±{}{}; {would_decide}",
            share(estimate.low, estimate, case.words),
            way(estimate.high, estimate, case),
            percent(margin),
            would_have_shown(compared, noise, f64::INFINITY)
        )
    } else if is_above(estimate, noise) {
        format!(
            "{differs}, but among {} comparisons chance alone gives one like it too often ({} by \
             Holm, not below 0.05); {would_decide}",
            compared.family,
            number::p_value(compared.p_value_adjusted)
        )
    } else {
        format!(
            "{differs}, but `{baseline}` may be as far from itself: the noise floor is {floor}; \
             {would_decide}"
        )
    };
    let more_blocks = more.and_then(|more| u32::try_from(more).ok());
    Judgement { verdict: Verdict::Inconclusive, because, more_blocks }
}

/// Says which overheads this run would have found, unless that is above `limit`, a share.
fn would_have_shown(compared: &Compared, noise: &NoiseFloor, limit: f64) -> String {
    let is_constant = |estimate: &Estimate| estimate.low >= 1.0 && estimate.high <= 1.0;
    if is_constant(&compared.estimate) && is_constant(&noise.estimate) {
        return String::from("; it was the same in every trial");
    }
    let found = compared.detectable_effect().map(|effect| effect.max(noise.floor));
    match found.filter(|found| found.is_finite() && *found <= limit) {
        Some(found) if found <= TELLING => {
            format!("; a difference of {} would likely have shown", departure(found))
        }
        Some(_) => String::from("; of such blocks so few can hardly tell anything"),
        None => String::new(),
    }
}

/// An overhead, as a share, above which what would have shown is no news: ten times as slow.
pub(crate) const TELLING: f64 = 9.0;

/// Factor between the ends of an interval from which on its ends say nothing.
const UNKNOWN_FROM: f64 = 100.0;

/// Tells whether the estimate is farther from 1 than the noise floor.
fn is_above(estimate: &Estimate, noise: &NoiseFloor) -> bool {
    statistics::departure(estimate.ratio) > noise.floor
}

/// About how many more blocks would decide if the estimates stay where they are: until the interval
/// lies within the margin, or excludes 1 and the noise floor has come down below the difference.
/// `None` when that is more than anybody would wait for.
fn more_blocks(compared: &Compared, noise: &NoiseFloor, margin: f64) -> Option<usize> {
    let off = |estimate: &Estimate| (estimate.ratio - 1.0).abs();
    let (found, own) = (off(&compared.estimate), off(&noise.estimate));
    let have = compared.estimate.block_count;
    let alike = blocks_needed(&compared.estimate, margin - found);
    let beyond_chance = blocks_needed(&compared.strict, found);
    let above_floor = blocks_needed(&noise.estimate, found - own);
    let apart = beyond_chance.zip(above_floor).map(|(one, other)| one.max(other));
    let more = [alike, apart].into_iter().flatten().min()?.max(1);
    Some(more).filter(|more| reasonable(*more, have))
}

/// Tells whether so many more blocks may be asked of a run that has made `have`.
pub(crate) fn reasonable(more: usize, have: usize) -> bool {
    more <= MORE_BLOCKS_REASONABLE.max(2 * have)
}

/// `5 % faster`, as exact as the interval allows.
fn share(ratio: f64, Estimate { low, high, .. }: &Estimate, words: Words) -> String {
    let word = if ratio < 1.0 { words.cheaper } else { words.dearer };
    format!("{} {word}", number::percent_within(ratio - 1.0, *low, *high))
}

/// `12 % slower than native`, `4.5 times as slow as native`; of another metric
/// `4.5 times worse than native`.
fn way(ratio: f64, estimate: &Estimate, case: &Case<'_>) -> String {
    let Case { baseline, words, .. } = case;
    if ratio >= FACTORS_FROM {
        let times = number::trimmed(ratio, 1);
        return match words.dearer {
            "slower" => format!("{times} times as slow as `{baseline}`"),
            dearer => format!("{times} times {dearer} than `{baseline}`"),
        };
    }
    format!("{} than `{baseline}`", share(ratio, estimate, *words))
}

/// Says how far a ratio is from 1: as a share, or as a factor where that reads better.
pub(crate) fn departure(share: f64) -> String {
    if share >= 0.5 {
        format!("a factor of {}", number::trimmed(share + 1.0, 1))
    } else {
        percent(share)
    }
}

/// The estimate in words.
fn difference(estimate: &Estimate, case: &Case<'_>) -> String {
    way(estimate.ratio, estimate, case)
}

/// The interval in the words of [`difference`]: `9 % to 15 %` slower, or faster.
fn bounds(estimate: &Estimate) -> String {
    let Estimate { ratio, low, high, .. } = *estimate;
    let share = |ratio: f64| number::percent_within(ratio - 1.0, low, high);
    if ratio >= FACTORS_FROM {
        let decimals = if high - low < 0.2 { 2 } else { 1 };
        format!("{} to {}", number::trimmed(low, decimals), number::trimmed(high, decimals))
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
    use crate::finding::verdict::*;
    use surtax_statistics::{Block, Confidence, noise_floor, overhead, overhead_at, p_value};

    fn blocks(ratios: &[f64]) -> Vec<Block> {
        ratios.iter().map(|ratio| Block::new(&[1.0], &[*ratio]).unwrap()).collect()
    }

    /// One of `family` comparisons, whose adjusted p-value is as many times its own.
    fn among(family: u32, ratios: &[f64], noise: f64) -> Judgement {
        let blocks_of_arm = blocks(ratios);
        let compared = || {
            let confidence = Confidence::new(1.0 - 0.05 / f64::from(family)).unwrap();
            let p_value = p_value(&blocks_of_arm)?;
            Ok(Compared {
                estimate: overhead(&blocks_of_arm)?,
                strict: overhead_at(&blocks_of_arm, confidence)?,
                p_value,
                p_value_adjusted: p_value * f64::from(family),
                family: family as usize,
            })
        };
        of(&Case {
            words: WALL_TIME,
            baseline: "native",
            overhead: Some(&compared()),
            noise: noise_floor(&blocks(&[1.0 - noise, 1.0, 1.0 + noise, 1.0])).ok(),
            margin: 0.03,
        })
    }

    fn case(ratios: &[f64], noise: f64) -> (Verdict, String) {
        let Judgement { verdict, because, .. } = among(1, ratios, noise);
        (verdict, because)
    }

    #[test]
    fn each_verdict_says_why_in_a_sentence() {
        let (verdict, because) = case(&[1.12, 1.10, 1.14, 1.12, 1.09, 1.15], 0.001);
        assert_eq!(verdict, Verdict::Differs);
        assert_eq!(
            because,
            "12 % slower than `native` (95 % interval 9 % to 15 %; 6 blocks), more than the noise \
             floor, 0.1 %"
        );
        let (verdict, because) = case(&[1.0, 1.001, 0.999, 1.0, 1.001, 0.999], 0.001);
        assert_eq!(verdict, Verdict::Equivalent);
        assert_eq!(
            because,
            "as fast as `native` within the margin of ±3 % (95 % interval [−0.1, +0.1] %; 6 \
             blocks; noise floor 0.1 %); a difference of 0.1 % would likely have shown"
        );
        let (verdict, because) = case(&[1.1, 0.9, 1.12, 0.95, 1.0, 1.04], 0.001);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert_eq!(
            because,
            "anything from 8 % faster to 12 % slower than `native` (95 % interval; 6 blocks; noise \
             floor 0.1 %), so neither a difference nor within the margin of ±3 %; a difference of \
             14 % would likely have shown; about 92 more blocks (`--runs 98`) would decide"
        );
    }

    #[test]
    fn blocks_that_would_have_shown_only_the_absurd_are_said_to_tell_nothing() {
        let (verdict, because) = case(&[1.0, 40.0, 0.02], 0.001);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(because.starts_with("not known: the 95 % interval spans a factor of 10000 or"));
        assert!(because.contains("; of such blocks so few can hardly tell anything"), "{because}");
        assert!(!because.contains("would likely have shown"), "{because}");
    }

    #[test]
    fn a_number_of_blocks_that_nobody_would_wait_for_is_not_named() {
        let ratios: Vec<f64> =
            (0..12).map(|block| if block % 2 == 0 { 1.33 } else { 0.73 }).collect();
        let judgement = among(1, &ratios, 0.3);
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        assert!(
            judgement.because.ends_with("; no reasonable number of blocks would decide"),
            "{}",
            judgement.because
        );
        assert_eq!(judgement.more_blocks, None);
    }

    #[test]
    fn of_many_comparisons_one_that_chance_may_have_made_is_none() {
        let ratios = [0.96, 1.12, 1.10, 1.14, 1.02, 1.09, 1.15, 1.03, 1.11, 1.08];
        assert_eq!(among(1, &ratios, 0.001).verdict, Verdict::Differs);
        assert_eq!(among(12, &ratios, 0.001).verdict, Verdict::Differs);
        let one_of_twenty = among(20, &ratios, 0.001);
        assert_eq!(one_of_twenty.verdict, Verdict::Inconclusive);
        let why = "but among 20 comparisons chance alone gives one like it too often (p = 0.055 by \
                   Holm, not below 0.05); about 1 more block (`--runs 11`) would decide";
        assert!(one_of_twenty.because.ends_with(why), "{}", one_of_twenty.because);
        assert_eq!(one_of_twenty.more_blocks, Some(1));
        // Within the margin it is the same, whatever chance may do.
        let near = ratios.map(|ratio: f64| ratio.powf(0.1));
        assert_eq!(among(1, &near, 0.001).verdict, Verdict::Differs);
        assert_eq!(among(20, &near, 0.001).verdict, Verdict::Equivalent);
    }

    #[test]
    fn seven_blocks_can_tell_what_is_dear_from_what_is_wide_among_five() {
        let plain = [1.12, 1.10, 1.14, 1.12, 1.09, 1.15, 1.13];
        assert_eq!(among(5, &plain, 0.001).verdict, Verdict::Differs);
        let wide = [1.03, 1.30, 1.06, 1.25, 1.04, 1.15, 1.12];
        assert_eq!(among(1, &wide, 0.001).verdict, Verdict::Differs);
        assert_eq!(among(5, &wide, 0.001).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn a_certain_difference_that_does_not_matter_is_said_to_be_within_the_margin() {
        let (verdict, because) = case(&[1.012, 1.010, 1.014, 1.012, 1.009, 1.015, 1.013], 0.001);
        assert_eq!(verdict, Verdict::Differs);
        assert!(because.ends_with(", and yet within the margin of ±3 %"), "{because}");
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
        let judgement = among(1, &[1.05], 0.01);
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        assert_eq!(judgement.more_blocks, Some(2));
        assert_eq!(
            judgement.because,
            "an interval takes 3 blocks in which it and `native` count, and there is 1"
        );
    }
}
