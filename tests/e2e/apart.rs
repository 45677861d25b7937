//! Parts of the wall time of commands of which it is known what they do.

use crate::answers::{alone, arm, median};
use crate::machine::{Machine, is_usable};
use serde_json::Value;

/// A loop of about 100 ms.
const SPIN: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

/// Somebody who computes on every CPU.
const NEIGHBOUR: &str = "adversary.load@runc";

/// The shares of an arm's wall time, by the parts' names.
fn share(arm: &Value, parts: &[&str]) -> f64 {
    let all = arm["time_parts"].as_array().unwrap();
    let sum: f64 = all.iter().map(|it| it["ns"].as_f64().unwrap()).sum();
    let wall = median(arm, "wall_ns");
    assert!((sum - wall).abs() < 1e-6 * wall, "the parts are {sum} of {wall}: {all:?}");
    let wanted = all.iter().filter(|it| parts.contains(&it["part"].as_str().unwrap()));
    wanted.map(|it| it["ns"].as_f64().unwrap()).sum::<f64>() / wall
}

#[test]
fn a_command_that_sleeps_is_elsewhere_and_one_that_computes_is_not() {
    let machine = Machine::take();
    for stack in ["native", "runc", "docker", "gvisor", "lxc"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let of = |script: &str| {
            let answer = machine.json(&alone(stack, &["sh", "-c", script]));
            arm(&answer, stack).clone()
        };
        let asleep = of("sleep 0.6");
        assert!(share(&asleep, &["elsewhere"]) > 0.7, "{stack}: {}", asleep["time_parts"]);
        let busy = of(&[SPIN; 5].join("; "));
        // What is stolen or waited for is not ours to prevent.
        let not_asleep = 1.0 - share(&busy, &["elsewhere"]);
        assert!(not_asleep > 0.7, "{stack}: {}", busy["time_parts"]);
    }
    machine.assert_as_before();
}

#[test]
fn what_a_quota_holds_back_is_not_called_sleep() {
    let machine = Machine::take();
    for stack in ["native:cpus=0.2", "runc:cpus=0.2", "docker:cpus=0.2"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = machine.json(&alone(stack, &["sh", "-c", SPIN]));
        let arm = arm(&answer, stack);
        let held = share(arm, &["throttled", "waited-for-cpu", "stolen"]);
        assert!(held > 0.5, "{stack}: {}", arm["time_parts"]);
        assert!(share(arm, &["elsewhere"]) < 0.15, "{stack}: {}", arm["time_parts"]);
    }
    machine.assert_as_before();
}

#[test]
fn who_shares_a_cpu_waits_for_it() {
    let machine = Machine::take();
    let beside = ["--beside", NEIGHBOUR];
    for stack in ["native", "docker", "qemu:accel=tcg"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let script = [SPIN; 3].join("; ");
        let mut words = alone(stack, &["sh", "-c", &script]);
        words.splice(1..1, beside);
        let answer = machine.json(&words);
        let arm = arm(&answer, &format!("{stack} beside {NEIGHBOUR}"));
        let waited = share(arm, &["waited-for-cpu"]);
        assert!(waited > 0.15, "{stack}: {}", arm["time_parts"]);
    }
    machine.assert_as_before();
}
