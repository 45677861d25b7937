//! Question that a run asks: whether two runs ask the same, and what beside it is not as it was.
//!
//! Command, workload, conduct and baseline must be the same, or two numbers answer two questions.
//! All else that a stack's cost may depend on is told: surtax's version, the text of the workload,
//! environment and directories, and the versions, images and accelerators of the stack's levels.

use super::plan_digest::PlanDigest;
use crate::fault::Fault;
use crate::finding::same_machine::FactChange;
use crate::finding::{ArmFindings, Findings, LevelEvidence, RunFacts};
use crate::plan::{Word, shell_line};
use std::collections::BTreeMap;

/// Endings of the keys of facts that say which program, kernel, image or accelerator a level has.
const OF_A_LEVEL: [&str; 4] = ["_version", "_release", "_sha256", "accelerator"];

/// Key of the version that measured, which is no fact about the machine.
const SURTAX_VERSION: &str = "surtax_version";

/// Demands that two runs ask the same.
///
/// # Errors
/// The user's, with what they differ in.
pub(super) fn require_one(before: &Findings, after: &Findings) -> Result<(), Fault> {
    let refused = |what: &str, one: String, other: String| {
        Err(Fault::user(format!("the two runs cannot be compared: {what} `{one}`, then `{other}`"))
            .hint("compare runs of one question: `surtax show RUN` has the line that repeats one"))
    };
    let (one, other) = (&before.run, &after.run);
    if one.workload != other.workload {
        let name = |it: &Option<String>| it.clone().unwrap_or_else(|| String::from("none"));
        return refused("the workload was", name(&one.workload), name(&other.workload));
    }
    if one.workload.is_none() && one.command != other.command {
        let line = |it: &RunFacts| shell_line(it.command.iter().map(Word::as_bytes));
        return refused("the command was", line(one), line(other));
    }
    if one.conduct != other.conduct {
        let said = |it: &str| String::from(if it.is_empty() { "the usual one" } else { it });
        return refused("the conduct was", said(&one.conduct), said(&other.conduct));
    }
    if one.baseline != other.baseline {
        return refused("the baseline was", one.baseline.clone(), other.baseline.clone());
    }
    Ok(())
}

/// Lists what is not as it was beside the question, for every stack alike: surtax's version and
/// what no report shows.
pub(super) fn changes(before: &Findings, after: &Findings) -> Vec<FactChange> {
    let version = |run: &Findings| -> BTreeMap<String, String> {
        let version = run.machine.iter().filter(|fact| fact.key == SURTAX_VERSION);
        version.map(|fact| (fact.key.clone(), fact.value.clone())).collect()
    };
    let mut changes = FactChange::between(&version(before), &version(after));
    changes.extend(of_asked(&before.run.plan_digest, &after.run.plan_digest));
    changes
}

/// Lists what is not as it was of what no report shows. No value is told, nor anything that one
/// could be guessed from.
fn of_asked(before: &PlanDigest, after: &PlanDigest) -> Vec<FactChange> {
    let told = |key: &str, one: &str, other: &str| {
        (one != other).then(|| FactChange {
            key: key.to_owned(),
            before: one.to_owned(),
            after: other.to_owned(),
        })
    };
    let variables = match before.variables == after.variables && before.values != after.values {
        true => told("values of `--env`", "as they were", "others"),
        false => told("variables of `--env`", &before.variables, &after.variables),
    };
    let text = match before.workload_text == after.workload_text {
        true => None,
        false => told("text of the workload", "as it was", "another"),
    };
    let around = "other environment, writable directories";
    [text, variables, told(around, &before.around, &after.around)].into_iter().flatten().collect()
}

/// Lists what is not as it was of the levels of a stack.
pub(super) fn changes_of_levels(earlier: &ArmFindings, later: &ArmFindings) -> Vec<FactChange> {
    FactChange::between(&of_levels(earlier), &of_levels(later))
}

/// Facts about the levels of a stack that say what they are, by key.
fn of_levels(arm: &ArmFindings) -> BTreeMap<String, String> {
    let of_level = |(depth, level): (usize, &LevelEvidence)| {
        let is_version = |key: &str| OF_A_LEVEL.iter().any(|ending| key.ends_with(ending));
        let facts = level.facts.iter().filter(|fact| is_version(&fact.key));
        let named = |key: &str| match depth {
            0 => key.to_owned(),
            _ => format!("{key} (level {depth})"),
        };
        facts.map(|fact| (named(&fact.key), fact.value.clone())).collect::<Vec<_>>()
    };
    arm.evidence.iter().enumerate().flat_map(of_level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beside_a_question_is_told_without_a_value() {
        let asked = |text: &str, values: &str, variables: &str| PlanDigest {
            workload_text: text.to_owned(),
            variables: variables.to_owned(),
            values: values.to_owned(),
            around: String::new(),
        };
        let told = |after: &PlanDigest| -> Vec<[String; 3]> {
            let changes = of_asked(&asked("t", "v", "TOKEN"), after);
            changes.into_iter().map(|it| [it.key, it.before, it.after]).collect()
        };
        assert_eq!(told(&asked("t", "v", "TOKEN")), Vec::<[String; 3]>::new());
        let text = ["text of the workload", "as it was", "another"];
        assert_eq!(told(&asked("u", "v", "TOKEN")), [text]);
        let values = ["values of `--env`", "as they were", "others"];
        assert_eq!(told(&asked("t", "w", "TOKEN")), [values]);
        let both = ["variables of `--env`", "TOKEN", "TOKEN, MODE"];
        assert_eq!(told(&asked("u", "w", "TOKEN, MODE")), [text, both]);
    }
}
