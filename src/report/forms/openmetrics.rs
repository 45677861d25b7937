//! OpenMetrics text: gauges of a run, for a collector of text files.
//!
//! Source: OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use crate::finding::trial_metric::WALL;
use crate::finding::{ArmFindings, Findings, MetricFindings, foreign};
use std::collections::BTreeMap;

/// Names, units and helps of the families, in the order in which they are written.
const FAMILIES: [(&str, &str, &str); 8] = [
    ("surtax_median_seconds", "seconds", "Median over the trials that count, of a time."),
    ("surtax_median_bytes", "bytes", "Median over the trials that count, of a size."),
    ("surtax_median_joules", "joules", "Median over the trials that count, of an energy."),
    ("surtax_median", "", "Median over the trials that count, in the unit of its label."),
    ("surtax_cost_ratio", "ratio", "Cost over the baseline, with its 95 % interval."),
    ("surtax_verdict", "", "1 at the verdict on a metric of a stack."),
    ("surtax_trials", "", "Trials that count."),
    ("surtax_run_info", "", "1 at what is known of the run."),
];

/// Lines of each family, by its name.
type Samples = BTreeMap<&'static str, Vec<String>>;

/// Findings as one exposition.
pub(super) fn text(findings: &Findings) -> String {
    let mut samples = Samples::new();
    for arm in findings.arms.iter().filter(|arm| !arm.is_again()) {
        of_an_arm(findings, arm, &mut samples);
    }
    let run = &findings.run;
    let known = [
        ("title", run.title.as_str()),
        ("run", &run.id),
        ("began", &run.began_at),
        ("state", &run.state),
        ("baseline", &run.baseline),
        ("machine", findings.machine_hash().unwrap_or("unknown")), // an empty label is none
        ("surtax", &findings.surtax_version),
    ];
    add(&mut samples, "surtax_run_info", &known, 1.0);
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
    let mut add = |family, own: &[(&str, &str)], value| {
        add(samples, family, &[&known[..], own].concat(), value);
    };
    add("surtax_trials", &[], arm.trial_count.into());
    for metric in &arm.metrics {
        let name = ("metric", named(metric, arm));
        match metric.unit.as_str() {
            "ns" => add("surtax_median_seconds", &[name], metric.median / 1e9),
            "bytes" => add("surtax_median_bytes", &[name], metric.median),
            "uJ" => add("surtax_median_joules", &[name], metric.median / 1e6),
            unit => add("surtax_median", &[name, ("unit", unit)], metric.median),
        }
        let own = metric.judgement.as_ref().map(|judged| &judged.verdict);
        let verdict = if metric.metric == WALL { Some(&arm.verdict) } else { own };
        if let Some(verdict) = verdict.filter(|_| arm.is_compared()) {
            add("surtax_verdict", &[name, ("verdict", verdict.word())], 1.0);
        }
        let Some(cost) = &metric.overhead else { continue };
        for (end, value) in [("estimate", cost.ratio), ("low", cost.low), ("high", cost.high)] {
            add("surtax_cost_ratio", &[name, ("bound", end)], value);
        }
    }
}

fn add(samples: &mut Samples, family: &'static str, labels: &[(&str, &str)], value: f64) {
    let labels = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", label(value)));
    let labels = labels.collect::<Vec<_>>().join(",");
    samples.entry(family).or_default().push(format!("{family}{{{labels}}} {value}\n"));
}

/// Returns the name of a metric without its unit, which is the family's, unless another of the arm
/// has that name.
fn named<'a>(metric: &'a MetricFindings, arm: &ArmFindings) -> &'a str {
    let (whole, bare) = (metric.metric.as_str(), bare(&metric.metric));
    let is_anothers = |it: &&MetricFindings| it.metric == bare || bare == self::bare(&it.metric);
    let mut others = arm.metrics.iter().filter(|it| it.metric != whole);
    if others.any(|it| is_anothers(&it)) { whole } else { bare }
}

fn bare(name: &str) -> &str {
    ["_ns", "_bytes", "_uj"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
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
    fn no_two_samples_have_the_same_name_and_labels() {
        let mut findings = example(6, |_| {});
        let of = findings.arms[2].metric("memory_peak_bytes").unwrap().clone();
        for (name, unit) in
            [("memory_peak", "bytes"), ("lat", "ns"), ("lat_ns", "ns"), ("lat_ns_ns", "ns")]
        {
            let (metric, unit) = (String::from(name), String::from(unit));
            findings.arms[2].metrics.push(MetricFindings { metric, unit, ..of.clone() });
        }
        let text = text(&findings);
        let series = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0));
        let series: Vec<&str> = series.filter(|it| !it.starts_with('#')).collect();
        let distinct: std::collections::BTreeSet<&str> = series.iter().copied().collect();
        assert_eq!(series.len(), distinct.len(), "{text}");
        let wall =
            "surtax_cost_ratio{title=\"make of a small tree\",stack=\"runc\",metric=\"wall\"";
        assert!(text.contains(wall), "{text}");
    }

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
