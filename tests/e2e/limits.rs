//! Limits: each layer keeps what was asked of it, proves it, or refuses it aloud.

use crate::answers::{alone, arm, as_root_of_its_groups, compare, fact, median};
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::fs;

/// The pool of huge pages, put back when this is dropped.
struct Pool {
    before: String,
}

const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// A process that doubles a variable: 512 MiB if nobody stops it, so that the host is never in
/// danger.
const DOUBLING: &str = "x=0123456789abcdef; i=0; while [ $i -lt 25 ]; do x=$x$x; i=$((i+1)); done";

/// The layers whose root may make namespaces, and whose group is one that surtax made.
const HAVE_A_GROUP: [&str; 6] = ["runc", "crun", "bubblewrap", "nspawn", "podman", "lxc"];

impl Pool {
    /// Adds so many pages; nothing where this machine does not let us, or has no memory for them.
    fn grown_by(pages: u64) -> Option<Self> {
        let before = fs::read_to_string(POOL).ok()?.trim().to_owned();
        let wanted = before.parse::<u64>().ok()? + pages;
        let pool = Self { before };
        fs::write(POOL, wanted.to_string()).ok()?;
        let holds = fs::read_to_string(POOL).ok()?;
        (holds.trim() == wanted.to_string()).then_some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        fs::write(POOL, &self.before).unwrap();
    }
}

/// Runs `script` in `stack`, which must succeed there, and gives its arm.
#[track_caller]
fn holds(machine: &Machine, stack: &str, script: &str) -> Value {
    let answer = machine.json(&alone(stack, &["sh", "-c", script]));
    let arm = arm(&answer, stack).clone();
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    arm
}

/// The facts of the outermost level.
fn level(arm: &Value) -> &Value {
    &arm["evidence"][0]
}

#[test]
fn a_bomb_of_memory_ends_inside_its_limit() {
    let machine = Machine::take();
    for stack in ["native:memory=64M", "runc:memory=64M", "docker:memory=64M"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = machine.answer(&alone(stack, &["sh", "-c", DOUBLING]));
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 0, "{stack} let it have all that memory");
        assert_eq!(arm["exit_statuses"][0], "signal 9", "{stack}: {arm}");
        machine.assert_as_before();
    }
}

#[test]
fn a_bomb_of_processes_ends_inside_its_limit() {
    let machine = Machine::take();
    // Sixty sleepers, and the shell's own words when it may start no more.
    let script = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; exit 0";
    for stack in ["native:pids=20", "runc:pids=20", "docker:pids=20"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = machine.answer(&alone(stack, &["sh", "-c", script]));
        assert_limit_is_told(&answer, stack, "pids=40");
        machine.assert_as_before();
    }
}

#[test]
fn root_inside_cannot_lift_the_limits_of_its_own_group() {
    let machine = Machine::take();
    let lift =
        |controller: &str, writes: &str| as_root_of_its_groups(controller, writes) + " || exit 9; ";
    let sleepers = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; exit 0";
    let script = lift("pids", "echo max >pids.max") + sleepers;
    for kind in HAVE_A_GROUP {
        let stack = format!("{kind}:pids=20");
        if is_usable(&machine, &stack) {
            let answer = machine.answer(&alone(&stack, &["sh", "-c", &script]));
            assert_limit_is_told(&answer, &stack, "pids=40");
            machine.assert_as_before();
        }
    }
    let writes = "test ! -e memory.memsw.limit_in_bytes || echo -1 >memory.memsw.limit_in_bytes; \
                  if test -e memory.max; then echo max >memory.max; \
                  else echo -1 >memory.limit_in_bytes; fi";
    let script = lift("memory", writes) + DOUBLING;
    for kind in HAVE_A_GROUP {
        let stack = format!("{kind}:memory=64M");
        if is_usable(&machine, &stack) {
            let answer = machine.answer(&alone(&stack, &["sh", "-c", &script]));
            let arm = arm(&answer, &stack);
            assert_eq!(arm["exit_statuses"][0], "signal 9", "{stack}: {arm}");
            let why = arm["trouble"]["why"].as_str().unwrap();
            assert!(why.contains(&format!("`memory=64M` of `{kind}` was exceeded")), "{why}");
            machine.assert_as_before();
        }
    }
}

