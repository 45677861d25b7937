//! OpenMetrics text: gauges of a run, for a collector of text files.
//!
//! Source: OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use crate::finding::{ArmFindings, Findings, foreign};
use std::collections::BTreeMap;

/// Names, units and helps of the families, in the order in which they are written.
const FAMILIES: [(&str, &str, &str); 5] = [
    ("surtax_median_seconds", "seconds", "Median over the trials that count, of a time."),
    ("surtax_median_bytes", "bytes", "Median over the trials that count, of a size."),
    ("surtax_median", "", "Median over the trials that count, in the unit of its label."),
    ("surtax_cost_ratio", "ratio", "Cost over the baseline, with its 95 % interval."),
    ("surtax_trials", "", "Trials that count."),
];

/// Lines of each family, by its name.
type Samples = BTreeMap<&'static str, Vec<String>>;

/// Findings as one exposition.
pub(super) fn text(findings: &Findings) -> String {
    let mut samples = Samples::new();
    for arm in findings.arms.iter().filter(|arm| !arm.is_again()) {
        of_an_arm(findings, arm, &mut samples);
    }
    let mut text = String::new();
    for (name, unit, help) in FAMILIES {
        let Some(lines) = samples.get(name) else { continue };
        text += &format!("# TYPE {name} gauge\n");
        if !unit.is_empty() {
            text += &format!("# UNIT {name} {unit}\n");
        }
        text += &format!("# HELP {name} {help}\n");
        text.extend(lines.iter().map(String::as_str));
    }
    text + "# EOF\n"
}

fn of_an_arm(findings: &Findings, arm: &ArmFindings, samples: &mut Samples) {
    let known = [("title", findings.run.title.as_str()), ("stack", &arm.name)];
    let mut add = |family: &'static str, own: &[(&str, &str)], value: f64| {
        let labels =
            known.iter().chain(own).map(|(key, value)| format!("{key}=\"{}\"", label(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        samples.entry(family).or_default().push(format!("{family}{{{labels}}} {value}\n"));
    };
    add("surtax_trials", &[], arm.trial_count.into());
    for metric in &arm.metrics {
        let whole = metric.metric.as_str();
        // Its unit is the family's.
        let bare = whole.strip_suffix("_ns").or(whole.strip_suffix("_bytes")).unwrap_or(whole);
        let name = ("metric", bare);
        match metric.unit.as_str() {
            "ns" => add("surtax_median_seconds", &[name], metric.median / 1e9),
            "bytes" => add("surtax_median_bytes", &[name], metric.median),
            unit => add("surtax_median", &[name, ("unit", unit)], metric.median),
        }
        let Some(cost) = &metric.overhead else { continue };
        for (end, value) in [("estimate", cost.ratio), ("low", cost.low), ("high", cost.high)] {
            add("surtax_cost_ratio", &[("metric", whole), ("bound", end)], value);
        }
    }
}

/// Text within the quotes of a label.
fn label(text: &str) -> String {
    foreign::line(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn families_are_whole_and_a_label_ends_where_its_text_does() {
        let mut findings = example(6, |_| {});
        findings.run.title = String::from("say \"no\" \\ twice");
        let text = text(&findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.last(), Some(&"# EOF"));
        let wall = findings.arms[2].metric("wall_ns").unwrap();
        let line = format!(
            "surtax_median_seconds{{title=\"say \\\"no\\\" \\\\ twice\",stack=\"runc\",\
             metric=\"wall\"}} {}",
            wall.median / 1e9
        );
        assert!(lines.contains(&line.as_str()), "{text}\n{line}");
        // A family's lines stand together, behind its type.
        let mut seen = std::collections::BTreeSet::new();
        let mut family = "";
        for line in lines.iter().filter(|line| **line != "# EOF") {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => {
                    family = rest.split(' ').next().unwrap();
                    assert!(seen.insert(family), "{family} twice");
                }
                None if line.starts_with("# ") => assert!(line.contains(family), "{line}"),
                None => assert_eq!(line.split('{').next(), Some(family)),
            }
        }
        assert!(seen.contains("surtax_cost_ratio") && seen.contains("surtax_trials"));
    }
}
