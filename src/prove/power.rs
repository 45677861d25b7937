//! Power: how many planted costs of 5 % are found, against what the statistics alone foretell.
//!
//! The forecast comes from bare runs of the same model with other seeds. A path that loses trials,
//! pairs the wrong ones or drops an arm of the baseline finds fewer, or more.

use super::bare::Run;
use super::bench::{one_compared, simulated};
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::Fault;
use crate::finding::Verdict;

/// The true cost.
const COST: f64 = 1.05;

/// Blocks of the runs: few, the usual number, many.
const BLOCKS: [u32; 3] = [6, 10, 20];

/// Bare runs behind a forecast. Its own error is far below that of the runs that it is held
/// against.
const FORECAST_RUNS: u32 = 20_000;

/// The first seed of the bare runs; no run of the whole path has it.
const FORECAST_SEED: u64 = 1 << 40;

pub(super) const PROOF: Proof = Proof {
    name: "power",
    summary: "simulated stacks that cost 5 %: how many are found, against what is foretold",
    parts: |size| vec![Part::short(per_length(size)); BLOCKS.len()],
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut seed = 0;
    for blocks in BLOCKS {
        let name = format!("power/{blocks}");
        let counts = bench.counts(&name, &mut seed, per_length(size), |seed| {
            let draft = simulated("lognormal", &COST.to_string(), blocks, seed)?;
            Ok(one_compared(&bench.findings(draft)?)?.verdict == Verdict::Differs)
        })?;
        figures.push(line(blocks, counts, forecast(blocks)));
    }
    Ok(())
}

fn per_length(size: Size) -> u32 {
    size.pick(50, 1000)
}

/// The share of bare runs in which the cost is found.
fn forecast(blocks: u32) -> f64 {
    let run = |seed: u64| Run { blocks, cost: COST, ..Run::equal(FORECAST_SEED + seed) };
    let found: u32 = (0..FORECAST_RUNS).map(|seed| u32::from(run(seed.into()).differs())).sum();
    f64::from(found) / f64::from(FORECAST_RUNS)
}

fn line(blocks: u32, counts: [u32; 2], forecast: f64) -> Figure {
    Figure::new(format!("cost {COST}, {blocks} blocks"), counts, "found")
        .bar(Bar::around(counts[0], forecast), format!("{:.1} % are foretold", 100.0 * forecast))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_finds_nothing_or_everything_misses_the_bar() {
        let line = |found| line(10, [50, found], 0.7);
        assert!(line(35).is_met());
        assert!(!line(0).is_met() && !line(50).is_met());
    }
}
