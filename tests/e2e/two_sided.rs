//! Trials with two sides: a server in a stack and its client outside, or the other way round.

use crate::answers::{arm, fact};
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::fs;

/// Compares with a workload of two sides, once.
fn compare<'a>(stacks: &'a str, workload: &'a str) -> [&'a str; 9] {
    ["compare", "--in", stacks, "--workload", workload, "--runs", "1", "--format", "json"]
}

fn innermost<'a>(answer: &'a Value, stack: &str) -> &'a Value {
    arm(answer, stack)["evidence"].as_array().unwrap().last().unwrap()
}

/// Runs a workload in those stacks that can be had here, native first, and gives the answer; all
/// must have measured.
fn measured(machine: &Machine, stacks: &[&str], workload: &str, place: &str) -> Value {
    let stacks: Vec<&str> = stacks.iter().copied().filter(|it| is_usable(machine, it)).collect();
    let answer = machine.json(&compare(&stacks.join(","), workload));
    for stack in stacks {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let innermost = innermost(&answer, stack);
        assert_eq!(fact(innermost, "client_place"), place, "{stack}");
        assert_eq!(fact(innermost, "command_file"), "@surtax", "{stack}");
        let address = fact(innermost, "server_address");
        assert_eq!(address == "127.0.0.1", stack == "native", "{stack}: {address}");
        let placement = fact(innermost, "setting_placement");
        assert!(placement.starts_with("client on CPU "), "{stack}: {placement}");
        assert_eq!(fact(innermost, "setting_waiting"), "blocking", "{stack}");
    }
    machine.assert_as_before();
    answer
}

const OUTSIDE: &str = "outside, on the level of the measurement";

#[test]
fn a_server_in_a_stack_is_reached_by_its_client_outside() {
    let machine = Machine::take();
    let stacks = ["native", "runc:net=veth", "gvisor:net=sandbox"];
    measured(&machine, &stacks, "net.tcp_rr:time=50,request=100", OUTSIDE);
    measured(&machine, &["native", "docker:net=bridge"], "net.udp_rr:time=50", OUTSIDE);
}

#[test]
fn a_port_that_somebody_else_has_is_told_with_whose_it_is() {
    let machine = Machine::take();
    let theirs = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = theirs.local_addr().unwrap().port();
    let answer =
        machine.json_of_a_failure(&compare("native", &format!("net.tcp_rr:time=50,port={port}")));
    let trouble = answer["arms"][0]["trouble"].to_string();
    let whose = format!("(process id {})", std::process::id());
    assert!(trouble.contains(&format!("port {port} is taken here")), "{trouble}");
    assert!(trouble.contains(&whose), "{trouble}");
    machine.assert_as_before();
}

/// nspawn and LXC mount an identity of their own over the kernel's.
#[test]
fn ends_on_one_kernel_are_known_to_be_whatever_a_tool_shows_of_it() {
    let machine = Machine::take();
    let stacks = [
        ("native", true),
        ("runc:net=veth", true),
        ("nspawn:net=veth", true),
        ("lxc:net=veth", true),
        ("namespaces:net=host,time=private", true),
        ("gvisor:net=sandbox", false),
        ("qemu:accel=tcg,net=tap", false),
    ];
    let usable: Vec<_> = stacks.into_iter().filter(|(it, _)| is_usable(&machine, it)).collect();
    let names: Vec<&str> = usable.iter().map(|(stack, _)| *stack).collect();
    let answer = machine.json(&compare(&names.join(","), "net.tcp_rr:time=50"));
    for (stack, is_one) in usable {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let placement = fact(innermost(&answer, stack), "setting_placement");
        assert_eq!(!placement.contains("another kernel"), is_one, "{stack}: {placement}");
    }
    machine.assert_as_before();
}

#[test]
fn a_published_port_is_what_a_client_outside_calls() {
    let machine = Machine::take();
    for (engine, workload) in [
        ("docker:net=bridge", "net.tcp_rr:time=50"),
        ("docker:net=user", "net.tcp_crr:time=50"),
        ("podman:net=bridge", "net.tcp_rr:time=50"),
    ] {
        let published = format!("{engine},publish=5201");
        if !is_usable(&machine, engine) {
            continue;
        }
        let answer = machine.json(&compare(&format!("native,{published}"), workload));
        let levels = innermost(&answer, &published);
        assert_eq!(arm(&answer, &published)["trial_count"], 1, "{published}");
        assert_eq!(fact(levels, "server_published_port"), "5201/tcp", "{published}");
        // The engine's bridge, whose rules lead on to the container.
        assert_eq!(fact(levels, "server_address"), fact(levels, "network_gateway"), "{published}");
    }
    machine.assert_as_before();
}

