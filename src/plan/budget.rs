//! Budgets: whether what a plan asks for can be reached before it ends, as far as that can be known
//! before it begins.
//!
//! How much a command varies is found out by running it. But none is known that varies by less than
//! [`QUIET_PPM`], so what even that one would not reach is refused, or said.

use super::expand::BLOCK_LIMIT;
use super::refuse::Draft;
use super::{Plan, percentage};
use crate::fault::Fault;
use surtax_statistics::{LOOK_FROM, TooFew};

/// The deviation of a command that hardly varies at all: 0.1 %.
const QUIET_PPM: u64 = 1_000;

/// Half the width of a 95 % interval in thousandths of the deviation of one trial, times the root
/// of the number of blocks: 1.96 √1.5, since each block has two baseline trials.
const HALF_WIDTH_THOUSANDTHS: u64 = 2_400;

impl Draft {
    /// Refuses a precision that no run of this plan could reach.
    pub(super) fn check_precision(&self) -> Result<(), Fault> {
        let Some(precision) = self.precision_ppm else { return Ok(()) };
        if let Some(workload) = &self.workload
            && let definition = workload.resolve()?
            && definition.is_of_fixed_time
            && definition.main_metric().is_none()
        {
            let name = workload.name.escape_debug();
            let message = format!(
                "`precision` is that of wall time and of the first metric, and `{name}` runs for a \
                 fixed time and has no metric that is always there"
            );
            let fault = self.refuse("precision", message);
            return Err(fault.hint("ask for `--runs 20`, or for a time"));
        }
        let least = u32::try_from(LOOK_FROM).unwrap_or(u32::MAX);
        if let Some(runs) = self.runs.filter(|&runs| runs < least) {
            let message = format!("`precision` with `runs = {runs}` can never be reached");
            return Err(self.refuse("precision", message).hint(format!(
                "ask for at least {least} runs, or for a time, or leave the count out: before \
                 block {least} an interval may be narrow by accident"
            )));
        }
        let blocks = blocks_at_best(precision);
        if blocks > u64::from(BLOCK_LIMIT) {
            let shown = percentage::text(precision);
            let message = format!(
                "`precision = {shown}` cannot be reached: a command that varies by 0.1 % takes \
                 {blocks} blocks, and a plan has at most {BLOCK_LIMIT}"
            );
            let fault = self.refuse("precision", message);
            return Err(fault.hint("ask for `0.01%` or more; `2%` is usual"));
        }
        Ok(())
    }
}

impl Plan {
    /// The number of runs that is asked for and that which an interval takes, where it is too few
    /// for one.
    pub(crate) fn runs_too_few(&self) -> Option<(u32, usize)> {
        let (Some(runs), Err(TooFew { need, .. })) = (self.runs, surtax_statistics::overhead(&[]))
        else {
            return None;
        };
        usize::try_from(runs).is_ok_and(|runs| runs < need).then_some((runs, need))
    }
}

/// Lists what a plan asks for and will hardly get.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let is_compared = plan.stacks.len() > 1 || !plan.beside.is_empty();
    if let Some((runs, need)) = plan.runs_too_few()
        && is_compared
    {
        notes.push(format!(
            "with `--runs {runs}` no overhead has an interval, and nothing is decided: that takes \
             {need} blocks"
        ));
    }
    let Some(precision) = plan.precision_ppm else { return notes };
    let shown = percentage::text(precision);
    let blocks = blocks_at_best(precision);
    if let Some(runs) = plan.runs.filter(|&runs| blocks > u64::from(runs)) {
        notes.push(format!(
            "{runs} blocks hardly reach ±{shown}: a command that varies by 0.1 % takes about \
             {blocks}, and most vary by more; ask for more `--runs`, or for less"
        ));
    }
    if precision >= plan.equivalence_margin_ppm {
        let margin = percentage::text(plan.equivalence_margin_ppm);
        notes.push(format!(
            "stops at ±{shown}, which is too wide to call a stack equivalent within ±{margin}; ask \
             for a `--precision` below that, or for a wider `--margin`"
        ));
    }
    notes
}

/// Returns the number of blocks that it takes where a command hardly varies.
fn blocks_at_best(precision_ppm: u32) -> u64 {
    let (wanted, at_one) = (u64::from(precision_ppm), QUIET_PPM * HALF_WIDTH_THOUSANDTHS / 1_000);
    at_one.pow(2).div_ceil(wanted.pow(2).max(1))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{around, draft};
    use super::*;
    use crate::plan::CheckedPlan;

    fn decided(precision_ppm: u32, runs: Option<u32>) -> Result<CheckedPlan, Fault> {
        let precision_ppm = Some(precision_ppm);
        Draft { precision_ppm, runs, ..draft(&["native", "runc"]) }.complete(&around())
    }

    #[test]
    fn a_precision_that_no_plan_is_long_enough_for_is_refused() {
        let fault = decided(1, None).unwrap_err();
        assert_eq!(
            fault.message,
            "`precision = 0.0001%` cannot be reached: a command that varies by 0.1 % takes 5760000 \
             blocks, and a plan has at most 100000"
        );
        assert_eq!(fault.hint.as_deref(), Some("ask for `0.01%` or more; `2%` is usual"));
        assert!(decided(7, None).is_err() && decided(100, None).is_ok());
    }

    #[test]
    fn a_count_that_hardly_reaches_the_precision_is_said_and_not_refused() {
        let notes = decided(100, Some(50)).unwrap().notes;
        let said = "50 blocks hardly reach ±0.01%: a command that varies by 0.1 % takes about 576,";
        assert!(notes[0].starts_with(said), "{notes:?}");
        assert!(decided(10_000, Some(50)).unwrap().notes.is_empty());
    }

    #[test]
    fn a_precision_that_is_wider_than_the_margin_can_find_nothing_equivalent() {
        let notes = decided(100_000, Some(50)).unwrap().notes;
        assert!(notes[0].contains("too wide to call a stack equivalent within ±3%"), "{notes:?}");
        assert!(decided(29_999, Some(50)).unwrap().notes.is_empty());
    }

    #[test]
    fn too_few_blocks_for_any_interval_are_said_before_they_are_measured() {
        let notes = |stacks: &[&str], runs| {
            let draft = Draft { runs: Some(runs), ..draft(stacks) };
            let notes = draft.complete(&around()).unwrap().notes;
            notes.into_iter().filter(|note| note.contains("no overhead has an interval")).count()
        };
        assert_eq!([1, 2, 3].map(|runs| notes(&["native", "runc"], runs)), [1, 1, 0]);
        assert_eq!(notes(&["native"], 1), 0);
    }
}
