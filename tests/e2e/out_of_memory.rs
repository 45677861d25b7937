//! Out of memory: a process that the kernel kills is named with the limit, in every stack that has
//! one.

use crate::answers::{alone, arm, as_root_of_its_groups, compare};
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::time::Duration;

/// Takes 400 MB in one process, if nobody stops it: the machine itself is never in danger.
const HOG: &str = "head -c 400000000 /dev/zero | tail -c 350000000 > /dev/null";

/// Time without a kill after which the kernel logs the group of the next ten.
///
/// Source: Linux `mm/oom_kill.c`, `oom_kill_process`.
const ALL_ARE_LOGGED: Duration = Duration::from_secs(5);

/// The arm of a stack whose command was `script`, none of whose trials may count.
#[track_caller]
fn killed(machine: &Machine, stack: &str, script: &str) -> Value {
    let answer = machine.answer(&alone(stack, &["sh", "-c", script]));
    let arm = arm(&answer, stack).clone();
    assert_eq!(arm["trial_count"], 0, "{stack} counts though somebody was killed");
    machine.assert_as_before();
    arm
}

/// Requires that the trouble names the limit of a layer, and how to raise it.
#[track_caller]
fn names(arm: &Value, layer: &str, memory: &str) {
    let trouble = &arm["trouble"];
    let why = trouble["why"].as_str().unwrap_or_default();
    let limit = format!("the memory limit `memory={memory}` of `{layer}` was exceeded: ");
    assert!(why.starts_with(&limit) && why.contains("killed by the kernel (OOM)"), "{trouble:#}");
    let remedy = trouble["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains(&format!("`{layer}:memory=")), "{trouble:#}");
}

/// Of the command itself, and of a child of a command that ends with status 0.
#[track_caller]
fn is_named(stack: &str, layer: &str, memory: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let scripts = [format!("{HOG}; exit 0"), format!("exec {HOG}")];
    for script in if stack.starts_with("qemu") { cases(&scripts, 1) } else { &scripts } {
        names(&killed(&machine, stack, script), layer, memory);
    }
}

#[test]
fn an_end_by_the_kernel_is_named_in_native() {
    is_named("native:memory=64M", "native", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_runc() {
    is_named("runc:memory=64M", "runc", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_crun() {
    is_named("crun:memory=64M", "crun", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_docker() {
    is_named("docker:memory=64M", "docker", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_podman() {
    is_named("podman:memory=64M", "podman", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_lxc() {
    is_named("lxc:memory=64M", "lxc", "64M");
}

#[test]
fn an_end_by_the_kernel_is_named_in_nspawn() {
    is_named("nspawn:memory=64M", "nspawn", "64M");
}

#[test]
fn an_end_of_gvisors_sandbox_is_named() {
    is_named("gvisor:memory=128M", "gvisor", "128M");
}

#[test]
fn an_end_by_a_guests_own_kernel_is_named() {
    is_named("qemu:accel=tcg,memory=256M", "qemu", "256M");
}

#[test]
fn an_end_in_a_container_of_a_container_is_named_with_the_limit_around_it() {
    is_named("runc:memory=64M+crun", "runc", "64M");
}

#[test]
fn the_limit_that_was_full_is_named_and_not_the_one_nearest_to_whom_was_killed() {
    is_named("runc:memory=64M+crun:memory=1G", "runc", "64M");
}

#[test]
fn a_limit_that_is_too_small_to_start_is_told_with_one_that_is_not() {
    // A runtime takes the group away with what it counted, so that the log alone tells.
    let machine = Machine::alone();
    std::thread::sleep(ALL_ARE_LOGGED);
    for kind in ["runc", "gvisor"] {
        if !is_usable(&machine, kind) {
            continue;
        }
        let tried = |memory: &str| {
            let stack = format!("{kind}:memory={memory}");
            let answer = machine.answer(&alone(&stack, &["true"]));
            arm(&answer, &stack).clone()
        };
        // With 2 MB it starts now and then: what a start needs has been charged to others.
        let trouble = &tried("1M")["trouble"];
        let why = trouble["why"].as_str().unwrap_or_default();
        let too_small = format!("`memory=1M` is too small to start `{kind}`");
        assert!(why.starts_with(&too_small), "{trouble:#}");
        let least = format!("give it `{kind}:memory=32M` or more");
        assert_eq!(trouble["remedy"], least.as_str(), "{trouble:#}");
        assert_eq!(tried("32M")["trial_count"], 1, "the advice does not help");
    }
    machine.assert_as_before();
}

#[test]
fn a_bomb_that_measures_its_own_end_counts_all_the_same() {
    let machine = Machine::take();
    let stack = "runc:memory=128M";
    if !is_usable(&machine, stack) {
        return;
    }
    let bomb = ["@surtax", "engine", "allocbomb", "--bytes", "1G", "--duration", "20s"];
    let answer = machine.answer(&alone(stack, &bomb));
    let arm = arm(&answer, stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    machine.assert_as_before();
}

#[test]
fn a_sandbox_that_dies_is_named_also_where_the_kernel_holds_its_log_back() {
    let machine = Machine::alone();
    let (many, stack) = ("native:memory=32M", "gvisor:memory=64M");
    if !is_usable(&machine, stack) {
        return;
    }
    // It logs the groups of ten kills in five seconds, and of no more.
    let hog = "head -c 100000000 /dev/zero | tail -c 90000000 > /dev/null";
    let hogs = format!("i=0; while [ $i -lt 14 ]; do {hog}; i=$((i+1)); done; exit 0");
    let stacks = format!("{many},{stack}");
    let answer = machine.answer(&compare(&stacks, "2", &["sh", "-c", &hogs]));
    names(arm(&answer, stack), "gvisor", "64M");
    names(arm(&answer, many), "native", "32M");
    let told = serde_json::to_string(&answer["cautions"]).unwrap();
    assert!(!told.contains("left something behind"), "{told}");
    machine.assert_as_before();
}

#[test]
fn kills_whose_groups_are_held_back_and_gone_are_not_passed_over() {
    let machine = Machine::beside_one();
    let stack = "runc:memory=64M";
    if !is_usable(&machine, stack) {
        return;
    }
    // In a group below its own, which counts what was killed in it, and which it removes.
    let hog =
        "echo 0 >group/cgroup.procs; head -c 100000000 /dev/zero | tail -c 90000000 >/dev/null";
    let acts = "mkdir group; i=0; while [ $i -lt 14 ]; do sh -c \"$hog\"; i=$((i+1)); done; \
                until rmdir group; do sleep 0.1; done";
    let script = format!("export hog='{hog}'; {}", as_root_of_its_groups("memory", acts));
    let answer = machine.answer(&compare(stack, "3", &["sh", "-c", &script]));
    let found = arm(&answer, stack);
    let cautions = answer["cautions"].as_array().unwrap();
    let is_told = cautions.iter().any(|caution| caution["code"] == "overrun-log");
    assert!(found["trial_count"] == 0 || is_told, "{cautions:#?}");
    machine.assert_as_before();
}

#[test]
fn who_enters_a_stack_is_told_of_an_end_by_the_kernel() {
    let machine = Machine::take();
    let script = format!("{HOG}; exit 0");
    for (layer, code) in [("runc", 0), ("gvisor", 3)] {
        let stack = format!("{layer}:memory=64M");
        if !is_usable(&machine, &stack) {
            continue;
        }
        let output = machine.surtax(&["enter", &stack, "--", "sh", "-c", &script]);
        let said = text(&output.stderr);
        let limit = format!("the memory limit `memory=64M` of `{layer}` was exceeded: 1 process");
        assert!(said.contains(&limit), "{said}");
        assert!(said.contains(&format!("give it `{layer}:memory=128M` or more")), "{said}");
        assert!(!said.contains("removed by force"), "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
        machine.assert_as_before();
    }
}
