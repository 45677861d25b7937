//! Timelines: work and rest that are planted in time, and seen by every level that there is; a
//! level that dies in the middle; and what every format says of it.

use crate::machine::{Machine, is_usable, text};
use serde_json::Value;

/// Works for 1.2 s, rests as long, and works again.
const PLANTED: &str = "timeout 1.2 sh -c 'while :; do :; done'; sleep 1.2; timeout 1.2 sh -c \
                       'while :; do :; done'; true";

/// Part of the command's time at each end of a third of which nothing is demanded.
const MARGIN: f64 = 0.06;

fn answer(machine: &Machine, stacks: &str, flags: &[&str], command: &str) -> Value {
    let first = ["compare", "--in", stacks, "--runs", "1", "--quiet", "--format", "json"];
    machine.json(&[&first, flags, &["--", "sh", "-c", command]].concat())
}

/// The use of CPUs of a payer of a level, as times of the command's from 0 to 1, and CPUs.
fn cpus(arm: &Value, level: usize, is_wanted: impl Fn(&Value) -> bool) -> Vec<(f64, f64)> {
    let timeline = &arm["timeline"];
    let phases = timeline["phases"].as_array().unwrap();
    let run = phases.iter().find(|it| it["phase"] == "run").unwrap();
    let [from, to] = ["from_ns", "to_ns"].map(|key| run[key].as_f64().unwrap());
    let level = &timeline["levels"][level];
    let series = level["series"].as_array().unwrap();
    let wanted = series.iter().find(|it| it["quantity"] == "cpu_ns" && is_wanted(it));
    let values = wanted.unwrap_or_else(|| panic!("{level}"))["values"].as_array().unwrap();
    let times = level["at_ns"].as_array().unwrap();
    assert_eq!(values.len(), times.len());
    let ends = times.windows(2).map(|pair| [0, 1].map(|place| pair[place].as_f64().unwrap()));
    let known = ends.zip(&values[1..]).filter_map(|([before, at], value)| {
        let middle = f64::midpoint(before, at);
        Some(((middle - from) / (to - from), value.as_f64()? / 1e9))
    });
    known.filter(|(at, _)| (0.0..=1.0).contains(at)).collect()
}

/// Mean use of CPUs in each third of the command's time.
fn thirds(cpus: &[(f64, f64)]) -> [f64; 3] {
    [0.0, 1.0, 2.0].map(|third| {
        let range = third / 3.0 + MARGIN..(third + 1.0) / 3.0 - MARGIN;
        let within: Vec<f64> =
            cpus.iter().filter(|(at, _)| range.contains(at)).map(|(_, cpus)| *cpus).collect();
        assert!(within.len() >= 4, "{cpus:?}");
        within.iter().sum::<f64>() / within.len() as f64
    })
}

fn assert_planted(cpus: &[(f64, f64)]) {
    let [first, second, third] = thirds(cpus);
    assert!(first > 0.7 && second < 0.25 && third > 0.7, "{first} {second} {third}: {cpus:?}");
}

