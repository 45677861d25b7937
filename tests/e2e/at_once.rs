//! Several surtaxes on one machine at once: each has what it needs of the network that they share.

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Child;

/// Starts a comparison with a workload.
fn start(machine: &Machine, stacks: &str, workload: &str, runs: &str) -> Child {
    let what = ["compare", "--in", stacks, "--workload", workload];
    machine.start(&[&what[..], &["--runs", runs, "--format", "json"]].concat())
}

/// Waits for the comparison, and returns its JSON answer.
fn answer(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"))
}

/// The port at which the server of an arm was.
fn port<'a>(answer: &'a Value, stack: &str) -> &'a str {
    fact(arm(answer, stack)["evidence"].as_array().unwrap().last().unwrap(), "server_port")
}

#[test]
fn two_at_once_with_one_workload_have_ports_of_their_own() {
    let machine = Machine::take();
    for (workload, stacks) in
        [("net.tcp_rr:time=500", &["native", "runc"][..]), ("net.iperf3", &["native"])]
    {
        let stacks: Vec<&str> =
            stacks.iter().copied().filter(|it| is_usable(&machine, it)).collect();
        let all = [(); 2].map(|()| start(&machine, &stacks.join(","), workload, "2"));
        let answers = all.map(answer);
        for (answer, stack) in
            answers.iter().flat_map(|it| stacks.iter().map(move |stack| (it, stack)))
        {
            let label = if *stack == "runc" && workload.starts_with("net.tcp") {
                "runc:net=veth"
            } else {
                stack
            };
            let found = arm(answer, label);
            assert_eq!(found["trial_count"], 2, "{workload} in {stack}: {}", found["trouble"]);
        }
        let ports: BTreeSet<&str> = answers.iter().map(|it| port(it, "native")).collect();
        assert_eq!(ports.len(), 2, "{workload}: {ports:?}");
    }
    machine.assert_as_before();
}

#[test]
fn a_port_that_another_surtax_has_is_told_with_its_process_and_its_run() {
    let machine = Machine::take();
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let workload = format!("net.tcp_rr:time=4000,port={port}");
    let one = start(&machine, "native", &workload, "1");
    let pid = one.id();
    let waiting = std::time::Instant::now();
    while surtax::lab::listener(port).is_none() {
        assert!(waiting.elapsed().as_secs() < 60, "nobody listens at {port}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let arguments = ["compare", "--in", "native", "--workload", &workload, "--runs", "1"];
    let other = machine.json_of_a_failure(&[&arguments[..], &["--format", "json"]].concat());
    let trouble = &other["arms"][0]["trouble"];
    let why = trouble["why"].as_str().unwrap();
    assert!(why.contains(&format!("port {port} is taken here, by `")), "{trouble}");
    // What listens is a part of that surtax, or between two trials itself what has the port.
    let whose = format!("process id {pid}, whose run is `{}", machine.path("").display());
    assert!(why.contains(&whose), "{trouble}");
    assert!(why.contains(".surtax`"), "{trouble}");
    assert!(trouble.to_string().contains("leave the workload's `port=` out"), "{trouble}");
    let first = answer(one);
    assert_eq!(arm(&first, "native")["trial_count"], 1, "{first}");
    machine.assert_as_before();
}

#[test]
fn who_waits_begins_when_the_others_have_ended_and_who_does_not_names_them() {
    let machine = Machine::alone();
    let began = |name: &str| {
        let runs = machine.json(&["list", "--format", "json"]);
        let run = runs.as_array().unwrap().iter().find(|run| run["title"] == name).cloned();
        run.unwrap_or_else(|| panic!("no run `{name}`: {runs}"))
    };
    let question = |title: &'static str, seconds: &'static str| {
        ["compare", "--in", "native", "--runs", "1", "--title", title, "--", "sleep", seconds]
    };
    let first = machine.start(&question("first", "3"));
    let pid = first.id();
    while surtax::lab::living().unwrap().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let waiting = [&question("waiting", "0")[..7], &["--wait", "--", "true"]].concat();
    let waiting = machine.start(&waiting);
    let beside = machine.surtax(&question("beside", "0"));
    let said = text(&beside.stderr);
    assert!(said.contains("another surtax works on this machine, and each"), "{said}");
    assert!(said.contains(&format!("process {pid} (`")), "{said}");
    first.wait_with_output().unwrap();
    let waited = waiting.wait_with_output().unwrap();
    let said = text(&waited.stderr);
    assert!(said.contains(&format!("waits for process {pid} (`")), "{said}");
    // The one beside began while the first one slept for three seconds.
    let (beside, waited) = (began("beside"), began("waiting"));
    assert!(beside["began_at"].as_str() < waited["began_at"].as_str(), "{beside} {waited}");
    machine.assert_as_before();
}
