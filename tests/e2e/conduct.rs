//! Ways to carry out trials: several runs in one start, cold and warm caches, the environment's
//! size, held CPUs. Each is looked at from where it must show: inside the command, or in the run
//! file.

use crate::answers::arm;
use crate::machine::{Machine, cases, is_usable};
use rusqlite::Connection;
use serde_json::Value;

/// A comparison that keeps its file; gives the answer and the file.
fn run(machine: &Machine, flags: &[&str], script: &str) -> (Value, Connection) {
    let count = std::fs::read_dir(machine.path("")).unwrap().count();
    let file = machine.path(&format!("run-{count}.surtax"));
    let mut arguments = vec!["compare", "--format", "json", "-o", file.to_str().unwrap()];
    arguments.extend(flags);
    arguments.extend(["--", "sh", "-c", script]);
    let answer = machine.json(&arguments);
    (answer, Connection::open(&file).unwrap())
}

/// Returns what the trials of a stack printed in a run: the end of each different output.
fn printed(file: &Connection, stack: &str) -> Vec<String> {
    let query = "SELECT DISTINCT CAST(tail AS TEXT) FROM outputs JOIN trials USING (trial)
                 JOIN arms USING (arm) WHERE stack = ?1 AND stream = 'stdout' AND tail IS NOT NULL";
    let mut statement = file.prepare(query).unwrap();
    let rows = statement.query_map([stack], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn number(file: &Connection, query: &str) -> f64 {
    file.query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_start_runs_the_command_several_times_and_counts_as_one() {
    let machine = Machine::take();
    for &stack in cases(&["runc", "qemu:accel=tcg"], 1) {
        if !is_usable(&machine, stack) {
            continue;
        }
        let stacks = format!("native,{stack}");
        // The first run in each start sleeps longer: what it leaves in the start's own files tells.
        let script = "if mkdir /var/tmp/surtax-warm 2>/dev/null; then sleep 1; else sleep 0.1; fi";
        let (answer, file) =
            run(&machine, &["--in", &stacks, "--runs", "4", "--iterations", "6"], script);
        for stack in ["native", stack] {
            let arm = arm(&answer, stack);
            assert_eq!(arm["trial_count"], 4, "{stack}: {}", arm["trouble"]);
            assert_eq!(arm["warm_up"]["iterations"], 6);
            if stack.starts_with("qemu") {
                // Beside a build, a translated `sleep 0.1` may take longer than 1 s.
                continue;
            }
            // Beside a build, the second run may be slow as well; the first is never missed.
            let left_out = arm["warm_up"]["left_out"].as_u64().unwrap();
            assert!((1..=3).contains(&left_out), "{stack}: {}", arm["warm_up"]);
            let ratio = arm["warm_up"]["ratio"].as_f64().unwrap();
            assert!(ratio > 1.5, "{stack}: {ratio}");
            let wall = arm["metrics"][0]["median"].as_f64().unwrap();
            assert!((0.1e9..0.8e9).contains(&wall), "{stack}: {wall}");
            let iterations = if left_out == 1 { "iteration" } else { "iterations" };
            let warmed = format!("warmed up for {left_out} {iterations} of 6");
            assert!(arm["because"].as_str().unwrap().contains(&warmed), "{}", arm["because"]);
        }
        assert!(number(&file, "SELECT CAST(count(*) AS REAL) FROM iterations") >= 72.0);
        machine.assert_as_before();
    }
}

#[test]
fn an_iteration_that_fails_fails_its_trial() {
    let machine = Machine::take();
    let script = "mkdir /var/tmp/surtax-once 2>/dev/null";
    let file = machine.path("fails.surtax");
    let answer = machine.json_of_a_failure(&[
        "compare",
        "--in",
        "native",
        "--runs",
        "1",
        "--iterations",
        "3",
        "--format",
        "json",
        "-o",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(arm(&answer, "native")["exit_statuses"][0], "exit 1");
    machine.assert_as_before();
}

#[test]
fn a_cold_cache_reads_the_disk_again_and_a_warm_one_does_not() {
    let machine = Machine::alone();
    let place = machine.path("large");
    let data = place.join("data");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(&data, vec![7u8; 48 << 20]).unwrap();
    let place = place.to_str().unwrap();
    // Pages that this kernel read from disks, in KiB, while the file was read.
    let pages = "grep '^pgpgin' /proc/vmstat | cut -d' ' -f2";
    let script = format!(
        "a=$({pages}); cat '{}' > /dev/null; b=$({pages}); test $((b - a)) -ge 40000 && echo disk \
         || echo memory",
        data.display()
    );
    for (state, expected) in [("cold", "disk\n"), ("warm", "memory\n")] {
        for stack in ["native", "runc"] {
            if !is_usable(&machine, stack) {
                continue;
            }
            let flags = ["--in", stack, "--baseline", stack, "--runs", "2", "--iterations", "2"];
            let flags = [&flags[..], &["--cache", state, "--writable", place]].concat();
            let (answer, file) = run(&machine, &flags, &script);
            assert_eq!(arm(&answer, stack)["trial_count"], 2, "{}", arm(&answer, stack)["trouble"]);
            assert_eq!(printed(&file, stack), [expected], "{state} {stack}");
            assert!(answer["run"]["conduct"].as_str().unwrap().contains(state));
        }
    }
    machine.assert_as_before();
}

#[test]
fn dropping_the_caches_before_a_command_is_on_nobodys_bill() {
    dropping_the_caches_is_on_nobodys_bill(&Machine::alone(), "1");
}

#[test]
fn dropping_the_caches_between_two_runs_in_one_start_is_on_nobodys_bill() {
    dropping_the_caches_is_on_nobodys_bill(&Machine::alone(), "3");
}

fn dropping_the_caches_is_on_nobodys_bill(machine: &Machine, iterations: &str) {
    if !is_usable(machine, "runc") {
        return;
    }
    // What each trial leaves in the cache the next one drops.
    let data = machine.path("data");
    std::fs::write(&data, vec![7u8; 256 << 20]).unwrap();
    let cold = ["--cache", "cold", "--iterations", iterations];
    let flags = [&["--in", "native,runc", "--runs", "4"], &cold[..]].concat();
    let (answer, file) = run(machine, &flags, &format!("cat '{}' > /dev/null", data.display()));
    for stack in ["native", "runc"] {
        assert_eq!(arm(&answer, stack)["trial_count"], 4, "{}", arm(&answer, stack)["trouble"]);
    }
    // An agent in native may drop them, one in a container may not: that would show in each trial.
    let of = |stack: &str| {
        let sql = format!(
            "WITH found AS (SELECT value FROM samples JOIN trials USING (trial) JOIN arms USING (arm)
             WHERE metric = 'cpu_others_ns' AND arms.stack = '{stack}')
             SELECT value FROM found ORDER BY value LIMIT 1 OFFSET (SELECT count(*) / 2 FROM found)"
        );
        number(&file, &sql)
    };
    let (native, runc) = (of("native"), of("runc"));
    assert!(native < 1.5 * runc.max(1e6), "native {native} ns, runc {runc} ns");
    machine.assert_as_before();
}

#[test]
fn a_guest_drops_its_own_cache_too() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,memory=1G";
    if !is_usable(&machine, stack) {
        return;
    }
    let data = machine.path("data");
    std::fs::write(&data, vec![7u8; 64 << 20]).unwrap();
    // What the guest has cached before it reads the file: the run before has read it as well.
    let script = format!(
        "cached() {{ sed -n 's/^Cached: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo; }}; kib=$(cached); \
         cat '{}' > /dev/null; test $(cached) -ge 60000 || exit 9; test $kib -lt 60000 && \
         echo cold || echo warm",
        data.display()
    );
    for &(cache, expected) in cases(&[("cold", "cold\n"), ("warm", "warm\n")], 1) {
        let basis = ["--in", stack, "--baseline", "simulated", "--runs", "1", "--iterations", "2"];
        let (answer, file) = run(&machine, &[&basis[..], &["--cache", cache]].concat(), &script);
        assert_eq!(arm(&answer, stack)["trial_count"], 1, "{}", arm(&answer, stack)["trouble"]);
        assert_eq!(printed(&file, stack), [expected]);
    }
    machine.assert_as_before();
}

/// They mount an identity of their own over the kernel's, and may not drop its cache themselves.
#[test]
fn a_container_with_a_boot_id_of_its_own_shares_the_cache_that_is_dropped() {
    let machine = Machine::take();
    for stack in ["runc", "nspawn", "lxc"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let flags = ["--in", stack, "--baseline", "simulated", "--runs", "1", "--cache", "cold"];
        let flags = [&flags[..], &["--iterations", "2"]].concat();
        let file = machine.path(&format!("{stack}.surtax"));
        let words = ["compare", "--format", "json", "-o", file.to_str().unwrap()];
        let answer = machine.json(&[&words[..], &flags, &["--", "true"]].concat());
        assert_eq!(arm(&answer, stack)["trial_count"], 1, "{}", arm(&answer, stack)["trouble"]);
    }
    machine.assert_as_before();
}

#[test]
fn a_cache_that_cannot_be_dropped_between_two_runs_is_a_fault_with_a_way_out() {
    let machine = Machine::take();
    if !is_usable(&machine, "gvisor") {
        return;
    }
    let flags = ["--in", "gvisor", "--baseline", "gvisor", "--runs", "1", "--cache", "cold"];
    let (answer, _) = run(&machine, &flags, "true");
    assert_eq!(arm(&answer, "gvisor")["trial_count"], 1, "one run is as cold as its start");
    let file = machine.path("twice.surtax");
    let twice = ["compare", "--iterations", "2", "--format", "json", "-o", file.to_str().unwrap()];
    let answer = machine.json_of_a_failure(&[&twice[..], &flags, &["--", "true"]].concat());
    let trouble = arm(&answer, "gvisor")["trouble"].to_string();
    assert!(trouble.contains("--iterations 1"), "{trouble}");
    machine.assert_as_before();
}

#[test]
fn the_environment_has_another_size_in_every_trial_unless_told() {
    let machine = Machine::take();
    let flags = ["--in", "native", "--runs", "4", "--seed", "1"];
    let script = "printf %s \"$SURTAX_PADDING\" | wc -c";
    let (_, file) = run(&machine, &flags, script);
    let mut printed_sizes = printed(&file, "native");
    printed_sizes.sort();
    printed_sizes.dedup();
    assert!(printed_sizes.len() >= 6, "{printed_sizes:?}");
    let query = "SELECT max(value) FROM conditions WHERE key = 'environment_padding_bytes'";
    assert!((2.0..=4096.0).contains(&number(&file, query)));
    let (_, file) = run(&machine, &[&flags[..], &["--env-padding", "0"]].concat(), script);
    assert_eq!(printed(&file, "native"), ["0\n"]);
    machine.assert_as_before();
}

#[test]
fn a_pinned_comparison_holds_every_stack_to_the_same_cpus() {
    let machine = Machine::take();
    let stacks = if is_usable(&machine, "runc") { "native,runc" } else { "native" };
    let (answer, file) = run(&machine, &["--in", stacks, "--runs", "1", "--pin", "1"], "nproc");
    for stack in stacks.split(',') {
        let stack = format!("{stack}:cpuset=1");
        assert_eq!(arm(&answer, &stack)["trial_count"], 1);
        assert_eq!(printed(&file, &stack), ["1\n"]);
    }
    machine.assert_as_before();
}

#[test]
fn the_clock_of_a_guest_is_compared_with_this_machines() {
    let machine = Machine::alone();
    let stack = "qemu:accel=tcg";
    if !is_usable(&machine, stack) {
        return;
    }
    let (_, file) = run(&machine, &["--in", &format!("native,{stack}"), "--runs", "1"], "sleep 2");
    let bound = |end: &str| {
        let query = format!("SELECT max(value) FROM conditions WHERE key = 'clock_rate_{end}_ppm'");
        number(&file, &query)
    };
    let (low, high) = (bound("low"), bound("high"));
    // Two exchanges over a slow channel bound the rate over 2 s to within a few milliseconds.
    assert!(low < high && high - low < 20_000.0, "{low} to {high} ppm");
    assert!(low.abs() < 50_000.0 && high.abs() < 50_000.0, "{low} to {high} ppm");
    let query = "SELECT CAST(count(DISTINCT arm) AS REAL) FROM conditions JOIN trials USING \
                 (trial) WHERE key LIKE 'clock_rate%'";
    assert!((number(&file, query) - 1.0).abs() < 0.5, "only a guest has a clock of its own");
    machine.assert_as_before();
}
