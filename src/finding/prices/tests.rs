//! A run of prices, and one of something else.

use crate::finding::compare::tests::example;
use crate::finding::prices::*;
use crate::report::{export, html, markdown, terminal};
use crate::trial::TrialResult;
use crate::workload::{Absence, Better, Metric};

/// The example with a system call that is 80 times as dear in `runc`, a signal that costs the same,
/// and huge pages that `runc` does not have.
fn priced() -> Findings {
    let mut findings = example(10, |record| {
        let TrialResult::Done(measured) = &mut record.result else { return };
        let wobble = 1.0 + f64::from(record.trial.block * 7 % 5) * 1e-4;
        let is_runc = record.trial.arm == 2;
        let metric = |name: &str, value: f64| Metric {
            name: name.into(),
            unit: "ns",
            better: Better::Lower,
            value: value * wobble,
        };
        let factor = if is_runc { 80.0 } else { 1.0 };
        measured.workload.metrics =
            vec![metric("signal", 800.0), metric("system_call", 45.0 * factor)];
        if is_runc {
            let why = String::from("the kernel gave 0 huge pages of 1");
            measured.workload.absences = vec![Absence { metric: "page_fault_huge".into(), why }];
        } else {
            measured.workload.metrics.push(metric("page_fault_huge", 22_490.0));
        }
    });
    findings.run.workload = Some("prices:each=10".into());
    findings
}

#[test]
fn a_price_list_has_a_row_for_each_primitive_that_was_measured_in_their_usual_order() {
    let findings = priced();
    let list = list(&findings).unwrap();
    let names: Vec<&str> = list.rows.iter().map(|row| row.name).collect();
    assert_eq!(names, ["system_call", "signal", "page_fault_huge"]);
    let stacks: Vec<&str> = list.arms.iter().map(|arm| arm.stack.as_str()).collect();
    assert_eq!(stacks, ["native", "runc", "qemu"]);
    let calls = &list.rows[0].cells;
    assert_eq!([calls[0].price(), calls[1].price()], ["45.0 ns", "3.60 µs"]);
    assert_eq!(calls[0].overhead(), None);
    assert_eq!(calls[1].overhead().unwrap(), "80× [80, 80]");
    let signals = &list.rows[1].cells;
    assert_eq!(signals[1].overhead().unwrap(), "+0.0 % [+0.0, +0.0] =");
    // Of the signal nothing is shown, and huge pages are no price in `runc`.
    assert_eq!(list.headline(), "runc: 1 of 2 prices differ, most of all system_call, about 80×");
    let why = "the kernel gave 0 huge pages of 1";
    assert_eq!(list.gaps(), [("runc, page_fault_huge".into(), why.into())]);
}

#[test]
fn every_format_shows_the_prices_with_their_ratios_and_the_reason_of_a_gap() {
    let findings = priced();
    let text = terminal::render(&findings, terminal::PLAIN);
    assert!(text.contains("45.0 ns"), "{text}");
    assert!(text.contains("3.60 µs  80× [80, 80]"), "{text}");
    assert!(text.contains("No price of runc, page_fault_huge: the kernel gave 0 huge pages of 1"));
    // Its own time is as long as it was told to be.
    assert!(!text.contains("Wall"), "{text}");

    let text = markdown::markdown(&findings);
    let head = "| Price | One of it is | `native` | `runc` | ratio | `qemu` | ratio |";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("| 45.0 ns | 3.60 µs | 80× [80, 80] | — | — |"), "{text}");
    assert!(text.contains("- no price of runc, page\\_fault\\_huge: the kernel gave"), "{text}");

    let page = html::html(&findings);
    assert!(!page.contains("<section id=\"overhead\"") && !page.contains("no measurable cost"));
    let section = &page[page.find("<section id=\"prices\"").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    assert!(
        section.contains("<svg") && section.contains("runc, system_call: 3.60 µs"),
        "{section}"
    );
    assert!(section.contains("the kernel gave 0 huge pages of 1"), "{section}");

    let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
    assert_eq!(json["arms"][2]["absences"][0]["metric"], "page_fault_huge");
    let rows = export::csv(&findings);
    assert!(rows.contains(",system_call,ns,lower,"));
    let gap = rows.lines().find(|row| row.contains("page_fault_huge") && row.starts_with("2,"));
    let gap = gap.unwrap();
    assert!(gap.contains(",,the kernel gave 0 huge pages of 1,,"), "{gap}");
    let fields = rows.lines().next().unwrap().matches(',').count();
    assert_eq!(gap.matches(',').count(), fields);
}

#[test]
fn another_workload_has_no_price_list_and_neither_has_a_command() {
    let mut findings = priced();
    for workload in [None, Some("pricesless"), Some("cpu.sysbench:threads=2")] {
        findings.run.workload = workload.map(String::from);
        assert!(list(&findings).is_none(), "{workload:?}");
        assert!(!html::html(&findings).contains("id=\"prices\""));
        // Its gaps are told all the same.
        let why = "page_fault_huge: the kernel gave 0 huge pages of 1";
        assert!(terminal::render(&findings, terminal::PLAIN).contains(why));
        assert!(html::html(&findings).contains(why));
    }
}

#[test]
fn the_workload_file_has_every_price_and_its_reason() {
    use crate::workload::Workload;
    let definition = Workload::find(WORKLOAD).unwrap().resolve().unwrap();
    let names: Vec<&str> = definition.metrics.iter().map(|rule| rule.name.as_str()).collect();
    let known: Vec<&str> = PRICES.iter().map(|price| price.name).collect();
    assert_eq!(names, known);
    let field = |name: &str| format!("\"{name}_ns\":null,\"{name}_why\":\"not here\"");
    let fields: Vec<String> = known.iter().map(|name| field(name)).collect();
    let read = definition.read(&format!("{{\"version\":1,{}}}", fields.join(","))).unwrap();
    assert!(read.metrics.is_empty());
    let absent: Vec<&str> = read.absences.iter().map(|it| it.metric.as_str()).collect();
    assert_eq!(absent, known);
    let refusal = definition.read("{\"version\":1}").unwrap_err();
    assert!(refusal.starts_with("no metric `system_call`"), "{refusal}");
}