#[test]
fn a_kill_in_a_group_that_is_named_like_the_logs_own_words_and_is_gone_is_told() {
    // Of more than ten kills in five seconds, whoever is killed, the kernel logs no groups.
    let machine = Machine::alone();
    let acts = "mkdir \"$name\"; sh -c \"$hog\"; until rmdir \"$name\"; do sleep 0.1; done";
    let script = format!(
        "export hog='echo 0 >\"$name/cgroup.procs\"; {DOUBLING}' name=x,task_memcg=y; {}",
        as_root_of_its_groups("memory", acts)
    );
    for kind in HAVE_A_GROUP {
        let stack = format!("{kind}:memory=64M");
        if is_usable(&machine, &stack) {
            let answer = machine.answer(&alone(&stack, &["sh", "-c", &script]));
            let arm = arm(&answer, &stack);
            assert_eq!(arm["trial_count"], 0, "{stack}: {arm}");
            let why = arm["trouble"]["why"].as_str().unwrap();
            assert!(why.contains(&format!("`memory=64M` of `{kind}` was exceeded")), "{why}");
            machine.assert_as_before();
        }
    }
}

/// Requires that no trial counts since a limit on processes was reached, with what helps.
fn assert_limit_is_told(answer: &Value, stack: &str, more: &str) {
    let arm = arm(answer, stack);
    let innermost = stack.rsplit('+').next().unwrap();
    let (kind, limit) = innermost.split_once(':').unwrap();
    let trouble = &arm["trouble"];
    assert_eq!(arm["trial_count"], 0, "{stack} let it start them all");
    let why = trouble["why"].as_str().unwrap();
    assert!(why.contains(&format!("the limit `{limit}` of `{kind}` was reached")), "{why}");
    assert!(trouble["remedy"].as_str().unwrap().contains(more), "{trouble}");
}

#[test]
fn what_goes_on_without_its_processes_does_not_count() {
    let machine = Machine::take();
    // The inner shell ends when it may start no more; the outer one says that all is well.
    let script = "sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait'; exit 0";
    for stack in ["native:pids=5", "runc:pids=8"] {
        let answer = machine.answer(&alone(stack, &["sh", "-c", script]));
        assert_limit_is_told(&answer, stack, "pids=32");
    }
    // In a guest its own kernel counts.
    let stack = "qemu:accel=tcg+runc:pids=8";
    if is_usable(&machine, stack) {
        let answer = machine.answer(&alone(stack, &["sh", "-c", script]));
        assert_limit_is_told(&answer, stack, "pids=32");
    }
    // What a layer's own tools were refused is told too.
    for kind in ["nspawn", "bubblewrap", "namespaces", "lxc", "podman"] {
        let stack = format!("{kind}:pids=1");
        if is_usable(&machine, &stack) {
            let answer = machine.answer(&alone(&stack, &["true"]));
            assert_limit_is_told(&answer, &stack, "pids=32");
        }
    }
    machine.assert_as_before();
}

#[test]
fn a_set_of_cpus_is_what_the_command_sees() {
    let machine = Machine::take();
    for stack in ["native:cpuset=1", "runc:cpuset=1", "docker:cpuset=1", "gvisor:cpuset=1"] {
        if is_usable(&machine, stack) {
            let arm = holds(&machine, stack, "n=$(nproc); echo $n >&2; test $n = 1");
            assert_eq!(fact(level(&arm), "limit_cpuset"), "1");
            machine.assert_as_before();
        }
    }
}

