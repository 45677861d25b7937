//! Containers by a tool's own command line, and plain namespaces: what each of them really makes.

use crate::answers::{alone, arm, compare, fact, median};
use crate::machine::{Machine, is_usable};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One container of each tool that is not an OCI runtime.
const KINDS: [&str; 5] = ["namespaces", "bubblewrap", "nspawn", "lxc", "podman"];

/// Returns what was proved of `stack`, in which `script` must succeed.
#[track_caller]
pub fn level(machine: &Machine, stack: &str, script: &str) -> Value {
    let answer = machine.json(&alone(stack, &["sh", "-c", script]));
    let arm = answer["arms"].as_array().unwrap().last().unwrap();
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    arm["evidence"][0].clone()
}

#[test]
fn a_command_sees_the_same_files_and_keeps_none_of_its_own() {
    let machine = Machine::take();
    // What a user works on may be anywhere, also where some tools like to put a tmpfs.
    let file = machine.path("seen");
    std::fs::write(&file, "seen").unwrap();
    for kind in KINDS {
        if !is_usable(&machine, kind) {
            continue;
        }
        let script = "set -e; test $$ -lt 20; test $(cat FILE) = seen; ls -d /proc/$$; cmp \
                      /etc/os-release /usr/lib/os-release; echo x > /etc/surtax-was-here; echo x > \
                      /dev/null; echo x > /dev/shm/x; id -u | grep -qx 0";
        level(&machine, kind, &script.replace("FILE", &file.display().to_string()));
        assert!(!Path::new("/etc/surtax-was-here").exists(), "{kind}");
        machine.assert_as_before();
    }
}

#[test]
fn a_network_is_a_containers_own_or_this_machines() {
    let machine = Machine::take();
    let lines = std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    for kind in KINDS {
        if !is_usable(&machine, kind) {
            continue;
        }
        // Two lines of titles and `lo`, which must be up to have an address.
        let own = "test $(wc -l < /proc/net/dev) = 3 && grep -q 127.0.0.1 /proc/net/fib_trie";
        let level_of = level(&machine, &format!("{kind}:net=none"), own);
        assert!(fact(&level_of, "own_namespaces").contains("net"), "{kind}");

        let shared = format!("test $(wc -l < /proc/net/dev) = {lines}");
        let level_of = level(&machine, &format!("{kind}:net=host"), &shared);
        assert!(!fact(&level_of, "own_namespaces").contains("net"), "{kind}");
        machine.assert_as_before();
    }
}

#[test]
fn each_kind_of_namespace_can_be_switched_alone() {
    let machine = Machine::take();
    if !is_usable(&machine, "namespaces") {
        return;
    }
    for (options, own) in [
        ("", "pid net ipc uts cgroup"),
        (":pid=host", "net ipc uts cgroup"),
        (":net=host,ipc=host,uts=host,cgroup=host", "pid"),
        (":pid=host,net=host,ipc=host,uts=host,cgroup=host", ""),
        (":user=private", "pid net ipc uts cgroup user"),
        (":time=private,pid=host", "net ipc uts cgroup time"),
    ] {
        let proved = level(&machine, &format!("namespaces{options}"), "true");
        assert_eq!(fact(&proved, "own_namespaces"), own, "{options}");
    }
    for (options, group, script) in [
        ("cgroup=host", "own", "grep -q /surtax- /proc/self/cgroup"),
        ("cgroup=host,group=none", "none", "! grep -q /surtax- /proc/self/cgroup"),
    ] {
        let proved = level(&machine, &format!("namespaces:{options}"), script);
        assert_eq!(fact(&proved, "group"), group, "{options}");
    }
    machine.assert_as_before();
}

#[test]
fn every_container_keeps_the_limits_that_were_asked_of_it() {
    let machine = Machine::take();
    for kind in KINDS {
        if !is_usable(&machine, kind) {
            continue;
        }
        let stack = format!("{kind}:cpus=0.5,cpuset=1,memory=256M,pids=60");
        let proved = level(&machine, &stack, "test $(nproc) = 1");
        assert_eq!(fact(&proved, "limit_memory_bytes"), (256u64 << 20).to_string(), "{kind}");
        assert_eq!(fact(&proved, "limit_pids"), "60", "{kind}");
        assert_eq!(fact(&proved, "limit_cpuset"), "1", "{kind}");
        assert!(fact(&proved, "limit_cpu_quota_us").starts_with("50000"), "{kind}");
        machine.assert_as_before();
    }
}

