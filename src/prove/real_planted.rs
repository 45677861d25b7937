//! Real planted costs: a command that truly does 5 or 10 % more work in one stack than in another.
//!
//! Both stacks are the same layer, and differ in a variable of the command that says how much it
//! does. What surtax finds must be what was asked for, within its own interval.

use super::bench::{compared, draft, overhead, toil};
use super::toil::{WORKS, Work};
use super::{Bar, Bench, Line, Proof, Size, binomial};
use crate::fault::Fault;
use std::time::Duration;

/// The layers in which it is planted.
pub(super) const LAYERS: [&str; 2] = ["native", "runc"];

/// What is planted, in percent.
const PERCENTS: [u64; 2] = [5, 10];

/// How long the unplanted command works: so long that the start of its process, which is not planted,
/// is less than one in a hundred of it.
const WORKS_FOR: Duration = Duration::from_millis(120);

const RATE: f64 = 0.05;

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

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Line>, Fault> {
        let count = per_work(size);
        let mut lines = Vec::new();
        for layer in LAYERS {
            for work in WORKS {
                let mut outside = [0; PERCENTS.len()];
                for seed in 0..count {
                    let missed = outside_of(bench, layer, work, size, seed.into())?;
                    for (sum, is_outside) in outside.iter_mut().zip(missed) {
                        *sum += u32::from(is_outside);
                    }
                }
                for (percent, found) in PERCENTS.iter().zip(outside) {
                    lines.push(line(layer, work, *percent, count, found));
                }
            }
        }
        let sum = |of: fn(&Line) -> u32| lines.iter().map(of).sum();
        lines.push(line_of(String::from("all"), sum(|line| line.tried), sum(|line| line.found)));
        Ok(lines)
    }
}

fn per_work(size: Size) -> u32 {
    size.pick(1, 40)
}

/// Of each planted cost, whether it is outside its interval.
fn outside_of(
    bench: &Bench<'_>,
    layer: &str,
    work: Work,
    size: Size,
    seed: u64,
) -> Result<Vec<bool>, Fault> {
    let amount = work.amount_of(WORKS_FOR)?;
    let stack = |percent: u64| {
        let planted = amount + amount / 100 * percent;
        format!("{layer}:env.{}={planted}", work.variable())
    };
    let planted = PERCENTS.map(stack);
    let planted: Vec<&str> = planted.iter().map(String::as_str).collect();
    let findings = bench.findings(toil(draft(&stack(0), &planted, size.pick(6, 10), seed)?)?)?;
    let outside = compared(&findings).iter().zip(PERCENTS).map(|(arm, percent)| {
        let truth = f64::from(u32::try_from(100 + percent).unwrap_or(0)) / 100.0;
        overhead(arm).map(|found| !(found.low <= truth && truth <= found.high))
    });
    outside.collect()
}

fn line(layer: &str, work: Work, percent: u64, tried: u32, found: u32) -> Line {
    line_of(format!("{layer}, {percent} % more {}", work.noun()), tried, found)
}

fn line_of(part: String, tried: u32, found: u32) -> Line {
    Line {
        proof: "real-planted",
        part,
        tried,
        found,
        what: "outside the interval",
        bar: Bar::AtMost(binomial::at_most(tried, RATE)),
        because: String::from("5 % exceeds it once in a thousand campaigns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_miss_in_forty_is_luck_and_ten_are_none() {
        let line = |found| line("native", Work::Loops, 5, 40, found);
        assert!(line(1).is_met() && !line(10).is_met());
    }
}
