//! Explanations of runs whose causes are planted.

use super::words::{rows, sentence};
use super::*;
use crate::finding::Findings;
use crate::finding::compare::tests::example_with;
use crate::trial::{CountedCalls, TrialResult};
use surtax_instrument::amount::{Amounts, CONTEXT_SWITCHES, PAGE_FAULTS, PREEMPTIONS};
use surtax_instrument::calls::Call;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Calls;

fn calls(calls: &[(libc::c_long, u64)]) -> CountedCalls {
    let call = |(number, count): &(libc::c_long, u64)| Call {
        number: u16::try_from(*number).unwrap(),
        count: *count,
        returned: 0,
        fresh: 0,
    };
    let counted = calls.iter().map(call).collect();
    CountedCalls { is_of_this_level: true, calls: Calls { counted, ..Calls::default() } }
}

/// Prices of both stacks in nine blocks, which differ by a thousandth from block to block.
fn prices(of: &[(&str, f64, f64)]) -> Vec<PriceSample> {
    let each = |(price, native, runc): &(&str, f64, f64)| {
        let sample = |arm, block: u32, ns: f64| PriceSample {
            arm,
            block,
            price: String::from(*price),
            operation_ns: ns * (1.0 + f64::from(block * 3 % 5) * 1e-3),
        };
        let both = |block| [sample(0, block, *native), sample(2, block, *runc)];
        (0..9).flat_map(both).collect::<Vec<_>>()
    };
    of.iter().flat_map(each).collect()
}

/// A run in which `runc` takes 100 ms more than the 1 s of `native`.
fn example(counted: &[(u32, CountedCalls)], priced: &[(&str, f64, f64)]) -> Findings {
    let command = |record: &mut crate::trial::Record| {
        if let TrialResult::Done(measured) = &mut record.result {
            let amounts = [(PAGE_FAULTS, 1000), (CONTEXT_SWITCHES, 500), (PREEMPTIONS, 300)];
            measured.outcome.counts = amounts.into_iter().collect::<Amounts>();
        }
    };
    example_with(10, command, |ledger| {
        for (arm, counted) in counted {
            ledger.keep_counted(*arm, Nanoseconds(1), counted).unwrap();
        }
        ledger.keep_prices(&prices(priced)).unwrap();
    })
}

fn why(findings: &Findings) -> &WhyFindings {
    findings.arms[2].why.as_ref().unwrap()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.02 * other.abs().max(1e6)
}

#[test]
fn a_planted_cause_is_the_first_with_its_size_and_the_rest_is_unexplained() {
    let counted = calls(&[(libc::SYS_getppid, 2_000_000), (libc::SYS_read, 100)]);
    let priced = [("system_call", 50.0, 90.0), ("file_read", 400.0, 500.0)];
    let findings = example(&[(0, counted.clone()), (2, counted)], &priced);
    let why = why(&findings);
    assert_eq!(why.counted_by, CountedBy::ThisMachine);
    let [first, second] = &why.causes[..] else { panic!("{:?}", why.causes) };
    assert_eq!((first.cause.as_str(), first.count), ("system_call", Some(2e6)));
    assert!(is_near(first.extra.ns, 80e6), "{first:?}");
    assert!(first.extra.low_ns < 80.2e6 && first.extra.high_ns > 80e6, "{first:?}");
    assert_eq!(second.cause, "file_read");
    assert!(is_near(why.extra.ns, 100e6) && is_near(why.unexplained.ns, 20e6), "{why:?}");
    let said = sentence(why);
    assert!(
        said.starts_with("99.8 ms (+10 %): 8 points plain system calls (2,000,000 at "),
        "{said}"
    );
    assert!(said.ends_with("1.9 to 2 points unexplained"), "{said}");
    let last: Vec<String> = rows(why).iter().rev().map(|row| row[0].clone()).collect();
    assert_eq!(last, ["all", "unexplained", "reads", "plain system calls"]);
}

/// More that is asked for costs more, too.
#[test]
fn what_is_asked_for_more_often_costs_what_it_costs_there() {
    let of_native = calls(&[(libc::SYS_getppid, 1_000_000)]);
    let of_runc = calls(&[(libc::SYS_getppid, 2_000_000)]);
    let findings = example(&[(0, of_native), (2, of_runc)], &[("system_call", 50.0, 60.0)]);
    let why = why(&findings);
    assert!(is_near(why.causes[0].extra.ns, 70e6), "{why:?}");
    assert_eq!(rows(why)[0][1], "2,000,000 (1,000,000)");
}

/// Faults and switches are those that the stack's own kernel counted; a switch is priced without
/// the pipe by which it is measured, and those that nobody asked for are none.
#[test]
fn what_the_kernel_counts_of_a_command_anyway_is_priced_too() {
    let priced = [
        ("page_fault_minor", 100.0, 50_100.0),
        ("context_switch_pipe", 2_000.0, 110_000.0),
        ("pipe_write_read", 1_000.0, 9_000.0),
    ];
    let findings = example(&[(0, calls(&[]))], &priced);
    let why = why(&findings);
    let extra = |cause: &str| {
        let found = why.causes.iter().find(|it| it.cause == cause).unwrap();
        (found.count.unwrap(), found.extra.ns)
    };
    let (faults, cost) = extra("page_fault_minor");
    assert!(faults.total_cmp(&1000.0).is_eq() && is_near(cost, 50e6), "{why:?}");
    let (switches, cost) = extra("context_switch");
    assert!(switches.total_cmp(&200.0).is_eq() && is_near(cost, 20e6), "{why:?}");
    assert!(is_near(why.unexplained.ns, 30e6), "{why:?}");
}

#[test]
fn where_nobody_could_count_the_baseline_stands_in_and_that_is_said() {
    let failure = String::from("nobody may\u{1b}[2J");
    let refused =
        CountedCalls { is_of_this_level: false, calls: Calls { failure, ..Calls::default() } };
    let of_native = calls(&[(libc::SYS_getppid, 1_000_000)]);
    let findings = example(&[(0, of_native), (2, refused)], &[("system_call", 50.0, 100.0)]);
    let why = why(&findings);
    assert_eq!(why.counted_by, CountedBy::Baseline);
    assert!(is_near(why.causes[0].extra.ns, 50e6), "{why:?}");
    let said = words::source(why, "native");
    assert!(said.contains("in `native`, which stands in: nobody may\\u{1b}[2J"), "{said}");
}

#[test]
fn a_difference_is_worth_a_question_until_it_is_explained() {
    let counted = calls(&[(libc::SYS_getppid, 1_000_000)]);
    let all = [(0, counted.clone()), (2, counted)];
    let mut findings = example(&all, &[]);
    assert!(is_to_ask(&findings));
    findings.run.is_of_fixed_time = true;
    assert!(!is_to_ask(&findings));
    assert!(!is_to_ask(&example(&all, &[("system_call", 50.0, 90.0)])));
}

#[test]
fn causes_that_explain_too_much_are_said_to() {
    let counted = calls(&[(libc::SYS_getppid, 1_000_000)]);
    let findings = example(&[(0, counted)], &[("system_call", 50.0, 300.0)]);
    let said = sentence(why(&findings));
    assert!(said.contains("25 points") && said.ends_with("points explained twice"), "{said}");
}

#[test]
fn without_counts_or_prices_nothing_is_explained() {
    let none = |findings: &Findings| findings.arms.iter().all(|arm| arm.why.is_none());
    assert!(none(&example(&[(0, calls(&[(libc::SYS_getppid, 9)]))], &[])));
    assert!(none(&example(&[], &[("system_call", 50.0, 90.0)])));
}
