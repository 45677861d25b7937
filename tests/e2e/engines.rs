//! Engines: commands that are the agent itself, in whatever stack.

use crate::answers::{arm, compare, fact};
use crate::machine::{Machine, is_usable, text};
use surtax_engines::price::PRICES;

#[test]
fn an_engine_runs_in_every_layer_and_is_the_same_program() {
    let machine = Machine::take();
    let wanted = ["native", "runc", "gvisor"];
    let stacks: Vec<&str> = wanted.into_iter().filter(|stack| is_usable(&machine, stack)).collect();
    let command = ["@surtax", "engine", "recording", "--count", "1000"];
    let answer = machine.json(&compare(&stacks.join(","), "1", &command));
    for stack in stacks {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        let innermost = arm["evidence"].as_array().unwrap().last().unwrap();
        assert_eq!(fact(innermost, "command_file"), "@surtax", "{stack}");
    }
    let codes = answer["cautions"].as_array().unwrap().iter().map(|caution| &caution["code"]);
    assert!(codes.into_iter().all(|code| code != "another-program"), "{}", answer["cautions"]);
    machine.assert_as_before();
}

/// Returns the JSON answer of an engine in a stack.
pub fn answer_in(machine: &Machine, stack: &str, words: &str) -> serde_json::Value {
    let engine = words.split_whitespace();
    let arguments = ["enter", stack, "--", "@surtax", "engine"];
    let arguments: Vec<&str> = arguments.into_iter().chain(engine).collect();
    let output = machine.surtax(&arguments);
    let answer = text(&output.stdout);
    assert!(output.status.success(), "{stack}: {words}: {}", text(&output.stderr));
    assert_eq!(answer.lines().count(), 1, "{stack}: {words}: {answer}");
    serde_json::from_str(answer.trim_end()).unwrap()
}

#[test]
fn every_primitive_has_a_price_or_a_reason_and_a_sandbox_is_dear() {
    let machine = Machine::take();
    let mut system_calls = Vec::new();
    for stack in ["native", "runc", "gvisor"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = answer_in(&machine, stack, "prices --each 5ms --array-bytes 4194304");
        let is_plain = stack != "gvisor";
        for price in PRICES {
            let median = &answer[format!("{}_ns", price.name)];
            let why = &answer[format!("{}_why", price.name)];
            let is_needed = is_plain && !price.name.contains("huge");
            assert!(
                median.is_f64() || median.is_u64() || why.is_string(),
                "{stack}: {}",
                price.name
            );
            assert!(why.is_null() || !is_needed, "{stack}: {}: {why}", price.name);
        }
        system_calls.push((stack, answer["system_call_ns"].as_f64().unwrap()));
        machine.assert_as_before();
    }
    if let [(_, native), .., ("gvisor", gvisor)] = system_calls[..] {
        assert!(gvisor > 5.0 * native, "native {native} ns, gVisor {gvisor} ns");
    }
}

#[test]
fn a_disk_is_asked_on_the_scratch_medium_and_its_data_is_checked() {
    let machine = Machine::take();
    for stack in ["runc:scratch=bind", "runc:scratch=tmpfs", "gvisor:scratch=bind"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let words =
            "disk --operation write --buffered --file-bytes 1048576 --requests 100 --seed 7";
        let answer = answer_in(&machine, stack, words);
        assert_eq!(answer["request_count"], 100, "{stack}: {answer}");
        // A hundred random places of 256: some are written twice.
        let checked = answer["checked_block_count"].as_u64().unwrap();
        assert!((70..100).contains(&checked), "{stack}: {checked}");
        let bins = answer["histogram"].as_array().unwrap();
        let counted: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
        assert_eq!(counted, 100, "{stack}: {answer}");
    }
    let refused =
        machine.surtax(&["enter", "runc", "--", "@surtax", "engine", "disk", "--requests", "1"]);
    assert_eq!(refused.status.code(), Some(3));
    let said = text(&refused.stderr);
    assert!(said.contains("there is no directory `/scratch` for the file"), "{said}");
    assert!(said.contains("`scratch=bind`"), "{said}");
    machine.assert_as_before();
}

#[test]
fn timers_and_noise_are_measured_on_every_cpu() {
    let machine = Machine::take();
    for stack in ["native", "runc", "gvisor"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let timer = answer_in(&machine, stack, "timer --interval 1ms --duration 50ms");
        let threads = timer["thread_count"].as_u64().unwrap();
        let woken = timer["wake_up_count"].as_u64().unwrap();
        assert_eq!(woken + timer["missed_count"].as_u64().unwrap(), 51 * threads, "{timer}");
        let is_stated = timer["priority"] == 80 || timer["priority_why"].is_string();
        assert!(is_stated, "{stack}: {timer}");
        let noise = answer_in(&machine, stack, "noise --duration 30ms --threshold 1us");
        assert_eq!(noise["thread_count"], threads, "{stack}: {noise}");
        assert_eq!(noise["cpu_max_ns"].as_array().unwrap().len() as u64, threads, "{stack}");
        let share = noise["noise_percent"].as_f64().unwrap();
        assert!((0.0..=100.0).contains(&share), "{stack}: {noise}");
        machine.assert_as_before();
    }
}