#[test]
fn what_a_container_uses_is_not_its_engines_too() {
    let machine = Machine::take();
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    for stack in ["docker", "docker:runtime=crun", "podman:runtime=crun"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let answer = machine.json(&alone(stack, &["sh", "-c", script]));
        let arm = arm(&answer, stack);
        let median = |metric| median(arm, metric);
        let command = median("cpu_user_ns") + median("cpu_system_ns");
        assert!(median("cpu_others_ns") < command / 2.0, "{stack}: {}", arm["metrics"]);
        machine.assert_as_before();
    }
}

#[test]
fn what_an_option_of_a_layer_names_is_read_back() {
    let machine = Machine::take();
    for (stack, key, value) in [
        ("docker:seccomp=unconfined", "seccomp", "none"),
        ("docker:seccomp=default", "seccomp", "filter"),
        ("docker:runtime=runsc", "runtime", "runsc"),
        ("docker:runtime=crun", "runtime", "crun"),
        ("podman:seccomp=unconfined", "seccomp", "none"),
        ("podman:seccomp=default", "seccomp", "filter"),
        ("podman:runtime=runc", "runtime", "runc"),
        ("podman:runtime=crun", "runtime", "crun"),
        ("podman:runtime=crun,rootless=on", "rootless", "true"),
        ("podman:runtime=runsc", "runtime", "runsc"),
        ("podman:net=bridge,publish=5201/udp", "published_port", "5201/udp"),
        ("docker:storage=overlay2,scratch=layer", "root_file_system", "overlay"),
        ("docker:storage=vfs,scratch=layer", "storage_driver", "vfs"),
        ("docker:storage=btrfs,scratch=layer", "root_file_system", "btrfs"),
        ("podman:storage=overlay2,scratch=layer", "root_file_system", "overlay"),
        ("podman:storage=vfs,scratch=bind", "storage_driver", "vfs"),
        ("podman:storage=btrfs,scratch=layer", "root_file_system", "btrfs"),
        ("gvisor:platform=ptrace", "platform", "ptrace"),
        ("gvisor:overlay=memory", "overlay", "root:memory"),
        ("gvisor:overlay=none,directfs=false", "directfs", "false"),
    ] {
        if is_usable(&machine, stack) {
            assert_eq!(fact(&level(&machine, stack, "true"), key), value, "{stack}");
            machine.assert_as_before();
        }
    }
}

/// Media for `/scratch` of every layer.
const MEDIA: [(&str, &[&str]); 14] = [
    ("native", &["bind", "layer", "tmpfs"]),
    ("namespaces", &["layer", "bind", "tmpfs"]),
    ("bubblewrap", &["layer", "bind", "tmpfs"]),
    ("runc", &["layer", "bind", "tmpfs"]),
    ("nspawn", &["layer", "bind", "tmpfs"]),
    ("lxc", &["layer", "bind", "tmpfs"]),
    ("gvisor", &["layer", "bind", "tmpfs"]),
    ("docker", &["layer", "bind", "tmpfs", "volume"]),
    ("podman", &["layer", "bind", "tmpfs", "volume"]),
    ("docker:runtime=runsc", &["layer", "volume"]),
    ("docker:rootless=on", &["layer", "volume"]),
    ("podman:rootless=on", &["layer", "volume"]),
    ("podman:storage=overlay2", &["layer", "volume"]),
    ("podman:storage=btrfs", &["layer", "volume"]),
];

