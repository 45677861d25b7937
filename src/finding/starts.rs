//! Times to start and to stop a stack, which are in no time of a command: in words for a table that
//! has no room for them.

use crate::finding::stacks::each_or_ends;
use crate::finding::{ArmFindings, Findings, number};

/// Says how long the stacks took to start and to stop; `None` where nothing is known.
pub(crate) fn remark(findings: &Findings) -> Option<String> {
    let arms = findings.arms.iter().filter(|arm| !arm.is_again());
    let median = |arm: &ArmFindings, name: &str| arm.metric(name).map(|metric| metric.median);
    let known: Vec<(&str, f64, Option<f64>)> = arms
        .filter_map(|arm| {
            Some((arm.name.as_str(), median(arm, "start_ns")?, median(arm, "stop_ns")))
        })
        .collect();
    let told = |(name, start, stop): &(&str, f64, Option<f64>)| {
        let stop = stop.map_or_else(String::new, |stop| format!(" and {}", number::time(stop)));
        format!("`{name}` {}{stop}", number::time(*start))
    };
    each_or_ends(known, |it| it.1, told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::report::{markdown, terminal};

    #[test]
    fn a_table_says_how_long_each_stack_took_to_start() {
        let findings = example(6, |record| {
            if record.trial.arm == 2 {
                record.start_wall.0 = 480_000_000;
            }
        });
        let said = remark(&findings).unwrap();
        assert!(said.starts_with("`native` 5.0 ms") && said.contains("`runc` 480.0 ms"), "{said}");
        for text in [terminal::render(&findings, terminal::PLAIN), markdown::markdown(&findings)] {
            assert!(text.contains("Start and stop: ") && text.contains("480.0 ms"), "{text}");
        }
    }

    #[test]
    fn of_many_stacks_the_quickest_and_the_slowest_are_told() {
        let mut findings = example(6, |_| {});
        for index in 1..10_u32 {
            let mut arm = findings.arms[2].clone();
            arm.name = format!("stack{index}");
            let start = arm.metrics.iter_mut().find(|it| it.metric == "start_ns").unwrap();
            start.median = 1e9 * f64::from(index);
            findings.arms.push(arm);
        }
        let said = remark(&findings).unwrap();
        assert!(
            said.starts_with("from `native` 5.0 ms") && said.contains(" to `stack9` 9.0"),
            "{said}"
        );
    }
}
