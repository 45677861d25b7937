//! JSON as `hyperfine --export-json` writes it: a command for each stack, times in seconds.
//!
//! Source: hyperfine, `src/export/json.rs` and `src/benchmark/benchmark_result.rs`.

use super::Stack;
use crate::finding::{Findings, TrialPoint, estimate};
use crate::plan::shell_line;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Command {
    command: String,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: Option<f64>,
    system: Option<f64>,
    min: f64,
    max: f64,
    times: Vec<f64>,
    memory_usage_byte: Vec<u64>,
    parameters: BTreeMap<&'static str, String>,
}

/// Findings as one JSON object; a stack of which no trial counts is not in it.
pub(super) fn json(findings: &Findings) -> String {
    let command = shell_line(findings.run.command.iter().map(crate::plan::Word::as_bytes));
    let stacks = Stack::all(findings);
    let results: Vec<Command> = stacks.iter().filter_map(|stack| of(stack, &command)).collect();
    // Strings, finite numbers and lists of them: nothing that JSON could refuse.
    crate::report::json::pretty(&BTreeMap::from([("results", results)])).unwrap_or_default()
}

fn of(stack: &Stack<'_>, command: &str) -> Option<Command> {
    let seconds = |ns: u64| estimate::float(ns) / 1e9;
    let times: Vec<f64> = stack.counted().filter_map(|trial| trial.wall_ns).map(seconds).collect();
    let mean = estimate::mean(&times)?;
    // What is not known of every trial is not known: `null`, where hyperfine has zero.
    let cpu = |of: fn(&TrialPoint) -> Option<u64>| {
        let known: Option<Vec<f64>> = stack.counted().map(|trial| of(trial).map(seconds)).collect();
        known.and_then(|known| estimate::mean(&known))
    };
    Some(Command {
        command: format!("{}: {command}", stack.name),
        mean,
        stddev: estimate::deviation(&times, mean),
        median: estimate::median(&times)?,
        user: cpu(|trial| trial.usage.cpu_user_ns),
        system: cpu(|trial| trial.usage.cpu_system_ns),
        min: times.iter().copied().fold(f64::INFINITY, f64::min),
        max: times.iter().copied().fold(0.0, f64::max),
        memory_usage_byte: stack
            .counted()
            .filter_map(|trial| trial.usage.memory_peak_bytes)
            .collect(),
        times,
        parameters: BTreeMap::from([("stack", stack.name.to_owned())]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use serde_json::Value;

    #[test]
    fn a_stack_is_a_command_with_the_times_of_its_trials_in_seconds() {
        let findings = example(6, |_| {});
        let text: Value = serde_json::from_str(&json(&findings)).unwrap();
        let results = text["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        let (native, runc) = (&results[0], &results[1]);
        assert_eq!(native["parameters"]["stack"], "native");
        assert_eq!(native["times"].as_array().unwrap().len(), 12);
        assert_eq!(runc["times"].as_array().unwrap().len(), 6);
        let median = findings.arms[2].metric("wall_ns").unwrap().median / 1e9;
        assert!((runc["median"].as_f64().unwrap() - median).abs() < 1e-9);
        let number = |key: &str| runc[key].as_f64().unwrap();
        assert!(number("min") <= number("median") && number("median") <= number("max"));
        let expected =
            "command max mean median memory_usage_byte min parameters stddev system times user";
        let keys: Vec<&str> = runc.as_object().unwrap().keys().map(String::as_str).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(sorted.join(" "), expected);
    }
}
