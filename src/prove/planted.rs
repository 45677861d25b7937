//! Planted costs: a simulated stack that truly costs 1, 2, 5 or 10 % more, in ten kinds of noise by
//! turns.
//!
//! In full the bar is the strict one: 38 of 1,000 are the most true values outside the interval
//! that show, with 95 % confidence, that at most 5 % are. An interval that holds exactly 95 %
//! leaves about 50 outside, so intervals are made at a higher level than they promise. Whether the
//! promise is broken is what the quick bar asks: what 5 % exceeds once in a thousand campaigns,
//! which stands beside the strict one in the last column.

use super::bench::{compared, draft, noise_shape, overhead};
use super::{Bar, Bench, Figure, Proof, Size, Stopped, binomial};
use crate::fault::Fault;

/// True costs of the compared stack, as ratios.
const COSTS: [&str; 4] = ["1.01", "1.02", "1.05", "1.10"];

/// The share that may be outside.
const RATE: f64 = 0.05;

/// In full, of [`FULL`] runs; see the head of this file.
const FULL_AT_MOST: u32 = 38;

/// Runs of each cost and length in full.
const FULL: u32 = 1000;

/// Blocks of a run: few, as many as `compare` makes unless told, and enough for intervals of ranks.
const BLOCKS: [u32; 3] = [6, 10, 20];

pub(super) struct Planted;

impl Proof for Planted {
    fn name(&self) -> &'static str {
        "planted"
    }

    fn summary(&self) -> &'static str {
        "simulated stacks of known cost in ten kinds of noise: how many intervals do not hold it"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_cost(size) * u32::try_from(COSTS.len() * BLOCKS.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let count = per_cost(size);
        let mut lines = Vec::new();
        for blocks in BLOCKS {
            for cost in COSTS {
                let behind = u64::from(count) * lines.len() as u64;
                let name = format!("planted/{cost}/{blocks}");
                let counts = bench
                    .counts(&name, (behind, count), |seed| is_outside(bench, cost, blocks, seed))?;
                lines.push(line(&format!("cost {cost}, {blocks} blocks"), counts));
            }
        }
        let sum = |of: fn(&Figure) -> u32| lines.iter().map(of).sum();
        lines.push(line("all", [sum(|line| line.tried), sum(|line| line.found)]));
        Ok(lines)
    }
}

fn per_cost(size: Size) -> u32 {
    size.pick(100, FULL)
}

/// Every seed has another shape than the one before.
fn is_outside(bench: &Bench<'_>, cost: &str, blocks: u32, seed: u64) -> Result<bool, Fault> {
    let shape = noise_shape(seed - 1);
    let baseline = format!("simulated:shape={shape},seed={seed}");
    let arm = format!("{baseline},cost={cost}");
    let findings = bench.findings(draft(&baseline, &[&arm], blocks, seed)?)?;
    let truth: f64 = cost.parse().unwrap_or(f64::NAN);
    let arm = compared(&findings).first();
    let arm = arm.ok_or_else(|| Fault::bug("a planted cost was not compared with anything"))?;
    let found = overhead(arm)?;
    Ok(!holds(found.low, found.high, truth))
}

/// Written so that a truth that is no number is held by nothing.
fn holds(low: f64, high: f64, truth: f64) -> bool {
    low <= truth && truth <= high
}

fn line(part: &str, [tried, found]: [u32; 2]) -> Figure {
    let luck = binomial::at_most(tried, RATE);
    let (bar, because) = if tried == FULL {
        let because = format!("shows that at most 5 % are; up to {luck} would not contradict it");
        (FULL_AT_MOST, because)
    } else {
        (luck, String::from("5 % exceeds it once in a thousand campaigns"))
    };
    Figure {
        proof: "planted",
        part: part.to_owned(),
        tried,
        found,
        what: "outside the interval",
        bar: Bar::AtMost(bar),
        because,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bare::Run;
    use super::*;

    /// A quick campaign of bare runs, with what was done to the interval.
    fn judged(change: fn(f64, f64) -> (f64, f64)) -> Figure {
        let run = |seed| Run { cost: 1.05, blocks: 20, ..Run::equal(seed) };
        let outside = (0..200).filter(|seed| {
            let found = run(*seed).estimate();
            let (low, high) = change(found.low, found.high);
            !holds(low, high, 1.05)
        });
        line("cost 1.05, 20 blocks", [200, u32::try_from(outside.count()).unwrap()])
    }

    #[test]
    fn an_estimator_that_is_whole_meets_the_bar() {
        assert!(judged(|low, high| (low, high)).is_met());
    }

    #[test]
    fn an_estimator_that_is_off_by_two_percent_or_too_sure_misses_it() {
        let off = judged(|low, high| (low * 1.02, high * 1.02));
        assert!(!off.is_met(), "{off:?}");
        let sure = judged(|low, high| {
            let middle = f64::midpoint(low, high);
            (f64::midpoint(low, middle), f64::midpoint(high, middle))
        });
        assert!(!sure.is_met(), "{sure:?}");
    }

    #[test]
    fn the_strict_bar_is_that_of_the_full_campaign() {
        assert_eq!(line("cost 1.05, 10 blocks", [FULL, 39]).bar, Bar::AtMost(38));
        assert!(
            !line("cost 1.05, 6 blocks", [FULL, 39]).is_met()
                && line("cost 1.05, 6 blocks", [FULL, 38]).is_met()
        );
        assert!(
            line("cost 1.05, 10 blocks", [100, 12]).is_met()
                && !line("cost 1.05, 10 blocks", [100, 20]).is_met()
        );
    }

    #[test]
    fn a_truth_that_is_no_number_is_held_by_nothing() {
        assert!(!holds(0.0, 2.0, f64::NAN));
    }
}
