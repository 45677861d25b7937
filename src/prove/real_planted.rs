//! Real planted costs: a command that truly does 3, 8 or 25 % more work in one stack than in
//! another.
//!
//! Both stacks are the same layer, and differ in a variable of the command that says how much it
//! does. What surtax finds must be what was planted, within its own interval; where that interval
//! leaves out that they are equal, it must be on the right side; and as many estimates must be too
//! low as too high. Not all of its time is planted: the process starts, and a processor that rested
//! is slower for its first milliseconds. So a third stack does half of the work, and what of its
//! time is no half is taken from the truth: of a command that is for one hundredth its own start, a
//! quarter more work is 24.75 % more time.

use super::bench::{compared, draft, overhead, toil};
use super::load::{BUILD, SURROUNDINGS};
use super::toil::{WORKS, Work};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::fault::Fault;
use crate::finding::Interval;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The layers in which it is planted.
pub(super) const LAYERS: [&str; 2] = ["native", "runc"];

/// Planted costs, in percent.
const PERCENTS: [u32; 3] = [3, 8, 25];

/// Part of the work, as a divisor, that shows how much of the time does not grow with it. None of
/// it would show the start alone: by hand, in 300 rounds, a quarter more loops took 24.26 % ± 0.19
/// more time, which half of them foretold to within 0.02 % and a process that does nothing to 0.12
/// %.
const PORTION: u64 = 2;

/// Time that the unplanted command works, in milliseconds, in a quick proof and in full.
const WORKS_FOR_MS: (u32, u32) = (50, 120);

const RATE: f64 = 0.05;

/// With so many of one percentage, the bar of the published campaign holds.
const FULL: u32 = 200;

/// Of so many intervals, this many may leave the truth out.
const FULL_MOST: u32 = 14;

pub(super) const PROOF: Proof = Proof {
    name: "real-planted",
    summary: "3, 8 and 25 % more work, alone and beside a build: how many intervals do not hold it",
    parts: |size| {
        vec![Part::of(per_work(size), 15_000); SURROUNDINGS.len() * LAYERS.len() * WORKS.len()]
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut found = Vec::new();
    let done = plant_all(bench, size, &mut found);
    figures.extend(lines(&found));
    done
}

/// In full, 34 of each of six kinds are 204 of each percentage.
fn per_work(size: Size) -> u32 {
    size.pick(1, 34)
}

/// Cost that was found of one percentage more of one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PlantedCost {
    surroundings: String,
    layer: String,
    work: String,
    percent: u32,
    /// True time of the command with that percentage more, as a ratio to the time without.
    truth: f64,
    ratio: f64,
    low: f64,
    high: f64,
}

impl PlantedCost {
    fn is_outside(&self) -> bool {
        !(self.low <= self.truth && self.truth <= self.high)
    }

    /// Leaves out that the stacks are equal.
    fn is_decided(&self) -> bool {
        self.high < 1.0 || self.low > 1.0
    }
}

fn plant_all(bench: &Bench<'_>, size: Size, found: &mut Vec<PlantedCost>) -> Result<(), Fault> {
    let (kinds, per_work) = (kinds(), per_work(size));
    let mut load = None;
    for number in bench.units(u32::try_from(kinds.len()).unwrap_or(u32::MAX) * per_work) {
        let (kind, seed) = (kinds[(number / per_work) as usize], number % per_work);
        let (surroundings, layer, work) = kind;
        let unit = format!("real-planted/{surroundings}/{layer}/{}/{seed}", work.noun());
        let plant = || {
            if load.is_none() && surroundings != SURROUNDINGS[0] {
                load = Some(bench.beside(BUILD)?);
            }
            plant(bench, size, seed.into(), kind)
        };
        found.extend(bench.unit(&unit, 1, plant)?);
    }
    Ok(())
}

