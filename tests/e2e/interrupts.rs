//! Ctrl-C once and twice, and what `resume` does afterwards.

use crate::machine::{Machine, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Output};
use std::time::Duration;

/// Waits until the run has said that a trial ended, then sends a signal so many times.
fn interrupt(child: Child, times: u32) -> Output {
    interrupt_by(Signal::INT, child, times)
}

fn interrupt_by(signal: Signal, mut child: Child, times: u32) -> Output {
    let stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines();
    let first = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ended:")));
    assert!(first.is_some(), "no trial ended");
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    for _ in 0..times {
        std::thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let mut output = child.wait_with_output().unwrap();
    output.stderr = rest.join().unwrap().join("\n").into_bytes();
    output
}

#[test]
fn ctrl_c_once_keeps_what_is_done_and_resume_counts_nothing_twice() {
    let machine = Machine::beside_one();
    let ledger = machine.path("run.surtax");
    let ledger = ledger.to_str().unwrap();
    let run =
        ["compare", "-v", "--in", "native", "--runs", "4", "-o", ledger, "--", "sleep", "0.4"];
    let output = interrupt(machine.start(&run), 1);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    machine.assert_as_before();
    let shown = machine.json(&["show", ledger, "--format", "json"]);
    assert_eq!(shown["run"]["state"], "interrupted");
    let done = |answer: &serde_json::Value| -> u64 {
        answer["arms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|arm| arm["trial_count"].as_u64().unwrap())
            .sum()
    };
    assert!((1..8).contains(&done(&shown)), "{} trials", done(&shown));
    let said = text(&machine.surtax(&["show", ledger]).stderr);
    assert!(said.contains(&format!("`surtax resume {ledger}` continues it")), "{said}");
    let resumed = machine.surtax(&["resume", ledger]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let shown = machine.json(&["show", ledger, "--format", "json"]);
    assert_eq!(done(&shown), 8, "two native arms of four trials, none twice");
    assert_eq!(shown["run"]["state"], "finished");
    machine.assert_as_before();
}

#[test]
fn a_first_request_to_end_lets_the_running_trial_end_as_ctrl_c_does() {
    let machine = Machine::beside_one();
    let ledger = machine.path("run.surtax");
    let ledger = ledger.to_str().unwrap();
    let run = ["compare", "-v", "--in", "native", "--runs", "9", "-o", ledger, "--", "sleep", "1"];
    let output = interrupt_by(Signal::TERM, machine.start(&run), 1);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("finishing the running trial"), "{said}");
    assert!(!said.contains("killing what runs"), "{said}");
    let shown = machine.json(&["show", ledger, "--format", "json"]);
    let arms = shown["arms"].as_array().unwrap();
    let done: u64 = arms.iter().map(|arm| arm["trial_count"].as_u64().unwrap()).sum();
    assert!((1..18).contains(&done), "{done} trials");
    machine.assert_as_before();
}

#[test]
fn ctrl_c_twice_kills_and_is_still_tidy() {
    let machine = Machine::beside_one();
    let ledger = machine.path("run.surtax");
    let ledger = ledger.to_str().unwrap();
    let run = ["compare", "-v", "--in", "native", "--runs", "9", "-o", ledger, "--", "sleep", "2"];
    let began = surtax_instrument::clock::monotonic_raw();
    let output = interrupt(machine.start(&run), 2);
    let took = Duration::from(surtax_instrument::clock::monotonic_raw().since(began));
    assert!(took < Duration::from_secs(15), "it went on for {took:?}");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).to_lowercase().contains("interrupt"), "{}", text(&output.stderr));
    machine.assert_as_before();
}