#[test]
fn a_scratch_directory_is_on_the_medium_that_its_stack_names_and_empty_at_every_start() {
    let machine = Machine::take();
    let script = "set -e; test -z \"$(ls -A /scratch)\"; \
                  dd if=/dev/zero of=/scratch/data bs=64k count=16 conv=fsync 2>/dev/null; \
                  test $(stat -c %s /scratch/data) = 1048576";
    // Below `/var/tmp` lies what is on no other medium; and layers only where the kernel takes them
    // there.
    let mut disk = None;
    for (kind, media) in MEDIA {
        if !is_usable(&machine, kind) {
            continue;
        }
        let separator = if kind.contains(':') { ',' } else { ':' };
        for medium in media {
            let stack = format!("{kind}{separator}scratch={medium}");
            let command = ["sh", "-c", script];
            let arguments = match kind {
                "runc" => compare(&stack, "1", &command),
                _ => alone(&stack, &command),
            };
            let answer = machine.json(&arguments);
            let arms = answer["arms"].as_array().unwrap();
            for arm in arms {
                // A baseline that does not ask for one has got one as well: the command needs it.
                assert_eq!(arm["trial_count"], 1, "{stack}: {}: {}", arm["stack"], arm["trouble"]);
            }
            let arm = arms.last().unwrap();
            assert_eq!(fact(&arm["evidence"][0], "scratch"), *medium, "{stack}");
            let mounted = fact(&arm["evidence"][0], "inside_scratch_mount");
            assert_eq!(mounted == "none", *medium == "layer", "{stack}: {mounted}");
            let held = fact(&arm["evidence"][0], "scratch_held_by").to_owned();
            let lies_in = fact(&arm["evidence"][0], "scratch_lies_in");
            assert_eq!(
                lies_in == "memory",
                held.contains("(memory)"),
                "{stack}: {held}, {lies_in}"
            );
            let disk = disk.get_or_insert_with(|| held.clone());
            let holds_layers = ["ext4", "xfs", "btrfs"].iter().any(|kind| disk.starts_with(kind));
            match *medium {
                "tmpfs" => assert!(held.starts_with("tmpfs (memory)"), "{stack}: {held}"),
                // An engine with such layers has its volumes there, too.
                "layer" | "volume" if kind.contains("storage=btrfs") => {
                    assert!(held.starts_with("btrfs on loop"), "{stack}: {held}");
                    assert!(held.ends_with(&format!(", a file of {disk}")), "{stack}: {held}");
                }
                "layer" if !holds_layers => {}
                _ => assert_eq!(held, *disk, "{stack}"),
            }
        }
        machine.assert_as_before();
    }
}

#[test]
fn a_containers_own_users_are_nobody_here_and_the_files_of_its_root_are_theirs() {
    let machine = Machine::take();
    let kept = machine.path("kept");
    std::fs::create_dir(&kept).unwrap();
    let kept = kept.display().to_string();
    let script = "set -e; test $(id -u) = 0; test $(stat -c %u /etc/passwd) = 0; touch /root/mine \
                  /etc/mine; test $(stat -c %u /root/mine) = 0; touch KEPT/file; test $(stat -c %u \
                  KEPT/file) = 0";
    let script = script.replace("KEPT", &kept);
    for stack in [
        "nspawn:user=private",
        "nspawn:init=systemd,net=veth,user=private",
        "lxc:net=veth,user=private",
        "lxc:init=systemd,user=private",
        "podman:net=bridge,user=private",
        "podman:rootless=on",
        "docker:rootless=on",
    ] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let mut arguments = alone(stack, &["sh", "-c", &script]);
        let end = arguments.iter().position(|word| *word == "--").unwrap();
        arguments.splice(end..end, ["--writable", &kept]);
        let answer = machine.json(&arguments);
        let arm = answer["arms"].as_array().unwrap().last().unwrap();
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        let proved = &arm["evidence"][0];
        let map = match stack.contains("rootless") {
            true => "0 999948288 1 1 999948289 65535",
            false => "0 999948288 65536",
        };
        assert_eq!(fact(proved, "user_map"), map, "{stack}");
        assert!(fact(proved, "own_namespaces").contains("user"), "{stack}");
        // What is kept belongs to this machine's root, as if it had been written there.
        let file = Path::new(&kept).join("file");
        assert_eq!(file.metadata().unwrap().uid(), 0, "{stack}");
        std::fs::remove_file(file).unwrap();
        machine.assert_as_before();
    }
}