#[test]
fn every_limit_that_was_asked_for_is_read_back_in_the_evidence() {
    let machine = Machine::take();
    for stack in ["native", "runc", "docker", "gvisor"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let stack = format!("{stack}:cpus=0.5,memory=256M");
        let arm = holds(&machine, &stack, "true");
        assert_eq!(fact(level(&arm), "limit_memory_bytes"), (256u64 << 20).to_string(), "{stack}");
        assert!(fact(level(&arm), "limit_cpu_quota_us").starts_with("50000"), "{stack}");
    }
    for stack in ["native:pids=50", "runc:pids=50", "docker:pids=50"] {
        if is_usable(&machine, stack) {
            assert_eq!(fact(level(&holds(&machine, stack, "true")), "limit_pids"), "50", "{stack}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn a_share_and_a_node_are_kept_by_every_layer_that_takes_them() {
    let machine = Machine::take();
    let kinds = ["native", "namespaces", "bubblewrap", "runc", "podman", "docker", "gvisor"];
    for kind in kinds.into_iter().filter(|kind| is_usable(&machine, kind)) {
        let stack = format!("{kind}:numa=0,weight=50");
        let arm = holds(&machine, &stack, "true");
        // 50 of 100 where there are weights, 512 of 1024 where there are shares.
        let weight = fact(level(&arm), "limit_cpu_weight");
        assert!(weight == "50" || weight == "512", "{stack}: {weight}");
        assert_eq!(fact(level(&arm), "limit_numa_nodes"), "0", "{stack}");
        machine.assert_as_before();
    }
}

#[test]
fn a_disk_gives_no_more_than_was_allowed() {
    let machine = Machine::take();
    // A megabyte past the page cache, on the disk under /var/tmp.
    let script = "dd if=/dev/zero of=/scratch/file bs=64k count=16 oflag=direct 2>&1";
    let wall = |stack: &str| {
        let arm = holds(&machine, stack, script);
        let metrics = arm["metrics"].as_array().unwrap();
        let wall = metrics.iter().find(|metric| metric["metric"] == "wall_ns").unwrap();
        let limit = level(&arm)["facts"].as_array().unwrap().iter();
        let limit = limit.filter(|fact| fact["key"] == "limit_write_bps").count();
        (wall["median"].as_f64().unwrap(), limit)
    };
    let kinds = [
        ("native", "bind"),
        ("lxc", "bind"),
        ("docker", "bind"),
        ("qemu", "virtio-blk"),
        ("bubblewrap", "bind"),
        ("runc", "bind"),
        ("podman", "bind"),
    ];
    for &(kind, medium) in cases(&kinds, 4) {
        if !is_usable(&machine, kind) {
            continue;
        }
        let (limited, facts) = wall(&format!("{kind}:scratch={medium},write-bps=1M"));
        assert_eq!(facts, 1, "{kind}: its limit is not in the evidence");
        assert!(limited > 0.7e9, "{kind}: 1 MiB at 1 MiB/s took {limited} ns");
        machine.assert_as_before();
    }
}

#[test]
fn cpus_of_ones_own_are_taken_from_everybody_else_and_given_back() {
    let machine = Machine::take();
    // The guest's kernel has cgroup v2 alone.
    let stack = "qemu:accel=tcg,cpus=2+namespaces:cpuset=1,partition=isolated";
    if !is_usable(&machine, stack) {
        return;
    }
    let script = "n=$(nproc); echo $n >&2; test $n = 1";
    let answer = machine.json(&alone(stack, &["sh", "-c", script]));
    let arm = arm(&answer, stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    let inner = &arm["evidence"][1];
    assert_eq!(fact(inner, "limit_cpu_partition"), "isolated");
    assert_eq!(fact(inner, "limit_cpuset"), "1");
    machine.assert_as_before();
}

#[test]
fn a_part_of_a_cpu_is_all_that_a_command_gets() {
    let machine = Machine::take();
    for stack in ["native:cpus=0.2", "runc:cpus=0.2"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let arm = holds(&machine, stack, script);
        let median = |metric| median(&arm, metric);
        let share = (median("cpu_user_ns") + median("cpu_system_ns")) / median("wall_ns");
        assert!(share < 0.5, "{stack}: {share:.2} of a CPU");
    }
    machine.assert_as_before();
}

#[test]
fn the_time_that_a_quota_takes_is_in_the_bill_of_whom_it_held_back() {
    let machine = Machine::take();
    let spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    for stack in ["native:cpus=0.2", "runc:cpus=0.2", "docker:cpus=0.2"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let arm = holds(&machine, stack, spin);
        let (wall, cpu) = (median(&arm, "wall_ns"), median(&arm, "cpu_total_ns"));
        let payers = arm["payers"].as_array().unwrap();
        let throttled: f64 = payers.iter().filter_map(|it| it["throttled_ns"].as_f64()).sum();
        // The rest of the time it was held back, or waited for a CPU that others had.
        let rest = wall - cpu;
        assert!(cpu > 5e7 && wall > 3.0 * cpu, "{stack}: {cpu} of {wall}");
        let is_most = (0.2 * rest..1.1 * rest).contains(&throttled);
        assert!(is_most, "{stack}: {throttled} of {rest}: {payers:?}");
    }
    machine.assert_as_before();
}

#[test]
fn a_virtual_machine_has_the_cpus_and_the_memory_that_were_asked_for() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,cpus=1,cpuset=1,memory=512M";
    if !is_usable(&machine, stack) {
        return;
    }
    let script = "n=$(nproc); kib=$(sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo); \
                  echo $n $kib >&2; test $n = 1 && test $kib -gt 380000 && test $kib -lt 524288";
    let arm = holds(&machine, stack, script);
    assert_eq!(fact(level(&arm), "cpus"), "1");
    assert_eq!(fact(level(&arm), "memory_bytes"), (512u64 << 20).to_string());
    assert_eq!(fact(level(&arm), "limit_cpuset"), "1");
    machine.assert_as_before();
}

#[test]
fn huge_pages_are_as_few_as_was_asked_in_every_container() {
    let machine = Machine::beside_one();
    // None takes no pool, which this machine may not have.
    for stack in [
        "native:hugetlb=0", "namespaces:hugetlb=0", "bubblewrap:hugetlb=0", "runc:hugetlb=0",
        "crun:hugetlb=0", "nspawn:hugetlb=0", "lxc:hugetlb=0", "podman:hugetlb=0",
        "podman:hugetlb=0,rootless=on", "podman:hugetlb=0,runtime=crun", "docker:hugetlb=0",
        "docker:hugetlb=0,rootless=on",
    ] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let arm = holds(&machine, stack, "true");
        assert_eq!(fact(level(&arm), "limit_hugetlb_bytes"), "0", "{stack}");
        machine.assert_as_before();
    }
}

#[test]
fn huge_pages_are_asked_for_before_the_start_and_then_used() {
    let machine = Machine::alone();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let stack = "qemu:accel=tcg,cpus=1,hugepages=on,memory=256M,prealloc=on";
    // More than any machine has.
    let greedy = stack.replace("256M", "64T");
    let answer = machine.answer(&compare(&greedy, "1", &["true"]));
    let trouble = answer["arms"].as_array().unwrap().last().unwrap()["trouble"].clone();
    assert!(trouble["why"].as_str().unwrap().contains("huge pages"), "{trouble}");
    assert!(
        trouble["remedy"].as_str().unwrap().starts_with("sysctl vm.nr_hugepages="),
        "{trouble}"
    );

    let Some(pool) = Pool::grown_by(128) else {
        println!("SKIPPED {stack}: this machine has no 256 MiB for huge pages");
        return;
    };
    let answer = machine.json(&alone(stack, &["true"]));
    let arm = arm(&answer, stack);
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    for key in ["memory_hugepages", "memory_prealloc"] {
        assert_eq!(fact(level(arm), key), "on", "{key}");
    }
    drop(pool);
    machine.assert_as_before();
}

#[test]
fn more_huge_pages_than_the_pool_has_are_refused_with_how_to_get_them() {
    let machine = Machine::alone();
    if !is_usable(&machine, "native:hugetlb=0") {
        return;
    }
    let answer = machine.answer(&compare("native:hugetlb=1024G", "1", &["true"]));
    let trouble = &answer["arms"].as_array().unwrap().last().unwrap()["trouble"];
    let why = trouble["why"].as_str().unwrap();
    assert!(why.contains("of the 524288 huge pages for 1048576 MiB are missing"), "{trouble}");
    let remedy = trouble["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("sysctl vm.nr_hugepages="), "{trouble}");
    machine.assert_as_before();
}

#[test]
fn a_limit_that_a_layer_cannot_keep_is_refused_before_anything_is_started() {
    let machine = Machine::take();
    for (stack, word) in [
        ("qemu:pids=100", "cannot limit `pids`"),
        ("gvisor:pids=100", "cannot limit `pids`"),
        ("gvisor:hugetlb=64M", "cannot limit `hugetlb`"),
        ("gvisor:write-bps=1M", "cannot limit `write-bps`"),
        ("runc:cpuset=0,partition=root", "cannot limit `partition`"),
        ("native:partition=root", "no `cpuset` says which"),
        ("simulated:memory=1G", "cannot limit `memory`"),
    ] {
        let output = machine.surtax(&["compare", "--in", stack, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains(word) && said.contains("hint: "), "{stack}: {said}");
    }
    machine.assert_as_before();
}
