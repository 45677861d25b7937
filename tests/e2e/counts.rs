//! Page faults and context switches of a command, as its own kernel counts them, against what is
//! planted and what the group of the command says.

use crate::machine::Machine;
use serde_json::Value;

/// Number of processes that are planted: each is made, and waited for.
const PLANTED: f64 = 400.0;

/// Makes that many processes where the variable says so.
const SCRIPT: &str = "i=0; while [ $i -lt $N ]; do /bin/true; i=$((i+1)); done";

/// Amounts of the command of an arm.
fn command(answer: &Value, arm: usize) -> &Value {
    let command = &answer["arms"][arm]["payers"][0];
    assert_eq!(command["payer"], "the command", "{answer}");
    command
}

/// The most page faults that somebody else of an arm had: the group that holds the command.
fn of_the_group(answer: &Value, arm: usize) -> f64 {
    let others = answer["arms"][arm]["payers"].as_array().unwrap().iter().skip(1);
    others.filter_map(|payer| payer["page_fault_count"].as_f64()).fold(0.0, f64::max)
}

#[test]
fn what_a_command_plants_is_counted_and_its_group_has_counted_the_same() {
    let machine = Machine::take();
    let answer = |count: &str| {
        let flags = format!("compare --in native,runc --runs 1 --env N={count} --format json --");
        let mut arguments: Vec<&str> = flags.split(' ').collect();
        arguments.extend(["sh", "-c", SCRIPT]);
        machine.json(&arguments)
    };
    let (few, many) = (answer("0"), answer("400"));
    for arm in [0, 2] {
        let count = |answer: &Value, key: &str| command(answer, arm)[key].as_f64().unwrap();
        let more = |key| count(&many, key) - count(&few, key);
        let each = more("page_fault_count") / PLANTED;
        assert!((20.0..200.0).contains(&each), "arm {arm}: {each} faults for a process");
        let each = more("context_switch_count") / PLANTED;
        assert!((0.9..20.0).contains(&each), "arm {arm}: {each} switches for a process");
        let (own, all) = (count(&many, "page_fault_count"), of_the_group(&many, arm));
        // The group has the agent's own beside them; its kernel adds up in batches.
        assert!((0.98..1.05).contains(&(all / own)), "arm {arm}: {own} of {all}");
    }
    machine.assert_as_before();
}

#[test]
fn a_kernel_that_counts_nothing_has_no_counts_and_no_zeroes() {
    let machine = Machine::take();
    if !crate::machine::is_usable(&machine, "gvisor") {
        return;
    }
    let flags = "compare --in native,gvisor --runs 1 --format json --";
    let mut arguments: Vec<&str> = flags.split(' ').collect();
    // So long that the ticks of its kernel say how much of the CPU time was its own.
    arguments.extend(["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
    // On a busy machine its ticks claim more than there was, and then the command has no row.
    let answers = (0..5).map(|_| machine.json(&arguments));
    let is_divided = |it: &Value| it["arms"][2]["payers"][0]["payer"] == "the command";
    let answer = answers.into_iter().find(is_divided).expect("a run whose CPU time is divided");
    let command = command(&answer, 2);
    for key in ["page_fault_count", "context_switch_count", "preemption_count"] {
        assert!(command[key].is_null(), "{command}");
    }
    machine.assert_as_before();
}
