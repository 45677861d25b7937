//! Hostile commands: they flood, lie, kill, daemonise, or never end. Each arm says what happened,
//! and the machine is as before.

use crate::answers::{alone, arm, compare};
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

const LAYERS: [&str; 5] = ["native", "runc", "docker", "gvisor", "qemu:accel=tcg"];

/// Those of the layers that can run here, as one list.
fn usable(machine: &Machine) -> Vec<&'static str> {
    cases(&LAYERS, 4).iter().copied().filter(|layer| is_usable(machine, layer)).collect()
}

/// The answer for a command that must not run on the host itself: nothing else is its baseline.
fn ask_only(machine: &Machine, stack: &str, script: &str) -> Value {
    let baseline = ["compare", "--in", stack, "--baseline", "simulated", "--runs", "1"];
    let arguments = [&baseline, ["--format", "json", "--", "sh", "-c", script].as_slice()].concat();
    machine.answer(&arguments)
}

/// Returns what the trouble of an arm says.
#[track_caller]
fn why<'a>(answer: &'a Value, stack: &str) -> &'a str {
    let arm = arm(answer, stack);
    arm["trouble"]["why"].as_str().unwrap_or_else(|| panic!("`{stack}` has no trouble: {arm}"))
}

#[track_caller]
fn assert_clean(answer: &Value) {
    let text = answer.to_string();
    assert!(!text.contains('\u{1b}') && !text.contains("\\u001b"), "an escape code came through");
    assert!(text.len() < 300_000, "{} bytes of answer", text.len());
}

/// The processes whose command line contains this.
fn processes(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines =
        entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.map(|line| text(&line)).filter(|line| line.contains(word)).collect()
}

#[test]
fn the_same_flood_is_hashed_whole_in_every_stack() {
    let machine = Machine::take();
    let stacks = usable(&machine);
    // 5 MB with bytes that are no text, and escape codes where an error would quote them.
    let flood = "yes \"$(printf 'a\\001\\377')\" | head -c 5000000; printf '\\000\\033[2J'";
    let answer = machine.json(&compare(&stacks.join(","), "1", &["sh", "-c", flood]));
    let hash = arm(&answer, "native")["stdout_hashes"].clone();
    assert_eq!(hash.as_array().unwrap().len(), 1, "{hash}");
    for stack in &stacks {
        assert_eq!(arm(&answer, stack)["stdout_hashes"], hash, "{stack}");
    }
    let script = "head -c 200000 /dev/zero; yes flood | head -c 200000 >&2; \
                  printf '\\033[2J\\033]0;title\\007last words' >&2; exit 1";
    for stack in &stacks {
        let answer = machine.json_of_a_failure(&alone(stack, &["sh", "-c", script]));
        assert_clean(&answer);
        let stderr = arm(&answer, stack)["trouble"]["stderr"].as_str().unwrap();
        assert!(stderr.contains("last words"), "{stack}: {stderr}");
    }
    machine.assert_as_before();
}

