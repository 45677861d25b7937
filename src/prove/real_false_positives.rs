//! Real false positives: one command in the same layer twice more, on this machine as it is, and
//! with something like a build beside it.
//!
//! The compared stack differs from its baseline by a variable that nobody reads. In full the bar is
//! one in a hundred; and of all estimates, about as many must be above the baseline as below it.

use super::bench::{compared, draft, toil};
use super::load::{BUILD, SURROUNDINGS};
use super::proof::ended;
use super::real_planted::LAYERS;
use super::toil::Work;
use super::{Bar, Bench, Figure, Proof, Size, Stopped, binomial};
use crate::fault::Fault;
use crate::finding::Verdict;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The rate that the bars of a few comparisons stand for.
const RATE: f64 = 0.0083;

/// With so many comparisons, one in a hundred may be called different.
const FULL: u32 = 500;

/// Time that the command works.
const WORKS_FOR: Duration = Duration::from_millis(20);

pub(super) struct RealFalsePositives;

impl Proof for RealFalsePositives {
    fn name(&self) -> &'static str {
        "real-false-positives"
    }

    fn summary(&self) -> &'static str {
        "the same command in the same layer, alone and beside a build: how many are called \
         different"
    }

    fn run_count(&self, size: Size) -> u32 {
        let parts = SURROUNDINGS.iter().map(|surroundings| per_part(size, surroundings));
        parts.sum::<u32>() * u32::try_from(LAYERS.len()).unwrap_or(u32::MAX)
    }

    fn run_ms(&self, _: Size, _: u32) -> u32 {
        5000
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let mut parts = Vec::new();
        let done = compare_all(bench, size, &mut parts);
        ended(done, lines(&parts))
    }
}

/// In full, 250 alone and 500 beside a build, half of them in each layer.
fn per_part(size: Size, surroundings: &str) -> u32 {
    size.pick(3, if surroundings == SURROUNDINGS[0] { FULL / 4 } else { FULL / 2 })
}

/// Result of one comparison.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Compared {
    differs: bool,
    /// The stack over the baseline, where there is an estimate.
    ratio: Option<f64>,
}

/// Counts of one layer, alone or beside a build.
#[derive(Clone, Debug, Default)]
struct Part {
    name: String,
    tried: u32,
    differ: u32,
    /// Number of estimates above the baseline, of those that there are.
    above: u32,
    estimates: u32,
}

fn compare_all(bench: &Bench<'_>, size: Size, parts: &mut Vec<Part>) -> Result<(), Fault> {
    for surroundings in SURROUNDINGS {
        let mut load = None;
        for layer in LAYERS {
            let mut part = Part { name: format!("{layer}, {surroundings}"), ..Part::default() };
            let mut all = || {
                for seed in bench.units(per_part(size, surroundings)) {
                    let unit = format!("real-false-positives/{surroundings}/{layer}/{seed}");
                    let compare = || {
                        if load.is_none() && surroundings != SURROUNDINGS[0] {
                            load = Some(bench.beside(BUILD)?);
                        }
                        compare(bench, layer, size, seed.into())
                    };
                    part.add(bench.unit(&unit, 1, compare)?);
                }
                Ok(())
            };
            let done = all();
            parts.push(part);
            done?;
        }
    }
    Ok(())
}

impl Part {
    fn add(&mut self, compared: Compared) {
        self.tried += 1;
        self.differ += u32::from(compared.differs);
        self.estimates += u32::from(compared.ratio.is_some());
        self.above += u32::from(compared.ratio.is_some_and(|ratio| ratio > 1.0));
    }
}

fn compare(bench: &Bench<'_>, layer: &str, size: Size, seed: u64) -> Result<Compared, Fault> {
    let amount = Work::Loops.amount_of(WORKS_FOR)?;
    let baseline = format!("{layer}:env.{}={amount}", Work::Loops.variable());
    let twin = format!("{baseline},env.SURTAX_TOIL_TWIN=1");
    let findings = bench.findings(toil(draft(&baseline, &[&twin], size.pick(6, 10), seed)?)?)?;
    let no_twin = || Fault::bug("a twin was not compared with its baseline");
    let arm = compared(&findings).first().ok_or_else(no_twin)?;
    let differs = match &arm.verdict {
        Verdict::Differs => true,
        Verdict::Equivalent | Verdict::Inconclusive => false,
        Verdict::Invalid { reason, .. } => {
            return Err(Fault::machine(format!(
                "`{layer}` could not be compared with itself: {reason}"
            )));
        }
        Verdict::Baseline => return Err(no_twin()),
    };
    Ok(Compared { differs, ratio: arm.overhead.map(|overhead| overhead.ratio) })
}

/// A line for each part, one for all, and one for their signs.
fn lines(parts: &[Part]) -> Vec<Figure> {
    let of_part = |part: &Part| line(part.name.clone(), part.tried, part.differ);
    let mut lines: Vec<Figure> = parts.iter().map(of_part).collect();
    let sum = |of: fn(&Part) -> u32| parts.iter().map(of).sum();
    lines.push(line(String::from("all"), sum(|part| part.tried), sum(|part| part.differ)));
    lines.push(signs(sum(|part| part.estimates), sum(|part| part.above)));
    lines
}

fn line(part: String, tried: u32, found: u32) -> Figure {
    let (most, because) = if tried >= FULL {
        (tried / 100, "one in a hundred")
    } else {
        (binomial::at_most(tried, RATE), "0.83 % exceeds it once in a thousand campaigns")
    };
    Figure {
        proof: "real-false-positives",
        part,
        tried,
        found,
        what: "called different",
        bar: Bar::AtMost(most),
        because: String::from(because),
    }
}

/// Of a few comparisons, how many lie above says nothing.
fn signs(tried: u32, found: u32) -> Figure {
    let (bar, because) = if tried >= FULL {
        let (least, most) = (binomial::at_least(tried, 0.5), binomial::at_most(tried, 0.5));
        (Bar::Within(least, most), "a coin leaves it twice in a thousand campaigns")
    } else {
        (Bar::Shown, "too few to judge")
    };
    Figure {
        proof: "real-false-positives",
        part: String::from("all, signs"),
        tried,
        found,
        what: "above the baseline",
        bar,
        because: String::from(because),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four parts of a full campaign.
    fn met(differ: u32, above: u32) -> Vec<bool> {
        let part = Part { name: String::from("native"), tried: 125, differ, above, estimates: 125 };
        lines(&[part.clone(), part.clone(), part.clone(), part])
            .iter()
            .map(Figure::is_met)
            .collect()
    }

    #[test]
    fn in_full_one_in_a_hundred_may_differ_and_the_signs_are_balanced() {
        assert_eq!(met(1, 62), [true; 6]);
        assert_eq!(met(2, 62)[4..], [false, true]);
        assert_eq!(met(1, 80)[4..], [true, false]);
    }

    #[test]
    fn what_an_interrupted_campaign_had_counted_is_judged_by_its_own_number() {
        let part = Part { tried: 40, differ: 1, above: 40, estimates: 40, ..Part::default() };
        let lines = lines(&[part]);
        assert!(lines.iter().all(Figure::is_met), "{lines:?}");
        assert_eq!(lines[2].bar, Bar::Shown);
    }
}
