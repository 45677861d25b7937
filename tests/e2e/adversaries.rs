//! Adversaries: refused where nothing holds them, and held where something does.

use crate::engines::answer_in;
use crate::machine::{Machine, is_usable, text};

#[test]
fn an_adversary_that_nothing_holds_is_not_let_go() {
    let machine = Machine::take();
    for (words, why) in [
        ("forkbomb", "no limit on processes holds this adversary"),
        ("allocbomb", "no limit on memory holds this adversary"),
        ("thrash --directory /tmp", "no limit on memory holds this adversary"),
        ("synflood --to 192.0.2.1:80", "192.0.2.1 is neither the loopback nor the other side"),
        ("load --cpu 10 --duration 3600s", "an adversary for 3600 s is too much"),
        ("forkbomb --processes 100000", "is no whole number from 1 to 4096"),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let line = [&["enter", "native", "--", "@surtax", "engine"][..], &words].concat();
        let refused = machine.surtax(&line);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    machine.assert_as_before();
}

#[test]
fn what_holds_an_adversary_stops_it() {
    let machine = Machine::take();
    let count = |answer: &serde_json::Value, key: &str| answer[key].as_u64().unwrap();
    for kind in ["native", "runc", "nspawn", "podman"] {
        let stack = &format!("{kind}:pids=40,memory=128M");
        if !is_usable(&machine, stack) {
            continue;
        }
        let forks = answer_in(&machine, stack, "forkbomb --duration 500ms");
        assert_eq!(count(&forks, "limit"), 40, "{stack}: {forks}");
        assert!((10..40).contains(&count(&forks, "processes_made")), "{stack}: {forks}");
        assert!(count(&forks, "forks_refused") > 0, "{stack}: {forks}");
        let taken = answer_in(&machine, stack, "allocbomb --duration 20s");
        assert_eq!(count(&taken, "limit_bytes"), 128 << 20, "{stack}: {taken}");
        assert!((32 << 20..=128 << 20).contains(&count(&taken, "bytes_taken")), "{taken}");
        assert_eq!(taken["end"], "killed", "{stack}: {taken}");
        machine.assert_as_before();
    }
    let stack = "qemu:accel=tcg,memory=256M";
    if is_usable(&machine, stack) {
        let forks = answer_in(&machine, stack, "forkbomb --processes 30 --duration 3s");
        assert_eq!(forks["held_by"], "a virtual machine that the agent has booted");
        assert!(forks["limit"].is_null(), "{forks}");
        assert_eq!(forks["is_own_bound_reached"], true, "{forks}");
        assert_eq!(count(&forks, "processes_made"), 30, "{forks}");
    }
    machine.assert_as_before();
}