#[test]
fn words_of_any_length_and_kind_reach_the_command_or_are_refused() {
    let machine = Machine::take();
    let stacks = usable(&machine).join(",");
    let long = "x".repeat(100_000);
    let script =
        "test ${#1} = 100000 && test \"$LINES_OF\" = \"$(printf 'a\\nb')\" && test -z \"$2\"";
    let arguments = [
        "compare", "--in", &stacks, "--runs", "1", "--format", "json", "--env", "LINES_OF=a\nb",
        "--", "sh", "-c", script, "sh", &long, "",
    ];
    let answer = machine.json(&arguments);
    for arm in answer["arms"].as_array().unwrap() {
        assert_eq!(arm["trial_count"], 1, "{}: {}", arm["stack"], arm["trouble"]);
    }
    // More than a frame holds: the user's mistake, said before anything is started or kept.
    let mut arguments = vec!["compare", "--in", "native", "--", "true"];
    arguments.extend([long.as_str(); 11]);
    let output = machine.surtax(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the command is too long"), "{}", text(&output.stderr));
    machine.assert_as_before();
}

#[test]
fn a_deadline_ends_a_command_that_ignores_every_signal_it_can() {
    let machine = Machine::take();
    let stacks = usable(&machine);
    let script = "trap '' TERM INT HUP QUIT; sleep 4321 & sleep 4321; sleep 4321";
    let began = monotonic_raw();
    for stack in &stacks {
        let mut arguments = alone(stack, &["sh", "-c", script]);
        arguments.splice(1..1, ["--deadline", "1s"]);
        let answer = machine.json_of_a_failure(&arguments);
        assert_eq!(arm(&answer, stack)["exit_statuses"][0], "deadline", "{stack}");
    }
    let took = Duration::from(monotonic_raw().since(began));
    assert!(took < Duration::from_secs(120), "{} stacks took {took:?}", stacks.len());
    assert_eq!(processes("sleep\u{0}4321"), Vec::<String>::new());
    machine.assert_as_before();
}

#[test]
fn a_command_that_freezes_its_own_group_is_ended_at_its_deadline() {
    let machine = Machine::take();
    // With namespaces of its own, root freezes itself and the agent, which keeps the deadline.
    let script = "unshare -UrmC sh -c 'mount -t cgroup -o freezer none /mnt && \
                  echo FROZEN >/mnt/freezer.state || { mount -t cgroup2 none /mnt && \
                  echo 1 >/mnt/cgroup.freeze; }'; exit 9";
    for stack in ["runc", "bubblewrap", "podman"] {
        if is_usable(&machine, stack) {
            let mut arguments = alone(stack, &["sh", "-c", script]);
            arguments.splice(1..1, ["--deadline", "1s"]);
            let began = monotonic_raw();
            let answer = machine.json_of_a_failure(&arguments);
            let took = Duration::from(monotonic_raw().since(began));
            assert_eq!(arm(&answer, stack)["exit_statuses"][0], "deadline", "{stack}");
            assert!(took < Duration::from_secs(60), "{stack} took {took:?}");
            machine.assert_as_before();
        }
    }
}

#[test]
fn what_a_command_leaves_running_is_gone_after_its_trial() {
    let machine = Machine::take();
    let stacks = usable(&machine);
    // A daemon: a session of its own, no terminal, its parent gone, deaf to what would end it; and
    // one that holds the command's output open.
    let script = "setsid sh -c 'trap \"\" TERM HUP; sleep 4322 & sleep 4322' </dev/null \
                  >/dev/null 2>&1 & sleep 4322 & echo out; exit 0";
    let answer = machine.json(&compare(&stacks.join(","), "1", &["sh", "-c", script]));
    for stack in &stacks {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    }
    let cautions = answer["cautions"].as_array().unwrap();
    let told = cautions.iter().find(|it| it["code"] == "left-running").expect("nobody told of it");
    assert!(told["finding"].as_str().unwrap().starts_with("in every stack "), "{told}");
    assert_eq!(processes("sleep\u{0}4322"), Vec::<String>::new());
    machine.assert_as_before();
}

#[test]
fn a_command_that_kills_its_agent_breaks_its_own_trial_only() {
    let machine = Machine::take();
    let script = "kill -9 $PPID; sleep 4323";
    let answer = machine.json_of_a_failure(&compare("native", "1", &["sh", "-c", script]));
    assert_eq!(why(&answer, "native"), "native: the agent is gone");
    assert_eq!(processes("sleep\u{0}4323"), Vec::<String>::new());
    machine.assert_as_before();
    // The kernel protects the first process of a PID namespace from those in it; gVisor's does not.
    let script = "kill -9 1; sleep 0.2; exit 0";
    for (stack, is_protected) in [("runc", true), ("gvisor", false), ("qemu:accel=tcg", true)] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = ask_only(&machine, stack, script);
        let count = arm(&answer, stack)["trial_count"].as_u64().unwrap();
        if is_protected {
            assert_eq!(count, 1, "{stack}: {}", arm(&answer, stack)["trouble"]);
        } else if count == 0 {
            assert!(why(&answer, stack).contains("the agent is gone"), "{stack}");
        }
        machine.assert_as_before();
    }
}

