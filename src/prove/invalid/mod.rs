//! Planted invalidity: faults that make a comparison worthless, and whether the findings say so.
//!
//! Each fault leaves a mark when it happens, beside the ledger, and only what left one is counted
//! as tried: a fault that did not happen was not caught either. A kind that nothing catches is
//! listed with the reason and has no bar; so is one that cannot be planted on this machine.

mod accelerator;
mod caught;
mod kinds;

use super::bench::{compared, draft};
use super::place::TryDirectory;
use super::proof::ended;
use super::{Bar, Bench, Figure, Proof, Size, Stopped};
use crate::fault::Fault;
use crate::finding::{ArmFindings, Findings};
use crate::plan::{Draft, Word};
use kinds::KINDS;

/// A fault: what happens in the compared stack and not in its baseline, which is the same layer.
struct Kind {
    name: &'static str,
    layer: &'static str,
    blocks: u32,
    /// Number of times that it is planted.
    often: fn(Size) -> u32,
    /// Rough time that each of them takes, in milliseconds.
    run_ms: u32,
    /// Script of the shell there; `FAULT` is set in the compared stack alone, and `mark` leaves a
    /// mark.
    script: &'static str,
    /// Makes whatever else tells the two stacks apart.
    change: fn(&Bench<'_>, &TryDirectory, &mut Draft) -> Result<(), Fault>,
    /// Actor that does it from outside; `None` if the command does it itself.
    actor: Option<Actor>,
    /// Tells whether the findings say it, as far as surtax promises.
    is_caught: fn(&Findings, &ArmFindings) -> bool,
    /// Reason why it is not expected to be caught.
    not_caught: Option<&'static str>,
}

/// A process beside the trials that does something when the command asks, until it asks no more.
struct Actor {
    /// Shell functions `begin` and `end`.
    script: &'static str,
    /// Facts that the script must know of this machine, as assignments; `None` where it could do
    /// nothing.
    knows: fn(&Bench<'_>) -> Option<String>,
}

/// Counts of one fault that was planted.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Number of tries.
    planned: u32,
    /// Number of times that the fault happened.
    happened: u32,
    /// Number of times that it happened and was told of.
    caught: u32,
}

/// One try.
enum Try {
    /// The layer or the actor cannot do its part here: why.
    Impossible(String),
    Made {
        has_happened: bool,
        was_caught: bool,
    },
}

pub(super) struct Invalid;

impl Proof for Invalid {
    fn name(&self) -> &'static str {
        "invalid"
    }

    fn summary(&self) -> &'static str {
        "faults planted in one stack: how many the findings tell of"
    }

    fn run_count(&self, size: Size) -> u32 {
        let of_kinds: u32 = KINDS.iter().map(|kind| (kind.often)(size)).sum();
        of_kinds + often(size)
    }

    fn run_ms(&self, size: Size, run: u32) -> u32 {
        let mut before = 0;
        let kind = KINDS.iter().find(|kind| {
            before += (kind.often)(size);
            run < before
        });
        kind.map_or(accelerator::RUN_MS, |kind| kind.run_ms)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let mut lines = Vec::new();
        for kind in &KINDS {
            let mut count = Count::default();
            let done = plant_all(bench, kind, size, &mut count);
            match done {
                Ok(None) => lines.push(line(kind, count)),
                Ok(Some(why)) => lines.push(impossible(kind, &why)),
                Err(fault) => {
                    lines.extend((count.planned > 0).then(|| line(kind, count)));
                    return Err(Stopped { fault, lines });
                }
            }
        }
        ended(accelerator::prove(bench, often(size), &mut lines), lines)
    }
}

/// Returns how often a fault is planted that takes a second or two.
fn often(size: Size) -> u32 {
    size.pick(2, 20)
}

/// Returns how often one is planted that takes virtual machines.
fn seldom(size: Size) -> u32 {
    size.pick(1, 20)
}

/// Plants a fault as often as is due; why not, where this machine does not allow it.
fn plant_all(
    bench: &Bench<'_>,
    kind: &Kind,
    size: Size,
    count: &mut Count,
) -> Result<Option<String>, Fault> {
    for seed in bench.units((kind.often)(size)) {
        match plant(bench, kind, seed.into())? {
            Try::Impossible(why) => return Ok(Some(why)),
            Try::Made { has_happened, was_caught } => {
                count.planned += 1;
                count.happened += u32::from(has_happened);
                count.caught += u32::from(has_happened && was_caught);
            }
        }
    }
    Ok(None)
}

