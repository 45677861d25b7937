//! Recounted: what the findings say, computed once more from the trials that they list.
//!
//! Each block is paired here by its number, from one trial of each arm that is `done`: the compared
//! one against both arms of the baseline, and those two against each other. An arm that is left
//! out, a block that is paired with another, or a trial that counts twice gives other numbers than
//! these.
//!
//! On real trials, somebody else takes a CPU during the first one. It must be marked and repeated,
//! the attempt kept and not counted, and every block must hold each arm once.

use super::bench::{draft, one_compared, overhead, simulated};
use super::place::TryDirectory;
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::driver::NOISE_SHAPES;
use crate::fault::Fault;
use crate::finding::{ArmFindings, Findings, Interval, Verdict};
use crate::plan::{Word, shell_line};
use std::collections::BTreeMap;
use surtax_statistics::{self as statistics, Block, Estimate};

/// Blocks of a simulated run, as `compare` makes them unless told.
const BLOCKS: u32 = 10;

/// Blocks of a run of real trials: the fewest that have an interval.
const BLOCKS_REAL: u32 = 3;

/// Half-width of the equivalence margin, as plans have it unless told.
const MARGIN: f64 = 0.03;

/// By what share two computations of one number may differ.
const ROUNDING: f64 = 1e-9;

/// The command of real trials: the first one waits longer, so that it can be disturbed.
const COMMAND: &str = "[ -s \"$MARK\" ] || { echo x >> \"$MARK\"; sleep 0.5; }; sleep 0.05";

