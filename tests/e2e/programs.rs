//! Programs: which file a command is, and a stop by a signal; what else looks like the cost of a
//! stack.

use crate::answers::{alone, arm, compare, fact, median};
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Returns what the innermost level of an arm says of `key`.
fn innermost<'a>(answer: &'a Value, stack: &str, key: &str) -> &'a str {
    fact(arm(answer, stack)["evidence"].as_array().unwrap().last().unwrap(), key)
}

fn codes(answer: &Value) -> Vec<&str> {
    let cautions = answer["cautions"].as_array().unwrap().iter();
    cautions.map(|caution| caution["code"].as_str().unwrap()).collect()
}

#[test]
fn a_command_is_the_same_file_in_every_layer() {
    let machine = Machine::take();
    let wanted = ["native", "runc", "crun", "gvisor", "docker", "qemu", "qemu+runc"];
    let wanted = cases(&wanted, 6).iter().copied();
    let stacks: Vec<&str> = wanted.filter(|stack| is_usable(&machine, stack)).collect();
    let answer = machine.json(&compare(&stacks.join(","), "1", &["sh", "-c", "exit 0"]));
    let file = innermost(&answer, "native", "command_file");
    let bytes = fs::read(file).unwrap();
    assert_eq!(innermost(&answer, "native", "command_file_bytes"), bytes.len().to_string());
    for stack in stacks {
        assert_eq!(arm(&answer, stack)["trial_count"], 1, "{stack}");
        for key in ["command_file", "command_file_xxh3", "command_file_bytes"] {
            let expected = innermost(&answer, "native", key);
            assert_eq!(innermost(&answer, stack, key), expected, "{stack}: {key}");
        }
    }
    assert!(!codes(&answer).contains(&"another-program"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn another_program_of_the_same_name_and_result_is_not_compared() {
    let machine = Machine::take();
    let program = |directory: &str, text: &str| {
        let directory = machine.path(directory);
        fs::create_dir(&directory).unwrap();
        let file = directory.join("program");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        format!("native:env.PATH={}:/usr/bin:/bin", directory.display())
    };
    let one = program("one", "#!/bin/sh\necho done\n");
    let other = program("other", "#!/bin/sh\n:; echo done\n");
    let stacks = format!("{one},{other}");
    let mut arguments = compare(&stacks, "3", &["program"]);
    arguments.splice(1..1, ["--baseline", &one]);
    let answer = machine.json_of_a_failure(&arguments);
    let found = arm(&answer, &other);
    assert_eq!(found["verdict"]["is"], "invalid", "{found:#}");
    assert_eq!(found["verdict"]["reason"], "another program");
    assert_eq!((&found["overhead"], &found["trial_count"]), (&Value::Null, &Value::from(3)));
    assert!(codes(&answer).contains(&"another-program"), "{:?}", codes(&answer));
    assert!(!codes(&answer).contains(&"outputs-differ"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn a_program_that_puts_the_genuine_file_back_is_not_compared() {
    let machine = Machine::take();
    let genuine = "#!/bin/sh\necho done\n";
    let directory = |name: &str, text: &str| {
        let directory = machine.path(name);
        fs::create_dir(&directory).unwrap();
        for (file, text) in [("program", text), ("genuine", genuine)] {
            let file = directory.join(file);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        format!("env.PATH={}:/usr/bin:/bin", directory.display())
    };
    let baseline = format!("native:{}", directory("genuine", genuine));
    // What each writes is gone with its trial, so that all of them run the other program.
    let after = |act: &str| format!("#!/bin/sh\n{{ {act}; echo done; exit; }}\n");
    let written = directory("written", &after("cat \"${0%/*}/genuine\" >\"$0\""));
    let replaced = directory("replaced", &after("cp -p \"${0%/*}/genuine\" x; mv x \"$0\""));
    let removed = directory("removed", &after("rm \"$0\""));
    let others = [("native", written), ("runc", replaced), ("runc", removed)]
        .map(|(layer, path)| format!("{layer}:{path}"));
    let stacks = format!("{baseline},{}", others.join(","));
    let mut arguments = compare(&stacks, "2", &["program"]);
    arguments.splice(1..1, ["--baseline", &baseline]);
    let answer = machine.json_of_a_failure(&arguments);
    for stack in others {
        let found = arm(&answer, &stack);
        assert_eq!(found["verdict"]["reason"], "another program", "{stack}: {found:#}");
        assert_eq!((&found["overhead"], &found["trial_count"]), (&Value::Null, &Value::from(2)));
    }
    machine.assert_as_before();
}

#[test]
fn cpu_time_of_children_whose_end_is_ignored_is_the_commands_and_is_told() {
    let machine = Machine::take();
    // `wait` comes back when all children are gone, and says that there is none.
    let script = "$SIG{CHLD} = 'IGNORE'; if (!fork) { 1 while (times)[0] < 0.3; exit } wait";
    let wanted = ["native", "runc", "bubblewrap", "lxc", "podman", "runc+crun"];
    assert_unwaited_is_the_commands(&machine, &wanted, "2", &["perl", "-e", script]);
}

/// Requires that a command whose child uses 0.3 s, for which it does not wait, is billed for it.
#[track_caller]
fn assert_unwaited_is_the_commands(
    machine: &Machine,
    wanted: &[&str],
    runs: &str,
    command: &[&str],
) {
    let stacks: Vec<&str> =
        wanted.iter().copied().filter(|stack| is_usable(machine, stack)).collect();
    let answer = machine.json(&compare(&stacks.join(","), runs, command));
    for stack in stacks {
        let median = |metric| median(arm(&answer, stack), metric);
        let command = median("cpu_user_ns") + median("cpu_system_ns");
        assert!(command > 2.5e8, "{stack}: {command} of {}", median("cpu_total_ns"));
    }
    assert!(codes(&answer).contains(&"unwaited-cpu"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn cpu_time_that_root_inside_sets_back_is_the_commands_all_the_same() {
    let machine = Machine::take();
    // With namespaces of its own it is root of its own group, and may write to its counters.
    let script = "perl -e '$SIG{CHLD} = \"IGNORE\"; \
                  if (!fork) { 1 while (times)[0] < 0.3; exit } wait'; \
                  grep -q cpuacct /proc/self/cgroup || exit 0; unshare -UrmC sh -c 'mount -t \
                  cgroup -o cpuacct none /mnt || mount -t cgroup -o cpu,cpuacct none /mnt || \
                  exit 9; echo 0 >/mnt/cpuacct.usage || exit 9'";
    let wanted = ["crun", "bubblewrap", "lxc", "nspawn", "docker:seccomp=unconfined"];
    assert_unwaited_is_the_commands(&machine, &wanted, "1", &["sh", "-c", script]);
}

#[test]
fn what_a_helper_of_the_network_uses_is_not_the_commands() {
    let machine = Machine::take();
    let stack = "podman:net=slirp4netns";
    if !is_usable(&machine, stack) {
        return;
    }
    let script = "use Socket; socket(S, PF_INET, SOCK_DGRAM, 0); \
                  $to = sockaddr_in(9, inet_aton('10.0.2.2')); \
                  send(S, 'x' x 1000, 0, $to) while (times)[0] + (times)[1] < 0.3";
    let answer = machine.json(&alone(stack, &["perl", "-e", script]));
    let found = arm(&answer, stack);
    let median = |metric| median(found, metric);
    // The helper takes up all that is sent, which costs more than this.
    assert!(median("cpu_others_ns") > 5e7, "{found:#?}");
    assert!(median("cpu_user_ns") + median("cpu_system_ns") < 4e8, "{found:#?}");
    assert!(!codes(&answer).contains(&"unwaited-cpu"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn a_link_that_is_turned_and_turned_back_is_no_proof_of_the_program() {
    let machine = Machine::take();
    let shelf = machine.path("shelf");
    fs::create_dir(&shelf).unwrap();
    let put = |name: &str, text: &str| {
        fs::write(shelf.join(name), text).unwrap();
        fs::set_permissions(shelf.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    put("genuine", "#!/bin/sh\nln -sfn other \"${0%/*}/program\"\n");
    put("other", "#!/bin/sh\nln -sfn genuine \"${0%/*}/program\"\n");
    std::os::unix::fs::symlink("genuine", shelf.join("program")).unwrap();
    let (program, shelf) = (shelf.join("program"), shelf.to_str().unwrap());
    let mut arguments = compare("native", "2", &[program.to_str().unwrap()]);
    // The warm-up turns the link to the other program, which is timed and turns it back.
    arguments.splice(1..1, ["--warmup", "1", "--writable", shelf]);
    let answer = machine.json(&arguments);
    assert!(codes(&answer).contains(&"another-program"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn an_engine_of_surtax_s_own_is_one_program_after_caches_were_dropped_too() {
    let machine = Machine::alone();
    let words = ["compare", "--in", "native,runc", "--workload", "memory.stream:passes=2"];
    let conduct = ["--cache", "cold", "--runs", "1", "--format", "json"];
    let answer = machine.json(&[&words[..], &conduct].concat());
    assert_eq!(innermost(&answer, "runc", "command_file"), "@surtax");
    assert!(!codes(&answer).contains(&"another-program"), "{:?}", codes(&answer));
    machine.assert_as_before();
}

#[test]
fn a_stopped_command_is_marked_with_its_time_and_repeated() {
    let machine = Machine::take().repeating();
    let script = "(sleep 0.1; kill -CONT $$) & kill -STOP $$; wait";
    let wanted = ["native", "runc", "gvisor"];
    let stacks: Vec<&str> = wanted.into_iter().filter(|stack| is_usable(&machine, stack)).collect();
    let answer = machine.json(&compare(&stacks.join(","), "1", &["sh", "-c", script]));
    for stack in stacks {
        let trials = arm(&answer, stack)["trials"].as_array().unwrap();
        for trial in trials {
            let marks = trial["disturbances"].as_array().unwrap();
            let mark = marks.iter().find(|mark| mark["key"] == "command_stopped_ns");
            let mark = mark.unwrap_or_else(|| panic!("{stack} was not marked: {trial:#}"));
            let stopped = mark["value"].as_f64().unwrap();
            assert!((9e7..5e9).contains(&stopped), "{stack}: {mark}");
        }
    }
    let attempts: usize = answer["arms"].as_array().unwrap().iter().map(repeats).sum();
    assert!(attempts > 0, "none was repeated: {answer:#}");
    assert!(codes(&answer).contains(&"disturbed"), "{:?}", codes(&answer));
    let quiet = machine.surtax(&compare("native", "1", &["sleep", "0.1"]));
    let said = text(&quiet.stdout);
    assert!(!said.contains("stopped_"), "{said}");
    machine.assert_as_before();
}

fn repeats(arm: &Value) -> usize {
    let trials = arm["trials"].as_array().unwrap().iter();
    trials.filter(|trial| trial["state"] == "disturbed").count()
}
