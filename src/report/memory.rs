//! What the memory of others holds that is the command's own.
//!
//! Who carries the command is read as a group, whose peak has all that the kernel charges to it: the page cache of the
//! files that the command writes, kernel memory that it takes, such as buffers of sockets and pipes, and all of its
//! processes. Of the command itself only the largest process is known. So what is above that stands under the
//! others, also where nobody else works.

use super::stacks::{Stacks, by_words};
use super::{ArmFindings, Findings};
use super::{estimate, number};
use crate::ledger::StoredTrial;
use crate::plan::TrialId;
use std::collections::{BTreeSet, HashMap};

/// A group has so much by itself.
const WORTH_A_WORD: f64 = 1_048_576.0;

/// Says whose the memory of others is in `native`, where that is more than a little.
pub(super) fn remark(findings: &Findings) -> Option<String> {
    let is_native = |arm: &&ArmFindings| {
        let kind = arm.stack.split([':', ' ']).next();
        kind == Some("native") && arm.beside.is_none()
    };
    let arm = findings.arms.iter().find(|arm| is_native(arm) && arm.trial_count > 0)?;
    let metric = arm.metrics.iter().find(|it| it.metric == "memory_others_peak_bytes")?;
    (metric.median >= WORTH_A_WORD).then(|| {
        let cache = cached(findings).map_or_else(String::new, |words| format!("; {words}"));
        format!(
            "{} in `{}` is the command's own beyond its largest process: the page cache of files that it writes, \
             kernel memory, its other processes; the group of a container holds the same beside its helpers{cache}",
            number::amount(metric.median, &metric.unit),
            arm.stack
        )
    })
}

/// Page cache in the groups of an arm's trials: the median, where it is known.
pub(super) fn page_cache(trials: &[&StoredTrial], known: &HashMap<TrialId, f64>) -> Option<f64> {
    let values: Vec<f64> =
        trials.iter().filter_map(|trial| known.get(&trial.id).copied()).collect();
    estimate::median(&values)
}

/// How much of the others' memory is page cache, by stack. How much it was at the peak is not known.
fn cached(findings: &Findings) -> Option<String> {
    let is_worth = |arm: &&ArmFindings| {
        arm.part != "baseline-again" && arm.page_cache_bytes.is_some_and(|it| it >= WORTH_A_WORD)
    };
    let found = findings.arms.iter().filter(is_worth);
    let words = found.filter_map(|arm| {
        let text = number::amount(arm.page_cache_bytes?, "bytes");
        Some((arm.stack.as_str(), text))
    });
    let all = Stacks::counted(&findings.arms);
    let said: Vec<String> = by_words(words)
        .into_iter()
        .map(|(text, stacks): (String, BTreeSet<&str>)| format!("{text} in {}", all.words(&stacks)))
        .collect();
    (!said.is_empty())
        .then(|| format!("when the command had ended, of it was page cache: {}", said.join(", ")))
}

#[cfg(test)]
mod tests {
    use crate::report::compare::tests::example;
    use crate::report::{html, markdown, terminal};
    use crate::trial::TrialResult;

    #[test]
    fn memory_of_others_where_nobody_else_works_is_said_to_be_the_commands_own() {
        let findings = example(6, |_| {});
        let said = "40.0 MiB in `native` is the command's own beyond its largest process";
        let text = terminal::render(&findings, terminal::PLAIN);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("Memory of others: {said}")), "{text}");
        let text = markdown::markdown(&findings);
        assert!(text.contains(&format!("Memory, others: {said}")), "{text}");
        assert!(html::html(&findings).contains("is the command&#39;s own beyond its largest"));
    }

    #[test]
    fn page_cache_that_the_command_has_filled_is_said_beside_the_memory() {
        let findings = example(6, |record| {
            let bytes = 1_790.0 * 1_048_576.0;
            record.conditions.push((String::from("payers_page_cache_bytes"), bytes));
        });
        assert_eq!(findings.arms[0].page_cache_bytes, Some(1_790.0 * 1_048_576.0));
        let said = super::remark(&findings).unwrap();
        assert!(said.contains("of it was page cache: 1.75 GiB in"), "{said}");
    }

    #[test]
    fn a_little_memory_is_not_worth_a_word() {
        let findings = example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            for reading in &mut measured.readings {
                reading.memory_peak = None;
            }
        });
        assert_eq!(super::remark(&findings), None);
    }
}
