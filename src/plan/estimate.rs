//! Estimate of how long a plan takes: from what its trials took so far, and from guesses before
//! that.
//!
//! The guesses are of the order of magnitude of an idle machine. They decide only what is shown
//! before the first block has ended; nothing measured depends on them.

use super::Plan;
use crate::driver;
use crate::layer::{LayerSpec, StackSpec, StartGuess};
use std::time::Duration;

/// Duration that is assumed of a command before it ran once.
const COMMAND_GUESS: Duration = Duration::from_secs(1);

/// Slowdown, as a multiple, where every instruction is translated.
const TRANSLATED: u32 = 6;

/// Number of the latest durations of an arm that count.
const MEMORY: usize = 64;

/// Time that a trial of each arm costs, start and stop included.
#[derive(Clone, Debug)]
pub struct Costs {
    arms: Vec<ArmCost>,
    /// Number of runs of the command in one trial, to warm up and measured.
    command_runs: u32,
}

#[derive(Clone, Debug)]
struct ArmCost {
    start: Duration,
    slowdown: u32,
    known: Vec<Duration>,
    is_dropped: bool,
}

impl Costs {
    /// The guesses for a plan of which nothing has run.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let arms = plan.arms().into_iter().map(|arm| {
            let (start, slowdown) = guess(&arm.stack);
            ArmCost { start, slowdown, known: Vec::new(), is_dropped: false }
        });
        Self {
            arms: arms.collect(),
            command_runs: plan.warm_up.saturating_add(plan.conduct.iterations),
        }
    }

    /// Takes in what one trial cost, from its first act until nothing was left.
    pub fn learn(&mut self, arm: u32, whole: Duration) {
        if let Some(arm) = self.arms.get_mut(arm as usize) {
            if arm.known.len() == MEMORY {
                arm.known.remove(0);
            }
            arm.known.push(whole);
        }
    }

    /// Takes note that an arm will not run any more: from now on it costs nothing.
    pub fn drop_arm(&mut self, arm: u32) {
        if let Some(arm) = self.arms.get_mut(arm as usize) {
            arm.is_dropped = true;
        }
    }

    /// Returns the time that the next trial of an arm will cost: the median so far, else a guess.
    #[must_use]
    pub fn trial(&self, arm: u32) -> Duration {
        let arm = self.arms.get(arm as usize).filter(|arm| !arm.is_dropped);
        let Some(arm) = arm else { return Duration::ZERO };
        median(&arm.known).unwrap_or_else(|| {
            let command = self.command().saturating_mul(self.command_runs);
            arm.start.saturating_add(command.saturating_mul(arm.slowdown))
        })
    }

    /// Returns the time that a whole block will cost.
    #[must_use]
    pub fn block(&self) -> Duration {
        (0u32..).take(self.arms.len()).map(|arm| self.trial(arm)).sum()
    }

    /// Returns the number of blocks in all, when `blocks_done` are done and `elapsed` has passed.
    #[must_use]
    pub fn blocks(&self, plan: &Plan, blocks_done: u32, elapsed: Duration) -> u32 {
        let Some(budget) = plan.time_budget() else { return plan.block_limit() };
        let block = self.block().as_nanos().max(1);
        let more = budget.saturating_sub(elapsed).as_nanos() / block;
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        blocks_done.saturating_add(more).clamp(1, plan.block_limit().max(1))
    }

    /// Returns the time that the whole plan will cost.
    #[must_use]
    pub fn total(&self, plan: &Plan) -> Duration {
        self.block().saturating_mul(self.blocks(plan, 0, Duration::ZERO))
    }

    /// Returns the time that is still to come, when `blocks_done` blocks are done, these arms of
    /// the next one have also ended, and `elapsed` has passed.
    #[must_use]
    pub fn left(
        &self,
        plan: &Plan,
        blocks_done: u32,
        ended: &[u32],
        elapsed: Duration,
    ) -> Duration {
        let spent: Duration = ended.iter().map(|&arm| self.trial(arm)).sum();
        let before_block = elapsed.saturating_sub(spent);
        let blocks = self.blocks(plan, blocks_done, before_block).saturating_sub(blocks_done);
        self.block().saturating_mul(blocks).saturating_sub(spent)
    }

    /// The command's own duration: what the known arms say, less their guessed start.
    fn command(&self) -> Duration {
        let said: Vec<Duration> = self
            .arms
            .iter()
            .filter_map(|arm| {
                let whole = median(&arm.known)?;
                Some(whole.saturating_sub(arm.start) / arm.slowdown / self.command_runs)
            })
            .collect();
        median(&said).unwrap_or(COMMAND_GUESS)
    }
}

