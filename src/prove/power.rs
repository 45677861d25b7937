//! Power: how many planted costs of 5 % are found, against what the statistics alone foretell.
//!
//! The forecast comes from bare runs of the same model with other seeds. A path that loses trials,
//! pairs the wrong ones or drops an arm of the baseline finds fewer, or more.

use super::bare::Run;
use super::bench::{compared, draft};
use super::{Bar, Bench, Figure, Proof, Size, Stopped, binomial};
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

pub(super) struct Power;

impl Proof for Power {
    fn name(&self) -> &'static str {
        "power"
    }

    fn summary(&self) -> &'static str {
        "simulated stacks that cost 5 %: how many are found, against what is foretold"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_length(size) * u32::try_from(BLOCKS.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let count = per_length(size);
        let mut lines = Vec::new();
        for blocks in BLOCKS {
            let behind = u64::from(count) * lines.len() as u64;
            let name = format!("power/{blocks}");
            let [tried, found] = bench.counts(&name, (behind, count), |seed| {
                let baseline = format!("simulated:seed={seed}");
                let arm = format!("{baseline},cost={COST}");
                let findings = bench.findings(draft(&baseline, &[&arm], blocks, seed)?)?;
                let differs = |arm: &crate::finding::ArmFindings| arm.verdict == Verdict::Differs;
                Ok(compared(&findings).iter().any(differs))
            })?;
            lines.push(line(blocks, tried, found, forecast(blocks)));
        }
        Ok(lines)
    }
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

fn line(blocks: u32, tried: u32, found: u32, forecast: f64) -> Figure {
    let (least, most) = (binomial::at_least(tried, forecast), binomial::at_most(tried, forecast));
    Figure {
        proof: "power",
        part: format!("cost {COST}, {blocks} blocks"),
        tried,
        found,
        what: "found",
        bar: Bar::Within(least, most),
        because: format!("{:.1} % are foretold", 100.0 * forecast),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_finds_nothing_or_everything_misses_the_bar() {
        let line = |found| line(10, 50, found, 0.7);
        assert!(line(35).is_met());
        assert!(!line(0).is_met() && !line(50).is_met());
    }
}
