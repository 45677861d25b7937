//! Real false positives: one command in the same layer twice more, on this machine as it is, and
//! with something like a build beside it.
//!
//! The compared stack differs from its baseline by a variable that nobody reads. In full the bar is
//! one in a hundred; and of all estimates, about as many must be above the baseline as below it.

use super::bench::{draft, one_compared, toil};
use super::load::{BUILD, SURROUNDINGS};
use super::real_planted::LAYERS;
use super::toil::Work;
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
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

pub(super) const PROOF: Proof = Proof {
    name: "real-false-positives",
    summary: "the same command in the same layer, alone and beside a build: how many are called \
              different",
    parts: |size| {
        let all = SURROUNDINGS.iter().flat_map(|it| LAYERS.map(|_| per_part(size, it)));
        all.map(|run_count| Part::of(run_count, 5000)).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut kinds = Vec::new();
    let done = compare_all(bench, size, &mut kinds);
    figures.extend(lines(&kinds));
    done
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
struct Kind {
    name: String,
    tried: u32,
    differ: u32,
    /// Number of estimates above the baseline, of those that there are.
    above: u32,
    estimates: u32,
}

fn compare_all(bench: &Bench<'_>, size: Size, kinds: &mut Vec<Kind>) -> Result<(), Fault> {
    for surroundings in SURROUNDINGS {
        let mut load = None;
        for layer in LAYERS {
            let mut kind = Kind { name: format!("{layer}, {surroundings}"), ..Kind::default() };
            let mut all = || {
                for seed in bench.units(per_part(size, surroundings)) {
                    let unit = format!("real-false-positives/{surroundings}/{layer}/{seed}");
                    let compare = || {
                        if load.is_none() && surroundings != SURROUNDINGS[0] {
                            load = Some(bench.beside(BUILD)?);
                        }
                        compare(bench, layer, size, seed.into())
                    };
                    kind.add(bench.unit(&unit, 1, compare)?);
                }
                Ok(())
            };
            let done = all();
            kinds.push(kind);
            done?;
        }
    }
    Ok(())
}

impl Kind {
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
    let arm = one_compared(&findings)?;
    let differs = match &arm.verdict {
        Verdict::Differs => true,
        Verdict::Equivalent | Verdict::Inconclusive => false,
        Verdict::Invalid { reason, .. } => {
            return Err(Fault::machine(format!(
                "`{layer}` could not be compared with itself: {reason}"
            )));
        }
        Verdict::Baseline => return Err(Fault::bug("a twin is its own baseline")),
    };
    Ok(Compared { differs, ratio: arm.overhead.map(|overhead| overhead.ratio) })
}

/// A line for each kind, one for all, and one for their signs.
fn lines(kinds: &[Kind]) -> Vec<Figure> {
    let of_kind = |kind: &Kind| line(&kind.name, [kind.tried, kind.differ]);
    let mut lines: Vec<Figure> = kinds.iter().map(of_kind).collect();
    let sum = |of: fn(&Kind) -> u32| kinds.iter().map(of).sum();
    lines.push(line("all", [sum(|kind| kind.tried), sum(|kind| kind.differ)]));
    lines.push(signs([sum(|kind| kind.estimates), sum(|kind| kind.above)]));
    lines
}

fn line(part: &str, counts: [u32; 2]) -> Figure {
    let (most, because) = if counts[0] >= FULL {
        (counts[0] / 100, "one in a hundred")
    } else {
        (binomial::at_most(counts[0], RATE), "0.83 % exceeds it once in a thousand campaigns")
    };
    Figure::new(part, counts, "called different").bar(Bar::AtMost(most), because)
}

/// Of a few comparisons, how many lie above says nothing.
fn signs(counts: [u32; 2]) -> Figure {
    let (bar, because) = if counts[0] >= FULL {
        (Bar::around(counts[0], 0.5), "a coin leaves it twice in a thousand campaigns")
    } else {
        (Bar::Shown, "too few to judge")
    };
    Figure::new("all, signs", counts, "above the baseline").bar(bar, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four parts of a full campaign.
    fn met(differ: u32, above: u32) -> Vec<bool> {
        let kind = Kind { name: String::from("native"), tried: 125, differ, above, estimates: 125 };
        lines(&[kind.clone(), kind.clone(), kind.clone(), kind])
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
        let kind = Kind { tried: 40, differ: 1, above: 40, estimates: 40, ..Kind::default() };
        let lines = lines(&[kind]);
        assert!(lines.iter().all(Figure::is_met), "{lines:?}");
        assert_eq!(lines[2].bar, Bar::Shown);
    }
}
