//! Real false positives: one command in the same layer twice more, on this machine as it is, and with
//! something like a build beside it.
//!
//! The compared stack differs from its baseline by a variable that nobody reads.

use super::bench::{compared, draft, toil};
use super::real_planted::LAYERS;
use super::toil::Work;
use super::{Bar, Bench, Line, Proof, Size, binomial};
use crate::fault::Fault;
use crate::report::Verdict;
use std::time::Duration;

/// The rate that the bars stand for.
const RATE: f64 = 0.0083;

/// How long the command works.
const WORKS_FOR: Duration = Duration::from_millis(20);

/// Short processes on every CPU, with pauses, as a build has them.
const BUILD: &str = "for n in $(seq \"$(nproc)\"); do \
    while :; do head -c 3000000 /dev/urandom | gzip -9 | sha256sum; sleep 0.05; done & done; wait";

pub(super) struct RealFalsePositives;

impl Proof for RealFalsePositives {
    fn name(&self) -> &'static str {
        "real-false-positives"
    }

    fn summary(&self) -> &'static str {
        "the same command in the same layer, alone and beside a build: how many are called different"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_part(size) * 2 * u32::try_from(LAYERS.len()).unwrap_or(u32::MAX)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Line>, Fault> {
        let count = per_part(size);
        let mut lines = Vec::new();
        for beside in ["alone", "beside a build"] {
            let load = if beside == "alone" { None } else { Some(bench.beside(BUILD)?) };
            for layer in LAYERS {
                let mut wrong = 0;
                for seed in 0..count {
                    wrong += u32::from(is_wrong(bench, layer, size, seed.into())?);
                }
                lines.push(line(format!("{layer}, {beside}"), count, wrong));
            }
            drop(load);
        }
        let sum = |of: fn(&Line) -> u32| lines.iter().map(of).sum();
        lines.push(line(String::from("all"), sum(|line| line.tried), sum(|line| line.found)));
        Ok(lines)
    }
}

fn per_part(size: Size) -> u32 {
    size.pick(3, 125)
}

fn is_wrong(bench: &Bench<'_>, layer: &str, size: Size, seed: u64) -> Result<bool, Fault> {
    let amount = Work::Loops.amount_of(WORKS_FOR)?;
    let baseline = format!("{layer}:env.{}={amount}", Work::Loops.variable());
    let twin = format!("{baseline},env.SURTAX_TOIL_TWIN=1");
    let findings = bench.findings(toil(draft(&baseline, &[&twin], size.pick(6, 10), seed)?)?)?;
    let arm = compared(&findings).first();
    match arm.map(|arm| &arm.verdict) {
        Some(Verdict::Differs) => Ok(true),
        Some(Verdict::Equivalent | Verdict::Inconclusive) => Ok(false),
        Some(Verdict::Invalid { reason }) => {
            Err(Fault::machine(format!("`{layer}` could not be compared with itself: {reason}")))
        }
        Some(Verdict::Baseline) | None => {
            Err(Fault::bug("a twin was not compared with its baseline"))
        }
    }
}

fn line(part: String, tried: u32, found: u32) -> Line {
    Line {
        proof: "real-false-positives",
        part,
        tried,
        found,
        what: "called different",
        bar: Bar::AtMost(binomial::at_most(tried, RATE)),
        because: String::from("0.83 % exceeds it once in a thousand campaigns"),
    }
}
