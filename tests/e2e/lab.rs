//! The second lab: what this machine's kernel may lack, in a guest whose kernel has it.
//!
//! The guest is a layer like any other, a machine under TCG with the host's root: nothing is made or fetched
//! for it but the distribution's kernel. That kernel has KVM (TCG offers SVM), vhost-net, AppArmor, and cgroup v2
//! alone. One test runs always, as does the one of vhost in
//! `nesting.rs`; the rest are `cargo xtask lab --all`.

mod domains;

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable};
use serde_json::Value;

/// The guest, with the one CPU that KVM under TCG is dependable with: decision 15.
const GUEST: &str = "qemu:accel=tcg,cpus=1,memory=3G";

/// Runs a command in a stack inside the guest, and gives the evidence of the stack's own level.
#[track_caller]
fn in_the_guest(layers: &str, command: &[&str]) -> Option<Value> {
    let machine = Machine::take();
    let stack = format!("{GUEST}+{layers}");
    if !is_usable(&machine, &stack) {
        return None;
    }
    let mut words = vec!["compare", "--in", &stack, "--baseline", "simulated", "--runs", "1"];
    words.extend(["--start-deadline", "5m", "--format", "json", "--"]);
    words.extend(command);
    let answer = machine.json(&words);
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    machine.assert_as_before();
    Some(arm.clone())
}

#[test]
fn a_container_whose_limits_are_those_of_cgroup_v2() {
    let layers = "podman:cpus=0.5,memory=256M,pids=50,weight=50";
    let Some(arm) = in_the_guest(layers, &["true"]) else { return };
    let inner = &arm["evidence"][1];
    for (key, value) in [
        ("limit_cpu_quota_us", "50000 100000"),
        ("limit_cpu_weight", "50"),
        ("limit_memory_bytes", "268435456"),
        ("limit_pids", "50"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_microvm_under_kvm() {
    let layers = "qemu:accel=kvm,machine=microvm,memory=512M";
    let Some(arm) = in_the_guest(layers, &["true"]) else { return };
    assert_eq!(fact(&arm["evidence"][1], "accelerator"), "kvm");
}

/// The libraries are those that `setup/krun.sh` builds, which `cargo xtask lab --all` runs first.
#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_machine_by_libkrun_proves_its_kernel_its_libraries_and_who_pays() {
    let Some(arm) = in_the_guest("krun:memory=512M", &["true"]) else { return };
    let inner = &arm["evidence"][1];
    for (key, value) in [
        ("accelerator", "kvm"),
        ("inside_hypervisor_vendor", "KVMKVMKVM"),
        ("cpus", "1"),
        ("memory_bytes", "536870912"),
        ("files", "virtiofs"),
        ("files_server", "fs worker"),
        ("network", "none"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
    assert_eq!(fact(inner, "kernel_release"), fact(inner, "inside_kernel_release"));
    assert_eq!(fact(inner, "kernel_sha256"), fact(inner, "libkrunfw_sha256"));
    assert!(fact(inner, "libkrun_file").contains("libkrun.so"));
    let payers = arm["payers"].as_array().unwrap();
    for (name, role) in
        [("vCPU threads", "guest-kernel"), ("libkrun's other threads", "hypervisor")]
    {
        let paid = payers.iter().any(|payer| payer["payer"] == name && payer["role"] == role);
        assert!(paid, "no {name}: {payers:?}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_container_in_a_machine_by_libkrun() {
    let Some(arm) = in_the_guest("krun:memory=512M+bubblewrap", &["true"]) else { return };
    let [machine, container] = [&arm["evidence"][1], &arm["evidence"][2]];
    let kernel = "inside_kernel_release";
    assert_eq!(fact(machine, kernel), fact(container, kernel));
    let namespace = "inside_namespace_pid";
    assert_ne!(fact(machine, namespace), fact(container, namespace));
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn every_container_on_a_kernel_with_cgroup_v2_alone() {
    for kind in
        ["namespaces", "bubblewrap", "runc", "crun", "nspawn", "lxc", "podman", "gvisor", "docker"]
    {
        let layers = format!("{kind}:memory=256M");
        let Some(arm) = in_the_guest(&layers, &["true"]) else { continue };
        assert_eq!(fact(&arm["evidence"][1], "limit_memory_bytes"), "268435456", "{kind}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_filter_and_a_share_in_every_runtime_of_cgroup_v2() {
    for kind in ["runc", "crun"] {
        let layers = format!("{kind}:cpuset=1,numa=0,weight=200");
        let Some(arm) = in_the_guest(&layers, &["true"]) else { continue };
        assert_eq!(fact(&arm["evidence"][1], "limit_cpu_weight"), "200", "{kind}");
    }
}