fn median(durations: &[Duration]) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Start and stop of a stack, and how much slower a command is in it.
fn guess(stack: &StackSpec) -> (Duration, u32) {
    let mut slowdown = 1;
    let mut start = Duration::ZERO;
    for layer in &stack.layers {
        let milliseconds = start_milliseconds(layer);
        start += Duration::from_millis(milliseconds) * slowdown;
        if translates(layer) {
            slowdown = (slowdown * TRANSLATED).min(TRANSLATED.pow(2));
        }
    }
    (start, slowdown)
}

/// Of a layer that only another surtax knows.
const UNKNOWN: StartGuess = StartGuess::of(2_000);

fn start_milliseconds(layer: &LayerSpec) -> u64 {
    let guess =
        driver::descriptor(&layer.kind).map_or(UNKNOWN, |descriptor| descriptor.start_guess);
    if translates(layer) { guess.translated_milliseconds } else { guess.milliseconds }
}

fn translates(layer: &LayerSpec) -> bool {
    driver::descriptor(&layer.kind).is_some_and(|descriptor| (descriptor.translates)(layer))
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_knowledge_a_translated_machine_is_expected_to_take_longest() {
        let costs = Costs::of(&plan(&["native", "runc", "qemu:accel=tcg", "qemu:accel=tcg+runc"]));
        let trials: Vec<Duration> = [0, 2, 3, 4].map(|arm| costs.trial(arm)).to_vec();
        assert!(trials.is_sorted() && trials[3] > trials[2], "{trials:?}");
    }

    #[test]
    fn what_was_measured_replaces_the_guess_and_teaches_about_the_other_arms() {
        let plan = plan(&["native", "runc"]);
        let mut costs = Costs::of(&plan);
        costs.learn(0, 60 * SECOND);
        costs.learn(0, 62 * SECOND);
        costs.learn(0, 61 * SECOND);
        assert_eq!(costs.trial(0), 61 * SECOND);
        assert!(costs.trial(2) > 55 * SECOND, "{:?}", costs.trial(2));
        costs.learn(99, SECOND);
    }

    #[test]
    fn an_arm_that_was_dropped_costs_nothing_more() {
        let mut costs = Costs::of(&plan(&["native", "runc"]));
        let before = costs.block();
        let dropped = costs.trial(2);
        costs.drop_arm(2);
        costs.drop_arm(99);
        assert_eq!(costs.block(), before - dropped);
    }

    #[test]
    fn time_left_shrinks_by_each_trial_that_ends() {
        let plan = plan(&["native", "runc"]);
        let mut costs = Costs::of(&plan);
        (0..3).for_each(|arm| costs.learn(arm, 2 * SECOND));
        assert_eq!(costs.total(&plan), 60 * SECOND);
        assert_eq!(costs.left(&plan, 0, &[], Duration::ZERO), 60 * SECOND);
        assert_eq!(costs.left(&plan, 4, &[2], 26 * SECOND), 34 * SECOND);
        assert_eq!(costs.left(&plan, 9, &[2, 0, 1], 60 * SECOND), Duration::ZERO);
        assert_eq!(costs.left(&plan, 10, &[], 60 * SECOND), Duration::ZERO);
    }

    #[test]
    fn a_budget_holds_whole_blocks_and_always_one() {
        let plan =
            Plan { runs: None, time_budget_ns: Some(20_000_000_000), ..plan(&["native", "runc"]) };
        let mut costs = Costs::of(&plan);
        (0..3).for_each(|arm| costs.learn(arm, 2 * SECOND));
        assert_eq!(costs.blocks(&plan, 0, Duration::ZERO), 3);
        assert_eq!(costs.total(&plan), 18 * SECOND);
        let short = Plan { time_budget_ns: Some(1), ..plan };
        assert_eq!(costs.blocks(&short, 0, Duration::ZERO), 1);
    }

    #[test]
    fn a_count_and_a_budget_end_at_whichever_comes_first() {
        let plan =
            Plan { runs: Some(2), time_budget_ns: Some(1_000_000_000_000), ..plan(&["native"]) };
        let costs = Costs::of(&plan);
        assert_eq!(costs.blocks(&plan, 0, Duration::ZERO), 2);
        assert_eq!(costs.blocks(&plan, 2, SECOND), 2);
    }
}
