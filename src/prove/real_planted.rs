//! Real planted costs: a command that truly does 5 or 10 % more work in one stack than in another.
//!
//! Both stacks are the same layer, and differ in a variable of the command that says how much it
//! does. What surtax finds must be what was asked for, within its own interval; and where that
//! interval leaves out that they are equal, it must be on the right side.

use super::bench::{compared, draft, overhead, toil};
use super::toil::{WORKS, Work};
use super::{Bar, Bench, Line, Proof, Size, Stopped, binomial, ended};
use crate::fault::Fault;
use crate::report::Interval;
use std::time::Duration;

/// The layers in which it is planted.
pub(super) const LAYERS: [&str; 2] = ["native", "runc"];

/// What is planted, in percent.
const PERCENTS: [u64; 2] = [5, 10];

/// How long the unplanted command works: so long that the start of its process, which is not planted,
/// is less than one in a hundred of it.
const WORKS_FOR: Duration = Duration::from_millis(120);

const RATE: f64 = 0.05;

/// With so many of one percentage, one in twenty may be outside.
const FULL: u32 = 200;

pub(super) struct RealPlanted;

impl Proof for RealPlanted {
    fn name(&self) -> &'static str {
        "real-planted"
    }

    fn summary(&self) -> &'static str {
        "5 and 10 % more work in native and in runc: how many intervals do not hold it"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_work(size) * u32::try_from(LAYERS.len() * WORKS.len()).unwrap_or(u32::MAX)
    }

    fn run_ms(&self, _: Size, _: u32) -> u32 {
        10_000
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Line>, Stopped> {
        let mut counts = Vec::new();
        let done = plant_all(bench, size, &mut counts);
        ended(done, lines(&counts))
    }
}

/// In full, 34 of each of six kinds are 204 of each percentage.
fn per_work(size: Size) -> u32 {
    size.pick(1, 34)
}

/// What was counted of one percentage more of one kind of work in one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    layer: &'static str,
    work: Work,
    percent: u64,
    tried: u32,
    outside: u32,
    /// Of intervals that leave out that they are equal, how many are on the wrong side.
    wrong: u32,
    /// How many leave it out.
    decided: u32,
}

impl Count {
    fn of(layer: &'static str, work: Work, percent: u64) -> Self {
        Self { layer, work, percent, tried: 0, outside: 0, wrong: 0, decided: 0 }
    }

    fn add(&mut self, found: &Interval) {
        let truth = f64::from(u32::try_from(100 + self.percent).unwrap_or(0)) / 100.0;
        self.tried += 1;
        self.outside += u32::from(!(found.low <= truth && truth <= found.high));
        self.wrong += u32::from(found.high < 1.0);
        self.decided += u32::from(found.high < 1.0 || found.low > 1.0);
    }
}

fn plant_all(bench: &Bench<'_>, size: Size, counts: &mut Vec<Count>) -> Result<(), Fault> {
    for layer in LAYERS {
        for work in WORKS {
            let mut planted = PERCENTS.map(|percent| Count::of(layer, work, percent));
            let mut all = || {
                for seed in 0..per_work(size) {
                    plant(bench, size, seed.into(), &mut planted)?;
                }
                Ok(())
            };
            let done = all();
            counts.extend(planted);
            done?;
        }
    }
    Ok(())
}

/// Plants each percentage once, in one run.
fn plant(
    bench: &Bench<'_>,
    size: Size,
    seed: u64,
    planted: &mut [Count; PERCENTS.len()],
) -> Result<(), Fault> {
    let [Count { layer, work, .. }, ..] = *planted;
    let amount = work.amount_of(WORKS_FOR)?;
    let stack = |percent: u64| {
        let planted = amount + amount / 100 * percent;
        format!("{layer}:env.{}={planted}", work.variable())
    };
    let stacks = PERCENTS.map(stack);
    let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let findings = bench.findings(toil(draft(&stack(0), &stacks, size.pick(6, 10), seed)?)?)?;
    let found: Result<Vec<Interval>, Fault> = compared(&findings).iter().map(overhead).collect();
    for (count, found) in planted.iter_mut().zip(found?) {
        count.add(&found);
    }
    Ok(())
}

/// A line for each kind of work in each layer, and for each percentage two that sum them up.
fn lines(counts: &[Count]) -> Vec<Line> {
    let of_kind = |count: &Count| {
        let Count { layer, work, percent, tried, outside, .. } = *count;
        line(format!("{layer}, {percent} % more {}", work.noun()), tried, outside)
    };
    let mut lines: Vec<Line> = counts.iter().map(of_kind).collect();
    for percent in PERCENTS {
        let sum = |of: fn(&Count) -> u32| {
            counts.iter().filter(|count| count.percent == percent).map(of).sum()
        };
        let name = format!("all, {percent} % more");
        lines.push(line(name.clone(), sum(|count| count.tried), sum(|count| count.outside)));
        lines.push(Line {
            what: "on the wrong side",
            bar: Bar::AtMost(0),
            because: String::from("of the intervals that leave out that they are equal"),
            ..line(name, sum(|count| count.decided), sum(|count| count.wrong))
        });
    }
    lines
}

fn line(part: String, tried: u32, found: u32) -> Line {
    let (most, because) = if tried >= FULL {
        (tried / 20, "one in twenty")
    } else {
        (binomial::at_most(tried, RATE), "5 % exceeds it once in a thousand campaigns")
    };
    Line {
        proof: "real-planted",
        part,
        tried,
        found,
        what: "outside the interval",
        bar: Bar::AtMost(most),
        because: String::from(because),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_miss_in_forty_is_luck_and_ten_are_none() {
        let line = |found| line(String::from("native"), 40, found);
        assert!(line(1).is_met() && !line(10).is_met());
    }

    #[test]
    fn in_full_one_in_twenty_may_be_outside_and_none_on_the_wrong_side() {
        let count = |outside, wrong| Count {
            outside,
            wrong,
            tried: 204,
            decided: 200,
            ..Count::of("native", Work::Loops, 5)
        };
        let met = |outside, wrong| -> Vec<bool> {
            lines(&[count(outside, wrong)])[1..3].iter().map(Line::is_met).collect()
        };
        assert_eq!(met(10, 0), [true, true]);
        assert_eq!(met(11, 0), [false, true]);
        assert_eq!(met(10, 1), [true, false]);
    }

    #[test]
    fn an_interval_below_the_truth_is_outside_and_one_below_equality_on_the_wrong_side() {
        let mut count = Count::of("native", Work::Loops, 5);
        for (low, high) in [(1.04, 1.06), (0.99, 1.02), (0.97, 0.98)] {
            count.add(&Interval { ratio: low, low, high, confidence: 0.95 });
        }
        assert_eq!((count.tried, count.outside, count.wrong, count.decided), (3, 2, 1, 2));
    }
}
