//! Monitors that cannot be had everywhere: what is said of them where they are not, or are too old,
//! or have no KVM.

use crate::machine::{Machine, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn layer<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    let layers = doctor["layers"].as_array().unwrap();
    layers.iter().find(|layer| layer["layer"] == name).unwrap()
}

#[test]
fn the_doctor_says_which_versions_it_knows_and_believes_no_kvm_that_is_not_proved() {
    let machine = Machine::take();
    for (name, said) in
        [("cloud-hypervisor", "cloud-hypervisor v38.0"), ("firecracker", "Firecracker v1.16.1")]
    {
        let program = machine.path(name);
        fs::write(&program, format!("#!/bin/sh\necho {said}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let own = machine.path("firecracker");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", own.parent().unwrap().display());
    let mut command = machine.command(&["doctor", "--format", "json"]);
    let output = command.env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();

    let old = layer(&doctor, "cloud-hypervisor");
    let why = "`cloud-hypervisor --version` says `cloud-hypervisor v38.0`, and the API is known of \
               44 to 53 only";
    assert_eq!((&old["usable"], &old["why"]), (&false.into(), &why.into()));
    assert!(old["remedy"].as_str().unwrap().contains("44 to 53"));

    // No more is believed of a monitor than of QEMU under KVM.
    let known = layer(&doctor, "firecracker:root=packed");
    let reference = layer(&doctor, "qemu:accel=kvm");
    assert_eq!(known["usable"], reference["usable"]);
    if let Some(refuted) = reference["why"].as_str() {
        assert!(known["why"].as_str().unwrap().ends_with(refuted), "{known}");
    }
    for monitor in [old, known] {
        assert_eq!(monitor["ran_on_hardware"], false);
        assert!(monitor["summary"].as_str().unwrap().contains("not yet run on hardware"));
    }
    machine.assert_as_before();
}
