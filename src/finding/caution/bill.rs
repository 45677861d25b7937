//! Cautions about the bill: what of it could not be divided, read, or counted finely.
//!
//! Where more CPU time was counted inside than was seen from outside, the sum is what the outside
//! saw, divided only as far in as the levels fit into each other: see `trial/outside.rs`. A sum
//! without somebody who could not be read would be too small and look whole: it is unknown.

use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::signs::{Signs, caution};
use crate::finding::number::percent;
use crate::finding::stacks::Those;
use crate::finding::ticks::are_too_coarse;
use crate::finding::{ArmFindings, BillGap, Caution};
use std::collections::BTreeSet;

/// Parts that the ticks divide, in the words of a table.
const PARTS: [(&str, &str); 2] =
    [("cpu_user_ns", "the command's own part"), ("cpu_others_ns", "what others used for it")];

/// Every caution about it.
pub(super) fn cautions(signs: &Signs<'_>) -> impl Iterator<Item = Caution> {
    [overdrawn(signs), in_ticks(signs), unread(signs)].into_iter().flatten()
}

/// Arms whose bill has a gap of such a kind.
struct Gaps<'a> {
    stacks: Those,
    gaps: Vec<&'a BillGap>,
    counted: u32,
}

impl<'a> Gaps<'a> {
    /// Those of a run; `None` where there is none.
    fn of(signs: &Signs<'a>, is_such: fn(&BillGap) -> bool) -> Option<Self> {
        let such = |arm: &'a ArmFindings| arm.bill_gap.as_ref().filter(|gap| is_such(gap));
        let arms = signs.arms.iter().filter(|arm| such(arm).is_some());
        Some(Self {
            stacks: signs.stacks(|_, arm| arm.bill_gap.as_ref().is_some_and(is_such))?,
            gaps: signs.arms.iter().filter_map(such).collect(),
            counted: arms.map(|arm| arm.trial_count).sum(),
        })
    }
}

/// More CPU time was counted inside than was seen from outside.
fn overdrawn(signs: &Signs<'_>) -> Option<Caution> {
    let Gaps { stacks, gaps, counted } = Gaps::of(signs, |gap| gap.cpu_unseen_ns > 0.0)?;
    let share = gaps.iter().map(|gap| gap.unseen_share).reduce(f64::max)?;
    let undivided: u32 = gaps.iter().map(|gap| gap.trial_count).sum();
    let measured = if signs.is_of_fixed_time { "what it measured" } else { "the wall time" };
    Some(caution(
        "bill-overdrawn",
        format!(
            "up to {} of the CPU time that was counted inside {stacks} was not seen outside: in \
             {undivided} of {counted} trials the command's own part is not known, and the sum is \
             what was seen",
            percent(share)
        ),
        format!(
            "trust {measured} and the sum there, or repeat on a machine that does nothing else: a \
             kernel that is not told when this machine takes the CPU away counts waiting as work"
        ),
    ).of_those(stacks))
}

/// A command's CPU time was counted in ticks, and used few of them.
fn in_ticks(signs: &Signs<'_>) -> Option<Caution> {
    let is_coarse =
        |column: &ArmTrials<'_>, metric: &str| are_too_coarse(column.counted.iter(), metric);
    let stacks = signs.stacks(|column, _| PARTS.iter().any(|(it, _)| is_coarse(column, it)))?;
    let parts = PARTS.iter().filter(|(it, _)| signs.columns.iter().any(|of| is_coarse(of, it)));
    let parts: Vec<&str> = parts.map(|(_, words)| *words).collect();
    Some(caution(
        "bill-in-ticks",
        format!(
            "CPU time inside {stacks} was counted in ticks of 10 ms, and few of them were used: \
             the sum is right, and {} {} known to a tick only and compared with nothing",
            parts.join(" and "),
            if parts.len() == 1 { "is" } else { "are" },
        ),
        "repeat with so many `--iterations` that the command uses at least 100 ms in a trial, \
         where the parts are asked for",
    ).of_those(stacks))
}

/// Somebody whose CPU time belongs to the bill could not be read.
fn unread(signs: &Signs<'_>) -> Option<Caution> {
    let Gaps { stacks, gaps, counted } = Gaps::of(signs, |gap| gap.partial_count > 0)?;
    let payers: BTreeSet<&str> =
        gaps.iter().flat_map(|gap| &gap.unread_payers).map(String::as_str).collect();
    let partial: u32 = gaps.iter().map(|gap| gap.partial_count).sum();
    Some(
        caution(
            "bill-partial",
            format!(
                "in {partial} of {counted} trials of {stacks} {} could not be read: gone when the \
             command had ended, or nothing tells which process that is; no sum of CPU time or \
             memory is known there of which that is a part, nothing is divided, and what payers \
             used is told by the other trials alone",
                payers.into_iter().collect::<Vec<_>>().join(" and "),
            ),
            "look whether it ended and why (the log of its service, on the machine or in the guest \
         that it ran on), and repeat; where it did not, run surtax as root and among the same \
         processes as the daemon",
        )
        .of_those(stacks),
    )
}
