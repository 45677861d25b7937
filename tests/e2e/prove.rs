//! Proofs of surtax's own error: quick campaigns, of which every bar must be met. Those of
//! simulated stacks are in `simulated.rs`.

use crate::machine::{Machine, is_slow_made, is_usable, skip, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// Proves, requires that every bar was met, and gives the lines.
pub fn lines(machine: &Machine, only: &str) -> Vec<Value> {
    lines_of(machine, &["--only", only])
}

/// The same of a selection.
pub fn lines_of(machine: &Machine, selection: &[&str]) -> Vec<Value> {
    let words = [&["prove", "--quick", "--format", "json"], selection].concat();
    let output = machine.surtax(&words);
    let said = text(&output.stdout);
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!("{error}: {said}\n{}", text(&output.stderr));
    });
    let lines = answer["lines"].as_array().unwrap().clone();
    let missed: Vec<&Value> = lines.iter().filter(|line| line["met"] != true).collect();
    assert!(missed.is_empty(), "bars were missed: {missed:#?}");
    let empty = lines.iter().find(|line| line["bar"]["at-least"] == 0 && line["tried"] != 0);
    assert!(empty.is_none(), "a bar that nothing misses: {empty:#?}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    lines
}

#[test]
fn the_sum_of_a_sandbox_beside_a_build_is_what_was_seen_from_outside() {
    let machine = Machine::beside_one();
    if !is_usable(&machine, "gvisor") {
        return;
    }
    let lines = lines(&machine, "bill");
    assert!(lines.iter().all(|line| line["tried"] == 18), "{lines:#?}");
    let with_bar: Vec<&str> = lines
        .iter()
        .filter(|line| line["bar"] != "shown")
        .map(|line| line["what"].as_str().unwrap())
        .collect();
    assert_eq!(
        with_bar,
        [
            "above what was seen from outside", "divided by a claim that does not fit",
            "above all that the machine did",
        ],
        "{lines:#?}",
    );
    machine.assert_as_before();
}

#[test]
fn real_work_that_was_planted_is_found_and_equal_work_is_not() {
    let machine = Machine::alone();
    if !["native", "runc"].iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let share = if is_slow_made("every other comparison") { "1/1" } else { "1/2" };
    let only = "real-false-positives,real-planted";
    lines_of(&machine, &["--only", only, "--share", share]);
    machine.assert_as_before();
}

#[test]
fn another_local_user_makes_swaps_and_writes_nothing_that_root_uses() {
    let machine = Machine::alone();
    if !is_usable(&machine, "runc") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("native", "only root can start a process of another user");
    }
    let lines = lines(&machine, "racer");
    let found = |what: &str| {
        let line = lines.iter().find(|line| line["what"] == what).unwrap();
        line["found"].as_u64().unwrap()
    };
    assert_eq!(found("of which the other user saw no lab"), 0, "{lines:#?}");
    // It could make names: that none of them is used is what was proved.
    assert!(found("made first by the other user") > 0, "{lines:#?}");
    assert_eq!((found("then used by root"), found("of ours changed"), found("failed")), (0, 0, 0));
    machine.assert_as_before();
}

#[test]
fn faults_that_were_planted_in_one_stack_are_told_of() {
    let machine = Machine::beside_one();
    if !is_usable(&machine, "native") {
        return;
    }
    let share = if is_slow_made("a second one of each fault") { "1/1" } else { "1/2" };
    let lines = lines_of(&machine, &["--only", "invalid", "--share", share]);
    let not_caught: Vec<&str> = lines
        .iter()
        .filter(|line| line["bar"] == "shown" && line["tried"] != 0)
        .map(|line| line["part"].as_str().unwrap())
        .collect();
    assert_eq!(
        not_caught,
        [
            "less work, and the same is printed",
            "another program in a shell, with the same result",
            "a child of the command stopped for 100 ms",
        ],
        "what nothing catches is listed, and nothing else is"
    );
    let planted = lines.iter().filter(|line| line["bar"] != "shown").count();
    assert!(planted >= 12, "only {planted} kinds were planted: {lines:#?}");
    machine.assert_as_before();
}

#[test]
fn forged_replies_count_nowhere_and_are_told_of() {
    let machine = Machine::take();
    if !is_usable(&machine, "native") {
        return;
    }
    let lines = lines(&machine, "forged");
    let tried = |part: &str| {
        let line = lines.iter().find(|line| line["part"] == part);
        line.unwrap_or_else(|| panic!("{part}: {lines:#?}"))["tried"].as_u64().unwrap()
    };
    assert_eq!(tried("on a channel, doubled"), 75);
    assert!(tried("native, those that reached the channel") >= 6);
    machine.assert_as_before();
}

#[test]
fn ledgers_that_somebody_else_made_harm_nobody() {
    let machine = Machine::beside_one();
    let lines = lines(&machine, "hostile");
    let tried: u64 = lines.iter().map(|line| line["tried"].as_u64().unwrap()).sum();
    assert_eq!(tried, 4 * 44, "each ledger is in four lines");
    machine.assert_as_before();
}

#[test]
fn whoever_is_killed_for_want_of_memory_is_named_with_the_limit() {
    let machine = Machine::alone();
    let lines = lines(&machine, "oom");
    assert_eq!(lines.len(), 4, "{lines:#?}");
    if is_usable(&machine, "native") {
        let tried = lines.iter().take(2).map(|line| line["tried"].as_u64().unwrap());
        assert_eq!(tried.collect::<Vec<_>>(), [4, 4], "{lines:#?}");
    }
    machine.assert_as_before();
}

#[test]
fn a_campaign_that_is_interrupted_shows_what_it_had_counted() {
    let machine = Machine::take();
    if !is_usable(&machine, "native") {
        return;
    }
    let arguments = ["prove", "--only", "real-false-positives", "--format", "json"];
    let mut child = machine.start(&arguments);
    let stderr = child.stderr.take().unwrap();
    let mut said = BufReader::new(stderr).lines().map_while(Result::ok);
    let first = said.next().unwrap();
    assert!(first.contains("750 runs, which take about "), "{first}");
    assert!(said.any(|line| line.contains(" of 750 runs, about ")), "it said nothing more");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest = std::thread::spawn(move || said.collect::<Vec<_>>());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{:#?}", rest.join());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["state"], &answer["size"]), (&"interrupted".into(), &"full".into()));
    let lines = answer["lines"].as_array().unwrap();
    let part = lines.iter().find(|line| line["part"] == "native, alone").unwrap();
    assert!((1..125).contains(&part["tried"].as_u64().unwrap()), "{part:#}");
    machine.assert_as_before();
}

#[test]
fn a_proof_that_is_not_there_is_answered_with_the_nearest() {
    let machine = Machine::take();
    let output = machine.surtax(&["prove", "--only", "plantde"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("use `planted`; the proofs are"));
}
