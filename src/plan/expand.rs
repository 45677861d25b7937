//! From a plan to its trials, block by block.

use super::{Plan, TrialId, order};

/// The most blocks of a plan that has a time budget and no count.
pub const BLOCK_LIMIT: u32 = 100_000;

impl Plan {
    /// Returns the largest number of blocks that it may have.
    #[must_use]
    pub fn block_limit(&self) -> u32 {
        self.looks().last().copied().or(self.runs).unwrap_or(BLOCK_LIMIT)
    }

    /// Counts its arms: the baseline twice, every other stack once; and all once more beside
    /// neighbours.
    #[must_use]
    pub fn arm_count(&self) -> u32 {
        let alone = self.alone_count();
        if self.beside.is_empty() { alone } else { alone.saturating_mul(2).saturating_sub(1) }
    }

    /// Counts the arms that are alone.
    pub(super) fn alone_count(&self) -> u32 {
        let others = self.stacks.iter().filter(|stack| **stack != self.baseline).count();
        u32::try_from(others).map_or(u32::MAX, |others| others.saturating_add(2))
    }

    /// The trials of one block in the order in which they run.
    #[must_use]
    pub fn block(&self, block: u32) -> Vec<TrialId> {
        let order = order::of_block(self.seed, block, self.arm_count());
        order.into_iter().zip(0..).map(|(arm, position)| TrialId { block, position, arm }).collect()
    }

    /// Every trial in the order in which they run; with a time budget, as many as may ever run.
    pub fn trials(&self) -> impl Iterator<Item = TrialId> + '_ {
        (0..self.block_limit()).flat_map(|block| self.block(block))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;

    #[test]
    fn the_baseline_is_in_every_block_twice_and_every_other_stack_once() {
        let plan = plan(&["native", "runc", "qemu"]);
        assert_eq!(plan.arm_count(), 4);
        assert_eq!(plan.arms().len(), 4);
        assert_eq!(plan.arms()[0].stack, plan.arms()[1].stack);
        for block in 0..plan.block_limit() {
            let mut arms: Vec<u32> = plan.block(block).iter().map(|trial| trial.arm).collect();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn trials_come_in_the_order_of_their_names() {
        let trials: Vec<TrialId> = plan(&["native", "runc"]).trials().collect();
        assert_eq!(trials.len(), 3 * 10);
        assert!(trials.is_sorted());
    }

    #[test]
    fn a_time_budget_without_a_count_still_ends() {
        let plan = Plan { runs: None, time_budget_ns: Some(1), ..plan(&["native"]) };
        assert_eq!(plan.block_limit(), BLOCK_LIMIT);
    }
}
