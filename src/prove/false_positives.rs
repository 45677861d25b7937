//! False positives: equal stacks on a simulated machine, in ten kinds of noise.
//!
//! The bar of the whole is what shows that the rate is at most 1 %: 83 of 10,000 are the most for
//! which the upper end of the one-sided 95 % interval of a binomial share stays below it. No kind
//! of noise may hide behind the others, so each has a bar of its own.

use super::bench::{one_compared, simulated};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::driver::NOISE_SHAPES;
use crate::fault::Fault;
use crate::finding::Verdict;

/// The rate that the bars stand for.
const RATE: f64 = 0.0083;

/// Blocks of each run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// See the head of this file.
const FULL_AT_MOST: u32 = 83;

pub(super) const PROOF: Proof = Proof {
    name: "false-positives",
    summary: "equal simulated stacks in ten kinds of noise: how many are called different",
    parts: |size| vec![Part::short(per_shape(size)); NOISE_SHAPES.len()],
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut seed = 0;
    for shape in NOISE_SHAPES {
        let name = format!("false-positives/{shape}");
        let counts = bench.counts(&name, &mut seed, per_shape(size), |seed| {
            let findings = bench.findings(simulated(shape, "1", BLOCKS, seed)?)?;
            Ok(one_compared(&findings)?.verdict == Verdict::Differs)
        })?;
        figures.push(line(format!("noise {shape}"), counts));
    }
    figures.push(total(figures));
    Ok(())
}

fn per_shape(size: Size) -> u32 {
    size.pick(100, 1000)
}

/// The line of one kind of noise.
fn line(part: String, counts: [u32; 2]) -> Figure {
    let bar = Bar::AtMost(binomial::at_most(counts[0], RATE));
    let because = format!("{BLOCKS} blocks; 0.83 % exceeds it once in a thousand campaigns");
    Figure::new(part, counts, "called different").bar(bar, because)
}

/// The line of all of them.
fn total(lines: &[Figure]) -> Figure {
    let sum = |of: fn(&Figure) -> u32| lines.iter().map(of).sum();
    let whole = line(String::from("all"), [sum(|line| line.tried), sum(|line| line.found)]);
    if whole.tried != PROOF.run_count(Size::Full) {
        return whole;
    }
    whole.bar(Bar::AtMost(FULL_AT_MOST), "shows with 95 % confidence that at most 1 % are")
}

#[cfg(test)]
mod tests {
    use super::super::bare::{self, ArmOrder, Floor};
    use super::*;

    /// Quick campaigns without surtax around the statistics.
    fn judged(order: ArmOrder, position: f64, floor: Floor) -> Figure {
        let run = |seed| bare::Run { order, position, floor, ..bare::Run::equal(seed) };
        let wrong = (0..1000).filter(|seed| run(*seed).differs()).count();
        line(String::from("bare"), [1000, u32::try_from(wrong).unwrap()])
    }

    #[test]
    fn a_surtax_that_is_whole_meets_the_bar() {
        assert!(judged(ArmOrder::Shuffled, 0.0, Floor::SecondArm).is_met());
    }

    #[test]
    fn a_first_place_that_is_slower_is_no_difference_when_shuffled_and_one_in_a_fixed_order() {
        assert!(judged(ArmOrder::Shuffled, 0.06, Floor::SecondArm).is_met());
        let fixed = judged(ArmOrder::Fixed, 0.06, Floor::SecondArm);
        assert!(!fixed.is_met() && fixed.found > 200, "{fixed:?}");
    }

    #[test]
    fn without_the_second_arm_of_the_baseline_the_bar_is_missed() {
        let dropped = judged(ArmOrder::Shuffled, 0.0, Floor::Dropped);
        assert!(!dropped.is_met(), "{dropped:?}");
    }

    #[test]
    fn the_whole_has_the_published_bar_only_in_full() {
        let all = |each| vec![line(String::new(), [each, 1]); NOISE_SHAPES.len()];
        let (third, full) = (total(&all(334)), total(&all(1000)));
        assert_eq!((third.tried, third.found), (3340, 10));
        assert_ne!(third.bar, Bar::AtMost(83));
        assert_eq!((full.tried, full.bar), (10_000, Bar::AtMost(83)));
    }
}