#[test]
fn prices_are_compared_stack_by_stack_with_a_ratio_for_each() {
    let machine = Machine::take();
    let stacks = if is_usable(&machine, "gvisor") { "native,gvisor" } else { "native,runc" };
    // Four times a cache of 300 MB takes more than a minute.
    let brief = ["--each", "2ms", "--array-bytes", "16777216", "--runs", "3", "--format", "json"];
    let answer = machine.json(&[&["prices", "--in", stacks][..], &brief].concat());
    let other = &answer["arms"][2];
    assert_eq!(other["trial_count"], 3, "{}", other["trouble"]);
    for price in PRICES {
        let has = |of: &str, field: &str| {
            let found = other[of].as_array().unwrap();
            found.iter().find(|it| it["metric"] == price.name).map(|it| it[field].clone())
        };
        match (has("metrics", "overhead"), has("absences", "why")) {
            (Some(overhead), None) => {
                assert!(overhead["ratio"].is_f64(), "{}: {overhead}", price.name)
            }
            (None, Some(why)) => assert!(why.is_string(), "{}: {why}", price.name),
            both => panic!("{}: {both:?}", price.name),
        }
    }
    let shown = text(&machine.surtax(&["show", "last"]).stdout);
    assert!(shown.contains("system_call") && shown.contains("\nPrices: medians for one operation"));
    assert!(shown.starts_with("prices (finished, "), "{shown}");
    assert!(shown.contains("--workload prices:each=2,array_bytes=16777216"), "{shown}");
    let page = machine.path("prices.html");
    let report = machine.surtax(&["report", "last", "-o", page.to_str().unwrap()]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(std::fs::read_to_string(page).unwrap().contains("<section id=\"prices\">"));

    let refused = machine.surtax(&["prices", "--in", "native,runc", "--workload", "timer"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("`surtax prices` is a workload itself"));
    machine.assert_as_before();
}

#[test]
fn the_engines_workloads_have_their_metrics_and_whole_histograms() {
    let machine = Machine::take();
    for (workload, stacks, metric, histogram) in [
        (
            "disk.requests:seconds=1,file_bytes=1048576",
            "runc:scratch=bind",
            "latency_mean",
            "latency",
        ),
        ("timer:seconds=1", "runc", "lateness_max", "lateness"),
        ("noise:seconds=1,threshold_us=1", "runc", "noise", ""),
        ("memory.stream:threads=2,array_bytes=1048576,passes=5", "runc", "triad", ""),
    ] {
        if !is_usable(&machine, stacks) {
            continue;
        }
        let flags = ["--baseline", stacks, "--runs", "1", "--format", "json"];
        let line = [&["compare", "--in", stacks, "--workload", workload][..], &flags].concat();
        let answer = machine.json(&line);
        let found = &answer["arms"][0];
        assert_eq!(found["trial_count"], 1, "{workload}: {}", found["trouble"]);
        let metrics = found["metrics"].as_array().unwrap();
        assert!(metrics.iter().any(|it| it["metric"] == metric), "{workload}: {found}");
        let histograms = found["histograms"].as_array().unwrap();
        let names: Vec<&str> = histograms.iter().map(|it| it["metric"].as_str().unwrap()).collect();
        assert_eq!(names.join(" "), histogram, "{workload}");
        machine.assert_as_before();
    }
}

#[test]
fn a_machine_measures_primitives_and_its_own_disk() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,scratch=virtio-blk";
    if !is_usable(&machine, stack) {
        return;
    }
    let words = "disk --file-bytes 1048576 --requests 200 --duration 5s";
    let disk = answer_in(&machine, stack, words);
    assert_eq!((&disk["request_count"], &disk["is_direct"]), (&200.into(), &true.into()), "{disk}");
    let words = "prices --each 2ms --only system_call,page_fault_minor,file_stat,tcp_connect";
    let prices = answer_in(&machine, stack, words);
    for name in ["system_call", "page_fault_minor", "file_stat", "tcp_connect"] {
        assert!(prices[format!("{name}_ns")].as_f64().unwrap() > 0.0, "{name}: {prices}");
    }
    assert_eq!(prices["directory"], "/scratch", "{prices}");
    machine.assert_as_before();
}
