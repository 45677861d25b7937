//! Tools by another file: two versions of one tool are two stacks of one run.

use crate::answers::{arm, compare, fact, median};
use crate::machine::{Machine, is_usable};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use surtax::driver;
use surtax::layer::BINARY;

/// Layers whose tool may be another file, the name of the tool, and of the fact of its file.
const TOOLS: [(&str, &str, &str); 6] = [
    ("runc", "runc", "runtime"),
    ("crun", "crun", "runtime"),
    ("gvisor", "runsc", "runtime"),
    ("bubblewrap", "bwrap", "tool"),
    ("nspawn", "systemd-nspawn", "tool"),
    ("lxc", "lxc-start", "tool"),
];

/// Others, each with the test that has another file of it.
const OTHERS: [(&str, &str); 5] = [
    ("youki", "a_tool_that_is_not_installed_may_be_named"),
    ("qemu", "qemu_may_be_another_file_too"),
    ("docker", "a_daemon_of_another_file_stands_beside_the_usual_one"),
    ("cloud-hypervisor", "the_file_of_a_monitor_is_the_one_that_is_asked_for_its_version"),
    ("firecracker", "the_file_of_a_monitor_is_the_one_that_is_asked_for_its_version"),
];

#[test]
fn every_layer_whose_tool_may_be_another_file_is_tried_and_told_of() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/comparing.md"));
    let page = page.unwrap();
    let tried = TOOLS.iter().map(|(kind, ..)| kind).chain(OTHERS.iter().map(|(kind, _)| kind));
    let tried: BTreeSet<&str> = tried.copied().collect();
    let may = driver::registered().into_iter();
    let may = may.filter(|it| it.paths().any(|key| key == BINARY.key)).map(|it| it.kind);
    assert_eq!(may.collect::<BTreeSet<_>>(), tried);
    let told = page.split("\n\n").find(|paragraph| paragraph.contains("take it")).unwrap();
    for kind in tried {
        assert!(told.contains(&format!("`{kind}`")), "{kind}");
    }
}

/// Seconds that the other version of a tool takes longer to start, whatever it does.
const LATER: f64 = 0.3;

/// Writes a script that may be executed.
fn script(file: PathBuf, text: &str) -> PathBuf {
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Writes another version of a tool: the same one, later.
fn later(machine: &Machine, tool: &str) -> PathBuf {
    let found = surtax::lab::find(tool).unwrap();
    let text = format!("sleep {LATER}\nexec {} \"$@\"", found.display());
    script(machine.path(&format!("{tool}-later")), &text)
}

#[test]
fn another_version_of_a_tool_is_what_is_started_and_its_cost_is_found() {
    let machine = Machine::take();
    for (kind, tool, key) in TOOLS {
        if !is_usable(&machine, kind) {
            continue;
        }
        let file = later(&machine, tool);
        let other = format!("{kind}:binary={}", file.display());
        let answer = machine.answer(&compare(&format!("{kind},{other}"), "3", &["true"]));
        let [usual, named] = [kind, &other].map(|stack| arm(&answer, stack));
        for (arm, path) in [(usual, surtax::lab::find(tool).unwrap()), (named, file)] {
            assert_eq!(arm["trial_count"], 3, "{}", arm["trouble"]);
            let evidence = &arm["evidence"][0];
            assert_eq!(Path::new(fact(evidence, key)), path);
            let has_hash = evidence.to_string().contains(&format!("{key}_sha256"));
            assert_eq!(has_hash, arm["stack"] == *other, "{evidence}");
        }
        let more = (median(named, "start_ns") - median(usual, "start_ns")) / 1e9;
        assert!((0.5 * LATER..1.5 * LATER).contains(&more), "{kind}: {more} s");
        machine.assert_as_before();
    }
}

/// Fails unless a stack whose innermost runtime is this file runs, and says so on that level.
fn require_runtime(machine: &Machine, stack: &str, level: usize, file: &Path) {
    let stack = format!("{stack}:binary={}", file.display());
    let answer = machine.answer(&compare(&stack, "1", &["true"]));
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    assert_eq!(Path::new(fact(&arm["evidence"][level], "runtime")), file);
    machine.assert_as_before();
}

#[test]
fn inside_another_layer_it_is_that_level_s_file() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let file = later(&machine, "runc");
    require_runtime(&machine, "runc+runc", 1, &file);
}