#[test]
fn a_client_in_a_stack_finds_the_server_outside() {
    let machine = Machine::take();
    let stacks = ["native", "runc:net=veth", "qemu:accel=tcg,net=user"];
    let workload = "net.tcp_stream:time=50,client=stack";
    let answer = measured(&machine, &stacks, workload, "in the stack");
    // On this machine's own network a server has a port that no other surtax has: also where the
    // guest that calls it is not on that network.
    for (stack, is_ours) in stacks.into_iter().zip([true, false, true]) {
        if is_usable(&machine, stack) {
            let facts = innermost(&answer, stack)["facts"].as_array().unwrap();
            let has_port = facts.iter().any(|fact| fact["key"] == "server_port");
            assert_eq!(has_port, is_ours, "{stack}");
        }
    }
}

#[test]
fn a_client_in_another_stack_meets_the_server_on_its_bridge_or_on_this_machines_network() {
    let machine = Machine::take();
    for (server, client) in [("runc:net=veth", "runc:net=veth"), ("native", "runc:net=host")] {
        let workload = format!("net.tcp_rr:time=50,client={client}");
        measured(&machine, &[server], &workload, &format!("in another stack, {client}"));
    }
    let workload = "net.tcp_rr:time=50,client=docker:net=macvlan";
    let output = machine.surtax(&compare("native", workload));
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("`docker:net=macvlan` cannot meet"),
        "{said}"
    );
    machine.assert_as_before();
}

#[test]
fn a_client_in_a_guest_meets_the_server_on_its_bridge_or_as_an_ordinary_process() {
    let machine = Machine::take();
    let client = "qemu:accel=tcg,memory=256M,net=tap";
    if !is_usable(&machine, client) || !is_usable(&machine, "runc") {
        return;
    }
    let servers =
        [("native", "198.18.0.1"), (client, "198.18.0.2"), ("runc:net=veth", "198.18.0.2")];
    let servers = cases(&servers, 1);
    let stacks: Vec<&str> = servers.iter().map(|(stack, _)| *stack).collect();
    let workload = format!("net.tcp_rr:time=1000,client={client}");
    let answer = machine.json(&compare(&stacks.join(","), &workload));
    for &(stack, address) in servers {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let innermost = innermost(&answer, stack);
        assert_eq!(fact(innermost, "client_place"), format!("in another stack, {client}"));
        assert_eq!(fact(innermost, "server_address"), address, "{stack}");
        assert_eq!(fact(innermost, "client_address"), "198.18.0.3", "{stack}");
        assert_eq!(fact(innermost, "client_network"), "tap", "{stack}");
        // Its kernel's clock is its own, and was watched.
        assert_eq!(fact(innermost, "client_clock"), "its own, and watched", "{stack}");
        assert!(
            found["histograms"][0]["value_count"].as_u64().unwrap() > 5,
            "{stack}: {}",
            found["histograms"]
        );
    }
    // Behind QEMU's own stack it calls this machine's loopback, at an address that QEMU translates.
    let client = "qemu:accel=tcg,memory=256M,net=user";
    let workload = format!("net.tcp_rr:time=1000,client={client}");
    let answer = machine.json(&compare("runc:net=host", &workload));
    let innermost = innermost(&answer, "runc:net=host");
    assert_eq!(fact(innermost, "server_address"), "10.0.2.2");
    machine.assert_as_before();
}