/// Plants a fault once.
fn plant(bench: &Bench<'_>, kind: &Kind, seed: u64) -> Result<Try, Fault> {
    let place = TryDirectory::make(bench.directory()?)?;
    let layer = kind.layer;
    let separator = if layer.contains(':') { ',' } else { ':' };
    let compared_stack = format!("{layer}{separator}env.FAULT=1");
    let mut draft = draft(layer, &[&compared_stack], kind.blocks, seed)?;
    draft.command = ["sh", "-c", &place.for_command(kind.script)].map(Word::from).to_vec();
    draft.inherit_environment = Some(true);
    draft.environment = place.variables();
    draft.writable = vec![place.directory().to_owned()];
    (kind.change)(bench, &place, &mut draft)?;
    let actor = match &kind.actor {
        None => None,
        Some(actor) => match (actor.knows)(bench) {
            Some(known) => Some(bench.beside(&place.for_actor(&known, actor.script))?),
            None => return Ok(Try::Impossible(String::from("this machine has nothing to do it"))),
        },
    };
    let findings = bench.findings(draft)?;
    drop(actor);
    let is_gap = |arm: &ArmFindings| arm.trials.iter().all(|trial| trial.state == "unavailable");
    if let Some(gap) = findings.arms.first().filter(|arm| is_gap(arm)) {
        let why = gap.trouble.as_ref().map_or("its layer is not usable", |trouble| &trouble.why);
        return Ok(Try::Impossible(why.to_owned()));
    }
    let arm = compared(&findings).first();
    let arm = arm.ok_or_else(|| Fault::bug("a fault was planted in no arm"))?;
    let was_caught = (kind.is_caught)(&findings, arm);
    Ok(Try::Made { has_happened: place.has_mark()?, was_caught })
}

fn line(kind: &Kind, count: Count) -> Figure {
    let (bar, because) = match kind.not_caught {
        Some(why) => (Bar::Shown, format!("not caught: {why}")),
        None => {
            (Bar::AtLeast(count.planned), String::from("every one that was planned must happen"))
        }
    };
    Figure {
        proof: "invalid",
        part: kind.name.to_owned(),
        tried: count.happened,
        found: count.caught,
        what: "caught",
        bar,
        because,
    }
}

fn impossible(kind: &Kind, why: &str) -> Figure {
    let because = format!("cannot be planted here: {why}");
    Figure { bar: Bar::Shown, because, ..line(kind, Count::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_did_not_happen_was_not_caught_either() {
        let met = |planned, happened, caught| {
            line(&KINDS[0], Count { planned, happened, caught }).is_met()
        };
        assert!(met(2, 2, 2));
        assert!(!met(2, 1, 1) && !met(2, 2, 1));
        let of_a_share =
            |planned| line(&KINDS[0], Count { planned, ..Count::default() }).of_a_share();
        assert!(!of_a_share(1).is_met(), "planted, and it did not happen");
        assert_eq!(of_a_share(0).bar, Bar::Shown, "not planted in this share");
    }

    #[test]
    fn a_fault_that_cannot_be_planted_is_no_success() {
        let line = impossible(&KINDS[0], "no such layer");
        assert_eq!((line.tried, line.found, line.bar), (0, 0, Bar::Shown));
    }

    #[test]
    fn a_run_takes_as_long_as_its_kind_does() {
        let (first, run_count) = (often(Size::Full), Invalid.run_count(Size::Full));
        let took = |run| Invalid.run_ms(Size::Full, run);
        assert_eq!((took(0), took(first)), (KINDS[0].run_ms, KINDS[1].run_ms));
        assert_eq!(took(run_count - 1), accelerator::RUN_MS);
        let natives = KINDS.iter().take_while(|kind| kind.layer == "native").count();
        let qemu = first * u32::try_from(natives).unwrap();
        assert!(took(qemu) > 10 * took(0));
    }

    #[test]
    fn each_kind_has_a_name_of_its_own_and_enough_are_to_be_caught() {
        let names: std::collections::BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        let caught = KINDS.iter().filter(|kind| kind.not_caught.is_none());
        let full = caught.filter(|kind| (kind.often)(Size::Full) >= 20);
        assert!(full.count() >= 10);
    }
}
