//! Neighbours: what runs beside a stack while it is measured.

use crate::answers::{arm, fact};
use crate::machine::{Machine, cases, is_usable, text};

/// Compares a shell's loop in `native`, alone and beside this.
fn beside<'a>(neighbour: &'a str, runs: &'a str, script: &'a str) -> Vec<&'a str> {
    let mut words = vec!["compare", "--in", "native", "--beside", neighbour, "--runs", runs];
    words.extend(["--format", "json", "--", "sh", "-c", script]);
    words
}

#[test]
fn a_neighbour_runs_all_the_while_and_what_it_costs_is_over_the_same_stack_alone() {
    let machine = Machine::alone();
    let stack = "runc:cpus=1,memory=64M";
    if !is_usable(&machine, "runc") {
        return;
    }
    let neighbour = format!("adversary.load:cpu=80,time=60000@{stack}");
    let answer = machine.json(&beside(&neighbour, "3", "sleep 0.3"));
    let label = format!("native beside {neighbour}");
    let found = arm(&answer, &label);
    assert_eq!(found["trial_count"], 3, "{}", found["trouble"]);
    let innermost = found["evidence"].as_array().unwrap().last().unwrap();
    assert_eq!(fact(innermost, "neighbour_0"), neighbour);
    let beside = &found["beside"];
    assert_eq!((&beside["alone"], &beside["neighbour"]), (&"native".into(), &neighbour.into()));
    let wall = &beside["overheads"][0];
    assert_eq!(wall["metric"], "wall_ns");
    // Who sleeps is not hurt by who works.
    let ratio = wall["overhead"]["ratio"].as_f64().unwrap();
    assert!((0.9..1.3).contains(&ratio), "{wall}");
    let alone = arm(&answer, "native");
    assert!(alone["beside"].is_null() && alone["trial_count"] == 3, "{alone}");
    machine.assert_as_before();
}

#[test]
fn a_bomb_that_is_stopped_at_once_goes_on_beside_a_command() {
    let machine = Machine::beside_one();
    for bomb in ["adversary.allocbomb@runc:memory=64M", "adversary.logflood@runc"] {
        let answer = machine.json(&beside(bomb, "1", "sleep 2"));
        let found = arm(&answer, &format!("native beside {bomb}"));
        assert_eq!(found["trial_count"], 1, "{found}");
    }
    machine.assert_as_before();
}

#[test]
fn an_adversary_goes_on_beside_a_command_that_takes_longer_than_its_time_and_its_own_deadline() {
    let machine = Machine::alone();
    // A bomb that has the CPUs without a limit keeps others from them for many seconds at a time.
    let neighbours = [
        "adversary.forkbomb:time=100@runc:pids=50,cpus=0.5",
        "adversary.load:cpu=50,time=100@native",
        "adversary.thrash:time=100@runc:memory=256M,scratch=layer",
    ];
    let neighbours = neighbours.map(|it| ["--beside", it]).concat();
    let rest = ["--runs", "1", "--iterations", "3", "--deadline", "5s", "--format", "json"];
    // Beside all of them a machine may stand still for seconds.
    let command = ["--", "sleep", "1.8"];
    let answer =
        machine.json(&[&["compare", "--in", "native"][..], &neighbours, &rest, &command].concat());
    let arms = answer["arms"].as_array().unwrap();
    let found = arms.iter().find(|it| it["stack"].as_str().unwrap().contains(" beside ")).unwrap();
    assert_eq!(found["trial_count"], 1, "{found}");
    machine.assert_as_before();
}

#[test]
fn a_neighbour_with_two_sides_goes_on_beside_a_command_and_beside_one_with_two_sides() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    // On a network that all share each has a port of its own.
    for neighbour in ["net.tcp_rr@runc:net=veth", "net.tcp_stream@native"] {
        let commands: [&[&str]; 3] = [
            &["--", "sleep", "0.5"],
            &["--warmup", "1", "--workload", "net.tcp_rr:time=200,client=stack"],
            &["--workload", "net.tcp_rr:time=300"],
        ];
        for rest in cases(&commands, 2) {
            let stacks = "native,runc:net=host";
            let words = ["compare", "--in", stacks, "--beside", neighbour, "--runs", "2"];
            let answer = machine.json(&[&words[..], &["--format", "json"], *rest].concat());
            for stack in ["native", "runc:net=host"] {
                let found = arm(&answer, &format!("{stack} beside {neighbour}"));
                assert_eq!(found["trial_count"], 2, "{rest:?}: {found}");
                let innermost = found["evidence"].as_array().unwrap().last().unwrap();
                let outside = "outside, on the level of the measurement";
                assert_eq!(fact(innermost, "neighbour_0_client_place"), outside);
            }
        }
    }
    let short = "net.tcp_rr:time=300@runc:net=veth";
    let answer = machine.answer(&beside(short, "1", "sleep 1"));
    let why = &arm(&answer, &format!("native beside {short}"))["trouble"]["why"];
    assert!(why.as_str().unwrap().contains("ended before the command did, with exit 0"), "{why}");
    let gap = "net.tcp_rr@runc:net=none";
    let answer = machine.answer(&beside(gap, "1", "true"));
    let why = &arm(&answer, &format!("native beside {gap}"))["trouble"]["why"];
    assert!(why.as_str().unwrap().contains("there is no way between"), "{why}");
    machine.assert_as_before();
}

#[test]
fn a_neighbour_that_ends_too_early_or_cannot_be_makes_no_number() {
    let machine = Machine::take();
    let short = "noise:seconds=1@native";
    let answer = machine.answer(&beside(short, "1", "sleep 2.5"));
    let found = arm(&answer, &format!("native beside {short}"));
    assert_eq!(found["trial_count"], 0, "{found}");
    let why = found["trouble"]["why"].as_str().unwrap();
    assert!(why.contains("ended before the command did, with exit 0: "), "{why}");
    assert!(why.ends_with("by its parameter `seconds`"), "{why}");
    for (neighbour, expected) in [
        ("adversary.load", "does not say in which stack it runs"),
        ("adversary.lod@native", "adversary.load"),
    ] {
        let output = machine.surtax(&beside(neighbour, "1", "true"));
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
    // It is set up as a measured workload is: what it lacks is told with the package to install.
    let file = machine.path("lacking.toml");
    let lacking = "about = \"lacks a tool\"\ncommand = [\"sleep\", \"60\"]\n\
                   setup = [[\"surtax-no-such-tool\"]]\n\
                   packages = { debian = [\"surtax-no-such-package\"] }\n\
                   [[metric]]\nname = \"n\"\n\
                   unit = \"1/s\"\nbetter = \"higher\"\nregex = \"(x)\"\n";
    std::fs::write(&file, lacking).unwrap();
    let neighbour = format!("{}@native", file.display());
    let answer = machine.answer(&beside(&neighbour, "1", "true"));
    let arm = answer["arms"].as_array().unwrap().last().unwrap().clone();
    let remedy = arm["trouble"]["remedy"].as_str().unwrap_or_default().to_owned();
    assert!(remedy.contains("surtax-no-such-package"), "{arm}");
    machine.assert_as_before();
}
