//! At once: four surtaxes on one machine, with one data directory, round after round.
//!
//! Each compares another stack with `native`, two of them a nested one, in a part of the rounds one
//! with a guest, whose own surtax sees what this machine's keep. All must end with status 0,
//! each must have kept a run of its own in which every trial counts, and when all have ended the
//! machine must be as before.

use super::child::{ChildSurtax, compare, text, trials};
use super::kills;
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::{Doing, Fault};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Stack that the others are compared with.
const BASELINE: &str = "native";

/// Two of these go into each round, and two of [`kills::stacks`].
const NESTED: [&str; 4] = ["runc+runc", "runc+bubblewrap", "crun+runc", "docker+runc"];

/// One of these stands in a round of guests for one of [`NESTED`].
const STACKS_WITH_GUEST: [&str; 2] = ["qemu+runc", "docker+qemu"];

/// Number of blocks in a run.
const BLOCKS: u32 = 2;

/// Arms of a plan that compares a stack with `native`, which is its own control.
const ARMS: u64 = 3;

pub(super) const PROOF: Proof = Proof {
    name: "at-once",
    summary: "four surtaxes at once: whether one disturbs another's run, or leaves something",
    parts: |size| {
        parts(size)
            .map(|part| Part::alone(part.name(), 4 * part.count(size), part.run_ms))
            .collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    for part in parts(size) {
        if !bench.takes(&part.name(), 4 * part.count(size)) {
            continue;
        }
        let mut rounds = Vec::new();
        let done = (0..part.count(size)).try_for_each(|number| {
            let round = bench.unit(&format!("{}/{number}", part.name()), 4, || {
                let round = round(bench, part, number)?;
                (0..4).try_for_each(|_| bench.told())?;
                Ok(round)
            })?;
            rounds.push(round);
            Ok(())
        });
        figures.extend(lines(part, &rounds));
        done?;
    }
    Ok(())
}

/// A part of the rounds.
struct Rounds {
    word: &'static str,
    /// Number of them in a quick campaign, and in full.
    counts: (u32, u32),
    /// One of the four stacks is a guest.
    has_guest: bool,
    /// Rough time that one of its runs takes, in milliseconds.
    run_ms: u32,
}

const CONTAINERS: Rounds =
    Rounds { word: "containers", counts: (1, 200), has_guest: false, run_ms: 2500 };
const GUESTS: Rounds = Rounds { word: "guests", counts: (0, 50), has_guest: true, run_ms: 12_000 };

impl Rounds {
    fn name(&self) -> String {
        format!("at-once/{}", self.word)
    }

    fn count(&self, size: Size) -> u32 {
        size.pick(self.counts.0, self.counts.1)
    }
}

fn parts(size: Size) -> impl Iterator<Item = &'static Rounds> {
    [&CONTAINERS, &GUESTS].into_iter().filter(move |part| part.count(size) > 0)
}

/// Result of four at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Round {
    /// Message of each that failed, and its stack.
    failures: Vec<String>,
    /// Reason why the runs that are kept are not those that were made; `None` if they are.
    collision: Option<String>,
    /// Things that were there and had not been before.
    left: Vec<String>,
}

fn round(bench: &Bench<'_>, part: &Rounds, number: u32) -> Result<Round, Fault> {
    let mut chance = ChaCha8Rng::seed_from_u64(number.into());
    let stacks = four(part, &mut chance);
    let surtax = ChildSurtax::new(bench, "at-once")?;
    let before = surtax.census()?;
    let started = stacks.map(|stack| (stack, surtax.start(&compare(stack, BLOCKS, "0.05"))));
    let mut round = Round::default();
    // All are waited for, whatever one of them does: nobody runs on beside the next round.
    let ended = started.map(|(stack, child)| {
        (stack, child.and_then(|child| child.wait_with_output().doing("wait for one of four runs")))
    });
    for (stack, output) in ended {
        let output = output?;
        if !output.status.success() {
            let said = format!("`{stack}`, {}: {}", output.status, text(&output.stderr));
            round.failures.push(said);
        }
    }
    if round.failures.is_empty() {
        round.collision = collision(&surtax)?;
    }
    round.left = surtax.difference(&before)?;
    Ok(round)
}

