//! Equivalence: stacks at the edge of the margin that are called the same, and equal ones that are
//! not.
//!
//! A stack that costs as much more or less as the margin allows must hardly ever be called
//! equivalent: two one-sided tests at 2.5 %, which are what the 95 % interval asks, are wrong as
//! often as that. On a quiet machine equal stacks must be called so, or the word would never be
//! used.

use super::bench::{draft, one_compared};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::fault::Fault;
use crate::finding::Verdict;

/// Blocks of each run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// Rate at which a stack at the edge may be called equivalent.
const RATE: f64 = 0.025;

/// Least rate at which equal stacks are called so on a quiet machine. The rest is the share that is
/// called different.
const RATE_OF_EQUALS: f64 = 0.98;

/// Case to simulate: a true cost, the deviation of the noise, and whether that is the same.
struct Case {
    cost: &'static str,
    noise: &'static str,
    is_equal: bool,
}

/// Plans have a margin of 3 % unless told.
const CASES: [Case; 3] = [
    Case { cost: "1.03", noise: "0.03", is_equal: false },
    Case { cost: "0.97", noise: "0.03", is_equal: false },
    Case { cost: "1.00", noise: "0.005", is_equal: true },
];

pub(super) const PROOF: Proof = Proof {
    name: "equivalence",
    summary: "simulated stacks at the edge of the margin, and equal ones: how many are called \
              equivalent",
    parts: |size| vec![Part::short(per_case(size)); CASES.len()],
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut seed = 0;
    for case in &CASES {
        let name = format!("equivalence/{}/{}", case.cost, case.noise);
        let is_found = |seed| is_called_equivalent(bench, case, seed);
        figures.push(line(case, bench.counts(&name, &mut seed, per_case(size), is_found)?));
    }
    Ok(())
}

fn per_case(size: Size) -> u32 {
    size.pick(60, 1000)
}

fn is_called_equivalent(bench: &Bench<'_>, case: &Case, seed: u64) -> Result<bool, Fault> {
    let baseline = format!("simulated:noise={},seed={seed}", case.noise);
    let arm = format!("{baseline},cost={}", case.cost);
    let findings = bench.findings(draft(&baseline, &[&arm], BLOCKS, seed)?)?;
    Ok(one_compared(&findings)?.verdict == Verdict::Equivalent)
}

fn line(case: &Case, counts: [u32; 2]) -> Figure {
    let (Case { cost, noise, is_equal }, tried) = (case, counts[0]);
    let (bar, because) = if *is_equal {
        let least = binomial::at_least(tried, RATE_OF_EQUALS);
        (Bar::AtLeast(least), "98 % fall short of it once in a thousand campaigns")
    } else {
        let most = binomial::at_most(tried, RATE);
        (Bar::AtMost(most), "2.5 % exceeds it once in a thousand campaigns")
    };
    let part = format!("cost {cost}, noise {noise}, margin 3 %");
    Figure::new(part, counts, "called equivalent").bar(bar, because)
}

#[cfg(test)]
mod tests {
    use super::super::bare::Run;
    use super::*;

    /// Counts how many of 60 bare estimates lie within the margin themselves, whatever their
    /// intervals say.
    fn within(cost: f64) -> u32 {
        let run = |seed| Run { cost, ..Run::equal(seed) };
        let is_within = |seed: &u64| (run(*seed).estimate().ratio - 1.0).abs() <= 0.03;
        u32::try_from((0..60).filter(is_within).count()).unwrap()
    }

    #[test]
    fn a_surtax_that_believes_the_estimate_without_its_interval_misses_the_bar() {
        for (case, cost) in [(&CASES[0], 1.03), (&CASES[1], 0.97)] {
            assert!(line(case, [60, 1]).is_met());
            let believed = line(case, [60, within(cost)]);
            assert!(!believed.is_met(), "{believed:?}");
        }
    }

    #[test]
    fn a_surtax_that_never_says_equivalent_misses_the_bar() {
        assert!(line(&CASES[2], [60, 59]).is_met() && !line(&CASES[2], [60, 30]).is_met());
    }
}
