//! The arms of a run, each with its trials: which of them count, and which do not.

use crate::ledger::{StoredTrial, TrialState};
use crate::plan::{Arm, Plan};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One arm with its trials in time order.
pub(crate) struct ArmTrials<'a> {
    /// The arm.
    pub(crate) arm: Arm,
    /// All that ended, however they ended.
    pub(crate) ended: Vec<&'a StoredTrial>,
    /// Those that count.
    pub(crate) counted: Vec<&'a StoredTrial>,
}

impl ArmTrials<'_> {
    /// The level of the command: `native` is this host.
    pub(crate) fn depth(&self) -> u8 {
        let layers = &self.arm.stack.layers;
        let is_native = layers.iter().all(|layer| layer.kind == "native");
        if is_native { 0 } else { u8::try_from(layers.len()).unwrap_or(u8::MAX) }
    }

    /// Those that count though the machine disturbed them.
    pub(crate) fn disturbed(&self) -> impl Iterator<Item = &StoredTrial> {
        self.counted.iter().copied().filter(|trial| !trial.disturbances.is_empty())
    }

    /// Disturbed attempts at trials that were repeated.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = &StoredTrial> {
        self.ended.iter().copied().filter(|trial| trial.state == TrialState::Disturbed)
    }
}

/// The arms of a plan, in its order, each with those of these trials that have ended.
pub(crate) fn columns<'a>(plan: &Plan, trials: &'a [StoredTrial]) -> Vec<ArmTrials<'a>> {
    let mut by_arm: HashMap<u32, Vec<&StoredTrial>> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.state != TrialState::Running) {
        by_arm.entry(trial.id.arm).or_default().push(trial);
    }
    let column = |arm: Arm| {
        let ended = by_arm.remove(&arm.index).unwrap_or_default();
        let counted =
            ended.iter().copied().filter(|trial| trial.state == TrialState::Done).collect();
        ArmTrials { arm, ended, counted }
    };
    plan.arms().into_iter().map(column).collect()
}

/// Blocks in which every arm that ever counts has ended; an arm that was given up holds back none.
pub(crate) fn blocks_done(columns: &[ArmTrials<'_>]) -> u32 {
    let counts = columns.iter().any(|column| !column.counted.is_empty());
    let mut whole = 0;
    let mut arms: BTreeMap<u32, usize> = BTreeMap::new();
    for column in columns.iter().filter(|column| !counts || !column.counted.is_empty()) {
        whole += 1;
        let is_to_come = |state| matches!(state, TrialState::Void | TrialState::Disturbed);
        let ended = column.ended.iter().filter(|trial| !is_to_come(trial.state));
        for block in ended.map(|trial| trial.id.block).collect::<BTreeSet<_>>() {
            *arms.entry(block).or_default() += 1;
        }
    }
    let done = arms.values().filter(|count| **count == whole).count();
    u32::try_from(done).unwrap_or(u32::MAX)
}