/// Four stacks, no two of them alike, in any order.
fn four(part: &Rounds, chance: &mut ChaCha8Rng) -> [&'static str; 4] {
    let mut plain: Vec<&str> = kills::stacks().filter(|stack| *stack != BASELINE).collect();
    let mut nested = NESTED;
    plain.shuffle(chance);
    nested.shuffle(chance);
    let mut all = [plain[0], plain[1], nested[0], nested[1]];
    if part.has_guest {
        all[3] = STACKS_WITH_GUEST[chance.random_range(0..STACKS_WITH_GUEST.len())];
    }
    all.rotate_left(chance.random_range(0..4));
    all
}

/// Checks that each has a run of its own, with all of its trials; returns what is wrong, if
/// anything.
fn collision(surtax: &ChildSurtax) -> Result<Option<String>, Fault> {
    let runs = kept(&surtax.runs())?;
    if runs.len() != 4 {
        return Ok(Some(format!("{} runs are kept, and not 4", runs.len())));
    }
    for run in runs {
        let shown = surtax.ask(&["show", &run.to_string_lossy(), "--format", "json"])?;
        let done = trials(&shown.stdout, |state| state == "done");
        if done != u64::from(BLOCKS) * ARMS {
            return Ok(Some(format!("{done} trials count in one of the runs")));
        }
    }
    Ok(None)
}

fn kept(directory: &Path) -> Result<Vec<PathBuf>, Fault> {
    let entries = std::fs::read_dir(directory).doing("list the runs that are kept")?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|it| it == "surtax")).collect())
}

fn lines(part: &Rounds, rounds: &[Round]) -> [Figure; 3] {
    let tried = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
    let failures: Vec<&String> = rounds.iter().flat_map(|round| &round.failures).collect();
    let collisions: Vec<&String> = rounds.iter().filter_map(|it| it.collision.as_ref()).collect();
    let left: Vec<&String> = rounds.iter().flat_map(|round| &round.left).collect();
    [
        ("runs that failed beside three others", 4 * tried, failures),
        ("rounds whose runs were mixed up", tried, collisions),
        ("things left when all had ended", tried, left),
    ]
    .map(|(what, tried, found)| {
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let first = found.first().map(|it| format!("first: {it}"));
        Figure::new(format!("four at once, {}", part.word), [tried, count], what)
            .bar(Bar::AtMost(0), first.unwrap_or_else(|| String::from("none may")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_four_stacks_of_which_two_are_nested_or_one_and_a_guest() {
        for seed in 0..50 {
            for part in [&CONTAINERS, &GUESTS] {
                let stacks = four(part, &mut ChaCha8Rng::seed_from_u64(seed));
                let of = |these: &[&str]| stacks.iter().filter(|it| these.contains(*it)).count();
                let different: std::collections::HashSet<_> = stacks.iter().collect();
                let guests = usize::from(part.has_guest);
                let found = (of(&NESTED), of(&STACKS_WITH_GUEST), different.len());
                assert_eq!(found, (2 - guests, guests, 4), "{stacks:?}");
            }
        }
    }

    #[test]
    fn one_failure_one_run_too_few_or_one_thing_left_misses_a_bar() {
        let met = |round: Round| {
            lines(&CONTAINERS, &[Round::default(), round])
                .iter()
                .map(Figure::is_met)
                .collect::<Vec<_>>()
        };
        let said = || String::from("something");
        assert_eq!(met(Round::default()), [true, true, true]);
        assert_eq!(met(Round { failures: vec![said()], ..Round::default() }), [false, true, true]);
        assert_eq!(met(Round { collision: Some(said()), ..Round::default() }), [true, false, true]);
        assert_eq!(met(Round { left: vec![said()], ..Round::default() }), [true, true, false]);
    }
}
