//! Commands that say something in their agent's name: none of it is a number, and it is told where
//! it reached the agent at all.

use crate::answers::{alone, arm};
use crate::machine::{Machine, is_usable, text};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Layers in which a command runs as root beside the agent, with all rights over it.
const OPEN: [&str; 5] = ["native", "nspawn", "namespaces", "lxc", "qemu:accel=tcg"];

/// Layers in which the agent is out of its command's reach.
const SHUT: [&str; 6] = ["runc", "crun", "bubblewrap", "docker", "podman", "gvisor"];

/// Those of them in which every kind of frame is forged.
const EVERY_KIND: usize = 2;

/// Returns what becomes of a command that forges, in its first attempt: the trial's state, and the
/// arm's trouble.
fn forge(machine: &Machine, stack: &str, words: &[&str]) -> (String, String) {
    let forger = ["@surtax", "engine", "forge", "--duration", "50ms"];
    let output = machine.surtax(&[&alone(stack, &forger), words].concat());
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let arm = arm(&answer, stack);
    assert_eq!(arm["trial_count"], 0, "{stack}: a forged number counts: {arm:#}");
    let first = &arm["trials"][0];
    let word = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    (word("state"), arm["trouble"]["why"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_forged_reply_is_told_of_and_never_called_a_bug() {
    let machine = Machine::take();
    for (number, stack) in OPEN.into_iter().enumerate() {
        if !is_usable(&machine, stack) {
            continue;
        }
        let kinds = [
            ["--kind", "exited", "--manner", "whole"],
            ["--kind", "stopped", "--manner", "whole"],
            ["--kind", "hello", "--manner", "whole"],
            ["--kind", "failed", "--manner", "half"],
            ["--kind", "bill", "--manner", "twice"],
            ["--kind", "garbage", "--manner", "whole"],
        ];
        let tried = if number < EVERY_KIND { kinds.len() } else { 1 };
        for words in &kinds[..tried] {
            let (state, why) = forge(&machine, stack, words);
            assert_eq!(state, "invalid", "{stack} {words:?}: {why}");
            // Who notices first says it: this host, or the agent of what it is asked by.
            assert!(why.contains("somebody wrote into"), "{stack}: {why}");
            assert!(!why.contains("bug in surtax"), "{stack}: {why}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn an_agent_in_a_container_is_out_of_its_commands_reach() {
    let machine = Machine::take();
    for stack in SHUT.into_iter().filter(|stack| is_usable(&machine, stack)) {
        let forger = ["@surtax", "engine", "forge", "--kind", "exited", "--shut"];
        let answer = machine.json(&alone(stack, &forger));
        let arm = arm(&answer, stack);
        // What it then says is in no frame that is forged.
        let said = format!("{}\n", surtax_engines::forge::answer_out_of_reach().finish());
        let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(said.as_bytes()));
        assert_eq!(arm["stdout_hashes"], json!([hash]), "{stack}: {arm:#}");
    }
    machine.assert_as_before();
}

/// The agent as nobody, with a channel that its command may not have.
#[test]
fn an_agent_is_not_dumpable_and_leaves_its_channel_to_nobody() {
    let machine = Machine::take();
    let mut process = Command::new(env!("SURTAX_AGENT"));
    process.arg("stdio").uid(65534).gid(65534).current_dir("/");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    let mut greeting = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut greeting).unwrap();
    let place = format!("/proc/{}", child.id());
    // What may not be dumped belongs to root, whoever runs it.
    assert_eq!(std::fs::metadata(format!("{place}/mem")).unwrap().uid(), 0);
    let names = |number: u32| std::fs::read_link(format!("{place}/fd/{number}")).unwrap();
    assert_eq!(names(0), std::path::Path::new("/dev/null"));
    assert_eq!(names(1), names(2));
    let others = |what: &str| {
        let mut other = Command::new("sh");
        other.args(["-c", what]).uid(65534).gid(65534).stderr(Stdio::null());
        other.status().unwrap().success()
    };
    assert!(others(&format!("cat {place}/stat >/dev/null")), "it cannot even be seen");
    assert!(!others(&format!("ls {place}/fd/")), "its descriptors can be listed");
    assert!(!others(&format!("cat {place}/mem")), "its memory can be read");
    child.kill().unwrap();
    child.wait().unwrap();
    machine.assert_as_before();
}