#[test]
fn a_command_that_leaves_its_groups_and_kills_its_agent_leaves_no_process() {
    let machine = Machine::beside_one();
    let leave = "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do \
                 echo $$ >$f; done 2>/dev/null";
    let other = "setpriv --reuid 65534 --regid 65534 --clear-groups -- unshare -Um";
    for how in cases(&["", "unshare -mC", other, "unshare -m", "chroot /usr"], 3) {
        let script = format!(
            "{leave}; setsid {how} sleep 4326 </dev/null >/dev/null 2>&1 & sleep 0.5; \
             kill -9 $PPID; sleep 0.5"
        );
        // It leaves before it starts the others.
        let script = format!("{leave}; {script}");
        for stack in ["native", "namespaces"] {
            machine.answer(&alone(stack, &["sh", "-c", &script]));
            assert_eq!(processes("sleep\u{0}4326"), Vec::<String>::new(), "{stack}, {how}");
        }
        machine.assert_as_before();
    }
}

#[test]
fn a_command_that_left_its_groups_is_found_after_its_surtax_was_killed_too() {
    let machine = Machine::alone();
    let script = "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do \
                  echo $$ >$f; done 2>/dev/null; \
                  surtax=$(sed -n 's/PPid:[^0-9]*//p' /proc/$PPID/status); \
                  setsid sleep 4327 </dev/null >/dev/null 2>&1 & sleep 0.5; kill -9 $surtax";
    let output = machine.surtax(&compare("native", "1", &["sh", "-c", script]));
    assert_eq!(output.status.signal(), Some(9), "{}", text(&output.stderr));
    let swept = machine.surtax(&["gc"]);
    assert!(swept.status.success(), "{}", text(&swept.stderr));
    assert_eq!(processes("sleep\u{0}4327"), Vec::<String>::new());
    machine.assert_as_before();
}

#[test]
fn a_command_that_kills_surtax_itself_is_cleaned_up_after() {
    let machine = Machine::alone();
    let script = "kill -9 $(sed -n 's/PPid:[^0-9]*//p' /proc/$PPID/status); sleep 4324";
    let output = machine.surtax(&compare("native", "1", &["sh", "-c", script]));
    assert_eq!(output.status.signal(), Some(9), "{}", text(&output.stderr));
    let swept = machine.surtax(&["gc"]);
    assert!(swept.status.success(), "{}", text(&swept.stderr));
    assert_eq!(processes("sleep\u{0}4324"), Vec::<String>::new());
    machine.assert_as_before();
}

#[test]
fn a_guest_that_panics_under_a_flooded_console_is_quoted_at_its_end() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg";
    if !is_usable(&machine, stack) {
        return;
    }
    // It looks twice whether it is the guest whose kernel it makes panic.
    let script = "test $(hostname) = surtax && grep -q console=ttyS0 /proc/cmdline || exit 9; \
                  printf '\\033[2J\\033]0;title\\007' > /dev/ttyS0; \
                  head -c 100000 /dev/zero | tr '\\0' x > /dev/ttyS0; echo > /dev/ttyS0; \
                  echo c > /proc/sysrq-trigger; sleep 60";
    let answer = ask_only(&machine, stack, script);
    assert_clean(&answer);
    let why = why(&answer, stack);
    assert!(why.starts_with("qemu: the agent is gone\n  | "), "{why}");
    assert!(why.contains("Kernel panic"), "{why}");
    assert!(why.len() < 20_000, "{} bytes", why.len());
    machine.assert_as_before();
}
