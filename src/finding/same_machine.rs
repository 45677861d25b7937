//! Sameness of two machines: whether a run was made where another one was.

use crate::finding::kept::is_foreign;
use crate::finding::{Findings, KeyValue};
use crate::ledger::machine::{BOOT_HASH, MACHINE_HASH, UNKNOWN};
use serde::Serialize;
use std::collections::BTreeMap;

/// Facts that are of a moment and not of a machine.
const OF_A_MOMENT: [&str; 4] =
    ["load_1min", "memory_available_bytes", "swap_free_bytes", "surtax_version"];

/// Degree to which the machine of two runs is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SameMachine {
    /// The same machine, since the same boot.
    SameBoot,
    /// The same machine, booted again.
    Same,
    /// Alike in all that is known, and perhaps the same.
    Alike,
    /// Another machine, or the same with something changed.
    Another,
}

/// A fact that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FactChange {
    /// Stable name.
    pub key: String,
    /// As it was.
    pub before: String,
    /// As it is.
    pub after: String,
}

impl FactChange {
    /// Facts that both have and that are not the same, by key.
    pub(super) fn between(
        before: &BTreeMap<String, String>,
        after: &BTreeMap<String, String>,
    ) -> Vec<Self> {
        let both = after.iter().filter_map(|(key, after)| Some((key, before.get(key)?, after)));
        let changed = both.filter(|(_, before, after)| before != after);
        let change = |(key, before, after): (&String, &String, &String)| Self {
            key: key.clone(),
            before: before.clone(),
            after: after.clone(),
        };
        changed.map(change).collect()
    }
}

impl SameMachine {
    /// Returns what may be concluded, in a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SameBoot => "the same machine, since the same boot",
            Self::Same => {
                "the same machine, booted again: where memory came to lie is another draw for all \
                 stacks"
            }
            Self::Alike => {
                "two machines that are alike in all that is known: ratios to native may be \
                 compared, times may not"
            }
            Self::Another => {
                "another machine, or one on which something has changed: a change may be the \
                 machine's, also of a ratio to native"
            }
        }
    }
}

/// Tells how far the machines of two runs are the same, and in which facts they are not.
pub(super) fn of_runs(before: &Findings, after: &Findings) -> (SameMachine, Vec<FactChange>) {
    match machines(&before.machine, &after.machine) {
        // Whoever wrote a run wrote what it says of its machine.
        (SameMachine::SameBoot | SameMachine::Same, changes)
            if is_foreign(before) || is_foreign(after) =>
        {
            (SameMachine::Alike, changes)
        }
        known => known,
    }
}

/// Tells how far two machines are the same, and in which facts they are not.
fn machines(before: &[KeyValue], after: &[KeyValue]) -> (SameMachine, Vec<FactChange>) {
    let known = |facts: &[KeyValue]| -> BTreeMap<String, String> {
        let is_lasting =
            |it: &&KeyValue| it.value != UNKNOWN && !OF_A_MOMENT.contains(&it.key.as_str());
        let lasting = facts.iter().filter(is_lasting);
        lasting.map(|it| (it.key.clone(), it.value.clone())).collect()
    };
    let (mut old, mut new) = (known(before), known(after));
    let mut same = |key: &str| {
        let pair = (old.remove(key), new.remove(key));
        pair.0.zip(pair.1).map(|(one, other)| one == other)
    };
    let (machine, boot) = (same(MACHINE_HASH), same(BOOT_HASH));
    let changes = FactChange::between(&old, &new);
    let found = match (machine, boot) {
        _ if !changes.is_empty() => SameMachine::Another,
        (Some(false), _) => SameMachine::Alike,
        (Some(true), Some(true)) => SameMachine::SameBoot,
        (Some(true), _) => SameMachine::Same,
        (None, _) => SameMachine::Alike,
    };
    (found, changes)
}
