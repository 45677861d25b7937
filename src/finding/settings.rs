//! Settings that a workload was measured with, in its own words: where both ends were, how they
//! waited.
//!
//! Such a setting alone moves the numbers, so every report says it, and one that is not the same
//! everywhere is a caution: within a stack, from trial to trial, the numbers are of two kinds;
//! between stacks, the overhead is not the stack's alone.

use crate::finding::caution::caution;
use crate::finding::foreign::line;
use crate::finding::stacks::{OTHERS, Stacks, by_words, grouped, joined, once};
use crate::finding::{ArmFindings, Caution, Findings};
use crate::workload::SETTING;
use std::collections::BTreeSet;

/// Text between two settings of one line.
const NEXT: &str = "; ";

/// The settings of an arm: name and words.
fn of(arm: &ArmFindings) -> impl Iterator<Item = (&str, &str)> {
    let facts = arm.evidence.last().into_iter().flat_map(|level| &level.facts);
    facts.filter_map(|fact| Some((fact.key.strip_prefix(SETTING)?, fact.value.as_str())))
}

/// The names of all settings, in the order of the workload.
fn names(arms: &[ArmFindings]) -> Vec<&str> {
    once(arms.iter().flat_map(of).map(|(name, _)| name))
}

/// The values of a setting, each with the arms that have it.
fn values<'a>(arms: &'a [ArmFindings], name: &str) -> Vec<(&'a str, Vec<&'a ArmFindings>)> {
    let value = |arm| of(arm).find(|(own, _)| *own == name).map(|(_, value)| value);
    grouped(arms.iter().filter_map(|arm| Some((value(arm)?, arm))))
}

/// Words of a workload for an end that nobody knows.
const UNKNOWN: [&str; 3] = ["?", "unknown", "nobody knows where"];

/// Returns what is said of the client and of the server: the same, where a value does not tell them
/// apart.
fn ends(value: &str) -> [&str; 2] {
    let each = value.strip_prefix("client ").and_then(|rest| rest.split_once(", server "));
    each.map_or([value, value], |(client, server)| [client, server])
}

/// Tells whether nobody knows it of either end.
fn is_unknown(value: &str) -> bool {
    ends(value).iter().all(|end| UNKNOWN.contains(end))
}

/// A value in words.
fn shown(value: &str) -> String {
    let end = |end: &str| if UNKNOWN.contains(&end) { String::from("unknown") } else { line(end) };
    match ends(value) {
        [client, server] if is_unknown(value) || client == server => end(client),
        [client, server] => format!("client {}, server {}", end(client), end(server)),
    }
}

/// Tells whether two values are known to be of two kinds: what nobody knows may be the same.
fn are_apart(one: &str, other: &str) -> bool {
    let is_known = |end: &&str| !UNKNOWN.contains(end);
    let pairs = ends(one).into_iter().zip(ends(other));
    pairs.filter(|(one, other)| is_known(one) && is_known(other)).any(|(one, other)| one != other)
}

/// Tells whether any two of these values are known to be of two kinds.
pub(crate) fn differ(values: &BTreeSet<&str>) -> bool {
    values.iter().any(|one| values.iter().any(|other| are_apart(one, other)))
}

/// One line of all settings that are the same in every stack, and one for each that is not; none
/// for one that nobody knows anywhere. Nothing for a command that has none.
pub(crate) fn lines(findings: &Findings) -> Vec<String> {
    let (mut same, mut lines) = (Vec::new(), Vec::new());
    for name in names(&findings.arms) {
        match values(&findings.arms, name).as_slice() {
            [(value, _)] if is_unknown(value) => {}
            [(value, _)] => same.push(format!("{}: {}", line(name), shown(value))),
            several => lines.push(format!("{}: {}", line(name), each(&findings.arms, several))),
        }
    }
    if !same.is_empty() {
        lines.insert(0, same.join(NEXT));
    }
    lines
}

/// Values that not every stack has, each with its stacks; last that of the most, where they are
/// many, as that of the others.
fn each(arms: &[ArmFindings], values: &[(&str, Vec<&ArmFindings>)]) -> String {
    let all = Stacks::counted(arms);
    let groups = by_words(
        values
            .iter()
            .flat_map(|(value, arms)| arms.iter().map(|arm| (arm.stack.as_str(), shown(value)))),
    );
    let words = all.apart(groups.iter().map(|(_, stacks)| stacks));
    let each =
        groups.iter().zip(&words).map(|((text, _), words)| (words, format!("{text} in {words}")));
    let (others, named): (Vec<_>, Vec<_>) = each.partition(|(words, _)| *words == OTHERS);
    let lines: Vec<String> = named.into_iter().chain(others).map(|(_, line)| line).collect();
    lines.join(NEXT)
}

/// Settings that some stack is known not to have in common with the baseline.
pub(crate) fn unequal(arms: &[ArmFindings]) -> Option<Caution> {
    let all = Stacks::counted(arms);
    let mut differing = Vec::new();
    for name in names(arms) {
        let values = values(arms, name);
        let [(expected, _), others @ ..] = values.as_slice() else { continue };
        let apart = others.iter().filter(|(value, _)| are_apart(expected, value));
        let stacks = |arms: &Vec<&ArmFindings>| all.words_of(arms.iter().copied());
        let words: Vec<String> = apart
            .filter_map(|(value, arms)| Some(format!("`{}` in {}", shown(value), stacks(arms)?)))
            .collect();
        let Some((last, rest)) = words.split_last() else { continue };
        let rest: String = rest.iter().map(|words| format!(", {words}")).collect();
        differing.push(format!("`{}` was `{}`{rest}, and {last}", line(name), shown(expected)));
    }
    let differing = joined(differing, NEXT)?;
    Some(caution(
        "settings-differ",
        format!("the workload was not measured alike in all stacks: {differing}"),
        "read such an overhead as that of the stack and of the setting together, or make them \
         alike: by a parameter of the workload such as `place`, and where a stack has a kernel of \
         its own by CPUs for it (`cpuset=`)",
    ))
}

/// Advice on a setting that changed from trial to trial.
pub(crate) const CHANGED: &str = "fix it by a parameter of the workload: `place=apart` gives both \
                                  ends CPUs of their own in every trial";

#[cfg(test)]
mod tests {
    use crate::finding::compare::tests::example;
    use crate::finding::settings::*;
    use crate::report::{html, markdown, terminal};
    use crate::trial::TrialResult;
    use surtax_instrument::wire::Fact;

    /// The example, whose workload says where its ends were: in each trial what `place` makes of
    /// its arm and block.
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
                "the workload was not measured alike in all stacks: `placement` was `CPU 0`, and \
                 `CPU 1` in `runc`"
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
