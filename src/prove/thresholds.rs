//! Thresholds of `--fail-if` on a simulated machine, where the truth is known: a stack that costs
//! 5 %, held against limits just below and just above that, and one that costs 100 %.
//!
//! A threshold may be left undecided, and mostly is, so near to the truth. What it may not be is
//! decided against it: kept where the stack costs more, so that a gate passes wrongly, or crossed
//! where it costs less. Far from the truth a gate must decide: one that never did would make no
//! mistake.

use super::bench::{compared, draft};
use super::proof::ended;
use super::{Bar, Bench, Figure, Proof, Size, Stopped, binomial};
use crate::driver::NOISE_SHAPES;
use crate::fault::Fault;
use crate::finding::ArmFindings;
use crate::finding::threshold::{Standing, Threshold};

/// The rate that the bars stand for.
const RATE: f64 = 0.01;

/// Blocks of each run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// Costs of the stacks that are compared.
const COSTS: [&str; 2] = ["1.05", "2"];

/// A limit, and a standing to it of one of the stacks.
#[derive(Clone, Copy)]
struct Limit {
    cost: usize,
    text: &'static str,
    standing: Standing,
    what: &'static str,
    because: &'static str,
    /// The truth is so, and must be found; else it is not so, and must not be said.
    is_true: bool,
}

const LIMITS: [Limit; 4] = [
    Limit {
        cost: 0,
        text: "wall > +4.9%",
        standing: Standing::Kept,
        what: "kept",
        because: "a stack that costs 5 % passes `wall > +4.9%`",
        is_true: false,
    },
    Limit {
        cost: 0,
        text: "wall > +5.1%",
        standing: Standing::Crossed,
        what: "crossed",
        because: "a stack that costs 5 % fails `wall > +5.1%`",
        is_true: false,
    },
    Limit {
        cost: 0,
        text: "wall > +50%",
        standing: Standing::Kept,
        what: "kept",
        because: "a gate that decides nothing is none",
        is_true: true,
    },
    Limit {
        cost: 1,
        text: "wall > +50%",
        standing: Standing::Crossed,
        what: "crossed",
        because: "a gate that decides nothing is none",
        is_true: true,
    },
];

pub(super) struct Thresholds;

impl Proof for Thresholds {
    fn name(&self) -> &'static str {
        "thresholds"
    }

    fn summary(&self) -> &'static str {
        "simulated stacks that cost 5 and 100 %, and limits: how many are decided wrongly"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_shape(size) * u32::try_from(NOISE_SHAPES.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let (mut behind, mut tried, mut found) = (0, 0, LIMITS.map(|_| 0));
        let mut all = || {
            for shape in NOISE_SHAPES {
                for number in bench.units(per_shape(size)) {
                    let seed = behind + number + 1;
                    let unit = format!("thresholds/{shape}/{seed}");
                    let counts = bench.unit(&unit, 1, || held(bench, shape, seed))?;
                    found.iter_mut().zip(counts).for_each(|(found, count)| *found += count);
                    tried += 1;
                }
                behind += per_shape(size);
            }
            Ok(())
        };
        let done = all();
        ended(
            done,
            LIMITS.iter().zip(found).map(|(limit, found)| figure(limit, tried, found)).collect(),
        )
    }
}

/// Makes one run, and counts the stacks that stand so to each limit.
fn held(bench: &Bench<'_>, shape: &str, seed: u32) -> Result<[u32; LIMITS.len()], Fault> {
    let stack = format!("simulated:shape={shape},seed={seed}");
    let dear = COSTS.map(|cost| format!("{stack},cost={cost}"));
    let dear = dear.each_ref().map(String::as_str);
    let findings = bench.findings(draft(&stack, &dear, BLOCKS, seed.into())?)?;
    let mut counts = [0; LIMITS.len()];
    for (limit, found) in LIMITS.iter().zip(&mut counts) {
        *found = count(limit, compared(&findings))?;
    }
    Ok(counts)
}

fn per_shape(size: Size) -> u32 {
    size.pick(10, 300)
}

/// Counts, of the stacks that are compared, the one that a limit is of: one if it stands so to it.
fn count(limit: &Limit, compared: &[ArmFindings]) -> Result<u32, Fault> {
    let threshold: Threshold = limit.text.parse()?;
    let arm = compared.get(limit.cost);
    Ok(u32::from(arm.is_some_and(|arm| threshold.standing(arm) == limit.standing)))
}

fn figure(limit: &Limit, tried: u32, found: u32) -> Figure {
    let wrong = binomial::at_most(tried, RATE);
    let because = limit.because;
    Figure {
        proof: "thresholds",
        part: format!("cost {}, {}", COSTS[limit.cost], limit.text),
        tried,
        found,
        what: limit.what,
        bar: match limit.is_true {
            true => Bar::AtLeast(tried.saturating_sub(wrong)),
            false => Bar::AtMost(wrong),
        },
        because: format!("{BLOCKS} blocks; {because}; 1 % exceeds it once in a thousand campaigns"),
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
        for (low, high, counts) in [
            (1.04, 1.06, [0, 0, 1, 1]),
            (1.03, 1.048, [1, 0, 1, 1]),
            (1.052, 1.07, [0, 1, 1, 1]),
            (0.5, 2.0, [0; 4]),
        ] {
            let arms = [arm(low, high), arm(low + 1.0, high + 1.0)];
            let counted = LIMITS.map(|limit| count(&limit, &arms).unwrap());
            assert_eq!(counted, counts, "{low} to {high}");
        }
    }

    #[test]
    fn a_gate_that_goes_by_the_estimate_misses_the_bar() {
        // Half of all estimates lie on either side of the truth.
        assert!(!figure(&LIMITS[0], 3000, 1500).is_met());
        assert!(figure(&LIMITS[0], 3000, 20).is_met());
    }

    #[test]
    fn a_gate_that_decides_nothing_misses_the_bar() {
        assert!(!figure(&LIMITS[2], 3000, 0).is_met());
        assert!(figure(&LIMITS[2], 3000, 2990).is_met());
    }
}
