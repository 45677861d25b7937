//! Ledgers that hold too little, or what cannot be: each says so, in every format, and none fails.

use crate::finding::compare::*;
use crate::ledger::fixture::{add, done, id, ledger};
use crate::report::terminal::{PLAIN, render};
use crate::report::{export, html, markdown};
use crate::trial::{Record, TrialResult};
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
