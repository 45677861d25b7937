//! The campaign in layers: a command forges in the channel of its own agent.

use super::super::bench::{TRIALS_OF_A_FAILED_RUN, draft};
use super::super::{Bench, Size};
use super::Count;
use crate::fault::Fault;
use crate::finding::compare;
use crate::ledger::{StoredTrial, TrialState};
use crate::plan::Word;
use serde::{Deserialize, Serialize};
use surtax_engines::forge::{SHORTEST_TRY, answer_out_of_reach};
use surtax_instrument::wire::FORGED;
use surtax_instrument::wire::specimen::KINDS;

/// Layers in which a command forges, the quick ones first.
const LAYERS: [Layer; 12] = [
    Layer::open("native"),
    Layer::shut("runc"),
    Layer::shut("bubblewrap"),
    Layer::shut("gvisor"),
    Layer::shut("crun"),
    Layer::open("namespaces"),
    Layer::open("lxc"),
    Layer::open("nspawn"),
    Layer::shut("docker"),
    Layer::shut("podman"),
    // Each start of a guest boots it, and the first frame ends one whose agent is in reach: of
    // those the one that is translated soonest.
    Layer {
        run_ms: 8_000,
        ..Layer::open("qemu:accel=tcg,cpus=1,machine=microvm,memory=256M,root=packed")
    },
    Layer { starts: 12, tries: 84, run_ms: 100_000, ..Layer::shut("qemu:accel=tcg+runc") },
];

/// Number of them that are quick.
const QUICK_LAYERS: usize = 4;

/// Kinds of frame forged there in a quick campaign: one that would make a number, an end, and one
/// that is nothing.
const QUICK_KINDS: [&str; 3] = ["exited", "stopped", "garbage"];

/// Amounts of a frame that a command writes.
const AMOUNTS: [&str; 3] = ["whole", "half", "twice"];

/// A layer in which a command forges.
pub(super) struct Layer {
    pub(super) stack: &'static str,
    /// Number of starts for each kind of frame, in full.
    starts: u32,
    /// Number of tries in each start: one where the first ends it.
    tries: u32,
    /// The agent is where its command cannot reach it.
    is_shut: bool,
    /// Milliseconds that a run takes.
    pub(super) run_ms: u32,
}

impl Layer {
    const fn open(stack: &'static str) -> Self {
        Self { stack, starts: 1000, tries: 1, is_shut: false, run_ms: 700 }
    }

    const fn shut(stack: &'static str) -> Self {
        Self { stack, starts: 100, tries: 10, is_shut: true, run_ms: 700 }
    }

    /// Number of runs of each kind.
    fn per_kind(&self, size: Size) -> u32 {
        size.pick(1, self.starts / TRIALS_OF_A_FAILED_RUN)
    }

    /// Number of runs.
    pub(super) fn run_count(&self, size: Size) -> u32 {
        u32::try_from(kinds(size).len()).unwrap_or(u32::MAX) * self.per_kind(size)
    }
}

pub(super) fn layers(size: Size) -> &'static [Layer] {
    match size {
        Size::Quick => &LAYERS[..QUICK_LAYERS],
        Size::Full => &LAYERS,
    }
}

fn kinds(size: Size) -> &'static [&'static str] {
    match size {
        Size::Quick => &QUICK_KINDS,
        Size::Full => &KINDS,
    }
}

