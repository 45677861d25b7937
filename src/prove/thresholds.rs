//! Thresholds of `--fail-if` on a simulated machine, where the truth is known: a stack that costs
//! 5 %, held against limits just below and just above that, and one that costs 100 %.
//!
//! A threshold may be left undecided, and mostly is, so near to the truth. What it may not be is
//! decided against it: kept where the stack costs more, so that a gate passes wrongly, or crossed
//! where it costs less. Far from the truth a gate must decide: one that never did would make no
//! mistake.

use super::bench::{compared, draft};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
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
    /// The truth is so, and must be found; else it is not so, and must not be said.
    is_true: bool,
}

const LIMITS: [Limit; 4] = [
    Limit { cost: 0, text: "wall > +4.9%", standing: Standing::Kept, is_true: false },
    Limit { cost: 0, text: "wall > +5.1%", standing: Standing::Crossed, is_true: false },
    Limit { cost: 0, text: "wall > +50%", standing: Standing::Kept, is_true: true },
    Limit { cost: 1, text: "wall > +50%", standing: Standing::Crossed, is_true: true },
];

pub(super) const PROOF: Proof = Proof {
    name: "thresholds",
    summary: "simulated stacks that cost 5 and 100 %, and limits: how many are decided wrongly",
    parts: |size| vec![Part::short(per_shape(size)); NOISE_SHAPES.len()],
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let (mut tried, mut found) = (0, LIMITS.map(|_| 0));
    let done = (0..).zip(NOISE_SHAPES).try_for_each(|(index, shape)| {
        bench.units(per_shape(size)).try_for_each(|number| {
            let seed = index * per_shape(size) + number + 1;
            let unit = format!("thresholds/{shape}/{seed}");
            let counts = bench.unit(&unit, 1, || held(bench, shape, seed))?;
            found.iter_mut().zip(counts).for_each(|(found, count)| *found += count);
            tried += 1;
            Ok(())
        })
    });
    figures.extend(LIMITS.iter().zip(found).map(|(limit, found)| figure(limit, tried, found)));
    done
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
    let Limit { cost, text, standing, is_true } = *limit;
    let wrong = binomial::at_most(tried, RATE);
    let (what, does) =
        if standing == Standing::Kept { ("kept", "passes") } else { ("crossed", "fails") };
    let (bar, because) = if is_true {
        let least = Bar::AtLeast(tried.saturating_sub(wrong));
        (least, String::from("a gate that decides nothing is none"))
    } else {
        (Bar::AtMost(wrong), format!("a stack that costs 5 % {does} `{text}`"))
    };
    Figure::new(format!("cost {}, {text}", COSTS[cost]), [tried, found], what).bar(
        bar,
        format!("{BLOCKS} blocks; {because}; 1 % exceeds it once in a thousand campaigns"),
    )
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