/// Lists the surroundings, layers and kinds of work. A share of these, once each, has several kinds
/// of work: each layer begins with another one.
fn kinds() -> Vec<(&'static str, &'static str, Work)> {
    let places = SURROUNDINGS.into_iter().flat_map(|around| LAYERS.map(|layer| (around, layer)));
    let works = |turn: usize| (0..WORKS.len()).map(move |work| WORKS[(work + turn) % WORKS.len()]);
    let of = |(turn, (around, layer))| works(turn).map(move |work| (around, layer, work));
    places.enumerate().flat_map(of).collect()
}

/// Plants each percentage once, in one run.
fn plant(
    bench: &Bench<'_>,
    size: Size,
    seed: u64,
    (surroundings, layer, work): (&str, &str, Work),
) -> Result<Vec<PlantedCost>, Fault> {
    let works_for_ms = size.pick(WORKS_FOR_MS.0, WORKS_FOR_MS.1);
    let amount = work.amount_of(Duration::from_millis(works_for_ms.into()))?;
    let stack = |amount: u64| format!("{layer}:env.{}={amount}", work.variable());
    let mut stacks = vec![stack(amount / PORTION)];
    stacks.extend(PERCENTS.map(|percent| stack(amount + amount / 100 * u64::from(percent))));
    let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let draft = draft(&stack(amount), &stacks, size.pick(6, 10), seed)?;
    let findings = bench.findings(toil(draft)?)?;
    let overheads: Result<Vec<Interval>, Fault> =
        compared(&findings).iter().map(overhead).collect();
    let overheads = overheads?;
    let (part, planted) =
        overheads.split_first().ok_or_else(|| Fault::bug("a planted run has no stacks"))?;
    let of = |(percent, found): (u32, &Interval)| PlantedCost {
        surroundings: surroundings.to_owned(),
        layer: layer.to_owned(),
        work: work.noun().to_owned(),
        percent,
        truth: truth(percent, part.ratio),
        ratio: found.ratio,
        low: found.low,
        high: found.high,
    };
    Ok(PERCENTS.into_iter().zip(planted).map(of).collect())
}

/// The ratio of times where the work grows by so much, and one [`PORTION`] of it takes `part` of
/// the whole time.
fn truth(percent: u32, part: f64) -> f64 {
    let rest = 1.0 - 1.0 / PORTION as f64;
    1.0 + f64::from(percent) / 100.0 * (1.0 - part) / rest
}

/// A line for each kind of work in each layer, and for each percentage three that sum them up.
fn lines(found: &[PlantedCost]) -> Vec<Figure> {
    let mut lines = Vec::new();
    for surroundings in SURROUNDINGS {
        let here = |it: &&PlantedCost| it.surroundings == surroundings;
        for layer in LAYERS {
            for work in WORKS {
                let of_kind =
                    |it: &&PlantedCost| here(it) && it.layer == layer && it.work == work.noun();
                let kind: Vec<&PlantedCost> = found.iter().filter(of_kind).collect();
                if !kind.is_empty() {
                    let name = format!("{layer}, {surroundings}, more {}", work.noun());
                    lines.push(outside(name, &kind));
                }
            }
        }
        for percent in PERCENTS {
            let of_percent = |it: &&PlantedCost| here(it) && it.percent == percent;
            let all: Vec<&PlantedCost> = found.iter().filter(of_percent).collect();
            if !all.is_empty() {
                let name = format!("{surroundings}, {percent} % more");
                lines.extend([
                    outside(name.clone(), &all),
                    wrong(name.clone(), &all),
                    signs(name, &all),
                ]);
            }
        }
    }
    lines
}

fn count(found: &[&PlantedCost], is: impl Fn(&PlantedCost) -> bool) -> u32 {
    u32::try_from(found.iter().filter(|it| is(it)).count()).unwrap_or(u32::MAX)
}

