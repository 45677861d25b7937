//! A campaign of SIGKILLs at random moments: main process, reaper, or both.
//!
//! After each, `surtax gc` must leave the machine as it was, and every trial that was said to have
//! ended must be in the ledger. The campaign counts the kills that really hit a living process, and
//! goes on until that many have. `SURTAX_KILLS` sets how many (40 without it).

use crate::machine::{Machine, children_named, is_usable, text};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::time::Duration;

/// The stacks, and how long after its start a run of each may be hit, in milliseconds.
const STACKS: [(&str, u64); 14] = [
    ("native", 900),
    ("namespaces:time=private,user=private", 900),
    ("bubblewrap:scratch=bind", 1000),
    ("runc", 1200),
    ("nspawn", 1500),
    ("lxc", 1500),
    ("lxc:init=systemd,net=veth", 3000),
    ("podman:scratch=volume", 2500),
    ("gvisor", 2500),
    ("docker", 5000),
    ("docker:net=user,storage=btrfs", 5000),
    ("qemu:disk-size=64M,scratch=virtio-blk", 6000),
    ("qemu:net=tap", 6000),
    ("qemu:net=vhost-user", 6000),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Main,
    Reaper,
    Both,
}

#[test]
fn nothing_is_left_and_no_finished_trial_is_lost_after_a_kill_at_any_moment() {
    let wanted: u32 = std::env::var("SURTAX_KILLS").map_or(40, |text| text.parse().unwrap());
    let machine = Machine::take();
    let stacks: Vec<_> =
        STACKS.into_iter().filter(|(stack, _)| is_usable(&machine, stack)).collect();
    let mut chance = ChaCha8Rng::seed_from_u64(7);
    let mut hits = 0;
    let mut tries = 0;
    while hits < wanted {
        tries += 1;
        assert!(tries < 3 * wanted + 10, "only {hits} of {tries} kills hit anything");
        let (stack, span_ms) = stacks[chance.random_range(0..stacks.len())];
        let target = [Target::Main, Target::Reaper, Target::Both][chance.random_range(0..3)];
        let delay = Duration::from_millis(chance.random_range(0..span_ms));
        let ledger = machine.path(&format!("{tries}.surtax"));
        let ledger = ledger.to_str().unwrap();
        let command =
            ["compare", "-v", "--in", stack, "--runs", "4", "-o", ledger, "--", "sleep", "0.05"];
        let child = machine.start(&command);
        std::thread::sleep(delay);
        let (said, was_hit) = kill(child, target);
        hits += u32::from(was_hit);
        let swept = machine.surtax(&["gc"]);
        let what = format!("{target:?} of {stack} after {delay:?}");
        assert!(swept.status.success(), "gc after {what}: {}", text(&swept.stderr));
        let difference = machine.difference();
        assert!(difference.is_empty(), "after {what}: {difference:#?}\n{said}");
        assert_nothing_lost(&machine, ledger, &said, &what);
    }
    println!("{hits} kills hit a living process, of {tries} tries, over {stacks:?}");
}

/// Kills, waits for the end, and gives back what was said and whether anything living was hit.
fn kill(mut child: Child, target: Target) -> (String, bool) {
    let reapers = children_named(child.id(), "__reaper");
    let is_alive = child.try_wait().unwrap().is_none();
    let signal = |pid: u32| {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).is_ok()
    };
    let mut was_hit = false;
    if target != Target::Main {
        was_hit |= is_alive && reapers.iter().any(|reaper| signal(*reaper));
    }
    if target != Target::Reaper {
        was_hit |= is_alive && signal(child.id());
    }
    let output = child.wait_with_output().unwrap();
    wait_for_end_of(&reapers);
    (text(&output.stderr), was_hit)
}

/// A reaper that was not killed does its work first.
fn wait_for_end_of(reapers: &[u32]) {
    for _ in 0..3000 {
        let is_there = |pid: &&u32| std::path::Path::new(&format!("/proc/{pid}/exe")).exists();
        if reapers.iter().find(is_there).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("a reaper is still at work after 30 s");
}

/// Every trial that was said to have ended is in the ledger.
fn assert_nothing_lost(machine: &Machine, ledger: &str, said: &str, what: &str) {
    let ended = said.lines().filter(|line| line.contains("ended:")).count();
    if ended == 0 {
        return;
    }
    let shown = machine.json(&["show", ledger, "--format", "json"]);
    let arms = shown["arms"].as_array().unwrap();
    let kept: usize = arms
        .iter()
        .flat_map(|arm| arm["trials"].as_array().unwrap())
        .filter(|trial| trial["state"] != "void")
        .count();
    assert!(kept >= ended, "after {what}: {ended} trials were said to have ended, {kept} are kept");
}
