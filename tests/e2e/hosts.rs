//! Hosts that are set up otherwise than this one, as far as a mount namespace can show them.

use crate::answers::{arm, compare};
use crate::machine::{Machine, is_usable, text};
use serde_json::Value;
use std::process::Command;

/// Mounts of a machine with systemd, where `/run` may not hold programs.
const USUAL: &str = "mount -t tmpfs -o nosuid,nodev,noexec tmpfs /run
    mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm";

/// The same, hardened until nothing is left to start a program from.
const HARDENED: &str = "mount -t tmpfs -o nosuid,nodev,noexec tmpfs /run
    mount -t tmpfs -o nosuid,nodev,noexec tmpfs /dev/shm";

/// The binary on a host that `script` makes, in a mount namespace that ends with it.
fn on_a_host(machine: &Machine, script: &str, arguments: &[&str]) -> Command {
    let inner = machine.command(arguments);
    let mut command = Command::new("unshare");
    let script = format!("set -e\n{script}\nexec \"$@\"");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    command
}

#[test]
fn a_run_directory_in_memory_that_forbids_programs_is_no_hindrance() {
    let machine = Machine::take();
    let wanted = ["native", "runc", "crun", "gvisor", "docker", "qemu"];
    let stacks: Vec<&str> = wanted.into_iter().filter(|stack| is_usable(&machine, stack)).collect();
    let arguments = compare(&stacks.join(","), "1", &["true"]).join("\n");
    let arguments: Vec<&str> = arguments.split('\n').collect();
    let output = on_a_host(&machine, USUAL, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for stack in stacks {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    }
    machine.assert_as_before();
}

#[test]
fn a_host_from_whose_memory_nothing_may_be_started_is_no_hindrance_either() {
    let machine = Machine::take();
    let arguments = compare("native", "1", &["true"]);
    let output = on_a_host(&machine, HARDENED, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(arm(&answer, "native")["trial_count"], 1);
    machine.assert_as_before();
}

#[test]
fn a_host_where_no_program_can_be_put_is_told_which_mount_to_change() {
    let machine = Machine::take();
    let arguments = compare("native", "1", &["true"]);
    // Without the right to mount memory of its own.
    let script = format!("{HARDENED}\nset -- setpriv --bounding-set=-sys_admin \"$@\"");
    let output = on_a_host(&machine, &script, &arguments).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("hint: mount -o remount,exec /dev/shm"), "{said}");
    machine.assert_as_before();
}

#[test]
fn a_lab_that_may_mount_nothing_takes_a_name_in_memory_that_nobody_can_guess() {
    let machine = Machine::take();
    let mut arguments = compare("simulated", "1", &["true"]);
    // `native` cannot be made there.
    arguments.splice(1..1, ["--baseline", "simulated"]);
    let script = "set -- setpriv --bounding-set=-sys_admin \"$@\"";
    let output = on_a_host(&machine, script, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    machine.assert_as_before();
}

#[test]
fn a_run_directory_of_somebody_elses_is_refused_and_its_owner_named() {
    let machine = Machine::take();
    let arguments = compare("native", "1", &["true"]);
    let script = format!("{USUAL}\nmkdir /run/surtax\nchown 65534 /run/surtax");
    let output = on_a_host(&machine, &script, &arguments).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("`/run/surtax` belongs to user 65534"), "{said}");
    machine.assert_as_before();
}