#[test]
fn a_rootless_engine_is_a_users_without_privileges_and_keeps_limits_all_the_same() {
    let machine = Machine::take();
    for kind in ["podman", "docker"] {
        let stack = format!("{kind}:rootless=on,cpus=0.5,memory=256M,pids=60");
        if !is_usable(&machine, &stack) {
            continue;
        }
        // What such a user may not do on this machine, root inside may not either.
        let proved =
            level(&machine, &stack, "! mount -t tmpfs none /mnt 2>/dev/null && test $(id -u) = 0");
        assert_eq!(fact(&proved, "rootless"), "true");
        assert_eq!(fact(&proved, "engine_user"), "999948288");
        assert_eq!(fact(&proved, "limit_memory_bytes"), (256u64 << 20).to_string());
        assert_eq!(fact(&proved, "limit_pids"), "60");
        // Docker's daemon is beside its containers, and podman is around its own.
        assert_eq!(proved.to_string().contains("limited_together"), kind == "podman");
        machine.assert_as_before();
    }
}

#[test]
fn a_system_container_has_its_init_as_the_first_process_and_the_agent_as_its_service() {
    let machine = Machine::take();
    for (stack, init) in [
        ("nspawn:init=systemd", "systemd"),
        ("nspawn:init=busybox,net=veth", "busybox"),
        ("lxc:init=systemd,net=veth", "systemd"),
        ("lxc:init=busybox", "busybox"),
    ] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let proved = level(&machine, stack, "true");
        assert_eq!(fact(&proved, "init"), init, "{stack}");
        assert_ne!(fact(&proved, "inside_process_id"), "1", "{stack}");
        assert!(fact(&proved, "own_namespaces").contains("pid"), "{stack}");
        machine.assert_as_before();
    }
}

#[test]
fn what_an_engine_cannot_have_is_refused_before_anything_is_started() {
    let machine = Machine::take();
    for (stack, why) in [("docker:runtime=kata", "no `kata`")] {
        if is_usable(&machine, "docker") {
            let answer = machine.answer(&alone(stack, &["true"]));
            let trouble = &answer["arms"].as_array().unwrap().last().unwrap()["trouble"];
            assert!(trouble["why"].as_str().unwrap().contains(why), "{trouble}");
            assert!(trouble["remedy"].is_string(), "{trouble}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn gvisor_trusts_a_device_only_where_a_reference_guest_has_proved_it() {
    let machine = Machine::take();
    if !is_usable(&machine, "gvisor") || !is_usable(&machine, "qemu") {
        return;
    }
    let answer = machine.answer(&compare("gvisor:platform=kvm", "1", &["true"]));
    let arm = answer["arms"].as_array().unwrap().last().unwrap();
    if arm["trial_count"] == 1 {
        assert_eq!(fact(&arm["evidence"][0], "platform"), "kvm");
    } else {
        let why = arm["trouble"]["why"].as_str().unwrap();
        assert!(why.contains("`platform=kvm`"), "{why}");
    }
    machine.assert_as_before();
}

/// Waits for the containerd of a private daemon, by the directory of its room.
fn containerd() -> (u32, String) {
    for _ in 0..600 {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let is_it = |name: String| name == "containerd\n";
            if !std::fs::read_to_string(entry.path().join("comm")).is_ok_and(is_it) {
                continue;
            }
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let variables = String::from_utf8_lossy(&variables).into_owned();
            let directory = variables.split('\0').find_map(|it| it.strip_prefix("TMPDIR="));
            if let Some(ours) = directory.filter(|it| it.starts_with("/run/surtax/")) {
                let pid = entry.file_name().into_string().unwrap().parse().unwrap();
                return (pid, ours.to_owned());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("there is no containerd of ours")
}

#[test]
fn what_a_slow_containerd_writes_down_goes_with_its_daemon() {
    let machine = Machine::take();
    if !is_usable(&machine, "docker") {
        return;
    }
    let mut entered = machine.start(&["enter", "docker", "--", "sleep", "4"]);
    let (pid, directory) = containerd();
    // As a daemon does that has waited for its end in vain.
    let written = Path::new(&directory).join(format!("containerd.{pid}.stacks.log"));
    while !written.exists() && entered.try_wait().unwrap().is_none() {
        surtax::lab::signal(pid, rustix::process::Signal::USR1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(written.exists(), "{}", written.display());
    assert!(entered.wait().unwrap().success());
    assert!(!Path::new(&directory).exists());
    machine.assert_as_before();
}
