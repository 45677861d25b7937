//! Workloads that do not fit where they are asked for: each is refused with what is missing, and
//! how to get it.

use crate::answers::arm;
use crate::machine::{Machine, is_slow_made, is_usable, text};
use crate::roots::small_root;
use serde_json::Value;

/// Runs a workload once in these stacks, whatever comes of it.
fn tried(machine: &Machine, stacks: &str, workload: &str) -> Value {
    let line = ["compare", "--in", stacks, "--runs", "1", "--format", "json", "--workload"];
    // A small root has no more directories than it must have.
    let output =
        machine.command(&[&line[..], &[workload]].concat()).current_dir("/").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Returns why a stack has no numbers, and what would help.
fn trouble(answer: &Value, stack: &str) -> (String, String) {
    let trouble = &arm(answer, stack)["trouble"];
    let word = |key: &str| trouble[key].as_str().unwrap_or_default().to_owned();
    (word("why"), word("remedy"))
}

#[test]
fn a_tool_that_only_one_stack_lacks_is_told_with_its_package_and_the_others_measure() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    if !is_usable(&machine, "runc") {
        return;
    }
    let stack = format!("runc:root=dir:{}", root.display());
    let answer = tried(&machine, &format!("native,{stack}"), "cpu.sysbench:events=5,prime=10000");
    let (why, remedy) = trouble(&answer, &stack);
    assert!(why.contains("cannot start `sysbench`"), "{why}");
    assert_eq!(remedy, "apt-get install sysbench");
    assert_eq!(arm(&answer, "native")["trial_count"], 1);

    // A tool behind a shell, which says no more than 127.
    let behind = "about = \"x\"\ncommand = [\"true\"]\nsetup = [[\"sh\", \"-c\", \"no-such-tool \
                  -x\"]]\npackages = { debian = [\"tool-of-ours\"] }\n[[check]]\nabout = \
                  \"y\"\nregex = '(1)'\n";
    let file = machine.path("behind.toml");
    std::fs::write(&file, behind).unwrap();
    let answer = tried(&machine, "native", file.to_str().unwrap());
    let (why, remedy) = trouble(&answer, "native");
    assert!(why.contains("ended with exit 127") && why.contains("no-such-tool"), "{why}");
    assert_eq!(remedy, "apt-get install tool-of-ours");
    machine.assert_as_before();
}

#[test]
fn data_that_do_not_fit_on_the_medium_are_refused_with_both_sizes_or_the_tools_own_word() {
    let machine = Machine::take();
    let stack = "native:scratch=bind";
    // 64 TiB, which nobody has free under a test.
    let answer =
        tried(&machine, stack, "disk.requests:block_bytes=1048576,file_bytes=70368744177664");
    let (why, stderr) = (trouble(&answer, stack).0, arm(&answer, stack)["trouble"].to_string());
    assert!(why.contains("the command failed: exit 3"), "{why}");
    assert!(stderr.contains("does not fit into `/scratch`, where "), "{stderr}");

    let stack = "qemu:accel=tcg,disk-size=16M,scratch=virtio-blk";
    if is_slow_made(stack) && is_usable(&machine, "qemu") {
        let flags = ["--baseline", stack, "--runs", "1", "--format", "json"];
        let line = ["compare", "--in", stack, "--workload", "disk.randwrite:size=64M,time=100ms"];
        let answer = machine.answer(&[&line[..], &flags].concat());
        let (why, remedy) = trouble(&answer, stack);
        assert!(why.contains("the set-up `fio ") && why.contains("No space left"), "{why}");
        assert!(remedy.contains("a smaller data set"), "{remedy}");
    }
    machine.assert_as_before();
}

#[test]
fn a_server_that_is_there_and_never_answers_ends_in_time_with_a_reason() {
    let machine = Machine::take();
    let mute = r#"
about = "a server that says nothing"
command = ["sh", "-c", "redis-cli -h {address} -p 6399 ping || {{ echo nobody answers >&2; exit 1; }}"]
server = ["sleep", "1000"]
stop_server = true
[[check]]
about = "it answers"
regex = '(1)'
"#;
    let file = machine.path("mute.toml");
    std::fs::write(&file, mute).unwrap();
    let answer = tried(&machine, "native", file.to_str().unwrap());
    let told = arm(&answer, "native")["trouble"].to_string();
    assert!(
        told.contains("the command failed: exit 1") && told.contains("nobody answers"),
        "{told}"
    );
    machine.assert_as_before();
}
