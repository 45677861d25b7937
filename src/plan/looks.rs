//! Looks: after how many blocks a plan asks whether its thresholds are decided.
//!
//! Whoever looks again whenever nothing is decided yet finds something in the end, whatever is
//! true. So the number of looks is fixed before the first, and the chance to be wrong is shared out
//! among them (Bonferroni): of three looks each holds a threshold against an interval of 98.3 %,
//! and together they are wrong as rarely as one that holds it against one of 95 %.

use super::Plan;
use super::expand::BLOCK_LIMIT;
use super::refuse::Draft;
use crate::fault::Fault;
use surtax_statistics::Confidence;

/// Number of looks of a run that is told to go on where a threshold is not decided: after its
/// blocks, twice, and four times as many.
pub const LOOKS: u32 = 3;

/// The most looks: each halves the width that is worth one, and none is worth a day.
const LOOKS_MAX: u32 = 6;

/// The chance that any look of a run decides wrongly.
const LEVEL: f64 = 0.05;

/// Number of looks of a plan that says none: its end.
pub(super) fn one() -> u32 {
    1
}

/// Tells whether a plan has so many looks unless told.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn is_one(looks: &u32) -> bool {
    *looks == one()
}

impl Plan {
    /// Returns after how many blocks it asks whether its thresholds are decided; nothing of a plan
    /// that asks at its end alone.
    #[must_use]
    pub fn looks(&self) -> Vec<u32> {
        let Some(runs) = self.runs.filter(|_| !is_one(&self.looks)) else { return Vec::new() };
        (0..self.looks.min(LOOKS_MAX)).map(|look| runs.saturating_mul(1 << look)).collect()
    }

    /// Says after how many blocks it may end, as `10, 20 or 40`; `None` where it asks at its end
    /// alone.
    #[must_use]
    pub fn looks_in_words(&self) -> Option<String> {
        let looks = self.looks();
        let (last, others) = looks.split_last()?;
        let others: Vec<String> = others.iter().map(u32::to_string).collect();
        Some(format!("{} or {last}", others.join(", ")))
    }

    /// Tells whether it is known before the first trial how many blocks there will be.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.precision_ppm.is_none() && self.time_budget_ns.is_none() && is_one(&self.looks)
    }

    /// Confidence of the intervals that its thresholds are held against.
    #[must_use]
    pub fn threshold_confidence(&self) -> Confidence {
        let share = 1.0 - LEVEL / f64::from(self.looks.clamp(1, LOOKS_MAX));
        Confidence::new(share).unwrap_or(Confidence::P95)
    }
}

impl Draft {
    /// Refuses looks that no run could have.
    pub(super) fn check_looks(&self) -> Result<(), Fault> {
        let Some(looks) = self.looks.filter(|looks| !is_one(looks)) else { return Ok(()) };
        if !(1..=LOOKS_MAX).contains(&looks) {
            let message = format!("`looks = {looks}` is not between 1 and {LOOKS_MAX}");
            return Err(self.refuse("looks", message).hint(format!("`looks = {LOOKS}` is usual")));
        }
        if self.precision_ppm.is_some() {
            let message = "a precision and more than one look each say when the run ends";
            let fault = self.refuse("looks", message);
            return Err(fault.hint("leave out `--precision`, or `--undecided retry`"));
        }
        let most = u64::from(self.runs.unwrap_or_default()) << (looks - 1);
        if most > u64::from(BLOCK_LIMIT) {
            let message = format!(
                "{looks} looks at such a run may take {most} blocks, and a plan has at most \
                 {BLOCK_LIMIT}"
            );
            return Err(self.refuse("looks", message).hint("ask for fewer `--runs`"));
        }
        Ok(())
    }
}

/// Lists what whoever asks for more than one look should know.
pub(super) fn notes(plan: &Plan) -> Option<String> {
    Some(format!(
        "ends after {} blocks, as soon as every threshold is decided; because it may \
         look {} times, thresholds are held against intervals of {:.1} %",
        plan.looks_in_words()?,
        plan.looks().len(),
        100.0 * plan.threshold_confidence().share()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{around, draft};
    use super::*;

    #[test]
    fn a_plan_looks_after_its_blocks_and_each_time_after_twice_as_many() {
        let draft = |looks, runs| Draft { looks, runs, ..draft(&["native", "runc"]) };
        let complete = |looks, runs| draft(looks, runs).complete(&around()).unwrap();
        let retried = complete(Some(LOOKS), None);
        assert_eq!(retried.plan.looks(), [10, 20, 40]);
        assert_eq!(retried.plan.block_limit(), 40);
        assert!((retried.plan.threshold_confidence().share() - 0.983_333).abs() < 1e-5);
        let said = "ends after 10, 20 or 40 blocks, as soon as every threshold is decided; because \
                    it may look 3 times, thresholds are held against intervals of 98.3 %";
        assert!(retried.notes.iter().any(|note| note == said), "{:?}", retried.notes);
        let plain = complete(None, Some(7)).plan;
        assert!(plain.looks().is_empty() && plain.is_counted() && !retried.plan.is_counted());
        assert_eq!((plain.block_limit(), plain.threshold_confidence()), (7, Confidence::P95));
    }

    #[test]
    fn looks_that_no_run_could_have_are_refused() {
        let message = |over: Draft| {
            let base = draft(&["native", "runc"]);
            base.overlaid_by(over).complete(&around()).unwrap_err().message
        };
        let looks = |looks| Draft { looks: Some(looks), ..Draft::default() };
        assert_eq!(message(looks(0)), "`looks = 0` is not between 1 and 6");
        assert_eq!(message(looks(7)), "`looks = 7` is not between 1 and 6");
        let both = Draft { precision_ppm: Some(20_000), ..looks(3) };
        assert_eq!(message(both), "a precision and more than one look each say when the run ends");
        let long = Draft { runs: Some(50_000), ..looks(3) };
        assert!(message(long).starts_with("3 looks at such a run may take 200000 blocks"));
    }
}