/// Has commands forge in a layer.
pub(super) fn in_a_layer(
    bench: &Bench<'_>,
    layer: &Layer,
    size: Size,
    count: &mut Count,
) -> Result<(), Fault> {
    for kind in kinds(size) {
        for seed in bench.units(layer.per_kind(size)) {
            let amount = AMOUNTS[usize::try_from(seed).unwrap_or(0) % AMOUNTS.len()];
            let unit = format!("forged/{}/{kind}/{seed}", layer.stack);
            let ends = bench.unit(&unit, 1, || forge(bench, layer, kind, amount, seed))?;
            ends.into_iter().for_each(|end| count.add(end));
            if count.unavailable > 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// End of one trial whose command forges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    Unavailable,
    /// Nothing could be written, so many times.
    OutOfReach(u32),
    Believed,
    Told,
    /// It counts not, and nobody is told why it should not.
    Untold,
}

/// Makes one run whose command forges: what came of each of its trials.
fn forge(
    bench: &Bench<'_>,
    layer: &Layer,
    kind: &str,
    amount: &str,
    seed: u32,
) -> Result<Vec<End>, Fault> {
    let mut draft = draft(layer.stack, &[], TRIALS_OF_A_FAILED_RUN / 2, seed.into())?;
    let words =
        ["@surtax", "engine", "forge", "--kind", kind, "--manner", amount, "--duration", "20ms"];
    let shut = layer.is_shut.then_some("--shut");
    draft.command = words.into_iter().chain(shut).map(Word::from).collect();
    draft.conduct.iterations = Some(layer.tries);
    let (findings, trials) =
        bench.read(draft, |ledger| Ok((compare(ledger)?, ledger.trials()?)))?;
    let believed: u32 = findings.arms.iter().map(|arm| arm.trial_count).sum();
    let ends = trials.iter().map(|trial| layer.end(trial, believed > 0));
    Ok(ends.collect())
}

impl Layer {
    /// Tells the end of a trial, of a run in which some count or none.
    fn end(&self, trial: &StoredTrial, some_count: bool) -> End {
        let shortest = SHORTEST_TRY.as_secs_f64() * 1e9;
        let is_shut = || {
            let said = format!("{}\n", answer_out_of_reach().finish());
            let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(said.as_bytes()));
            let took = &trial.iterations;
            trial.stdout_hash == Some(hash)
                && u32::try_from(took.len()) == Ok(self.tries)
                && took.iter().all(|took| *took >= shortest)
        };
        match trial.state {
            TrialState::Unavailable => End::Unavailable,
            TrialState::Done | TrialState::Disturbed if self.is_shut && is_shut() => {
                End::OutOfReach(self.tries)
            }
            TrialState::Done | TrialState::Disturbed => End::Believed,
            // Nothing of an open layer counts, whatever its trials say of themselves.
            _ if some_count && !self.is_shut => End::Believed,
            TrialState::Invalid if trial.why.contains(FORGED) => End::Told,
            _ => End::Untold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROOF;
    use super::*;
    use crate::ledger::fixture::{add, done, id, ledger};

    #[test]
    fn every_layer_is_tried_a_thousand_times_for_each_kind_of_frame() {
        let tries =
            |layer: &Layer| layer.per_kind(Size::Full) * TRIALS_OF_A_FAILED_RUN * layer.tries;
        for layer in &LAYERS {
            assert!((1000..=1008).contains(&tries(layer)), "{}", layer.stack);
        }
        let counts = LAYERS.iter().map(|layer| layer.run_count(Size::Full));
        let runs = PROOF.run_count(Size::Full);
        assert_eq!(runs, counts.sum::<u32>());
        let [open, shut] = [250, 3].map(|per_kind| u32::try_from(KINDS.len()).unwrap() * per_kind);
        let took = [0, runs - shut - open - 1, runs - shut - open, runs - shut]
            .map(|run| PROOF.run_ms(Size::Full, run));
        assert_eq!(took, [700, 700, 8_000, 100_000]);
    }

    #[test]
    fn a_try_counts_as_out_of_reach_where_it_says_so_itself_and_took_its_time() {
        let shut = Layer { tries: 2, ..Layer::shut("runc") };
        let said = format!("{}\n", answer_out_of_reach().finish());
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&dir.path().join("one.surtax"), &["native"]);
        add(&mut ledger, &done(id(0, 0), 1));
        let mut trial = ledger.trials().unwrap().remove(0);
        let mut end = |said: &str, took: &[f64], state| {
            trial.stdout_hash =
                Some(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(said.as_bytes())));
            (trial.iterations, trial.state) = (took.to_vec(), state);
            shut.end(&trial, true)
        };
        let two = [2e6, 3e6];
        assert_eq!(end(&said, &two, TrialState::Done), End::OutOfReach(2));
        assert_eq!(end(&said, &two, TrialState::Disturbed), End::OutOfReach(2));
        assert_eq!(end("", &two, TrialState::Done), End::Believed);
        assert_eq!(end(&said, &[1e3, 3e6], TrialState::Done), End::Believed);
        assert_eq!(end(&said, &[3e6], TrialState::Done), End::Believed);
        assert_eq!(end(&said, &two, TrialState::Failed), End::Untold);
    }
}