#[test]
fn a_tool_that_is_not_installed_may_be_named() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    // Of youki there is no package; `runc` has the command line that its driver types.
    let file = surtax::lab::find("runc").unwrap();
    require_runtime(&machine, "youki", 0, &file);
}

#[test]
fn the_file_of_a_monitor_is_the_one_that_is_asked_for_its_version() {
    let machine = Machine::take();
    let said = [
        ("cloud-hypervisor", "cloud-hypervisor v38.0", "`cloud-hypervisor v38.0`, and the API"),
        ("firecracker", "Firecracker v0.9.0", "`Firecracker v0.9.0`, and the API"),
    ];
    for (kind, version, told) in said {
        let file = script(machine.path(kind), &format!("echo {version}"));
        let stack = format!("{kind}:binary={},root=packed", file.display());
        let answer = machine.answer(&compare(&stack, "1", &["true"]));
        let trouble = &arm(&answer, &stack)["trouble"];
        assert!(trouble["why"].as_str().unwrap().contains(told), "{trouble}");
        // What would help is another file, not an installation.
        assert!(trouble["remedy"].as_str().unwrap().contains("`binary=`"), "{trouble}");
    }
    machine.assert_as_before();
}

#[test]
fn qemu_may_be_another_file_too() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let found = fs::canonicalize(surtax::lab::find("qemu-system-x86_64").unwrap()).unwrap();
    let stack = format!("qemu:accel=tcg,binary={}", found.display());
    let answer = machine.answer(&compare(&stack, "1", &["true"]));
    let evidence = &arm(&answer, &stack)["evidence"][0];
    let line = fact(evidence, "qemu_command_line");
    assert!(line.starts_with(&format!("{} ", found.display())), "{line}");
    assert_eq!(fact(evidence, "tool_sha256"), surtax::lab::sha256(&found).unwrap());
    machine.assert_as_before();
}

#[test]
fn a_daemon_of_another_file_stands_beside_the_usual_one() {
    let machine = Machine::take();
    if !is_usable(&machine, "docker") {
        return;
    }
    let file = later(&machine, "dockerd");
    let other = format!("docker:binary={}", file.display());
    let answer = machine.answer(&compare(&format!("docker,{other}"), "2", &["true"]));
    let [usual, named] = ["docker", &other].map(|stack| arm(&answer, stack));
    for arm in [usual, named] {
        assert_eq!(arm["trial_count"], 2, "{}", arm["trouble"]);
    }
    let evidence = &named["evidence"][0];
    assert_eq!(Path::new(fact(evidence, "tool")), file);
    assert_eq!(fact(evidence, "daemon"), "private");
    let socket = fact(evidence, "daemon_socket");
    assert_ne!(socket, fact(&usual["evidence"][0], "daemon_socket"), "a daemon of its own");
    machine.assert_as_before();
}

#[test]
fn a_file_that_somebody_else_could_exchange_is_not_started_as_root() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let file = later(&machine, "runc");
    let trouble = |mend: &dyn Fn()| {
        let stack = format!("runc:binary={}", file.display());
        let answer = machine.answer(&compare(&stack, "1", &["true"]));
        mend();
        assert_eq!(arm(&answer, "native")["trial_count"], 1, "the others still run");
        arm(&answer, &stack)["trouble"]["why"].as_str().unwrap().to_owned()
    };
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o757);
    let why = trouble(&|| mode(0o755));
    assert!(why.contains("others can write to"), "{why}");
    chown(&file, Some(54_321), None).unwrap();
    let why = trouble(&|| chown(&file, Some(0), None).unwrap());
    assert!(why.contains("belongs to user 54321"), "{why}");
    mode(0o644);
    let why = trouble(&|| mode(0o755));
    assert!(why.contains("is not a file that may be executed"), "{why}");
    fs::remove_file(&file).unwrap();
    let why = trouble(&|| ());
    assert!(why.contains("is not there"), "{why}");
    machine.assert_as_before();
}
