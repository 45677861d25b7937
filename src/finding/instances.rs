//! Several instances at once: how far apart they were in each stack, and whether they ran beside
//! each other at all.
//!
//! Each trial has the least, the most and the coefficient of variation of its instances; what is
//! shown is the median of each over the trials that count.

use crate::finding::arm_trials::ArmTrials;
use crate::finding::by_metric::{self, by_metric};
use crate::finding::caution::{Signs, caution};
use crate::finding::estimate::{deviation, mean, median};
use crate::finding::trial_metric::WALL;
use crate::finding::{ArmFindings, Caution, Findings, InstanceFindings, number, workload};
use crate::ledger::StoredTrial;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest share of the longest instance's time for which all must run: below it, their sum is no
/// rate of any moment.
const AT_ONCE_MIN: f64 = 0.8;

/// One metric of the instances of one arm, in words.
pub(crate) struct Row<'a> {
    pub(crate) arm: &'a ArmFindings,
    pub(crate) found: &'a InstanceFindings,
    pub(crate) least: String,
    pub(crate) most: String,
    /// The coefficient of variation.
    pub(crate) variation: String,
}

/// The spread between the instances of an arm's trials.
pub(crate) fn of_arm(counted: &[&StoredTrial]) -> Vec<InstanceFindings> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut spreads: BTreeMap<&str, Vec<Spread>> = BTreeMap::new();
    for trial in counted {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for sample in &trial.instances {
            if known.insert(&sample.metric) {
                order.push((&sample.metric, &sample.unit));
            }
            values.entry(&sample.metric).or_default().push(sample.value);
        }
        for (metric, values) in values {
            spreads.entry(metric).or_default().push(Spread::of(&values));
        }
    }
    let found = |(metric, unit): (&str, &str)| {
        let all = spreads.get(metric)?;
        let middle = |of: fn(&Spread) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
        let variations: Option<Vec<f64>> = all.iter().map(|it| it.variation).collect();
        Some(InstanceFindings {
            metric: super::foreign::line(metric),
            unit: super::foreign::line(unit),
            instance_count: all.iter().map(|it| it.count).min()?,
            min: middle(|it| it.min)?,
            max: middle(|it| it.max)?,
            variation_ratio: variations.and_then(|all| median(&all)),
        })
    };
    order.into_iter().filter_map(found).collect()
}

/// The instances of one trial.
struct Spread {
    count: u32,
    min: f64,
    max: f64,
    /// Standard deviation by mean; none of one instance, or where the mean is zero.
    variation: Option<f64>,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let mean = mean(values).filter(|mean| mean.abs() > 0.0);
        Self {
            count: u32::try_from(values.len()).unwrap_or(u32::MAX),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            variation: mean.and_then(|mean| Some(deviation(values, mean)? / mean.abs())),
        }
    }
}

/// Every metric of the instances of every arm, metric by metric; nothing where one ran.
pub(crate) fn rows<'a>(findings: &'a Findings) -> Vec<Row<'a>> {
    let of_arm = |arm| move |found: &'a InstanceFindings| (found.metric.as_str(), (arm, found));
    let all = findings.arms.iter().flat_map(|arm| arm.instances.iter().map(of_arm(arm)));
    let row = |(arm, found): (&'a ArmFindings, &'a InstanceFindings)| {
        let [least, most] = [found.min, found.max].map(|value| number::amount(value, &found.unit));
        let variation = found.variation_ratio.map_or(number::GAP.into(), number::percent);
        Row { arm, found, least, most, variation }
    };
    by_metric(all).into_iter().flat_map(|(_, found)| found).map(row).collect()
}

/// One line for each metric that a short report has room for: its name, and what it was in each
/// stack.
pub(crate) fn lines<'a>(findings: &'a Findings) -> Vec<(String, String)> {
    let is_fixed_wall = |row: &Row<'_>| row.found.metric == WALL && findings.run.workload.is_some();
    let is_left_out =
        |row: &Row<'_>| is_fixed_wall(row) || workload::is_detail_of(row.arm, &row.found.metric);
    let words = |row: Row<'a>| {
        let Row { arm, found, least, most, variation } = row;
        let name = super::foreign::line(&arm.name);
        (found.metric.as_str(), format!("{name} {least} to {most} (varies by {variation})"))
    };
    let shown = rows(findings).into_iter().filter(|row| !is_left_out(row));
    by_metric::lines(shown.map(words))
}

