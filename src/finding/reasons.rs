//! Reasons for the verdicts: each said once for all stacks, and all metrics, of which it is the
//! same.

use crate::finding::by_metric::by_metric;
use crate::finding::stacks::{OTHERS, Stacks, by_words, grouped};
use crate::finding::workload::Row;
use crate::finding::{ArmFailure, ArmFindings, Findings, Gap, Verdict};
use std::collections::BTreeSet;

/// One reason, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reason<'a> {
    /// Metrics and stacks in words; what is named stands in backticks.
    pub(crate) whose: String,
    /// Reason, in a sentence.
    pub(crate) because: &'a str,
    /// Of how many verdicts.
    pub(crate) count: usize,
}

impl Reason<'_> {
    /// Whose it is, where backticks would be in the way.
    pub(crate) fn plain(&self) -> String {
        self.whose.replace('`', "")
    }
}

/// The arms whose verdict is on wall time, or for which there is none to tell. Of a workload that
/// runs for a fixed time only those without numbers have anything to say.
pub(crate) fn told(findings: &Findings) -> impl Iterator<Item = &ArmFindings> {
    let says_wall = !findings.run.is_of_fixed_time;
    findings.arms.iter().filter(move |arm| says_wall || arm.is_invalid())
}

/// The reasons of the verdicts on wall time of these arms.
pub(crate) fn of_arms<'a>(arms: impl IntoIterator<Item = &'a ArmFindings>) -> Vec<Reason<'a>> {
    let arms: Vec<&ArmFindings> = arms.into_iter().collect();
    let said = arms.iter().map(|arm| (arm.stack.as_str(), arm.because.as_str()));
    let of = Stacks::of(arms.iter().copied());
    let reason = |(because, stacks): (_, BTreeSet<&str>), whose| Reason {
        whose,
        because,
        count: stacks.len(),
    };
    let groups = by_words(said);
    let whose = of.apart(groups.iter().map(|(_, stacks)| stacks));
    let all = groups.into_iter().zip(whose).map(|(group, whose)| reason(group, whose));
    others_last(all.collect())
}

/// The reasons of the verdicts on what a workload measured.
pub(crate) fn of_metrics<'a>(rows: &[Row<'a>]) -> Vec<Reason<'a>> {
    let judged = rows.iter().filter_map(|row| Some((row, row.found.judgement.as_ref()?)));
    let judged = judged.map(|(row, judged)| (row.metric, (row.arm, judged.because.as_str())));
    // Metrics that say the same of the same stacks are one.
    let several = grouped(by_metric(judged).into_iter().map(|(metric, of_stacks)| {
        let said = of_stacks.into_iter().map(|(arm, because)| (arm.stack.as_str(), because));
        (by_words(said), metric)
    }));
    let is_one = several.len() == 1;
    let mut reasons = Vec::new();
    for (groups, metrics) in several {
        let all = groups.iter().flat_map(|(_, stacks)| stacks).copied();
        let in_order = rows.iter().map(|row| row.arm);
        let all: BTreeSet<&str> = all.collect();
        let of = Stacks::of(in_order.filter(|arm| all.contains(arm.stack.as_str())));
        let which = match is_one && metrics.len() > 1 {
            true => String::from("every metric"),
            false => metrics.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "),
        };
        let whose = of.apart(groups.iter().map(|(_, stacks)| stacks));
        let each = groups.iter().zip(whose).map(|((because, stacks), whose)| {
            let count = stacks.len() * metrics.len();
            Reason { whose: format!("{which}, {whose}"), because, count }
        });
        reasons.extend(others_last(each.collect()));
    }
    reasons
}

/// Puts the others last: who they are is known after those who are named.
fn others_last(mut reasons: Vec<Reason<'_>>) -> Vec<Reason<'_>> {
    reasons.sort_by_key(|reason| reason.whose.ends_with(OTHERS));
    reasons
}

/// Failure, and the stacks that failed in the same way.
pub(crate) struct Failure<'a> {
    pub(crate) stacks: BTreeSet<&'a str>,
    pub(crate) trouble: &'a ArmFailure,
    /// True if they have no number at all.
    pub(crate) is_gap: bool,
}

/// Every failure, in the order of the arms; the two arms of the baseline are one stack.
pub(crate) fn failures(findings: &Findings) -> Vec<Failure<'_>> {
    let troubled = findings.arms.iter().filter_map(|arm| Some((arm, arm.trouble.as_ref()?)));
    let said = troubled.map(|(arm, it)| (arm.stack.as_str(), (it, arm.trial_count == 0)));
    let of = |((trouble, is_gap), stacks)| Failure { stacks, trouble, is_gap };
    by_words(said).into_iter().map(of).collect()
}

/// The failure of the baseline, where no trial of either of its arms counts.
pub(crate) fn failed_baseline(findings: &Findings) -> Option<&ArmFailure> {
    let mut baseline = findings.arms.iter().filter(|arm| !arm.is_compared());
    let is_without = baseline.clone().all(|arm| arm.trial_count == 0);
    baseline.find_map(|arm| arm.trouble.as_ref()).filter(|_| is_without)
}

/// Words where no trial of any arm counts: that the baseline failed, why, and what would help, and
/// the stacks of which nothing was run.
pub(crate) fn no_numbers(findings: &Findings) -> String {
    let mut words = match failed_baseline(findings) {
        Some(failure) => {
            let why = failure.why.lines().next().unwrap_or_default();
            let baseline = &findings.run.baseline;
            format!("There is no number to show: in the baseline `{baseline}`, {why}.")
        }
        None => String::from("No trial counts, so there is no number to show."),
    };
    if let Some(remedy) = failed_baseline(findings).and_then(|failure| failure.remedy.as_ref()) {
        words += &format!(" What helps: {remedy}.");
    }
    // The baseline has two arms: where one was run, the stack was.
    let run: BTreeSet<&str> = of_verdict(findings, |gap| gap != Gap::NotRun);
    let not_run = of_verdict(findings, |gap| gap == Gap::NotRun);
    let not_run: BTreeSet<&str> = not_run.difference(&run).copied().collect();
    if !not_run.is_empty() {
        words += &format!(" Not run: {}.", Stacks::of(&findings.arms).words(&not_run));
    }
    words
}

/// The stacks of which an arm has no number for such a kind of reason.
fn of_verdict(findings: &Findings, is_it: impl Fn(Gap) -> bool) -> BTreeSet<&str> {
    let is_one = |arm: &&ArmFindings| match arm.verdict {
        Verdict::Invalid { gap, .. } => is_it(gap),
        _ => false,
    };
    findings.arms.iter().filter(is_one).map(|arm| arm.stack.as_str()).collect()
}

#[cfg(test)]
mod tests;