#[test]
fn work_and_rest_are_seen_when_they_were_and_every_format_has_them() {
    let machine = Machine::alone();
    let answer = answer(&machine, "native,runc", &["--watch", "100ms"], PLANTED);
    for arm in [0, 2] {
        let arm = &answer["arms"][arm];
        assert_planted(&cpus(arm, 0, |it| it["carries_workload"] == true));
        assert_planted(&cpus(arm, 0, |it| it["payer"] == "the machine"));
        assert_eq!(arm["timeline"]["levels"][0]["clock_bound_ns"], 0);
        // This machine as a whole is in no bill, and told of beside it.
        assert_eq!(arm["machines"][0]["name"], "the machine");
        assert!(arm["payers"].as_array().unwrap().iter().all(|it| it["role"] != "machine"));
        let cpu = arm["uses"].as_array().unwrap().iter().find(|it| it["resource"] == "cpu_ns");
        let [inside, whole] = ["inside", "whole"].map(|key| cpu.unwrap()[key].as_f64().unwrap());
        // Ticks miss a little, and others may have used some.
        assert!(inside > 2.0e9 && whole > 0.9 * inside, "{inside} {whole}");
    }
    let shown = |flags: &[&str]| {
        let output = machine.surtax(flags);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(shown(&["show"]).contains("Over time, from the command's begin to its end"));
    let markdown = shown(&["show", "--format", "markdown"]);
    assert!(markdown.contains("## Who used what, over time") && markdown.contains("## What each"));
    let page = shown(&["export", "--as", "html"]);
    assert!(page.contains("id=\"timeline\"") && page.contains("id=\"levels\""));
    let table = shown(&["export", "--timeline"]);
    assert!(table.starts_with("arm,stack,block,"), "{}", &table[..60]);
    let of_container = table.lines().filter(|row| row.contains(",container,engine,cpu_user_ns,"));
    assert!(of_container.count() > 30, "{table}");
    machine.assert_as_before();
}

#[test]
fn a_layer_on_a_layer_is_looked_at_by_whoever_stands_between_them() {
    let machine = Machine::alone();
    if !is_usable(&machine, "docker+runc") {
        return;
    }
    let answer = answer(&machine, "native,docker+runc", &["--watch", "100ms"], PLANTED);
    let arm = &answer["arms"][2];
    assert_planted(&cpus(arm, 0, |it| it["carries_workload"] == true));
    assert_planted(&cpus(arm, 1, |it| it["carries_workload"] == true));
    let levels = arm["timeline"]["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2, "a container has no machine of its own: {levels:#?}");
    assert_eq!(levels[1]["clock_bound_ns"], 0, "both have one clock");
    let is_machine = |it: &Value| it["role"] == "machine";
    assert!(!levels[1]["series"].as_array().unwrap().iter().any(is_machine));
    machine.assert_as_before();
}

#[test]
fn nobody_looks_at_what_is_over_soon_or_where_that_is_refused() {
    let machine = Machine::take();
    let has = |flags: &[&str], command: &str| {
        !answer(&machine, "native", flags, command)["arms"][0]["timeline"].is_null()
    };
    assert!(!has(&[], "sleep 0.2") && has(&[], "sleep 5.1"));
    assert!(!has(&["--watch", "off"], "sleep 5.1") && has(&["--watch", "100ms"], "sleep 0.3"));
    assert!(!has(&["--iterations", "2"], "sleep 0.2"));
    machine.surtax(&["compare", "--in", "native", "--runs", "1", "--quiet", "--", "true"]);
    let output = machine.surtax(&["export", "--timeline"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nobody looked at this run"), "{output:?}");
    let output = machine.surtax(&["compare", "--in", "native", "--watch", "50ms", "--", "true"]);
    assert!(text(&output.stderr).contains("`watch` is shorter than 100 ms"), "{output:?}");
    machine.assert_as_before();
}

#[test]
fn a_guest_s_own_account_is_in_the_host_s_time_and_ends_where_the_guest_dies() {
    let machine = Machine::alone();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let answer = answer(&machine, "native,qemu", &["--watch", "100ms"], PLANTED);
    let arm = &answer["arms"][2];
    assert_planted(&cpus(arm, 0, |it| it["payer"] == "vCPU threads"));
    assert_planted(&cpus(arm, 1, |it| it["payer"] == "the machine"));
    let bound = arm["timeline"]["levels"][1]["clock_bound_ns"].as_u64().unwrap();
    assert!((1..50_000_000).contains(&bound), "{bound}");
    let own = arm["machines"].as_array().unwrap().iter().find(|it| it["level"] == 1).unwrap();
    assert!(own["cpu_user_ns"].as_f64().unwrap() > 1.5e9, "{own}");
    assert_eq!(arm["steals"][0]["level"], 1);

    let flags = ["compare", "--in", "qemu", "--baseline", "qemu", "--runs", "1", "--quiet"];
    let dies = ["--watch", "100ms", "--", "sh", "-c", "sleep 1.5; echo c > /proc/sysrq-trigger"];
    machine.surtax(&[&flags[..], &dies].concat());
    let output = machine.surtax(&["export", "--timeline"]);
    let table = text(&output.stdout);
    let of_guest = |row: &&str| {
        let cells: Vec<&str> = row.split(',').collect();
        [cells[0], cells[6], cells[10]] == ["0", "1", "cpu_idle_ns"]
    };
    let rows: Vec<&str> = table.lines().filter(of_guest).collect();
    assert!(rows.iter().all(|row| !row.contains(",done,")), "{rows:?}");
    let count = rows.len();
    assert!((8..40).contains(&count), "{count} looks at a guest that lived for two seconds");
    machine.assert_as_before();
}
