//! Centre: whether the estimate itself is off, and not only its interval.
//!
//! Noise that is as likely above as below leaves half of all estimates above the true cost. An
//! estimator that leans to one side by a third of its interval is above in nearly all of them, and an
//! interval made another way would not show it.

use super::bench::{compared, draft, overhead};
use super::{Bar, Bench, Line, Proof, Size, Stopped, binomial};
use crate::fault::Fault;

/// What the compared stack truly costs.
const COST: &str = "1.05";

/// The same as a number.
const TRUTH: f64 = 1.05;

/// Blocks of the runs: few, the usual number, and so many that skewed noise is corrected for.
const BLOCKS: [u32; 3] = [6, 10, 20];

/// How many estimates are above the truth.
const RATE: f64 = 0.5;

/// The first seed, so that no other proof sees the same noise.
const FIRST_SEED: u64 = 1 << 20;

pub(super) struct Centre;

impl Proof for Centre {
    fn name(&self) -> &'static str {
        "centre"
    }

    fn summary(&self) -> &'static str {
        "simulated stacks that cost 5 %: whether as many estimates are above it as below"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_length(size) * u32::try_from(BLOCKS.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Line>, Stopped> {
        let count = per_length(size);
        let mut lines = Vec::new();
        let mut seed = FIRST_SEED;
        for blocks in BLOCKS {
            let mut above = 0;
            for _ in 0..count {
                seed += 1;
                above += u32::from(estimate(bench, blocks, seed)? > TRUTH);
            }
            lines.push(line(blocks, count, above));
        }
        Ok(lines)
    }
}

fn per_length(size: Size) -> u32 {
    size.pick(60, 1000)
}

fn estimate(bench: &Bench<'_>, blocks: u32, seed: u64) -> Result<f64, Fault> {
    let baseline = format!("simulated:seed={seed}");
    let arm = format!("{baseline},cost={COST}");
    let findings = bench.findings(draft(&baseline, &[&arm], blocks, seed)?)?;
    let arm = compared(&findings).first();
    let arm = arm.ok_or_else(|| Fault::bug("a cost without a stack that has it"))?;
    Ok(overhead(arm)?.ratio)
}

fn line(blocks: u32, tried: u32, found: u32) -> Line {
    let (least, most) = (binomial::at_least(tried, RATE), binomial::at_most(tried, RATE));
    Line {
        proof: "centre",
        part: format!("cost {COST}, {blocks} blocks"),
        tried,
        found,
        what: "estimated too high",
        bar: Bar::Within(least, most),
        because: String::from("half are left outside of it twice in a thousand campaigns"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bare::Run;
    use super::*;

    /// A quick campaign of bare runs whose estimates are multiplied.
    fn judged(factor: f64) -> Line {
        let run = |seed| Run { cost: TRUTH, ..Run::equal(seed) };
        let above = (0..60).filter(|seed| run(*seed).estimate().ratio * factor > TRUTH).count();
        line(10, 60, u32::try_from(above).unwrap())
    }

    #[test]
    fn an_estimate_that_is_off_by_two_percent_to_either_side_misses_the_bar() {
        assert!(judged(1.0).is_met(), "{:?}", judged(1.0));
        assert!(!judged(1.02).is_met() && !judged(0.98).is_met());
    }
}