pub(super) const PROOF: Proof = Proof {
    name: "recounted",
    summary: "the findings computed again from their trials, also with a disturbed one: whether \
              they agree",
    parts: |size| {
        let simulated = vec![Part::short(per_shape(size)); NOISE_SHAPES.len()];
        simulated.into_iter().chain([Part::short(real(size))]).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let (mut tried, mut otherwise) = (0, 0);
    for shape in NOISE_SHAPES {
        for seed in 1..=per_shape(size) {
            let draft = simulated(shape, "1.05", BLOCKS, seed.into())?;
            tried += 1;
            otherwise += u32::from(!agrees(&bench.findings(draft)?, BLOCKS)?);
        }
    }
    figures.push(simulated_line(tried, otherwise));
    let (mut happened, mut once) = (0, 0);
    for seed in 1..=real(size) {
        let findings = disturbed(bench, seed.into())?;
        let is_marked = was_marked(&findings);
        happened += u32::from(is_marked);
        once += u32::from(is_marked && agrees(&findings, BLOCKS_REAL)?);
    }
    figures.push(real_line(real(size), happened, once));
    Ok(())
}

fn per_shape(size: Size) -> u32 {
    size.pick(2, 100)
}

fn real(size: Size) -> u32 {
    size.pick(2, 40)
}

/// A run of real trials; while its first command waits, somebody else uses a CPU.
fn disturbed(bench: &Bench<'_>, seed: u64) -> Result<Findings, Fault> {
    let place = TryDirectory::make(bench.directory()?)?;
    let mark = place.mark().to_string_lossy().into_owned();
    let mut draft = draft("native", &["native:env.SURTAX_TWIN=1"], BLOCKS_REAL, seed)?;
    draft.command = ["sh", "-c", COMMAND].map(Word::from).to_vec();
    draft.inherit_environment = Some(true);
    draft.environment = vec![(String::from("MARK"), mark.as_str().into())];
    draft.writable = vec![place.directory().to_owned()];
    let mark = shell_line([mark.as_str()]);
    let busy = "timeout 0.5 sh -c 'while :; do :; done'";
    let beside = bench.beside(&format!("until [ -s {mark} ]; do sleep 0.01; done; {busy}"))?;
    let findings = bench.findings(draft);
    drop(beside);
    findings
}

/// Tells whether an attempt was disturbed, and is kept beside the trial that counts.
fn was_marked(findings: &Findings) -> bool {
    let mut trials = findings.arms.iter().flat_map(|arm| &arm.trials);
    trials.any(|trial| trial.state == "disturbed" && !trial.disturbances.is_empty())
}

/// Tells whether the numbers of the findings are those of their trials.
fn agrees(findings: &Findings, blocks: u32) -> Result<bool, Fault> {
    let [first, again, ..] = findings.arms.as_slice() else { return Ok(false) };
    let arm = one_compared(findings)?;
    let walls = [first, again, arm].map(walls);
    let is_whole = |walls: &BTreeMap<u32, Vec<f64>>| {
        walls.len() == usize::try_from(blocks).unwrap_or(usize::MAX)
            && walls.values().all(|of_block| of_block.len() == 1)
    };
    let counts = [first, again, arm].map(|arm| arm.trial_count);
    if !walls.iter().all(is_whole) || counts != [blocks; 3] {
        return Ok(false);
    }
    let Some((cost, noise, verdict)) = recount(&walls) else { return Ok(false) };
    // No overhead, where these trials have one, is another answer and no fault.
    Ok(overhead(arm).is_ok_and(|found| is_same(&found, &cost))
        && findings.noise_floor.is_some_and(|found| is_same(&found, &noise))
        && arm.verdict == verdict)
}

/// The wall times of an arm that count, by block.
fn walls(arm: &ArmFindings) -> BTreeMap<u32, Vec<f64>> {
    let mut walls: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in arm.trials.iter().filter(|trial| trial.is_counted()) {
        let wall = trial.wall_ns.unwrap_or(0) as f64;
        walls.entry(trial.block).or_default().push(wall);
    }
    walls
}

/// The overhead, the noise floor and the verdict of whole blocks: baseline, baseline again,
/// compared.
fn recount(walls: &[BTreeMap<u32, Vec<f64>>; 3]) -> Option<(Estimate, Estimate, Verdict)> {
    let [first, again, arm] = walls;
    let (mut blocks, mut pairs) = (Vec::new(), Vec::new());
    for (block, first) in first {
        let again = again.get(block)?;
        blocks.push(Block::new(&[first.as_slice(), again].concat(), arm.get(block)?).ok()?);
        pairs.push(Block::new(first, again).ok()?);
    }
    let cost = statistics::overhead(&blocks).ok()?;
    let noise = statistics::noise_floor(&pairs).ok()?;
    Some((cost, noise.estimate, verdict(&cost, &noise.estimate)))
}

/// The rule of the verdict, written once more: above the noise floor and without 1 in the interval
/// it differs; within the margin it is equivalent.
fn verdict(cost: &Estimate, noise: &Estimate) -> Verdict {
    let departure = |ratio: f64| ratio.max(1.0 / ratio) - 1.0;
    let floor = departure(noise.low).max(departure(noise.high));
    let excludes_one = cost.low > 1.0 || cost.high < 1.0;
    if excludes_one && departure(cost.ratio) > floor {
        Verdict::Differs
    } else if cost.low >= 1.0 - MARGIN && cost.high <= 1.0 + MARGIN {
        Verdict::Equivalent
    } else {
        Verdict::Inconclusive
    }
}

fn is_same(found: &Interval, expected: &Estimate) -> bool {
    let is_near = |(a, b): (f64, f64)| (a - b).abs() <= ROUNDING * b.abs();
    let pairs =
        [(found.ratio, expected.ratio), (found.low, expected.low), (found.high, expected.high)];
    pairs.into_iter().all(is_near)
}

fn simulated_line(tried: u32, found: u32) -> Figure {
    Figure::new(format!("simulated, {BLOCKS} blocks"), [tried, found], "computed otherwise")
        .bar(Bar::AtMost(0), "one number has one value")
}

fn real_line(planned: u32, happened: u32, found: u32) -> Figure {
    let part = "native, the first trial disturbed";
    Figure::new(part, [happened, found], "repeated and counted once")
        .bar(Bar::AtLeast(planned), "every one that was planned must happen")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walls in which the second arm of the baseline is by 4 % slower, and the stack by 10 %.
    fn example() -> [BTreeMap<u32, Vec<f64>>; 3] {
        let of = |factor: f64, wobble: f64| {
            let wall = |block: u32| factor * (1e9 + wobble * f64::from(block * 7 % 5));
            (0..10).map(|block| (block, vec![wall(block)])).collect()
        };
        [of(1.0, 1e6), of(1.04, 2e6), of(1.1, 3e6)]
    }

    #[test]
    fn a_baseline_without_its_second_arm_gives_another_number() {
        let [first, again, arm] = example();
        let (cost, noise, verdict) = recount(&[first.clone(), again, arm.clone()]).unwrap();
        assert_eq!(verdict, Verdict::Differs);
        assert!((noise.ratio - 1.04).abs() < 0.01, "{noise:?}");
        let (alone, no_noise, _) = recount(&[first.clone(), first, arm]).unwrap();
        let said = |it: Estimate| Interval {
            ratio: it.ratio,
            low: it.low,
            high: it.high,
            confidence: 0.95,
        };
        assert!(is_same(&said(cost), &cost) && !is_same(&said(alone), &cost));
        assert!(!is_same(&said(no_noise), &noise));
    }

    #[test]
    fn a_block_that_lacks_an_arm_has_no_numbers() {
        let [first, mut again, arm] = example();
        again.remove(&3);
        assert!(recount(&[first, again, arm]).is_none());
    }

    #[test]
    fn a_disturbance_that_did_not_happen_was_not_counted_once_either() {
        assert!(real_line(2, 2, 2).is_met());
        assert!(!real_line(2, 1, 1).is_met() && !real_line(2, 2, 1).is_met());
        assert!(!simulated_line(20, 1).is_met());
    }
}
