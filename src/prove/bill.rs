//! The bill beside a build: how many trials publish more CPU time than was seen from outside.
//!
//! A machine with too few CPUs for all takes them away from gVisor and from a guest, whose kernels
//! then count waiting as work. The sum of each trial is counted again, plainly, from what each
//! payer of level 0 was read to have used, and held against what the whole machine was: its idle
//! time comes from other counters than those of processes and groups.

use super::bench::{draft, toil};
use super::load::CROWD;
use super::toil::Work;
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::Fault;
use crate::finding::compare;
use crate::finding::estimate::float;
use crate::ledger::{StoredTrial, TrialState};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use surtax_instrument::wire::Reading;

/// The layers whose kernels are not told when the CPU is taken away, how many runs are made of
/// each, and how long one takes.
const LAYERS: [CountedLayer; 2] = [
    CountedLayer { layer: "gvisor", quick: 1, full: 56, run_ms: 12_000 },
    CountedLayer { layer: "qemu:accel=tcg", quick: 0, full: 56, run_ms: 300_000 },
];

/// Time that the command works.
const WORKS_FOR: Duration = Duration::from_millis(100);

/// Blocks of a run; each has three trials of the layer.
const BLOCKS: u32 = 6;

/// By so much of what was seen from outside a sum may exceed it. Written down again on purpose, as
/// the ticks are: a proof that took them from `trial/outside.rs` would move with them.
const ABOVE_PERCENT: u64 = 5;

/// Nanoseconds by which the machine's own counter may be wrong: a tick of 10 ms at each end.
const TICKS_NS: u64 = 20_000_000;

/// Nanoseconds by which a claim that divides may be larger than what was seen of those who carry
/// it.
const ROUNDING_NS: u64 = 100_000;

struct CountedLayer {
    layer: &'static str,
    quick: u32,
    full: u32,
    run_ms: u32,
}

pub(super) const PROOF: Proof = Proof {
    name: "bill",
    summary: "CPU time in gVisor and a guest beside a build: how many sums are above what was seen \
              from outside",
    parts: |size| {
        LAYERS.iter().map(|it| Part::alone(it.part(), it.runs(size), it.run_ms)).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    for asked in &LAYERS {
        if bench.takes(&asked.part(), asked.runs(size)) {
            let mut count = Count::default();
            let done = count_all(bench, asked, size, &mut count);
            figures.extend(count.lines(asked.layer));
            done?;
        }
    }
    Ok(())
}

impl CountedLayer {
    fn part(&self) -> String {
        format!("bill/{}", self.layer)
    }

    fn runs(&self, size: Size) -> u32 {
        size.pick(self.quick, self.full)
    }
}

/// Counts of one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    /// Trials whose sum could be counted again.
    tried: u32,
    /// Those whose sum, or whose parts together, are above what was seen.
    above: u32,
    /// Those that are divided though more was counted inside.
    overdivided: u32,
    /// Those that have a sum and no parts.
    undivided: u32,
    /// Those whose sum is above all that the machine's CPUs did meanwhile.
    above_machine: u32,
    /// Those that could be held against the machine.
    held: u32,
    /// Reason why the layer could not be tried; `None` where it could.
    impossible: Option<String>,
}

