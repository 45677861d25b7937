//! Ledgers that hold too little, or what cannot be: each says so, in every format, and none fails.

use crate::finding::compare::*;
use crate::ledger::fixture::{add, done, id, ledger, plan};
use crate::plan::{Plan, Word};
use crate::report::terminal::{PLAIN, render};
use crate::report::{export, html, markdown};
use crate::trial::{Record, TrialResult};
use crate::workload::Workload;
use surtax_instrument::quantity::Nanoseconds;

/// The findings of a ledger with these records, which every format can show.
fn findings(stacks: &[&str], records: &[Record]) -> Findings {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), stacks);
    records.iter().for_each(|record| add(&mut ledger, record));
    let findings = compare(&ledger).unwrap();
    for text in formats(&findings) {
        assert!(!text.is_empty() && !text.contains("NaN"), "{text}");
    }
    findings
}

fn formats(findings: &Findings) -> [String; 5] {
    [
        render(findings, PLAIN),
        markdown::markdown(findings),
        html::html(findings),
        export::json(findings),
        export::csv(findings),
    ]
}

/// Six blocks of these arms, a second each and a little more in every block.
fn blocks(arms: &[u32]) -> Vec<Record> {
    let wall = |block: u32, arm: u32| 1_000_000_000 + u64::from(block * 7 % 5 + arm) * 400_000;
    let of_block = |block| arms.iter().map(move |&arm| done(id(block, arm), wall(block, arm)));
    (0..6).flat_map(of_block).collect()
}

/// Returns what is said about nothing being compared.
#[track_caller]
fn said(findings: &Findings) -> &str {
    let mut cautions = findings.cautions.iter();
    let caution = cautions.find(|caution| caution.code == "nothing-compared");
    let caution = caution.unwrap_or_else(|| panic!("{:#?}", findings.cautions));
    for text in &formats(findings)[..4] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("no trial that counts") || text.contains("no overhead"), "{text}");
    }
    &caution.finding
}

#[test]
fn a_ledger_of_the_baseline_alone_says_that_nothing_was_compared() {
    let findings = findings(&["native"], &blocks(&[0, 1]));
    let expected = "only `native` has trials that count, so there is no overhead to tell";
    assert_eq!(said(&findings), expected);
    assert!(findings.noise_floor.is_some(), "two arms of the baseline have a noise floor");
}

#[test]
fn a_ledger_with_one_arm_says_that_nothing_was_compared() {
    let findings = findings(&["native", "runc"], &blocks(&[0]));
    let expected = "only `native` has trials that count, so there is no overhead to tell";
    assert_eq!(said(&findings), expected);
    assert_eq!(findings.noise_floor, None);
    assert!(findings.arms[2].because.contains("no trial has ended yet"));
}

#[test]
fn a_ledger_without_its_baseline_says_that_nothing_can_be_compared_with_it() {
    let findings = findings(&["native", "runc"], &blocks(&[2]));
    let expected =
        "the baseline `native` has no trial that counts, so nothing can be compared with it";
    assert_eq!(said(&findings), expected);
    assert_eq!(findings.arms[2].verdict, Verdict::Inconclusive);
    assert_eq!(findings.arms[2].overhead, None);
}

#[test]
fn a_ledger_with_both_says_nothing_of_the_kind() {
    let findings = findings(&["native", "runc"], &blocks(&[0, 1, 2]));
    assert!(findings.cautions.iter().all(|caution| caution.code != "nothing-compared"));
}

#[test]
fn a_time_of_zero_has_no_ratio_and_the_verdict_says_why() {
    let mut records = blocks(&[0, 1, 2]);
    let zero = records.iter_mut().find(|record| record.trial == id(3, 2)).unwrap();
    let TrialResult::Done(measured) = &mut zero.result else { panic!("it is done") };
    measured.wall = Nanoseconds(0);
    let findings = findings(&["native", "runc"], &records);
    let runc = &findings.arms[2];
    assert_eq!((&runc.verdict, runc.overhead), (&Verdict::Inconclusive, None));
    assert_eq!(
        runc.because,
        "its wall time has no ratio to that of `native`: a time that counts is zero or no number"
    );
}

