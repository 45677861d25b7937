//! Planted invalidity: faults that make a comparison worthless, and whether the findings say so.
//!
//! Each fault leaves a mark when it happens, beside the ledger, and only what left one is counted
//! as tried: a fault that did not happen was not caught either. A kind that nothing catches is
//! listed with the reason and has no bar; so is one that cannot be planted on this machine.

mod accelerator;
mod caught;
mod kinds;

use super::bench::{draft, one_compared};
use super::place::TryDirectory;
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::Fault;
use crate::finding::ArmFindings;
use crate::plan::{Draft, Word};
use caught::Sign;
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
    /// Sign by which the findings say it, as far as surtax promises.
    sign: Sign,
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

pub(super) const PROOF: Proof = Proof {
    name: "invalid",
    summary: "faults planted in one stack: how many the findings tell of",
    parts: |size| {
        let kinds = KINDS.iter().map(|kind| Part::of((kind.often)(size), kind.run_ms));
        kinds.chain([Part::of(often(size), accelerator::RUN_MS)]).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    for kind in &KINDS {
        let mut count = Count::default();
        match plant_all(bench, kind, size, &mut count) {
            Ok(None) => figures.push(line(kind, count)),
            Ok(Some(why)) => figures.push(impossible(kind, &why)),
            Err(fault) => {
                figures.extend((count.planned > 0).then(|| line(kind, count)));
                return Err(fault);
            }
        }
    }
    accelerator::prove(bench, often(size), figures)
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
        match plant(bench, kind, size, seed.into())? {
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
fn plant(bench: &Bench<'_>, kind: &Kind, size: Size, seed: u64) -> Result<Try, Fault> {
    let place = TryDirectory::make(bench.directory()?)?;
    let layer = kind.layer;
    let separator = if layer.contains(':') { ',' } else { ':' };
    let compared_stack = format!("{layer}{separator}env.FAULT=1");
    let mut draft = draft(layer, &[&compared_stack], kind.blocks, seed)?;
    draft.command = ["sh", "-c", &place.for_command(kind.script)].map(Word::from).to_vec();
    draft.inherit_environment = Some(true);
    draft.environment = place.variables();
    draft.writable = vec![place.directory().to_owned()];
    // A disturbed trial is repeated three times, each in another start, and is told of before.
    draft.conduct.keep_disturbed = Some(size == Size::Quick);
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
    let was_caught = kind.sign.is_in(&findings, one_compared(&findings)?);
    Ok(Try::Made { has_happened: place.has_mark()?, was_caught })
}

fn line(kind: &Kind, count: Count) -> Figure {
    let (bar, because) = match kind.not_caught {
        Some(why) => (Bar::Shown, format!("not caught: {why}")),
        None => {
            (Bar::AtLeast(count.planned), String::from("every one that was planned must happen"))
        }
    };
    Figure::new(kind.name, [count.happened, count.caught], "caught").bar(bar, because)
}

fn impossible(kind: &Kind, why: &str) -> Figure {
    line(kind, Count::default()).bar(Bar::Shown, format!("cannot be planted here: {why}"))
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
        let (first, run_count) = (often(Size::Full), PROOF.run_count(Size::Full));
        let took = |run| PROOF.run_ms(Size::Full, run);
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