/// Coverage, with the width that it has: a wide interval holds everything.
fn outside(part: String, found: &[&PlantedCost]) -> Figure {
    let tried = count(found, |_| true);
    let (most, because) = if tried >= FULL {
        (tried * FULL_MOST / FULL, "14 of 200")
    } else {
        (binomial::at_most(tried, RATE), "5 % exceed it once in a thousand campaigns")
    };
    let width = median(found.iter().map(|it| (it.high - it.low) / it.truth * 100.0));
    Figure::new(part, [tried, count(found, PlantedCost::is_outside)], "outside the interval")
        .bar(Bar::AtMost(most), format!("{because}; median width {width:.2} %"))
}

/// An interval that is below 1 misses what is planted above: of 95 % intervals a fortieth may miss
/// to that side, and where the noise is many times the plant, 1 is as far away as the truth.
fn wrong(part: String, found: &[&PlantedCost]) -> Figure {
    let most = binomial::at_most(count(found, |_| true), RATE / 2.0);
    let counts = [count(found, PlantedCost::is_decided), count(found, |it| it.high < 1.0)];
    Figure::new(part, counts, "on the wrong side").bar(
        Bar::AtMost(most),
        format!("of those that leave out that they are equal; {most} of all miss to one side"),
    )
}

/// An estimator without a bias is below the truth as often as above it.
fn signs(part: String, found: &[&PlantedCost]) -> Figure {
    let tried = count(found, |_| true);
    let bar = if tried >= FULL { Bar::around(tried, 0.5) } else { Bar::Shown };
    let (ratio, truth) =
        (median(found.iter().map(|it| it.ratio)), median(found.iter().map(|it| it.truth)));
    Figure::new(part, [tried, count(found, |it| it.ratio < it.truth)], "below the truth")
        .bar(bar, format!("a coin; median {ratio:.4}, true {truth:.4}"))
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(truth: f64, ratio: f64, low: f64, high: f64) -> PlantedCost {
        let text = |text: &str| text.to_owned();
        let (surroundings, layer, work) = (text("alone"), text("native"), text("loops"));
        PlantedCost { surroundings, layer, work, percent: 3, truth, ratio, low, high }
    }

    fn met(found: &[PlantedCost]) -> Vec<bool> {
        lines(found).iter().map(Figure::is_met).collect()
    }

    #[test]
    fn a_start_that_is_not_planted_is_taken_from_the_truth() {
        // Half of 99 hundredths, and the hundredth that is the start.
        assert!((truth(25, 0.495 + 0.01) - 1.2475).abs() < 1e-12);
        assert!((truth(3, 0.5) - 1.03).abs() < 1e-12);
    }

    #[test]
    fn in_full_fourteen_of_two_hundred_may_be_outside_and_a_fortieth_on_the_wrong_side() {
        let good = found(1.03, 1.03, 1.02, 1.04);
        let campaign = |bad: &PlantedCost, count: usize| {
            let mut all = vec![good.clone(); 200 - count];
            // Half of them below and half above, as the estimates of a method without a bias are.
            all.iter_mut().take(100).for_each(|it| it.ratio = 1.029);
            all.extend(vec![bad.clone(); count]);
            met(&all)
        };
        let outside = found(1.03, 1.05, 1.04, 1.06);
        assert_eq!(campaign(&outside, 14), [true; 4]);
        assert_eq!(campaign(&outside, 15)[1..], [false, true, true]);
        let wrong = found(1.03, 0.98, 0.97, 0.99);
        let most = usize::try_from(binomial::at_most(200, 0.025)).unwrap();
        assert!((6..=14).contains(&most), "{most}");
        assert_eq!(campaign(&wrong, most)[2..], [true, true]);
        assert_eq!(campaign(&wrong, most + 1)[2..], [false, true]);
    }

    #[test]
    fn estimates_that_are_all_a_little_low_are_a_bias_though_each_interval_holds_the_truth() {
        let low = vec![found(1.2475, 1.237, 1.22, 1.26); 200];
        assert_eq!(met(&low), [true, true, true, false]);
    }
}
