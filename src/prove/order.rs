//! Order: a machine that is slower in the first place of a block, and who is charged with it.
//!
//! The first place costs two deviations of the noise more, whichever stack has it. Shuffled, that
//! is noise. In a fixed order one stack pays it in every block: its true cost falls out of the
//! interval, and the second arm of the baseline does not show it where the first one pays.

use super::bench::{one_compared, overhead, simulated};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::fault::Fault;
use crate::finding::ArmFindings;

/// True cost of the compared stack, as a ratio.
const COST: &str = "1.05";

/// The same as a number.
const TRUTH: f64 = 1.05;

/// Blocks of each run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// The share that may be outside.
const RATE: f64 = 0.05;

/// One of three arms: the baseline twice, and the stack that is compared.
const SHARE_OF_FIRST_PLACES: f64 = 1.0 / 3.0;

pub(super) const PROOF: Proof = Proof {
    name: "order",
    summary: "simulated stacks on a machine that is slower in the first place of a block: who is \
              charged",
    parts: |size| vec![Part::short(run_count(size))],
    prove,
};

fn run_count(size: Size) -> u32 {
    size.pick(50, 1000)
}

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let (mut runs, mut outside, mut first) = (0, 0, 0);
    let mut seeds = bench.units(run_count(size)).map(|number| u64::from(number) + 1);
    let ended = seeds.try_for_each(|seed| {
        let (is_outside, places) = bench.unit(&format!("order/{seed}"), 1, || one(bench, seed))?;
        runs += 1;
        outside += u32::from(is_outside);
        first += places;
        Ok(())
    });
    figures.extend([outside_line(runs, outside), first_line(runs * BLOCKS, first)]);
    ended
}

/// Makes a run: whether the true cost is outside its interval, and in how many blocks the compared
/// stack came first.
fn one(bench: &Bench<'_>, seed: u64) -> Result<(bool, u32), Fault> {
    let findings = bench.findings(simulated("position", COST, BLOCKS, seed)?)?;
    let arm = one_compared(&findings)?;
    let found = overhead(arm)?;
    Ok((!(found.low <= TRUTH && TRUTH <= found.high), first_places(arm)))
}

/// In how many blocks an arm ran before all others.
fn first_places(arm: &ArmFindings) -> u32 {
    let first = arm.trials.iter().filter(|trial| trial.position == 0 && trial.is_counted());
    u32::try_from(first.count()).unwrap_or(u32::MAX)
}

fn outside_line(tried: u32, found: u32) -> Figure {
    let part = format!("cost {COST}, the first place of a block is slower");
    let bar = Bar::AtMost(binomial::at_most(tried, RATE));
    Figure::new(part, [tried, found], "outside the interval")
        .bar(bar, "5 % exceeds it once in a thousand campaigns")
}

fn first_line(tried: u32, found: u32) -> Figure {
    Figure::new("blocks that the compared stack begins", [tried, found], "first").bar(
        Bar::around(tried, SHARE_OF_FIRST_PLACES),
        "each of three arms is the first in a third of them",
    )
}

#[cfg(test)]
mod tests {
    use super::super::bare;
    use super::*;

    /// A quick campaign of bare runs in this order.
    fn judged(order: bare::ArmOrder) -> Figure {
        let is_outside = |seed: &u64| {
            let run = bare::Run { order, position: 0.06, cost: TRUTH, ..bare::Run::equal(*seed) };
            !run.estimate().holds(TRUTH)
        };
        let outside = (1..=50).filter(is_outside).count();
        outside_line(50, u32::try_from(outside).unwrap())
    }

    #[test]
    fn a_fixed_order_charges_the_first_place_to_one_stack_and_misses_the_bar() {
        assert!(judged(bare::ArmOrder::Shuffled).is_met());
        let fixed = judged(bare::ArmOrder::Fixed);
        assert!(!fixed.is_met(), "{fixed:?}");
    }

    #[test]
    fn a_stack_that_is_never_first_or_always_misses_the_bar() {
        assert!(first_line(500, 167).is_met());
        assert!(!first_line(500, 0).is_met() && !first_line(500, 500).is_met());
    }
}
