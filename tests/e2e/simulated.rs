//! Proofs of surtax's own error on simulated stacks: minutes of computing, which nothing beside
//! them disturbs.

use crate::machine::{Machine, is_slow_made, is_usable};
use crate::prove::{lines, lines_of};
use serde_json::Value;

/// Number of runs of a proof, of its parts that contain `part`.
fn tried(lines: &[Value], proof: &str, part: &str) -> u64 {
    let is_it =
        |line: &&Value| line["proof"] == proof && line["part"].as_str().unwrap().contains(part);
    lines.iter().filter(is_it).map(|line| line["tried"].as_u64().unwrap()).sum()
}

/// The lines of a proof, and how many of so many runs of a part it made: one of `share`, where what
/// is slow is left.
fn a_share(share: u64, machine: &Machine, only: &str) -> (Vec<Value>, impl Fn(u64) -> u64) {
    let share = if is_slow_made(&format!("all but 1/{share} of {only}")) { 1 } else { share };
    let lines = lines_of(machine, &["--only", only, "--share", &format!("1/{share}")]);
    (lines, move |of: u64| of.div_ceil(share))
}

#[test]
fn equal_simulated_stacks_are_called_different_as_rarely_as_is_promised() {
    let machine = Machine::take();
    let (lines, sixth) = a_share(6, &machine, "false-positives");
    let tried = |part| tried(&lines, "false-positives", part);
    assert_eq!((tried("noise "), tried("all")), (10 * sixth(100), 10 * sixth(100)));
    machine.assert_as_before();
}

#[test]
fn planted_costs_of_simulated_stacks_are_held() {
    let machine = Machine::take();
    let (lines, sixth) = a_share(6, &machine, "planted");
    let tried = |part| tried(&lines, "planted", part);
    assert_eq!((tried("cost "), tried("cost 1.05")), (12 * sixth(100), 3 * sixth(100)));
    machine.assert_as_before();
}

#[test]
fn thresholds_are_not_decided_against_a_planted_cost() {
    let machine = Machine::take();
    let (lines, third) = a_share(3, &machine, "thresholds");
    assert_eq!(tried(&lines, "thresholds", "cost "), 4 * 10 * third(10));
    machine.assert_as_before();
}

#[test]
fn thresholds_that_are_looked_at_again_are_not_decided_against_a_planted_cost() {
    let machine = Machine::take();
    let (lines, fifth) = a_share(5, &machine, "retried");
    assert_eq!(tried(&lines, "retried", "cost "), 3 * 10 * fifth(5));
    machine.assert_as_before();
}

#[test]
fn differences_between_runs_are_found_and_none_is_made_up() {
    let machine = Machine::take();
    let (lines, half) = a_share(2, &machine, "differences");
    let tried = |part| tried(&lines, "differences", part);
    assert_eq!((tried("equal"), tried("few")), (half(30), half(5)));
    machine.assert_as_before();
}

#[test]
fn a_run_from_which_on_a_stack_is_dearer_is_found_and_none_is_made_up() {
    let machine = Machine::take();
    let lines = lines(&machine, "histories");
    let tried = |part| tried(&lines, "histories", part);
    assert_eq!((tried("steady"), tried("10 %")), (6, 12));
    machine.assert_as_before();
}

#[test]
fn a_simulated_cost_is_found_as_often_as_is_foretold() {
    let machine = Machine::take();
    let (lines, half) = a_share(2, &machine, "power");
    assert_eq!(tried(&lines, "power", "cost "), 3 * half(50));
    machine.assert_as_before();
}

#[test]
fn the_order_the_centre_and_the_margin_hold() {
    let machine = Machine::take();
    let (lines, sixth) = a_share(6, &machine, "order,centre,equivalence");
    let tried = |proof, part| tried(&lines, proof, part);
    assert_eq!(tried("order", "cost "), sixth(50));
    assert_eq!(tried("centre", ""), 3 * sixth(60) + 3 * sixth(200));
    assert_eq!(tried("equivalence", ""), 3 * sixth(60));
    machine.assert_as_before();
}

#[test]
fn numbers_of_real_trials_can_be_counted_again() {
    // A disturbance is planted, and is not to be one of many.
    let machine = Machine::alone();
    if !is_usable(&machine, "native") {
        return;
    }
    let lines = lines(&machine, "recounted");
    let is_real = |line: &&Value| line["part"].as_str().unwrap().starts_with("native");
    let real = lines.iter().find(is_real).unwrap();
    assert_eq!((&real["tried"], &real["found"]), (&Value::from(2), &Value::from(2)));
    machine.assert_as_before();
}