#[test]
fn a_wall_clock_that_was_set_back_moves_points_and_changes_no_duration() {
    let forth = findings(&["native", "runc"], &blocks(&[0, 1, 2]));
    let mut records = blocks(&[0, 1, 2]);
    for record in records.iter_mut().filter(|record| record.trial.block >= 3) {
        record.began_at = record.began_at.since(Nanoseconds(3_600_000_000_000));
    }
    let back = findings(&["native", "runc"], &records);
    let hour = 3_600_000_000_000;
    for (arm, other) in back.arms.iter().zip(&forth.arms) {
        assert_eq!((&arm.overhead, &arm.verdict), (&other.overhead, &other.verdict));
        assert!(arm.trials.iter().all(|trial| trial.at_ns < 2 * hour), "{:?}", arm.trials);
    }
    assert_eq!(back.noise_floor, forth.noise_floor);
}

/// The findings of six blocks of a workload with this at the end of its text.
fn of_workload(end: &str) -> Findings {
    let shelf = tempfile::tempdir().unwrap();
    let text = format!(
        "about = \"x\"\ncommand = [\"x\"]\nfixed_time = true\n[[metric]]\nname = \"rate\"\nunit = \
         \"1/s\"\nbetter = \"higher\"\njsonpath = '$.rate'\n{end}"
    );
    let workload = Workload { name: "x".into(), parameters: Vec::new(), text };
    let plan = Plan { workload: Some(workload), ..plan(&["native", "runc"]) };
    let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
    blocks(&[0, 1, 2]).iter().for_each(|record| add(&mut ledger, record));
    compare(&ledger).unwrap()
}

#[test]
fn a_ledger_whose_workload_would_take_hours_to_compile_is_shown_like_any_other() {
    let check = |place: &str| format!("[[check]]\nabout = \"done\"\n{place}\n");
    let deep = format!("jsonpath = '${}.a{}'", "[?@".repeat(40), "]".repeat(40));
    let wide = format!("jsonpath = '$[?{}@.a{}]'", "(".repeat(3_000), ")".repeat(3_000));
    let large = check(r"regex = '(\pL{99})'").repeat(120);
    for end in [check(&deep), check(&wide), large] {
        let findings = of_workload(&end);
        assert_eq!(findings.run.workload.as_deref(), Some("x"));
        assert!(findings.run.is_of_fixed_time, "{end}");
        assert_eq!(findings.run.about, "x", "it is told without being compiled");
        assert_eq!(findings.arms.len(), 3);
        assert!(findings.arms[2].trial_count > 0 && findings.noise_floor.is_some());
        formats(&findings).iter().for_each(|text| assert!(!text.is_empty()));
    }
}

#[test]
fn a_ledger_whose_workload_is_longer_than_any_file_is_shown_without_what_it_says() {
    let findings = of_workload(&format!("# {}\n", "x".repeat(150_000)));
    assert_eq!(findings.run.workload.as_deref(), Some("x"));
    assert!(!findings.run.is_of_fixed_time, "its text is not read");
    assert!(findings.arms[2].trial_count > 0 && findings.noise_floor.is_some());
    formats(&findings).iter().for_each(|text| assert!(!text.is_empty()));
}

#[test]
fn a_ledger_of_a_hundred_thousand_variables_is_shown_with_each() {
    let shelf = tempfile::tempdir().unwrap();
    let variable = |number| (format!("NAME_{number}"), Word::from("s3cret"));
    let environment = (0..100_000).map(variable).collect();
    let plan = Plan { environment, ..plan(&["native", "runc"]) };
    let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
    blocks(&[0, 1, 2]).iter().for_each(|record| add(&mut ledger, record));
    let line = compare(&ledger).unwrap().run.repeat_with;
    assert_eq!(line.matches(" --env ").count(), 100_000);
    assert!(!line.contains("s3cret"));
}
