//! What a workload was measured with, in its own words: where both ends were, how they waited.
//!
//! Such a setting alone moves the numbers, so every report says it, and one that is not the same everywhere is a
//! caution: within a stack, from trial to trial, the numbers are of two kinds; between stacks, the overhead is not the stack's alone.

use super::caution::{caution, named};
use super::foreign::line;
use super::{ArmFindings, Caution, Findings};
use crate::workload::SETTING;
use std::collections::BTreeSet;

/// What two settings of one line are parted by.
const NEXT: &str = "; ";

/// The settings of an arm: name and words.
fn of(arm: &ArmFindings) -> impl Iterator<Item = (&str, &str)> {
    let facts = arm.evidence.last().into_iter().flat_map(|level| &level.facts);
    facts.filter_map(|fact| Some((fact.key.strip_prefix(SETTING)?, fact.value.as_str())))
}

/// The names of all settings, in the order of the workload.
fn names(arms: &[ArmFindings]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in arms.iter().flat_map(of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The values of a setting, each with the arms that have it.
fn values<'a>(arms: &'a [ArmFindings], name: &str) -> Vec<(&'a str, Vec<&'a ArmFindings>)> {
    let mut found: Vec<(&str, Vec<&ArmFindings>)> = Vec::new();
    for arm in arms {
        let Some((_, value)) = of(arm).find(|(own, _)| *own == name) else { continue };
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, arms)) => arms.push(arm),
            None => found.push((value, vec![arm])),
        }
    }
    found
}

fn stacks<'a>(arms: &[&'a ArmFindings]) -> BTreeSet<&'a str> {
    arms.iter().map(|arm| arm.stack.as_str()).collect()
}

/// One line of all settings that are the same in every stack, and one for each that is not. Nothing for a command
/// that has none.
pub(super) fn lines(findings: &Findings) -> Vec<String> {
    let (mut same, mut lines) = (Vec::new(), Vec::new());
    for name in names(&findings.arms) {
        let shown = line(name);
        match values(&findings.arms, name).as_slice() {
            [(value, _)] => same.push(format!("{shown}: {}", line(value))),
            several => {
                let each = several
                    .iter()
                    .map(|(value, arms)| format!("{} in {}", line(value), named(stacks(arms))));
                lines.push(format!("{shown}: {}", each.collect::<Vec<_>>().join(NEXT)));
            }
        }
    }
    if !same.is_empty() {
        lines.insert(0, same.join(NEXT));
    }
    lines
}

/// Settings that some stack does not have in common with the baseline.
pub(super) fn unequal(arms: &[ArmFindings]) -> Option<Caution> {
    let mut differing = Vec::new();
    for name in names(arms) {
        let values = values(arms, name);
        let [(expected, _), others @ ..] = values.as_slice() else { continue };
        for (value, arms) in others {
            differing.push(format!(
                "`{}` was `{}`, and `{}` in {}",
                line(name),
                line(expected),
                line(value),
                named(stacks(arms))
            ));
        }
    }
    (!differing.is_empty()).then(|| {
        caution(
            "settings-differ",
            format!("the workload was not measured alike in all stacks: {}", differing.join(NEXT)),
            "read such an overhead as that of the stack and of the setting together, or make them alike: by \
             a parameter of the workload such as `place`, and where a stack has a kernel of its own by CPUs \
             for it (`cpuset=`)",
        )
    })
}

/// What to do about a setting that changed from trial to trial.
pub(super) const CHANGED: &str = "fix it by a parameter of the workload: `place=apart` gives both ends CPUs of their own in every trial";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::tests::example;
    use crate::report::{html, markdown, terminal};
    use crate::trial::TrialResult;
    use surtax_instrument::wire::Fact;

    /// The example, whose workload says where its ends were: in each trial what `place` makes of its arm and block.
    fn placed(place: fn(u32, u32) -> String) -> Findings {
        example(6, |record| {
            let (arm, block) = (record.trial.arm, record.trial.block);
            let TrialResult::Done(measured) = &mut record.result else { return };
            let mut levels = measured.evidence.levels().to_vec();
            measured.workload.metrics = vec![crate::workload::Metric {
                name: String::from("rate"),
                unit: "1/s",
                better: crate::workload::Better::Higher,
                value: 1000.0,
            }];
            let facts = &mut levels.last_mut().unwrap().facts;
            facts.push(Fact::new("setting_placement", place(arm, block), "what the workload says"));
            facts.push(Fact::new("setting_waiting", "blocking", "what the workload says"));
            measured.evidence = crate::trial::Evidence::of(levels).unwrap();
        })
    }

    fn codes(findings: &Findings) -> Vec<(&str, &str)> {
        let all = findings.cautions.iter().map(|it| (it.code.as_str(), it.finding.as_str()));
        all.filter(|(code, _)| ["settings-differ", "evidence-changed"].contains(code)).collect()
    }

    #[test]
    fn settings_that_are_the_same_everywhere_are_said_once_in_every_format() {
        let findings = placed(|_, _| String::from("both on CPU 1"));
        assert_eq!(lines(&findings), ["placement: both on CPU 1; waiting: blocking"]);
        assert!(codes(&findings).is_empty());
        for text in [
            terminal::render(&findings, terminal::PLAIN),
            markdown::markdown(&findings),
            html::html(&findings),
        ] {
            assert!(text.contains("placement: both on CPU 1; waiting: blocking"), "{text}");
        }
    }

    #[test]
    fn a_setting_of_one_stack_alone_is_a_caution() {
        let findings = placed(|arm, _| format!("CPU {}", u32::from(arm == 2)));
        let all = lines(&findings);
        assert_eq!(all[0], "waiting: blocking");
        assert_eq!(all[1], "placement: CPU 0 in `native`; CPU 1 in `runc`");
        assert_eq!(
            codes(&findings),
            [(
                "settings-differ",
                "the workload was not measured alike in all stacks: `placement` was `CPU 0`, and `CPU 1` in \
                 `runc`"
            )]
        );
    }

    #[test]
    fn a_setting_that_changes_from_trial_to_trial_is_a_caution() {
        let findings = placed(|_, block| format!("CPU {}", block % 2));
        let changed: Vec<_> =
            codes(&findings).into_iter().filter(|(code, _)| *code == "evidence-changed").collect();
        assert!(!changed.is_empty());
        assert!(
            changed[0].1.ends_with("`setting_placement` was `CPU 0` and `CPU 1`"),
            "{changed:?}"
        );
    }
}
