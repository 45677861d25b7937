//! Thresholds of runs that may look three times, on a simulated machine where the truth is known.
//!
//! A run that goes on until something is decided has three chances to decide wrongly. That it is
//! wrong no more often than one that looks once is to be found here, with limits so near to a
//! stack's cost of 5 % that chance alone decides; and that going on is worth it, with one that is
//! somewhat farther. What else such a run says is at 95 % as if its length had been fixed: how
//! often that covers the truth is counted, too.

use super::bench::{compared, draft, one_compared, overhead};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::driver::NOISE_SHAPES;
use crate::fault::Fault;
use crate::finding::ArmFindings;
use crate::finding::threshold::{Standing, Threshold};
use crate::plan::LOOKS;

/// The rate that the bars stand for.
const RATE: f64 = 0.01;

/// Blocks until the first look, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// Cost of the stack, as the simulated one is told it and as a ratio.
const COST: (&str, f64) = ("1.05", 1.05);

/// The share of 95 % intervals that hold the truth must be no less, for all that their run chose
/// its own end.
const COVERED: f64 = 0.93;

/// A limit, and the standing to it that is counted.
#[derive(Clone, Copy)]
struct Limit {
    text: &'static str,
    standing: Standing,
}

/// The first two are decided against the truth. The last is true, and seldom decided at once.
const LIMITS: [Limit; 3] = [
    Limit { text: "wall > +4.9%", standing: Standing::Kept },
    Limit { text: "wall > +5.1%", standing: Standing::Crossed },
    Limit { text: "wall > +6.5%", standing: Standing::Kept },
];

/// The limit that going on is to decide more often than the first look alone.
const FARTHER: usize = 2;

/// Counts over runs of one limit: runs, runs that stood so at their end, at their first look, whose
/// 95 % interval held the truth, and their blocks.
type Counts = [[u32; 4]; LIMITS.len()];

pub(super) const PROOF: Proof = Proof {
    name: "retried",
    summary: "simulated stacks that cost 5 %, and runs that go on until a limit is decided: how \
              many are decided wrongly",
    parts: |size| vec![Part::of(per_shape(size) * 4, 200); NOISE_SHAPES.len()],
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut sums: Counts = [[0; 4]; LIMITS.len()];
    let done = (0..).zip(NOISE_SHAPES).try_for_each(|(index, shape)| {
        bench.units(per_shape(size)).try_for_each(|number| {
            let seed = index * per_shape(size) + number + 1;
            let unit = format!("retried/{shape}/{seed}");
            let counts: Counts = bench.unit(&unit, 4, || counts(bench, shape, seed))?;
            let sums = sums.iter_mut().flatten();
            sums.zip(counts.iter().flatten()).for_each(|(sum, count)| *sum += count);
            Ok(())
        })
    });
    figures.extend(LIMITS.iter().zip(&sums).take(FARTHER).map(|(limit, sums)| wrong(limit, sums)));
    figures.extend(sums.get(FARTHER).map(worth));
    figures.push(covered(&sums));
    done
}

fn per_shape(size: Size) -> u32 {
    size.pick(5, 100)
}

/// Makes a run of each limit, which goes on until that is decided; and one that looks once.
fn counts(bench: &Bench<'_>, shape: &str, seed: u32) -> Result<Counts, Fault> {
    let stack = format!("simulated:shape={shape},seed={seed}");
    let dear = format!("{stack},cost={}", COST.0);
    let draft = || draft(&stack, &[&dear], BLOCKS, seed.into());
    let once = bench.findings(draft()?)?;
    let mut all = [[0; 4]; LIMITS.len()];
    for (limit, counts) in LIMITS.iter().zip(&mut all) {
        let threshold: Threshold = limit.text.parse()?;
        let is_so = |arm: &ArmFindings| threshold.standing(arm) == limit.standing;
        let first = compared(&once).first().is_some_and(is_so);
        let found = bench.findings_retried(draft()?, LOOKS, std::slice::from_ref(&threshold))?;
        let arm = one_compared(&found)?;
        let interval = overhead(arm)?;
        let holds = (interval.low..=interval.high).contains(&COST.1);
        *counts = [1, u32::from(is_so(arm)), u32::from(first), u32::from(holds)];
    }
    Ok(all)
}

fn wrong(limit: &Limit, &[tried, found, ..]: &[u32; 4]) -> Figure {
    let does = if limit.standing == Standing::Kept { "passes" } else { "fails" };
    let what = if limit.standing == Standing::Kept { "kept" } else { "crossed" };
    Figure::new(format!("cost 1.05, {}", limit.text), [tried, found], what).bar(
        Bar::AtMost(binomial::at_most(tried, RATE)),
        format!("up to {LOOKS} looks; a stack that costs 5 % {does} `{}`", limit.text),
    )
}

fn worth(&[tried, found, first, _]: &[u32; 4]) -> Figure {
    let what = "decided at last, and not at the first look alone";
    let gained = found.saturating_sub(first);
    Figure::new(format!("cost 1.05, {}", LIMITS[FARTHER].text), [tried, gained], what)
        .bar(Bar::AtLeast(tried / 10), format!("{first} of {tried} are decided by one look"))
}

fn covered(sums: &Counts) -> Figure {
    let sum = |at: usize| sums.iter().filter_map(|counts| counts.get(at)).sum();
    let (tried, held): (u32, u32) = (sum(0), sum(3));
    Figure::new("95 % intervals of runs that went on", [tried, held], "hold the truth").bar(
        Bar::AtLeast(binomial::at_least(tried, COVERED)),
        format!("at least {:.0} % do", 100.0 * COVERED),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_holds_every_look_as_if_it_were_the_only_one_misses_the_bar() {
        // What chance gives at three independent looks of one side of a 95 % interval each.
        assert!(!wrong(&LIMITS[0], &[1000, 50, 0, 0]).is_met());
        assert!(wrong(&LIMITS[0], &[1000, 10, 0, 0]).is_met());
    }

    #[test]
    fn going_on_that_decides_nothing_more_misses_the_bar() {
        assert!(!worth(&[1000, 400, 399, 0]).is_met());
        assert!(worth(&[1000, 600, 400, 0]).is_met());
    }

    #[test]
    fn intervals_that_hold_the_truth_too_seldom_miss_the_bar() {
        assert!(!covered(&[[1000, 0, 0, 890]; 3]).is_met());
        assert!(covered(&[[1000, 0, 0, 950]; 3]).is_met());
    }
}
