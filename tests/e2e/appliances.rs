//! Guests that are an application and little else: a packed root, and unikernels.

use crate::answers::{arm, compare, fact};
use crate::machine::{Machine, is_usable, text};
use std::fs;

#[test]
fn a_packed_guest_holds_the_command_and_answers_as_the_others_do() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let (plain, packed) = ("qemu:accel=tcg", "qemu:accel=tcg,root=packed");
    let stacks = format!("native,{plain},{packed}");
    let data = machine.path("data.txt");
    fs::write(&data, "three words here\n").unwrap();
    let answer = machine.json(&compare(&stacks, "1", &["sha256sum", data.to_str().unwrap()]));
    let of = |stack: &str| arm(&answer, stack).clone();
    for stack in ["native", plain, packed] {
        assert_eq!(of(stack)["trial_count"], 1, "{stack}: {}", of(stack)["trouble"]);
        assert_eq!(of(stack)["stdout_hashes"], of("native")["stdout_hashes"], "{stack}");
    }
    let (guest, host) = (&of(packed)["evidence"][0], &of("native")["evidence"][0]);
    assert_eq!(fact(guest, "accelerator"), "tcg");
    assert_eq!(fact(guest, "root"), "packed");
    assert!(fact(guest, "inside_root_mount").starts_with("rootfs "));
    let files: usize = fact(guest, "root_files").parse().unwrap();
    assert!(files < 20, "{files}");
    let names = fact(guest, "root_packed");
    for name in ["/sha256sum", "/libc.so.6", "/ld-linux-x86-64.so.2", data.to_str().unwrap()] {
        assert!(names.contains(name), "{name} is not among {names}");
    }
    assert_eq!(fact(guest, "command_file_xxh3"), fact(host, "command_file_xxh3"));
    assert_eq!(
        fact(guest, "inside_kernel_release"),
        fact(&of(plain)["evidence"][0], "inside_kernel_release")
    );
    let payers = |stack: &str| of(stack)["payers"].to_string();
    assert!(payers(plain).contains("virtiofsd"), "{}", payers(plain));
    assert!(!payers(packed).contains("virtiofsd"), "{}", payers(packed));
    machine.assert_as_before();
}

#[test]
fn what_cannot_be_packed_is_a_gap_with_a_reason() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let script = machine.path("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).unwrap();
    let stack = "qemu:accel=tcg,root=packed";
    for (command, why) in [
        (vec![script.to_str().unwrap()], "is a script"),
        (vec!["ls", "/etc"], "`/etc` is a directory"),
    ] {
        let answer = machine.answer(&compare(&format!("native,{stack}"), "1", &command));
        let trouble = arm(&answer, stack)["trouble"].to_string();
        assert!(trouble.contains(why), "{trouble}");
    }
    machine.assert_as_before();
}

#[test]
fn a_packed_root_is_for_the_innermost_machine_alone() {
    let machine = Machine::take();
    for (stack, why) in [
        ("runc:root=packed", "that is for a machine with a kernel of its own"),
        ("qemu:root=packed+runc", "a packed root holds the command alone"),
    ] {
        let output = machine.surtax(&["compare", "--in", stack, "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    machine.assert_as_before();
}
