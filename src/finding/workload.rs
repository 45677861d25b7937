//! Metrics that a workload measured, as rows: the table that every format has where there is
//! something to show.

use crate::finding::by_metric::by_metric;
use crate::finding::number::GAP;
use crate::finding::stacks::named;
use crate::finding::{AbsenceFindings, ArmFindings, Findings, MetricFindings, number};

/// One metric of one arm, in words.
pub(crate) struct Row<'a> {
    pub(crate) metric: &'a str,
    /// True if it is the first of its metric.
    pub(crate) is_first: bool,
    pub(crate) arm: &'a ArmFindings,
    pub(crate) found: &'a MetricFindings,
    pub(crate) median: String,
    pub(crate) overhead: String,
    /// `baseline`, or the verdict on this metric.
    pub(crate) verdict: &'static str,
}

/// The metrics of the workload, metric by metric, each with the arms that have it.
pub(crate) fn rows(findings: &Findings) -> Vec<Row<'_>> {
    let all = of_workload(findings).map(|(arm, found)| (found.metric.as_str(), (arm, found)));
    let of_metric = |(_, arms): (_, Vec<_>)| arms.into_iter().enumerate();
    let rows = by_metric(all).into_iter().flat_map(of_metric);
    rows.map(|(place, (arm, found))| row(place, arm, found)).collect()
}

/// Name of the first metric that the workload measured in any arm.
pub(crate) fn first_metric(findings: &Findings) -> Option<&str> {
    of_workload(findings).next().map(|(_, found)| found.metric.as_str())
}

/// Every metric of the workload of every arm.
fn of_workload(findings: &Findings) -> impl Iterator<Item = (&ArmFindings, &MetricFindings)> {
    let all = findings.arms.iter().flat_map(|arm| arm.metrics.iter().map(move |it| (arm, it)));
    all.filter(|(_, metric)| !super::trial_metric::is_of_every_trial(&metric.metric))
}

fn row<'a>(place: usize, arm: &'a ArmFindings, found: &'a MetricFindings) -> Row<'a> {
    let verdict = match &found.judgement {
        Some(judged) => judged.verdict.word(),
        None => arm.verdict.word(),
    };
    Row {
        metric: &found.metric,
        is_first: place == 0,
        arm,
        found,
        median: number::amount(found.median, &found.unit),
        overhead: found.overhead.as_ref().map_or(GAP.into(), number::overhead),
        verdict,
    }
}

/// Tells whether it is a quantile of a distribution that a short table leaves out.
pub(crate) fn is_detail(row: &Row<'_>) -> bool {
    is_detail_of(row.arm, row.metric)
}

/// The same of a metric by its name.
pub(crate) fn is_detail_of(arm: &ArmFindings, metric: &str) -> bool {
    let of = |name: &str| metric.strip_prefix(name)?.strip_prefix("_p");
    let quantile = arm.histograms.iter().find_map(|found| of(&found.metric));
    quantile.is_some_and(|quantile| !["50", "99"].contains(&quantile))
}

/// Returns what the workload could not measure in any trial of an arm.
pub(crate) fn absent(arm: &ArmFindings) -> impl Iterator<Item = &AbsenceFindings> {
    let has = |name: &str| arm.metrics.iter().any(|metric| metric.metric == name);
    arm.absences.iter().filter(move |absence| !has(&absence.metric))
}

/// The same of all arms: the stack and the metric, and why.
pub(crate) fn gaps(findings: &Findings) -> Vec<(String, &str)> {
    let all = findings.arms.iter().flat_map(|arm| absent(arm).map(move |it| (arm, it)));
    all.map(|(arm, it)| (format!("{}, {}", arm.name, it.metric), it.why.as_str())).collect()
}

