//! Guests that are an application and little else: a packed root, and unikernels.

use crate::answers::{arm, compare, fact};
use crate::guests::{DEATH, tiny_kernel};
use crate::machine::{Machine, is_usable, text};
use crate::suite::{lab, run, start};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use surtax_instrument::wire::Status;

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
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
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
fn stacks_that_cannot_be_are_refused_before_anything_is_started() {
    let machine = Machine::take();
    for (stack, why) in [
        ("runc:root=packed", "that is for a machine with a kernel of its own"),
        ("qemu:root=packed+runc", "a packed root holds the command alone"),
        ("qemu:root=packed,files=9p", "no files are served to it"),
        ("appliance:solaris", "there is no recipe `solaris`"),
        ("appliance:arceos,cpus=0.5", "its machine has whole CPUs"),
        ("appliance", "`appliance` means nothing without its `recipe`"),
    ] {
        let output = machine.surtax(&["compare", "--in", stack, "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    machine.assert_as_before();
}

/// A recipe of ours beside this test's other files.
fn recipe(machine: &Machine, name: &str, [kernel, append]: [&str; 2], command: &str) -> String {
    let path = machine.path(name);
    let text = format!(
        "about = \"a test's\"\n[image]\nkernel = \"{kernel}\"\nappend = \"{append}\"\n\
         [machine]\nboard = \"q35\"\nmemory = \"128M\"\ncpus = 1\n\
         network = \"virtio-net-pci\"\n[command]\n{command}\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_unikernel_computes_what_a_program_computes_and_is_another_program() {
    let machine = Machine::take();
    let stack = "appliance:recipe=arceos,accel=tcg";
    if !is_usable(&machine, stack) {
        return;
    }
    // The same command in both worlds: here it is a script that knows the answer.
    let script = machine.path("primes");
    fs::write(&script, "#!/bin/sh\necho 168\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", script.parent().unwrap().display());
    let stacks = format!("native,{stack}");
    let mut command = machine.command(&compare(&stacks, "1", &["primes", "1000"]));
    let output = command.env("PATH", path).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stack = "appliance:accel=tcg,recipe=arceos";
    let unikernel = arm(&answer, stack);
    assert_eq!(unikernel["trial_count"], 1, "{}", unikernel["trouble"]);
    assert_eq!(unikernel["stdout_hashes"], arm(&answer, "native")["stdout_hashes"]);
    let level = &unikernel["evidence"][0];
    assert_eq!(fact(level, "accelerator"), "tcg");
    assert_eq!(fact(level, "appliance_ready"), "surtax: ready");
    assert_eq!(fact(level, "image_sha256").len(), 64);
    assert_eq!(fact(level, "network_namespace"), "its own");
    assert!(fact(level, "inside_agent").starts_with("none: "));
    assert!(unikernel["payers"].to_string().contains("vCPU threads"));
    assert!(answer["cautions"].to_string().contains("another-root"), "{}", answer["cautions"]);
    machine.assert_as_before();
}

#[test]
fn requests_over_tcp_are_answered_by_the_unikernel() {
    let machine = Machine::take();
    let stack = "appliance:arceos-echo,accel=tcg";
    if !is_usable(&machine, stack) {
        return;
    }
    let kernel = surtax::lab::cache_directory().unwrap().join("appliances/arceos.elf");
    // Known to be ready by what it prints, and by an answer.
    let talk = "runs = \"beside\"\nport = 7\nprobe = \"hello\"";
    let own = recipe(&machine, "echo.toml", [kernel.to_str().unwrap(), ""], talk);
    for stack in [stack, &format!("appliance:{own},accel=tcg")] {
        ask_for_echoes(&machine, stack);
    }
}

#[test]
fn a_unikernel_is_the_server_of_a_workload_and_compared_with_an_echo_in_native() {
    let machine = Machine::take();
    let stack = "appliance:accel=tcg,recipe=arceos-echo";
    if !is_usable(&machine, "appliance:arceos-echo,accel=tcg") {
        return;
    }
    let ask = |workload: &str| {
        let stacks = format!("native,{stack}");
        machine.answer(&[
            "compare", "--in", &stacks, "--workload", workload, "--runs", "1", "--format", "json",
        ])
    };
    let answer = ask("net.tcp_echo:time=100");
    for (stack, place) in [
        ("native", "outside, on the level of the measurement"),
        (stack, "beside the image, which is the server"),
    ] {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let innermost = found["evidence"].as_array().unwrap().last().unwrap();
        assert_eq!(fact(innermost, "client_place"), place, "{stack}");
        let count = found["histograms"][0]["value_count"].as_u64().unwrap();
        assert!(count > 20, "{stack}: {count}");
    }
    let innermost = arm(&answer, stack)["evidence"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(fact(&innermost, "server_address"), "127.0.0.1:7");
    let other = ask("net.tcp_rr:time=50");
    let said = arm(&other, stack).to_string();
    assert!(said.contains("serves at port 7"), "{said}");
    machine.assert_as_before();
}

fn ask_for_echoes(machine: &Machine, stack: &str) {
    let lab = lab();
    let mut running = start(&lab, stack, "echo", Duration::from_secs(60)).unwrap();
    let script = "exec bash -c 'exec 3<>/dev/tcp/${SURTAX_APPLIANCE/://}
        for number in $(seq 100); do
            echo request $number >&3
            read -r answer <&3
            [ \"$answer\" = \"request $number\" ] || exit 9
        done
        echo $answer'";
    let outcome = run(&mut running, script).unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "{outcome:?}");
    assert_eq!(outcome.stdout.tail, b"request 100\n");
    let payers: Vec<String> = running.payers().into_iter().map(|payer| payer.name).collect();
    assert_eq!(payers, ["surtax agent", "vCPU threads", "QEMU's other threads"]);
    assert_eq!(running.stop().unwrap(), Vec::<String>::new());
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    machine.assert_as_before();
}

#[test]
fn a_unikernel_answers_over_its_console_too() {
    let machine = Machine::take();
    if !is_usable(&machine, "appliance:arceos") {
        return;
    }
    let kernel = surtax::lab::cache_directory().unwrap().join("appliances/arceos.elf");
    let talk = "runs = \"inside\"\nover = \"console\"\nready = \"surtax: ready\"\nended = \
                \"surtax: exit \"";
    let own = recipe(&machine, "own.toml", [kernel.to_str().unwrap(), ""], talk);
    let lab = lab();
    let stack = format!("appliance:{own},accel=tcg");
    let mut running = start(&lab, &stack, "console", Duration::from_secs(60)).unwrap();
    let outcome = run(&mut running, "primes 100").unwrap();
    assert_eq!((outcome.status, outcome.stdout.tail), (Status::Exit(0), b"25\n".to_vec()));
    running.stop().unwrap();
    lab.close().unwrap();
    machine.assert_as_before();
}

#[test]
fn an_image_that_is_booted_with_its_command_runs_once_and_ends_with_its_machine() {
    let machine = Machine::take();
    if !is_usable(&machine, "appliance:arceos") {
        return;
    }
    let kernel = machine.path("kernel.elf");
    fs::write(&kernel, tiny_kernel("", "Hello from nothing at all\n", &DEATH)).unwrap();
    let own =
        recipe(&machine, "own.toml", [kernel.to_str().unwrap(), "{command}"], "runs = \"boot\"");
    let lab = lab();
    let stack = format!("appliance:{own},accel=tcg");
    let mut running = start(&lab, &stack, "boot", Duration::from_secs(60)).unwrap();
    let outcome = run(&mut running, "hello world").unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "{outcome:?}");
    let said = text(&outcome.stdout.tail);
    assert!(said.contains("Hello from nothing at all"), "{said:?}");
    assert!(run(&mut running, "hello world").is_err());
    running.stop().unwrap();
    lab.close().unwrap();
    // With all that measures along: its CPU time is read after its end.
    let answer = machine.json(&compare(&format!("native,{stack}"), "2", &["true"]));
    let measured = answer["arms"].as_array().unwrap().iter().find(|arm| arm["stack"] != "native");
    let measured = measured.unwrap();
    assert_eq!(measured["trial_count"], 2, "{}", measured["trouble"]);
    let metrics = measured["metrics"].as_array().unwrap();
    let cpu = metrics.iter().find(|metric| metric["metric"] == "cpu_total_ns").unwrap();
    assert!(cpu["median"].as_f64().is_some_and(|ns| ns > 0.0), "{cpu}");
    machine.assert_as_before();
}

/// The line of a recipe that names its kernel.
fn kernel_of(recipe: &str) -> &str {
    recipe.lines().find(|line| line.starts_with("kernel = ")).unwrap()
}

#[test]
fn an_appliance_that_cannot_be_is_a_gap_with_a_reason() {
    let machine = Machine::take();
    if !is_usable(&machine, "appliance:arceos") {
        return;
    }
    for (stack, why) in [
        ("appliance:recipe=unikraft", "comes without an image"),
        ("appliance:image=/no/such/image,recipe=unikraft", "`/no/such/image` is not there"),
        ("appliance:recipe=arceos,root=dir:/usr", "it has none of this level's files"),
    ] {
        let stacks = format!("native,{stack}");
        let answer = machine.answer(&compare(&stacks, "1", &["true"]));
        let trouble = arm(&answer, stack)["trouble"].to_string();
        assert!(trouble.contains(why), "{trouble}");
    }
    // A recipe of somebody's names what he would like to read.
    let private = machine.path("private");
    fs::write(&private, "secret").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    let built_in = include_str!("../../appliances/arceos/appliance.toml");
    let (from, recipe) = (kernel_of(built_in), machine.path("theirs.toml"));
    for (file, why) in [
        (private.to_str().unwrap(), "which is not for everybody to read"),
        ("/proc/kmsg", "it is the kernel's own, and kept nowhere"),
    ] {
        fs::write(&recipe, built_in.replace(from, &format!("kernel = \"{file}\""))).unwrap();
        let stack = format!("appliance:recipe={}", recipe.display());
        let answer = machine.answer(&compare(&format!("native,{stack}"), "1", &["true"]));
        let trouble = arm(&answer, &stack)["trouble"].to_string();
        assert!(trouble.contains(why), "{trouble}");
    }
    let output = machine.surtax(&["enter", "appliance:arceos", "--", "true"]);
    assert!(text(&output.stderr).contains("holds no agent"), "{}", text(&output.stderr));
    machine.assert_as_before();
}
