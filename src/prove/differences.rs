//! Differences between runs on a simulated machine: pairs of runs whose stack costs the same over
//! its baseline, and pairs between which it became 5 % dearer, in ten kinds of noise by turns.

use super::bench::{noise_shape, run_of_dear};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::fault::Fault;
use crate::finding::diff::{Basis, ChangeVerdict, diff};

/// Rate of false changes that the bar stands for.
const RATE: f64 = 0.01;

/// Rate of changes that are found.
const FOUND: f64 = 0.8;

/// Cost before, as a ratio.
const BEFORE: &str = "1.2";

/// Kind of pair.
#[derive(Clone, Copy)]
struct Pair {
    name: &'static str,
    /// Cost after, as a ratio.
    after: &'static str,
    /// Blocks of each run.
    blocks: u32,
    /// Pairs in a quick campaign, and in full.
    counts: (u32, u32),
}

const EQUAL: Pair = Pair { name: "equal", after: BEFORE, blocks: 40, counts: (30, 1000) };
const DEARER: Pair = Pair { name: "5 % dearer", after: "1.26", blocks: 40, counts: (20, 200) };
/// As many as are usual, or twice: fewer are found, and how many is shown.
const OF_FEW: Pair = Pair { name: "5 % dearer, few", blocks: 20, counts: (5, 200), ..DEARER };
const PAIRS: [Pair; 3] = [EQUAL, DEARER, OF_FEW];

pub(super) const PROOF: Proof = Proof {
    name: "differences",
    summary: "pairs of simulated runs, between which a stack became 5 % dearer or not: what diff \
              says",
    parts: |size| PAIRS.iter().map(|pair| Part::short(2 * pair.count(size))).collect(),
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut counts = PAIRS.map(|_| Counts::default());
    let done = PAIRS.iter().zip(&mut counts).try_for_each(|(pair, counts)| {
        bench.units(pair.count(size)).try_for_each(|seed| {
            let unit = format!("differences/{}/{seed}", pair.name);
            counts.add(&bench.unit(&unit, 2, || verdict(bench, pair, seed))?);
            Ok(())
        })
    });
    figures.extend(lines(&counts));
    done
}

impl Pair {
    fn count(&self, size: Size) -> u32 {
        size.pick(self.counts.0, self.counts.1)
    }
}

/// Counts of pairs, by what was said.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    tried: u32,
    dearer: u32,
    cheaper: u32,
}

impl Counts {
    fn add(&mut self, verdict: &str) {
        self.tried += 1;
        self.dearer += u32::from(verdict == ChangeVerdict::Dearer.word());
        self.cheaper += u32::from(verdict == ChangeVerdict::Cheaper.word());
    }
}

/// Makes both runs of a pair, and returns the word for what their difference says of wall time.
fn verdict(bench: &Bench<'_>, pair: &Pair, number: u32) -> Result<String, Fault> {
    let shape = noise_shape(number);
    let run = |cost: &str, seed: u32| run_of_dear(bench, (shape, seed.into()), cost, pair.blocks);
    let (before, after) = (run(BEFORE, 2 * number)?, run(pair.after, 2 * number + 1)?);
    let found = diff(&before, &after)?;
    let is_it =
        |it: &&crate::finding::diff::Change| it.metric == "wall_ns" && it.basis == Basis::Baseline;
    let change = found.changes.iter().find(is_it);
    let change = change.ok_or_else(|| Fault::bug("two runs have no wall time in common"))?;
    Ok(change.verdict.map_or("", ChangeVerdict::word).into())
}

fn lines([equal, dearer, few]: &[Counts; PAIRS.len()]) -> [Figure; 4] {
    let line = |pair: &Pair, counts, what, bar, because: &str| {
        let because = format!("{} blocks each; {because}", pair.blocks);
        Figure::new(pair.name, counts, what).bar(bar, because)
    };
    let changed = equal.dearer + equal.cheaper;
    let most = Bar::AtMost(binomial::at_most(equal.tried, RATE));
    let least = Bar::AtLeast(binomial::at_least(dearer.tried, FOUND));
    let by_luck = "1 % exceeds it once in a thousand campaigns";
    let too_few = "80 % falls below it once in a thousand campaigns";
    let never = "5 % more is never said to be less";
    [
        line(&EQUAL, [equal.tried, changed], "called changed", most, by_luck),
        line(&DEARER, [dearer.tried, dearer.dearer], "called dearer", least, too_few),
        line(&DEARER, [dearer.tried, dearer.cheaper], "called cheaper", Bar::AtMost(0), never),
        line(
            &OF_FEW,
            [few.tried, few.dearer],
            "called dearer",
            Bar::Shown,
            "power of fewer blocks",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_that_finds_all_or_nothing_or_the_wrong_sign_misses_a_bar() {
        let counts = |tried, dearer, cheaper| Counts { tried, dearer, cheaper };
        let met = |equal: Counts, dearer: Counts| -> Vec<bool> {
            let lines = lines(&[equal, dearer, Counts::default()]);
            lines.iter().map(Figure::is_met).collect()
        };
        assert_eq!(met(counts(1000, 5, 5), counts(200, 170, 0)), [true, true, true, true]);
        assert_eq!(met(counts(1000, 0, 0), counts(200, 0, 0)), [true, false, true, true]);
        assert_eq!(met(counts(1000, 20, 20), counts(200, 199, 1)), [false, true, false, true]);
    }
}
