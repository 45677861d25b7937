//! Forms for what keeps a history of benchmarks: the Bencher Metric Format, and
//! github-action-benchmark's own.
//!
//! Sources: <https://bencher.dev/docs/reference/bencher-metric-format/>;
//! <https://github.com/benchmark-action/github-action-benchmark#examples>, `customSmallerIsBetter`.

use crate::finding::{ArmFindings, Findings, Interval, MetricFindings, number};
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of a measure, and the ends of its interval.
#[derive(Serialize)]
struct Value {
    value: f64,
    lower_value: f64,
    upper_value: f64,
}

/// Bencher's: every metric of every stack by its name with its unit, its quartiles as ends, and
/// beside it what it costs over the baseline, as a ratio with its interval.
pub(super) fn metric_format(findings: &Findings) -> String {
    let mut all: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
    for (arm, metric) in metrics(findings) {
        let measures = all.entry(&arm.name).or_default();
        let (lower_value, upper_value) = metric.quartiles;
        let spread = Value { value: metric.median, lower_value, upper_value };
        // A workload may call a number of its own what a cost is called here.
        measures.entry(metric.metric.clone()).or_insert(spread);
        if let Some(Interval { ratio, low, high, .. }) = metric.overhead {
            let cost = Value { value: ratio, lower_value: low, upper_value: high };
            measures.insert(format!("{}_cost_ratio", metric.metric), cost);
        }
    }
    crate::report::json::pretty(&all).unwrap_or_default()
}

/// A row of github-action-benchmark.
#[derive(Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    value: f64,
    range: String,
    extra: String,
}

/// The costs of every metric of every compared stack, as ratios: less is better of all of them,
/// whatever the metric's own direction.
pub(super) fn benchmark_action(findings: &Findings) -> String {
    let rows = metrics(findings).filter_map(|(arm, metric)| {
        let Interval { ratio, low, high, confidence } = metric.overhead?;
        Some(Row {
            name: format!("{}: {}", arm.name, metric.metric),
            unit: "ratio",
            value: ratio,
            range: format!("{} to {}", number::trimmed(low, 4), number::trimmed(high, 4)),
            extra: format!(
                "{} % interval; over {}; median {}",
                number::trimmed(confidence * 100.0, 1),
                findings.run.baseline,
                number::amount(metric.median, &metric.unit)
            ),
        })
    });
    crate::report::json::pretty(&rows.collect::<Vec<_>>()).unwrap_or_default()
}

/// The metrics of all arms but the second of the baseline, which is the same stack.
fn metrics(findings: &Findings) -> impl Iterator<Item = (&ArmFindings, &MetricFindings)> {
    let arms = findings.arms.iter().filter(|arm| !arm.is_again());
    arms.flat_map(|arm| arm.metrics.iter().map(move |metric| (arm, metric)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn the_history_gets_every_metric_and_its_cost() {
        let findings = example(6, |_| {});
        let text: serde_json::Value = serde_json::from_str(&metric_format(&findings)).unwrap();
        let wall = findings.arms[2].metric("wall_ns").unwrap();
        assert_eq!(text["runc"]["wall_ns"]["value"].as_f64(), Some(wall.median));
        let cost = wall.overhead.as_ref().unwrap();
        let found = &text["runc"]["wall_ns_cost_ratio"];
        assert_eq!(found["value"].as_f64(), Some(cost.ratio));
        assert_eq!(found["lower_value"].as_f64(), Some(cost.low));
        assert!(text["native"]["wall_ns_cost_ratio"].is_null());
        assert_eq!(text.as_object().unwrap().len(), 2);
    }

    #[test]
    fn no_number_of_a_workload_stands_in_the_place_of_a_cost() {
        for place in [0, 1] {
            let mut findings = example(6, |_| {});
            let mut forged = findings.arms[2].metric("wall_ns").unwrap().clone();
            let cost = forged.overhead.unwrap().ratio;
            (forged.metric, forged.median) = (String::from("wall_ns_cost_ratio"), 0.25);
            let end = findings.arms[2].metrics.len() * place;
            findings.arms[2].metrics.insert(end, forged);
            let text: serde_json::Value = serde_json::from_str(&metric_format(&findings)).unwrap();
            assert_eq!(text["runc"]["wall_ns_cost_ratio"]["value"].as_f64(), Some(cost));
        }
    }

    #[test]
    fn what_wants_less_to_be_better_gets_costs() {
        let findings = example(6, |_| {});
        let rows: serde_json::Value = serde_json::from_str(&benchmark_action(&findings)).unwrap();
        let wall = &rows[0];
        assert_eq!((&wall["name"], &wall["unit"]), (&"runc: wall_ns".into(), &"ratio".into()));
        let ratio = findings.arms[2].overhead.as_ref().unwrap().ratio;
        assert_eq!(wall["value"].as_f64(), Some(ratio));
    }
}