fn count_all(
    bench: &Bench<'_>,
    asked: &CountedLayer,
    size: Size,
    count: &mut Count,
) -> Result<(), Fault> {
    let mut build = None;
    for seed in bench.units(asked.runs(size)) {
        let unit = format!("bill/{}/{seed}", asked.layer);
        count.join(bench.unit(&unit, 1, || {
            if build.is_none() {
                build = Some(bench.beside(CROWD)?);
            }
            count_one(bench, asked.layer, seed)
        })?);
        if count.tried == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Makes one run beside the build, and counts its trials.
fn count_one(bench: &Bench<'_>, layer: &str, seed: u32) -> Result<Count, Fault> {
    let amount = Work::Loops.amount_of(WORKS_FOR)?;
    let separator = if layer.contains(':') { ',' } else { ':' };
    let baseline = format!("{layer}{separator}env.{}={amount}", Work::Loops.variable());
    let twin = format!("{baseline},env.SURTAX_TOIL_TWIN=1");
    let draft = toil(draft(&baseline, &[&twin], BLOCKS, seed.into())?)?;
    let (findings, trials, machine) = bench.read(draft, |ledger| {
        Ok((compare(ledger)?, ledger.trials()?, ledger.conditions_of("machine_cpu_ns")?))
    })?;
    let mut count = Count::default();
    for trial in trials.iter().filter(|trial| trial.state == TrialState::Done) {
        count.add(trial, machine.get(&trial.id).copied());
    }
    if count.tried == 0 {
        let trouble = findings.arms.iter().find_map(|arm| arm.trouble.as_ref());
        let why = trouble.map_or("no trial of it counts", |trouble| &trouble.why);
        count.impossible = Some(why.to_owned());
    }
    Ok(count)
}

impl Count {
    fn join(&mut self, other: Self) {
        let Self { tried, above, overdivided, undivided, above_machine, held, impossible } = other;
        self.tried += tried;
        self.above += above;
        self.overdivided += overdivided;
        self.undivided += undivided;
        self.above_machine += above_machine;
        self.held += held;
        self.impossible = impossible;
    }

    /// Counts a trial; `machine` is all that the machine's CPUs did meanwhile, in nanoseconds.
    fn add(&mut self, trial: &StoredTrial, machine: Option<f64>) {
        let outside = trial.readings.iter().filter(|reading| reading.level == 0);
        let used = |sum: u64, ns: u64| sum.saturating_add(ns);
        let seen = outside.filter_map(Reading::cpu_total).map(|it| it.0).fold(0, used);
        let sample = |metric| trial.sample(metric).map(|sample| sample.whole);
        let Some(total) = sample("cpu_total_ns") else { return };
        let command = sample("cpu_user_ns").zip(sample("cpu_system_ns")).map(|(a, b)| a + b);
        let parts = command.zip(sample("cpu_others_ns")).map(|(command, others)| command + others);
        let most = seen + seen * ABOVE_PERCENT / 100;
        self.tried += 1;
        self.above += u32::from(total > most || parts.is_some_and(|parts| parts > most));
        self.undivided += u32::from(parts.is_none());
        if let Some(machine) = machine {
            let most = machine * (1.0 + float(ABOVE_PERCENT) / 100.0) + float(TICKS_NS);
            self.held += 1;
            self.above_machine += u32::from(float(total) > most);
        }
        let unseen = sample("cpu_unseen_ns").unwrap_or(0);
        self.overdivided += u32::from(parts.is_some() && unseen > ROUNDING_NS);
    }

    fn lines(&self, layer: &str) -> Vec<Figure> {
        let above = "above what was seen from outside";
        if let Some(why) = &self.impossible {
            let because = format!("cannot be tried here: {why}");
            return vec![Figure::new(layer, [self.tried, 0], above).bar(Bar::Shown, because)];
        }
        if self.tried == 0 {
            return Vec::new();
        }
        let line = |tried, found, what| Figure::new(layer, [tried, found], what);
        let none = Bar::AtMost(0);
        vec![
            line(self.tried, self.above, above)
                .bar(none, "what was counted inside only divides what was seen"),
            line(self.tried, self.overdivided, "divided by a claim that does not fit")
                .bar(none, "a part that is negative must not be shown as zero"),
            line(self.held, self.above_machine, "above all that the machine did").bar(
                none,
                "the machine's counters of idle time are other than those of its payers",
            ),
            line(self.tried, self.undivided, "left undivided")
                .bar(Bar::Shown, "more was counted inside than was seen"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::{add, done, id, ledger};

    fn counted(metrics: &[(&str, u64)]) -> Count {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&dir.path().join("one.surtax"), &["native"]);
        add(&mut ledger, &done(id(0, 0), 500_000_000));
        let mut trial = ledger.trials().unwrap().remove(0);
        for (metric, whole) in metrics {
            let sample =
                trial.samples.iter_mut().find(|sample| *sample.metric == **metric).unwrap();
            sample.whole = *whole;
        }
        let mut count = Count::default();
        count.add(&trial, Some(700_000_000.0));
        count
    }

    #[test]
    fn a_sum_or_parts_above_what_was_seen_miss_the_bar() {
        let is_met = |count: &Count| count.lines("gvisor").iter().all(Figure::is_met);
        assert!(is_met(&counted(&[])));
        let sum = counted(&[("cpu_total_ns", 900_000_000)]);
        assert!(sum.above == 1 && !is_met(&sum));
        assert!(sum.above_machine == 1 && counted(&[]).above_machine == 0);
        let parts = counted(&[("cpu_others_ns", 900_000_000)]);
        assert!(parts.above == 1 && !is_met(&parts));
    }

    #[test]
    fn a_layer_that_is_not_there_is_no_success() {
        let count = Count { impossible: Some(String::from("no runsc")), ..Count::default() };
        assert_eq!(count.lines("gvisor").first().map(|line| line.bar), Some(Bar::Shown));
    }
}
