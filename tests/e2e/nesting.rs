//! Stacks of more than one layer, from the command line to the answer; `nested_suite.rs` has the rest of them.

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable, skip, text};
use serde_json::Value;

fn nested(machine: &Machine, stack: &str, deadline: &str) -> Option<Value> {
    if !is_usable(machine, stack) {
        return None;
    }
    let answer = machine.json(&[
        "compare",
        "--in",
        stack,
        "--baseline",
        "simulated",
        "--runs",
        "1",
        "--start-deadline",
        deadline,
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "uname -r; id -u",
    ]);
    let arm = arm(&answer, stack).clone();
    if arm["trial_count"] == 0 {
        skip(stack, &arm["trouble"].to_string());
        return None;
    }
    machine.assert_as_before();
    Some(arm)
}

#[test]
fn a_container_in_a_container() {
    let machine = Machine::take();
    let Some(arm) = nested(&machine, "runc+runc", "60s") else { return };
    assert_eq!(arm["evidence"].as_array().unwrap().len(), 2);
}

#[test]
fn a_container_in_a_virtual_machine() {
    let machine = Machine::take();
    let Some(arm) = nested(&machine, "qemu+runc", "90s") else { return };
    let outer = &arm["evidence"][0];
    let inner = &arm["evidence"][1];
    assert_eq!(fact(outer, "inside_kernel_release"), fact(inner, "inside_kernel_release"));
    let roles: Vec<&str> = arm["payers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|payer| payer["role"].as_str().unwrap())
        .collect();
    for role in ["workload", "guest-kernel", "hypervisor"] {
        assert!(roles.contains(&role), "{roles:?}");
    }
}

#[test]
fn a_virtual_machine_in_a_virtual_machine_names_its_accelerator() {
    let machine = Machine::take();
    let Some(arm) = nested(&machine, "qemu:accel=tcg,cpus=1,memory=4G+qemu:accel=kvm", "240s")
    else {
        return;
    };
    assert_eq!(fact(&arm["evidence"][0], "accelerator"), "tcg");
    assert_eq!(fact(&arm["evidence"][1], "accelerator"), "kvm");
    assert_eq!(fact(&arm["evidence"][1], "inside_hypervisor_vendor"), "KVMKVMKVM");
}

#[test]
fn vhost_moves_frames_where_the_kernel_of_a_level_can_and_is_on_the_bill() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,cpus=1,memory=2G+qemu:accel=kvm,memory=256M,net=tap,vhost=on";
    let Some(arm) = nested(&machine, stack, "240s") else { return };
    let inner = &arm["evidence"][1];
    assert_eq!((fact(inner, "network"), fact(inner, "vhost")), ("tap", "on"));
    assert_eq!(fact(inner, "nic_driver"), "virtio_net");
    let payers = arm["payers"].as_array().unwrap();
    assert!(payers.iter().any(|payer| payer["payer"] == "vhost worker"), "{payers:?}");
}

#[test]
fn what_cannot_nest_is_refused_before_anything_is_started() {
    let machine = Machine::take();
    let output = machine.surtax(&["compare", "--in", "native+runc", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("native"), "{}", text(&output.stderr));
    machine.assert_as_before();
}