/// Explains the overheads of rates; `None` where no metric is a rate.
pub(crate) fn remark(rows: &[Row<'_>]) -> Option<String> {
    let is_rate = |row: &&Row<'_>| row.found.better == "higher" && row.is_first;
    let names = named(rows.iter().filter(is_rate).map(|row| row.metric));
    let rates = (!names.is_empty()).then_some(names)?;
    Some(format!(
        "of {rates} more is better, and an overhead is a cost: with +25 % a stack reaches four fifths \
         of the baseline's number"
    ))
}

/// Names whatever measured: the workload as typed, the meters of a plan, or both.
pub(crate) fn measurer(findings: &Findings) -> String {
    let workload = findings.run.workload.as_deref().map(|typed| format!("`{typed}`"));
    match (workload, findings.meters.is_empty()) {
        (Some(workload), true) => workload,
        (Some(workload), false) => workload + " and the meters",
        (None, false) => String::from("the meters"),
        (None, true) => String::from("the workload"),
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::Verdict;
    use crate::finding::compare::tests::example;
    use crate::finding::workload::*;
    use crate::report::{export, html, markdown, terminal};
    use crate::trial::TrialResult;
    use crate::workload::{Better, Histogrammed, Metric};
    use surtax_statistics::Histogram;

    /// The example, whose command is a workload that handles a quarter less in a second in `runc`,
    /// with latencies that are the same everywhere.
    fn measured(blocks: u32) -> Findings {
        example(blocks, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            let wobble = f64::from(record.trial.block * 7 % 5) * 1e-4;
            measured.wall.0 +=
                u64::from((record.trial.block * 3 + record.trial.arm) * 5 % 7) * 1_000_000;
            let rate = if record.trial.arm == 2 { 3_000.0 } else { 4_000.0 } * (1.0 + wobble);
            let metric = |name: &str, unit, better, value| Metric {
                name: String::from(name),
                unit,
                better,
                value,
            };
            measured.workload.metrics = vec![
                metric("rate", "1/s", Better::Higher, rate),
                metric("latency_p50", "ns", Better::Lower, 20_000.0 * (1.0 + wobble)),
            ];
            let mut histogram = Histogram::new();
            histogram.record_many(20_000, 100).unwrap();
            measured.workload.histograms =
                vec![Histogrammed { name: String::from("latency"), histogram }];
        })
    }

    #[test]
    fn a_rate_that_falls_by_a_quarter_costs_a_third_more() {
        let findings = measured(10);
        let runc = &findings.arms[2];
        let rate = runc.metrics.iter().find(|metric| metric.metric == "rate").unwrap();
        let overhead = rate.overhead.unwrap();
        assert!((overhead.ratio - 4.0 / 3.0).abs() < 1e-3, "{overhead:?}");
        assert_eq!((rate.unit.as_str(), rate.better.as_str()), ("1/s", "higher"));
        let judged = rate.judgement.as_ref().unwrap();
        assert_eq!((judged.verdict.clone(), judged.block_count), (Verdict::Differs, 10));
        assert!(judged.because.starts_with("33.3 % worse than `native`"), "{}", judged.because);
        let latency = runc.metrics.iter().find(|metric| metric.metric == "latency_p50").unwrap();
        let judged = latency.judgement.as_ref().unwrap();
        assert_eq!(judged.verdict, Verdict::Equivalent, "{}", judged.because);
        assert!(judged.because.starts_with("as good as `native`"), "{}", judged.because);
        assert!(findings.arms[0].metrics.iter().all(|metric| metric.judgement.is_none()));
    }

    #[test]
    fn all_verdicts_of_a_run_are_one_family() {
        let with_metrics = measured(10);
        let plain = example(10, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            measured.wall.0 +=
                u64::from((record.trial.block * 3 + record.trial.arm) * 5 % 7) * 1_000_000;
        });
        // One comparison alone is not adjusted; of three, the second least p-value is taken twice.
        let p = |findings: &Findings| {
            let runc = &findings.arms[2];
            runc.p_value_adjusted.unwrap() / runc.p_value.unwrap()
        };
        assert!((p(&plain) - 1.0).abs() < 1e-9, "{}", p(&plain));
        assert!(p(&with_metrics) > 1.9, "{}", p(&with_metrics));
    }

    #[test]
    fn every_format_shows_what_a_workload_measured() {
        let findings = measured(10);
        let text = terminal::render(&findings, terminal::PLAIN);
        println!("{text}");
        let line =
            |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
        assert!(line("rate  ").contains("4.001 k/s"), "{text}");
        assert!(text.contains("3.001 k/s  +33.3 % [+33.3, +33.3]  differs"), "{text}");
        assert!(line("Overhead: ").starts_with("Overhead: of `rate` more is better"), "{text}");
        assert!(line("rate, runc: ").contains("33.3 % worse than `native`"));

        let text = markdown::markdown(&findings);
        assert!(
            text.contains("| `rate` | `runc` | 3.001 k/s | +33.3 % [+33.3, +33.3] | differs |"),
            "{text}"
        );
        let page = html::html(&findings);
        let section = &page[page.find("<section id=\"measured\"").unwrap()..];
        assert!(
            section.contains("3.001 k/s") && section.contains("33.3 % worse than"),
            "{section}"
        );

        let rows = export::csv(&findings);
        let row = rows
            .lines()
            .find(|row| row.starts_with("2,runc,compared,10,rate,1/s,higher,"))
            .unwrap();
        assert!(row.contains(",differs,,\"33.3 % worse than"), "{row}");
        let trials = export::csv_trials(&findings);
        assert!(trials.lines().next().unwrap().ends_with(",machine_hash,latency_p50,rate"));
        assert!(trials.lines().nth(1).unwrap().ends_with(",20000,4000"), "{trials}");

        let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
        let runc = &json["arms"][2];
        assert_eq!(runc["metrics"][9]["judgement"]["verdict"]["is"], "differs");
        assert_eq!(runc["histograms"][0]["value_count"], 1_000);
        assert_eq!(runc["histograms"][0]["points"].as_array().unwrap().len(), 21);
        assert_eq!(runc["trials"][0]["metrics"]["rate"], 3_000.0);
    }

    #[test]
    fn an_ordinary_command_has_no_such_table() {
        let findings = example(6, |_| {});
        assert!(rows(&findings).is_empty());
        assert!(!terminal::render(&findings, terminal::PLAIN).contains("measured\n"));
        assert!(!html::html(&findings).contains("id=\"measured\""));
    }
}
