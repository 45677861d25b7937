//! Thresholds of `--fail-if` on a simulated machine, where the truth is known: a stack that costs
//! 5 %, held against limits just below and just above that.
//!
//! A threshold may be left undecided, and mostly is, so near to the truth. What it may not be is
//! decided against it: kept where the stack costs more, so that a gate passes wrongly, or crossed
//! where it costs less.

use super::bench::{compared, draft};
use super::{Bar, Bench, Figure, Proof, Size, Stopped, binomial};
use crate::driver::NOISE_SHAPES;
use crate::fault::Fault;
use crate::finding::ArmFindings;
use crate::finding::threshold::{Standing, Threshold};

/// The rate that the bars stand for.
const RATE: f64 = 0.01;

/// Blocks of each run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// Cost of the stack that is compared.
const COST: &str = "1.05";

/// The limits, what would be wrong there, and what that means.
const LIMITS: [(&str, Standing, &str, &str); 2] = [
    ("wall > +4.9%", Standing::Kept, "kept", "a stack that costs 5 % passes `wall > +4.9%`"),
    ("wall > +5.1%", Standing::Crossed, "crossed", "a stack that costs 5 % fails `wall > +5.1%`"),
];

pub(super) struct Thresholds;

impl Proof for Thresholds {
    fn name(&self) -> &'static str {
        "thresholds"
    }

    fn summary(&self) -> &'static str {
        "a simulated stack that costs 5 %, and limits beside that: how many are decided wrongly"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_shape(size) * u32::try_from(NOISE_SHAPES.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let mut wrong = LIMITS.map(|_| 0);
        let mut seed = 0;
        for shape in NOISE_SHAPES {
            for _ in 0..per_shape(size) {
                seed += 1;
                let stack = format!("simulated:shape={shape},seed={seed}");
                let dear = format!("{stack},cost={COST}");
                let findings = bench.findings(draft(&stack, &[&dear], BLOCKS, seed)?)?;
                for ((limit, standing, ..), wrong) in LIMITS.iter().zip(&mut wrong) {
                    *wrong += count(limit, *standing, compared(&findings))?;
                }
            }
        }
        let tried = self.run_count(size);
        Ok(LIMITS.iter().zip(wrong).map(|(limit, wrong)| figure(limit, tried, wrong)).collect())
    }
}

fn per_shape(size: Size) -> u32 {
    size.pick(10, 300)
}

/// Counts the stacks that stand so to a limit.
fn count(limit: &str, standing: Standing, arms: &[ArmFindings]) -> Result<u32, Fault> {
    let limit: Threshold = limit.parse()?;
    let count = arms.iter().filter(|arm| limit.standing(arm) == standing).count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn figure(
    (limit, _, what, because): &(&str, Standing, &'static str, &str),
    tried: u32,
    found: u32,
) -> Figure {
    let bar = Bar::AtMost(binomial::at_most(tried, RATE));
    let because =
        format!("{BLOCKS} blocks; {because}; 1 % exceeds it once in a thousand campaigns");
    Figure {
        proof: "thresholds",
        part: format!("costs 5 %, {limit}"),
        tried,
        found,
        what,
        bar,
        because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Interval, Verdict};
    use crate::report::html::tests::sample;

    #[test]
    fn only_what_the_truth_contradicts_is_counted() {
        let arm = |low: f64, high: f64| {
            let mut arm = sample::arm(2, "simulated", "compared", 1.0, Verdict::Differs);
            arm.metrics.retain(|metric| metric.metric == "wall_ns");
            let interval = Interval { ratio: 1.05, low, high, confidence: 0.95 };
            arm.metrics[0].overhead = Some(interval);
            arm
        };
        for (low, high, wrong) in
            [(1.04, 1.06, [0, 0]), (1.03, 1.048, [1, 0]), (1.052, 1.07, [0, 1])]
        {
            let arms = [arm(low, high)];
            let counted =
                LIMITS.map(|(limit, standing, ..)| count(limit, standing, &arms).unwrap());
            assert_eq!(counted, wrong, "{low} to {high}");
        }
    }

    #[test]
    fn a_gate_that_goes_by_the_estimate_misses_the_bar() {
        // Half of all estimates lie on either side of the truth.
        assert!(!figure(&LIMITS[0], 3000, 1500).is_met());
        assert!(figure(&LIMITS[0], 3000, 20).is_met());
    }
}