/// Stacks in which the instances ran one after the other rather than at once.
pub(crate) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let at_once = &signs.conditions.at_once;
    let apart = |column: &ArmTrials<'_>| {
        let own = column.counted.iter().filter_map(|trial| at_once.get(&trial.id).copied());
        median(&own.collect::<Vec<_>>()).filter(|share| *share < AT_ONCE_MIN)
    };
    let least = signs.columns.iter().filter_map(apart).reduce(f64::min)?;
    let stacks = signs.stacks(|column, _| apart(column).is_some())?;
    Some(caution(
        "instances-apart",
        format!(
            "the instances did not end together in {stacks}: all of them ran for {} of the longest one's \
             time, so what they did at once is less than the sum of their rates",
            number::percent(least)
        ),
        "let each work for a fixed time rather than a fixed amount, or give the stack a CPU for \
         each instance",
    ).of_those(stacks))
}

#[cfg(test)]
mod tests {
    use crate::finding::Findings;
    use crate::finding::compare::tests::example;
    use crate::report::{export, html, markdown, terminal};
    use crate::trial::TrialResult;
    use crate::workload::{Better, Instanced, Metric};

    /// The example, of which two instances at once did 100 and 300 in a second, and ran together
    /// for such a share.
    fn measured(share: f64) -> Findings {
        example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            let rate = |instance, value| Instanced {
                instance,
                metric: String::from("rate"),
                unit: "1/s",
                value,
            };
            measured.workload.metrics = vec![Metric {
                name: String::from("rate"),
                unit: "1/s",
                better: Better::Higher,
                value: 400.0,
            }];
            measured.workload.instances = vec![rate(0, 100.0), rate(1, 300.0)];
            record.conditions.push((String::from("instances_at_once_ratio"), share));
        })
    }

    #[test]
    fn every_format_says_how_far_instances_were_apart() {
        let findings = measured(0.9);
        let found = &findings.arms[2].instances[0];
        assert_eq!((found.metric.as_str(), found.instance_count), ("rate", 2));
        assert_eq!((found.min, found.max), (100.0, 300.0));
        // The deviation of 100 and 300 is 141.4, and their mean 200.
        assert!((found.variation_ratio.unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
        let text = terminal::render(&findings, terminal::PLAIN);
        let line = "runc 100 /s to 300 /s (varies by 71 %)";
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(line), "{text}");
        let text = markdown::markdown(&findings);
        assert!(text.contains("| `rate` | `runc` | 2 | 100 /s | 300 /s | 71 % |"), "{text}");
        let page = html::html(&findings);
        let section = &page[page.find("<section id=\"instances\"").unwrap()..];
        assert!(section.contains("300 /s") && section.contains("71 %"), "{section}");
        let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
        assert_eq!(json["arms"][2]["instances"][0]["max"], 300.0);
        let rows = export::csv(&findings);
        let row = rows.lines().find(|row| row.starts_with("2,runc,compared,6,rate,")).unwrap();
        assert!(row.contains(",100,300,0.7071"), "{row}");
    }

    #[test]
    fn instances_that_did_not_run_at_once_are_a_caution() {
        let of = |share| -> Vec<String> {
            let findings = measured(share);
            let all = findings.cautions.into_iter().filter(|it| it.code == "instances-apart");
            all.map(|it| it.finding).collect()
        };
        assert!(of(0.9).is_empty());
        let said = of(0.5);
        assert!(said[0].contains("ran for 50 % of the longest one's time"), "{said:?}");
    }

    #[test]
    fn where_one_runs_nothing_is_said_of_instances() {
        let findings = example(6, |_| {});
        assert!(findings.arms.iter().all(|arm| arm.instances.is_empty()));
        assert!(!html::html(&findings).contains("id=\"instances\""));
        assert!(!markdown::markdown(&findings).contains("Between the instances"));
    }
}
