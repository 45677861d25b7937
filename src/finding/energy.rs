//! Energy of the machine while a command ran, in words for a table that has no room for it.

use crate::finding::stacks::each_or_ends;
use crate::finding::trial_metric::{ENERGY, WALL};
use crate::finding::{ArmFindings, Findings, number};

/// Says what the machine took while the command ran in each stack, and at which power; `None` where
/// it does not say.
pub(crate) fn remark(findings: &Findings) -> Option<String> {
    let median = |arm: &ArmFindings, name| arm.metric(name).map(|metric| metric.median);
    let arms = findings.arms.iter().filter(|arm| !arm.is_again());
    let known: Vec<(&str, f64, Option<f64>)> = arms
        .filter_map(|arm| Some((arm.name.as_str(), median(arm, ENERGY)?, median(arm, WALL))))
        .collect();
    let told = |(name, microjoules, wall): &(&str, f64, Option<f64>)| {
        let watts = wall.filter(|wall| *wall > 0.0).map(|wall| microjoules * 1e3 / wall);
        let power = watts.map_or_else(String::new, |watts| format!(" ({watts:.1} W)"));
        format!("`{name}` {}{power}", number::energy(*microjoules))
    };
    let said = each_or_ends(known, |it| it.1, told)?;
    Some(format!("{said}; all processors and their memory, idle power and others included"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::report::{markdown, terminal};
    use crate::trial::TrialResult;

    fn with_energy(microjoules: impl Fn(u32) -> Option<u64>) -> Findings {
        example(6, |record| {
            if let TrialResult::Done(measured) = &mut record.result {
                measured.energy_uj = microjoules(record.trial.arm);
            }
        })
    }

    #[test]
    fn a_table_says_what_each_stack_took_and_compares_it() {
        let findings = with_energy(|arm| Some(if arm == 2 { 6_000_000 } else { 3_000_000 }));
        let said = remark(&findings).unwrap();
        assert!(said.contains("`native` 3.00 J (") && said.contains("`runc` 6.00 J ("), "{said}");
        let runc = findings.arms.iter().find(|arm| arm.name == "runc").unwrap();
        let overhead = runc.metric(ENERGY).unwrap().overhead.unwrap();
        assert!((overhead.ratio - 2.0).abs() < 1e-9, "{overhead:?}");
        for text in [terminal::render(&findings, terminal::PLAIN), markdown::markdown(&findings)] {
            assert!(text.contains("Energy: ") && text.contains("6.00 J"), "{text}");
        }
    }

    #[test]
    fn an_energy_that_half_of_the_trials_have_is_none_of_the_stack() {
        let seen = std::cell::Cell::new(0);
        let findings = with_energy(|_| {
            seen.set(seen.get() + 1);
            (seen.get() % 2 == 0).then_some(3_000_000)
        });
        assert_eq!(remark(&findings), None);
    }

    #[test]
    fn a_machine_that_does_not_say_has_no_such_line() {
        let findings = with_energy(|_| None);
        assert_eq!(remark(&findings), None);
        let text = terminal::render(&findings, terminal::PLAIN);
        assert!(!text.contains("Energy"), "{text}");
    }
}
