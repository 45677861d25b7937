//! What the memory of others holds that is the command's own.
//!
//! Who carries the command is read as a group, whose peak has all that the kernel charges to it: the page cache of the
//! files that the command writes, kernel memory that it takes, such as buffers of sockets and pipes, and all of its
//! processes. Of the command itself only the largest process is known. So what is above that stands under the
//! others, also where nobody else works.

use super::number;
use super::{ArmFindings, Findings};

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
        format!(
            "{} in `{}` is the command's own beyond its largest process: the page cache of files that it writes, \
             kernel memory, its other processes; the group of a container holds the same beside its helpers",
            number::amount(metric.median, &metric.unit),
            arm.stack
        )
    })
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
