//! Histories on a simulated machine: twelve runs of a stack that costs the same all the time, but
//! for what runs differ by, and of one that becomes 10 % dearer, in ten kinds of noise by turns.

use super::bench::{noise_shape, run_of_dear};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::fault::Fault;
use crate::finding::Findings;
use crate::finding::history::history;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Runs of a history.
const RUNS: u32 = 12;

/// Blocks of a run.
const BLOCKS: u32 = 10;

/// Rate of histories with a shift that is none, for the bar.
const RATE: f64 = 0.01;

/// Rate of shifts that are found, at the run where they are or beside it.
const FOUND: f64 = 0.8;

/// Cost before and after, as ratios.
const COSTS: [f64; 2] = [1.2, 1.32];

/// A run's cost is anywhere within so much of that, as a share: boots and days differ, which is in
/// no interval of a run.
const BETWEEN_RUNS: f64 = 0.015;

/// Kind of history.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Index of the first run that is dearer, if one is.
    at: Option<u32>,
    /// Histories in a quick campaign, and in full.
    counts: (u32, u32),
}

const STEADY: Kind = Kind { name: "steady", at: None, counts: (6, 300) };
const DEARER: Kind = Kind { name: "10 % dearer", at: Some(7), counts: (6, 100) };
const KINDS: [Kind; 2] = [STEADY, DEARER];

pub(super) const PROOF: Proof = Proof {
    name: "histories",
    summary: "twelve simulated runs, in which a stack became 10 % dearer or not: what history says",
    parts: |size| KINDS.iter().map(|kind| Part::short(RUNS * kind.count(size))).collect(),
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut counts = KINDS.map(|_| Counts::default());
    let done = KINDS.iter().zip(&mut counts).try_for_each(|(kind, counts)| {
        bench.units(kind.count(size)).try_for_each(|number| {
            let unit = format!("histories/{}/{number}", kind.name);
            counts.add(kind, &bench.unit(&unit, RUNS, || found(bench, kind, number))?);
            Ok(())
        })
    });
    figures.extend(lines(&counts));
    done
}

impl Kind {
    fn count(&self, size: Size) -> u32 {
        size.pick(self.counts.0, self.counts.1)
    }
}

/// Counts of histories, by what was found in them.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    tried: u32,
    /// With a shift at all.
    shifted: u32,
    /// With one at the right run or beside it.
    near: u32,
    /// With one that says cheaper.
    cheaper: u32,
}

impl Counts {
    fn add(&mut self, kind: &Kind, found: &[(u32, f64)]) {
        let is_near = |at: u32| kind.at.is_some_and(|planted| at.abs_diff(planted) <= 1);
        self.tried += 1;
        self.shifted += u32::from(!found.is_empty());
        self.near += u32::from(found.iter().any(|(at, step)| is_near(*at) && *step > 1.0));
        self.cheaper += u32::from(found.iter().any(|(_, step)| *step < 1.0));
    }
}

/// Makes the runs of a history, and returns where its wall time has a new level, with the step.
fn found(bench: &Bench<'_>, kind: &Kind, number: u32) -> Result<Vec<(u32, f64)>, Fault> {
    let run = |index: u32| -> Result<Findings, Fault> {
        let is_dearer = kind.at.is_some_and(|at| index >= at);
        let seed = u64::from(number * RUNS + index);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let of_run = 1.0 + random.random_range(-BETWEEN_RUNS..BETWEEN_RUNS);
        let cost = format!("{:.4}", COSTS[usize::from(is_dearer)] * of_run);
        let mut findings = run_of_dear(bench, (noise_shape(number), seed), &cost, BLOCKS)?;
        // Simulated runs end within a second, in which the order would be lost.
        findings.run.began_at = format!("2026-01-{:02}T00:00:00Z", index + 1);
        Ok(findings)
    };
    let runs = (0..RUNS).map(run).collect::<Result<Vec<_>, Fault>>()?;
    let found = history(runs)?;
    let wall = found.series.iter().find(|it| it.metric == "wall_ns");
    let wall = wall.ok_or_else(|| Fault::bug("a history without wall time"))?;
    let steps = wall.points.iter().filter_map(|it| Some((it.run, it.shift.as_ref()?.ratio)));
    Ok(steps.map(|(run, step)| (u32::try_from(run).unwrap_or(u32::MAX), step)).collect())
}

fn lines([steady, dearer]: &[Counts; KINDS.len()]) -> [Figure; 3] {
    let line = |kind: &Kind, counts, what, bar, because: &str| {
        let because = format!("{RUNS} runs of {BLOCKS} blocks each; {because}");
        Figure::new(kind.name, counts, what).bar(bar, because)
    };
    let most = |tried| Bar::AtMost(binomial::at_most(tried, RATE));
    let least = Bar::AtLeast(binomial::at_least(dearer.tried, FOUND));
    let (level, near) = ("with a new level", "found at that run or beside it");
    let by_luck = "1 % exceeds it once in a thousand campaigns";
    let too_few = "80 % falls below it once in a thousand campaigns";
    let nowhere = "what becomes dearer becomes cheaper nowhere, but by chance";
    let cheaper = [dearer.tried, dearer.cheaper];
    [
        line(&STEADY, [steady.tried, steady.shifted], level, most(steady.tried), by_luck),
        line(&DEARER, [dearer.tried, dearer.near], near, least, too_few),
        line(&DEARER, cheaper, "called cheaper", most(dearer.tried), nowhere),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_finds_all_or_nothing_or_the_wrong_run_misses_a_bar() {
        let of = |kind: &Kind, found: &[(u32, f64)], tried: u32| {
            let mut counts = Counts::default();
            (0..tried).for_each(|_| counts.add(kind, found));
            counts
        };
        let met = |steady: &[(u32, f64)], dearer: &[(u32, f64)]| -> Vec<bool> {
            let counts = [of(&STEADY, steady, 300), of(&DEARER, dearer, 100)];
            lines(&counts).iter().map(Figure::is_met).collect()
        };
        assert_eq!(met(&[], &[(7, 1.1)]), [true, true, true]);
        assert_eq!(met(&[], &[(8, 1.1)]), [true, true, true]);
        assert_eq!(met(&[(3, 1.1)], &[]), [false, false, true]);
        assert_eq!(met(&[], &[(3, 1.1)]), [true, false, true]);
        assert_eq!(met(&[], &[(7, 0.9)]), [true, false, false]);
    }
}