#[test]
fn a_server_two_levels_deep_is_reached_and_what_its_client_measures_is_believed() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,cpus=1,memory=512M,net=tap+runc:net=host";
    if !is_usable(&machine, stack) || !is_usable(&machine, "runc") {
        return;
    }
    let workload = "net.tcp_rr:time=200";
    // Nothing is compared with it, which is no answer; it takes half a minute to start.
    let question = ["compare", "--in", stack, "--baseline", "simulated", "--runs", "1"];
    let output =
        machine.surtax(&[&question[..], &["--workload", workload, "--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = arm(&answer, stack);
    assert_eq!(found["trial_count"], 1, "{}", found["trouble"]);
    let levels = found["evidence"].as_array().unwrap();
    assert_eq!(levels.len(), 2, "{levels:?}");
    let innermost = innermost(&answer, stack);
    assert_eq!(fact(innermost, "client_place"), OUTSIDE);
    // The guest's clock is its own, and was watched; the client measures by this machine's.
    assert_eq!(fact(innermost, "clock"), "its own");
    assert_ne!(fact(innermost, "server_address"), "127.0.0.1");
    assert_eq!(found["absences"].as_array().unwrap().len(), 0, "{}", found["absences"]);
    assert!(
        found["histograms"][0]["value_count"].as_u64().unwrap() > 20,
        "{}",
        found["histograms"]
    );
    machine.assert_as_before();
}

#[test]
fn every_network_workload_has_its_numbers() {
    let machine = Machine::take();
    for (workload, metric) in [
        ("net.tcp_rr_rate:time=100,rate=500", "shortfall"),
        ("net.tcp_crr:time=50", "latency_p50"),
        ("net.tcp_maerts:time=50", "throughput"),
        ("net.udp_stream:time=50", "received"),
    ] {
        let answer = machine.json(&compare("native", workload));
        let found = arm(&answer, "native");
        assert_eq!(found["trial_count"], 1, "{workload}: {}", found["trouble"]);
        assert!(answer.to_string().contains(&format!("\"{metric}\"")), "{workload}: {answer:#}");
    }
    machine.assert_as_before();
}

#[test]
fn a_stack_that_names_no_network_gets_one_of_its_own_and_it_is_said() {
    let machine = Machine::take();
    let output = machine.surtax(&compare("native,runc", "net.tcp_rr:time=50"));
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("`runc` is `runc:net=veth`"), "{said}");
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(arm(&answer, "runc:net=veth")["trial_count"], 1);
    machine.assert_as_before();
}

#[test]
fn a_rate_that_cannot_be_reached_is_a_number_and_no_failure() {
    let machine = Machine::take();
    let answer = machine.json(&compare("native", "net.tcp_rr_rate:time=100,rate=10000000"));
    let found = arm(&answer, "native");
    assert_eq!(found["trial_count"], 1, "{}", found["trouble"]);
    let metrics = found["metrics"].as_array().unwrap();
    let shortfall = metrics.iter().find(|metric| metric["metric"] == "shortfall").unwrap();
    assert!(shortfall["median"].as_f64().unwrap() > 0.5, "{shortfall}");
    machine.assert_as_before();
}

#[test]
fn a_stack_without_a_way_is_a_gap_before_it_is_started() {
    let machine = Machine::take();
    let answer = machine.answer(&compare("native,runc:net=none", "net.tcp_rr:time=50"));
    let found = arm(&answer, "runc:net=none");
    assert_eq!(found["trial_count"], 0);
    assert!(found.to_string().contains("there is no way between it and the outside"), "{found:#}");
    machine.assert_as_before();
}

#[test]
fn a_server_that_fails_is_named_and_nothing_of_either_side_is_left() {
    let machine = Machine::take();
    let file = machine.path("broken.toml");
    let text_of = |server: &str| {
        format!(
            "about = \"broken\"\ncommand = [\"@surtax\", \"engine\", \"tcp_rr\", \"--connect\", \
             \"{{address}}:5299\", \"--time\", \"50ms\", \"--patience\", \"300ms\"]\nserver = \
             {server}\n[[metric]]\nname = \"rate\"\nunit = \"1/s\"\nbetter = \"higher\"\njsonpath \
             = \"$.transactions_per_s\"\n"
        )
    };
    for (server, expected) in [
        (r#"["sh", "-c", "echo out of order >&2; exit 7"]"#, "out of order"),
        (r#"["no-such-server"]"#, "cannot start `no-such-server`"),
        (r#"["sleep", "1000"]"#, "nobody answers at 127.0.0.1:5299"),
    ] {
        fs::write(&file, text_of(server)).unwrap();
        let workload = file.to_str().unwrap();
        let output = machine.surtax(&compare("native", workload));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(expected), "{server}: {said}");
        machine.assert_as_before();
    }
}
