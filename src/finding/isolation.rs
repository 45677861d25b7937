//! Isolation: what it costs a stack that a neighbour runs beside it.
//!
//! Each block has the stack alone and beside the neighbour, so the ratio of the two is estimated as
//! every overhead is, against the same stack and not against the baseline.

use crate::finding::arm_trials::ArmTrials;
use crate::finding::by_metric::{self, by_metric};
use crate::finding::estimate::{Baseline, Measure, interval};
use crate::finding::foreign::line;
use crate::finding::{ArmFindings, BesideFindings, BesideOverhead, Findings, number, workload};
use surtax_statistics::overhead;

/// One metric of one stack, in words.
pub(crate) struct Row<'a> {
    /// The stack alone.
    pub(crate) stack: &'a str,
    pub(crate) neighbour: &'a str,
    pub(crate) arm: &'a ArmFindings,
    pub(crate) found: &'a BesideOverhead,
    pub(crate) overhead: String,
}

/// Compares every arm beside neighbours with the same stack alone.
pub(crate) fn add_to(arms: &mut [ArmFindings], columns: &[ArmTrials<'_>], measures: &[Measure]) {
    for (arm, column) in arms.iter_mut().zip(columns) {
        if column.arm.beside.is_empty() {
            continue;
        }
        let is_alone =
            |it: &&ArmTrials<'_>| it.arm.beside.is_empty() && it.arm.stack == column.arm.stack;
        // The baseline is there twice.
        let mut alone = columns.iter().filter(is_alone).map(|it| it.counted.as_slice());
        let first = alone.next().unwrap_or_default();
        let baseline = Baseline::of(first, alone.next().unwrap_or_default());
        let found = |measure: &Measure| {
            let blocks = baseline.blocks(&column.counted, measure)?;
            let estimate = overhead(&blocks).ok()?;
            let metric = measure.metric.clone();
            Some(BesideOverhead { metric, overhead: interval(&estimate) })
        };
        arm.beside = Some(BesideFindings {
            neighbour: line(&column.arm.beside),
            alone: line(&column.arm.stack.to_string()),
            overheads: [Measure::wall()].iter().chain(measures).filter_map(found).collect(),
        });
    }
}

/// Every metric of every stack beside neighbours, metric by metric.
pub(crate) fn rows<'a>(findings: &'a Findings) -> Vec<Row<'a>> {
    let beside = findings.arms.iter().filter_map(|arm| Some((arm, arm.beside.as_ref()?)));
    let row = |arm, it: &'a BesideFindings, found: &'a BesideOverhead| {
        let (stack, neighbour) = (it.alone.as_str(), it.neighbour.as_str());
        let overhead = number::overhead(&found.overhead);
        (found.metric.as_str(), Row { stack, neighbour, arm, found, overhead })
    };
    let of_arm = |(arm, it): (_, &'a BesideFindings)| {
        it.overheads.iter().map(move |found| row(arm, it, found))
    };
    by_metric(beside.flat_map(of_arm)).into_iter().flat_map(|(_, rows)| rows).collect()
}

/// One line for each metric that a short report has room for: its name, and what the neighbour cost
/// each stack.
pub(crate) fn lines(findings: &Findings) -> Vec<(String, String)> {
    let rows = rows(findings).into_iter();
    let shown = rows.filter(|row| !workload::is_detail_of(row.arm, &row.found.metric));
    by_metric::lines(
        shown.map(|row| (row.found.metric.as_str(), format!("{} {}", row.stack, row.overhead))),
    )
}

/// Returns what ran beside the stacks; `None` where nothing did.
pub(crate) fn neighbour(findings: &Findings) -> Option<&str> {
    findings.arms.iter().find_map(|arm| Some(arm.beside.as_ref()?.neighbour.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::finding::{Findings, compare};
    use crate::layer::tests::DESCRIPTORS;
    use crate::ledger::Ledger;
    use crate::ledger::fixture::{add, done, id, plan};
    use crate::plan::Neighbour;
    use crate::report::{export, html, markdown, terminal};

    /// Ten blocks: alone 1 s and 1.1 s, beside a neighbour 1.5 s and 1.1 s, with a little noise.
    fn measured() -> Findings {
        let shelf = tempfile::tempdir().unwrap();
        let path = shelf.path().join("run.surtax");
        let mut plan = plan(&["native", "runc"]);
        plan.beside = vec![Neighbour::parse_with("adversary.load@runc", DESCRIPTORS).unwrap()];
        let mut ledger = Ledger::create(&path, &plan, &[]).unwrap();
        for block in 0..10 {
            let wobble = u64::from(block * 7 % 5) * 100_000;
            for (arm, wall) in [(0, 1_000), (1, 1_000), (2, 1_100), (3, 1_500), (4, 1_100)] {
                add(&mut ledger, &done(id(block, arm), wall * 1_000_000 + wobble));
            }
        }
        drop(ledger);
        compare(&Ledger::open(&path).unwrap()).unwrap()
    }

    #[test]
    fn what_a_neighbour_costs_is_over_the_same_stack_alone_in_every_format() {
        let findings = measured();
        let ratio = |arm: usize| {
            let beside = findings.arms[arm].beside.as_ref().unwrap();
            beside.overheads.iter().find(|it| it.metric == "wall_ns").unwrap().overhead.ratio
        };
        assert!((ratio(3) - 1.5).abs() < 1e-3, "{}", ratio(3));
        assert!((ratio(4) - 1.0).abs() < 1e-3, "{}", ratio(4));
        assert!(findings.arms[..3].iter().all(|arm| arm.beside.is_none()));
        assert_eq!(findings.arms[4].stack, "runc beside adversary.load@runc");
        let text = terminal::render(&findings, terminal::PLAIN);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("Beside adversary.load@runc, wall_ns: native +50.0 %"), "{text}");
        let text = markdown::markdown(&findings);
        assert!(
            text.contains("| `wall_ns` | `native` | `adversary.load@runc` | +50.0 %"),
            "{text}"
        );
        let page = html::html(&findings);
        let section = &page[page.find("<section id=\"isolation\"").unwrap()..];
        assert!(section.contains("+50.0 %"), "{section}");
        let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
        assert_eq!(json["arms"][3]["beside"]["alone"], "native");
        let rows = export::csv(&findings);
        let starts = "3,native beside adversary.load@runc,compared,10,wall_ns,";
        let row = rows.lines().find(|row| row.starts_with(starts)).unwrap();
        assert!(row.contains(",1.49") || row.contains(",1.5"), "{row}");
    }
}
