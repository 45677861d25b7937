//! The second lab: what this machine's kernel may lack, in a guest whose kernel has it.
//!
//! The guest is a layer like any other, a machine under TCG with the host's root: nothing is made
//! or fetched for it but the distribution's kernel. That kernel has KVM (TCG offers SVM),
//! vhost-net, netem, Open vSwitch, the device mapper, AppArmor, and cgroup v2 alone. One test runs
//! always, as does the one of vhost in `nesting.rs`; the rest are `cargo xtask lab --all`.

mod domains;

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable, text};
use serde_json::Value;

/// The guest, with the one CPU that KVM under TCG is dependable with: decision 15.
const GUEST: &str = "qemu:accel=tcg,cpus=1,memory=3G";

/// Runs a command in a stack inside the guest, and gives the evidence of the stack's own level.
#[track_caller]
fn in_the_guest(layers: &str, command: &[&str]) -> Option<Value> {
    let machine = Machine::take();
    let stack = format!("{GUEST}+{layers}");
    if !is_usable(&machine, &stack) {
        return None;
    }
    let mut words = vec!["compare", "--in", &stack, "--baseline", "simulated", "--runs", "1"];
    words.extend(["--start-deadline", "5m", "--format", "json", "--"]);
    words.extend(command);
    let answer = machine.json(&words);
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    machine.assert_as_before();
    Some(arm.clone())
}

#[test]
fn a_container_whose_limits_are_those_of_cgroup_v2() {
    let layers = "podman:cpus=0.5,memory=256M,pids=50,weight=50";
    let Some(arm) = in_the_guest(layers, &["true"]) else { return };
    let inner = &arm["evidence"][1];
    for (key, value) in [
        ("limit_cpu_quota_us", "50000 100000"),
        ("limit_cpu_weight", "50"),
        ("limit_memory_bytes", "268435456"),
        ("limit_pids", "50"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_microvm_under_kvm() {
    let layers = "qemu:accel=kvm,machine=microvm,memory=512M";
    let Some(arm) = in_the_guest(layers, &["true"]) else { return };
    assert_eq!(fact(&arm["evidence"][1], "accelerator"), "kvm");
}

/// The libraries are those that `setup/krun.sh` builds, which `cargo xtask lab --all` runs first.
#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_machine_by_libkrun_proves_its_kernel_its_libraries_and_who_pays() {
    let Some(arm) = in_the_guest("krun:memory=512M", &["true"]) else { return };
    let inner = &arm["evidence"][1];
    for (key, value) in [
        ("accelerator", "kvm"),
        ("inside_hypervisor_vendor", "KVMKVMKVM"),
        ("cpus", "1"),
        ("memory_bytes", "536870912"),
        ("files", "virtiofs"),
        ("files_server", "fs worker"),
        ("network", "none"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
    assert_eq!(fact(inner, "kernel_release"), fact(inner, "inside_kernel_release"));
    assert_eq!(fact(inner, "kernel_sha256"), fact(inner, "libkrunfw_sha256"));
    assert!(fact(inner, "libkrun_file").contains("libkrun.so"));
    let payers = arm["payers"].as_array().unwrap();
    for (name, role) in
        [("vCPU threads", "guest-kernel"), ("libkrun's other threads", "hypervisor")]
    {
        let paid = payers.iter().any(|payer| payer["payer"] == name && payer["role"] == role);
        assert!(paid, "no {name}: {payers:?}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_container_in_a_machine_by_libkrun() {
    let Some(arm) = in_the_guest("krun:memory=512M+bubblewrap", &["true"]) else { return };
    let [machine, container] = [&arm["evidence"][1], &arm["evidence"][2]];
    let kernel = "inside_kernel_release";
    assert_eq!(fact(machine, kernel), fact(container, kernel));
    let namespace = "inside_namespace_pid";
    assert_ne!(fact(machine, namespace), fact(container, namespace));
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_runtime_s_container_in_a_machine_by_libkrun_has_its_limits() {
    let layers = "krun:memory=512M+runc:pids=50";
    let Some(arm) = in_the_guest(layers, &["true"]) else { return };
    assert_eq!(fact(&arm["evidence"][2], "limit_pids"), "50");
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn every_container_on_a_kernel_with_cgroup_v2_alone() {
    for kind in
        ["namespaces", "bubblewrap", "runc", "crun", "nspawn", "lxc", "podman", "gvisor", "docker"]
    {
        let layers = format!("{kind}:memory=256M");
        let Some(arm) = in_the_guest(&layers, &["true"]) else { continue };
        assert_eq!(fact(&arm["evidence"][1], "limit_memory_bytes"), "268435456", "{kind}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_filter_and_a_share_in_every_runtime_of_cgroup_v2() {
    for kind in ["runc", "crun"] {
        let layers = format!("{kind}:cpuset=0,numa=0,weight=200");
        let Some(arm) = in_the_guest(&layers, &["true"]) else { continue };
        assert_eq!(fact(&arm["evidence"][1], "limit_cpu_weight"), "200", "{kind}");
    }
}

/// The round trip of a ping from the stack's own level, in whole milliseconds, is at least so long.
fn ping_takes(least: u32) -> String {
    format!(
        "said=$(ping -c 3 -i 0.2 -q -W 5 198.18.0.1) || exit 8; echo \"$said\" >&2
         test $(echo \"$said\" | sed -n 's|^rtt.* = \\([0-9]*\\)\\..*|\\1|p') -ge {least}"
    )
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_link_whose_frames_netem_delays_for_a_container_and_for_a_machine() {
    for layers in
        ["runc:delay=200ms,net=veth", "qemu:accel=kvm,delay=200ms,memory=256M,net=tap,rate=10M"]
    {
        let Some(arm) = in_the_guest(layers, &["sh", "-c", &ping_takes(200)]) else { continue };
        let inner = &arm["evidence"][1];
        assert_eq!(fact(inner, "link_delay_us"), "200000", "{layers}");
        assert_eq!(fact(inner, "link_shaped_by"), "netem", "{layers}");
    }
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_machine_on_a_bridge_of_open_vswitch() {
    let layers = "qemu:accel=kvm,memory=256M,net=ovs";
    let Some(arm) = in_the_guest(layers, &["sh", "-c", &ping_takes(0)]) else { return };
    let inner = &arm["evidence"][1];
    for (key, value) in [
        ("network", "ovs"),
        ("bridge", "openvswitch"),
        ("bridge_datapath", "system@ovs-system"),
        ("bridge_handlers", "1"),
        ("nic_driver", "virtio_net"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
    let payers = arm["payers"].as_array().unwrap();
    assert!(payers.iter().any(|payer| payer["payer"] == "ovs-vswitchd"), "{payers:?}");
}

/// Runs surtax itself in a machine, after a script that makes it ready; gives its answer.
#[track_caller]
fn surtax_in(machine: &Machine, guest: &str, ready: &str, compare: &str) -> Value {
    let surtax = env!("CARGO_BIN_EXE_surtax");
    let script = format!(
        "{ready}
         export XDG_DATA_HOME=/root/data
         exec {surtax} compare --quiet {compare} --runs 1 --format json -- true"
    );
    let output = machine.surtax(&["enter", guest, "--", "sh", "-c", &script]);
    let said = text(&output.stdout);
    let begin = said.find('{').unwrap_or_else(|| panic!("{said}\n{}", text(&output.stderr)));
    serde_json::from_str(&said[begin..]).unwrap()
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_scratch_directory_on_the_device_mapper_is_told_with_its_targets() {
    let machine = Machine::alone();
    if !is_usable(&machine, GUEST) {
        return;
    }
    let ready = "modprobe -a dm_mod loop && truncate -s 64M /dev/shm/disk &&
         loop=$(losetup -f --show /dev/shm/disk) && export DM_DISABLE_UDEV=1 &&
         echo \"0 $(blockdev --getsz $loop) linear $loop 0\" | dmsetup create surtax_lab &&
         mke2fs -q -t ext4 /dev/mapper/surtax_lab && mount /dev/mapper/surtax_lab /var/tmp || exit 9";
    let stack = "native:scratch=bind";
    let compare = format!("--in {stack} --baseline {stack}");
    let answer = surtax_in(&machine, GUEST, ready, &compare);
    let proved = &answer["arms"][0]["evidence"][0];
    let held = fact(proved, "scratch_held_by");
    assert!(held.starts_with("ext4 on dm-0 (linear) loop0"), "{held}");
    machine.assert_as_before();
}

/// Owners of files are mapped on an ext4, and not on what lies over a guest's own root.
#[test]
#[ignore = "`cargo xtask lab --all`"]
fn an_engine_without_privileges_has_its_limits_of_cgroup_v2() {
    let machine = Machine::alone();
    if !["podman:rootless=on", GUEST].into_iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let ready = "modprobe -a loop tun; cd / && truncate -s 300M /dev/shm/disk &&
         mke2fs -q -F -t ext4 /dev/shm/disk && mkdir /mnt/ext && mount -o loop /dev/shm/disk /mnt/ext &&
         cd /mnt/ext && mkdir -p bin usr proc sys dev etc tmp run root var/tmp && ln -s ../bin usr/bin &&
         cp /bin/busybox bin && ln -s busybox bin/sh && ln -s busybox bin/true && cd / || exit 9";
    let (root, limits) = ("root=dir:/mnt/ext", "memory=256M,pids=60");
    let stack = format!("podman:{limits},{root},rootless=on");
    let compare = format!("--in {stack} --baseline native:{root}");
    let answer = surtax_in(&machine, GUEST, ready, &compare);
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    let proved = &arm["evidence"][0];
    for (key, value) in [
        ("rootless", "true"),
        ("engine_user", "999948288"),
        ("limit_memory_bytes", "268435456"),
        ("limit_pids", "60"),
    ] {
        assert_eq!(fact(proved, key), value, "{key}");
    }
    machine.assert_as_before();
}

/// Script that the guest of an image runs: surtax comes by standard input. While it runs,
/// everything that it makes in the tree of groups is written down, and after it systemd must have
/// taken its scopes away.
const UNDER_SYSTEMD: &str = r#"
cat > /root/surtax && chmod 755 /root/surtax || exit 9
test "$(cat /proc/1/comm)" = systemd || exit 8
test "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs || exit 8
top=/sys/fs/cgroup
before=$(ls -d $top/*/)
while sleep 0.05; do ls -d $top/surtax-* $top/system.slice/surtax-*.scope/surtax-*; done > /root/seen 2>/dev/null &
export XDG_DATA_HOME=/root/data
/root/surtax compare --quiet --in LAYERS --baseline native --runs 1 --start-deadline 5m --format json -- true
kill $!
scopes() { systemctl list-units --all --plain --no-legend 'surtax-*.scope'; ls -d $top/system.slice/surtax-*.scope 2>/dev/null; }
for again in 1 2 3 4 5 6 7 8 9 10; do test -z "$(scopes)" && break; sleep 1; done
echo "left: $(scopes)" >&2
test "$before" = "$(ls -d $top/*/)" || echo "the top has changed" >&2
grep -q "^$top/surtax-" /root/seen && echo "a group was at the top" >&2
grep -q "^$top/system.slice/surtax-.*[.]scope/surtax-" /root/seen && echo "groups were in a scope" >&2
systemctl is-system-running >&2
"#;

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn under_systemd_alone_with_cgroup_v2_groups_are_in_a_scope_and_go_with_it() {
    let image = crate::qemu::full_system();
    let machine = Machine::alone();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let layers =
        ["runc:memory=256M", "namespaces:pids=50", "nspawn:weight=50", "podman:memory=256M"];
    let options = "accel=tcg,cpus=2,firmware=ovmf,memory=2G";
    let stack = format!("qemu:{options},root=image:{}", image.display());
    let script = UNDER_SYSTEMD.replace("LAYERS", &layers.join(","));
    let surtax = std::fs::File::open(env!("CARGO_BIN_EXE_surtax")).unwrap();
    let arguments = ["enter", &stack, "--", "sh", "-c", &script];
    let output = machine.command(&arguments).current_dir("/").stdin(surtax).output().unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    let begin = said.find('{').unwrap_or_else(|| panic!("{said}\n{told}"));
    let answer: Value = serde_json::from_str(&said[begin..]).unwrap();
    for (layer, key, value) in [
        (layers[0], "limit_memory_bytes", "268435456"),
        (layers[1], "limit_pids", "50"),
        (layers[2], "limit_cpu_weight", "50"),
        (layers[3], "limit_memory_bytes", "268435456"),
    ] {
        let arm = arm(&answer, layer);
        assert_eq!(arm["trial_count"], 1, "{layer}: {}", arm["trouble"]);
        assert_eq!(fact(&arm["evidence"][0], key), value, "{layer}");
    }
    assert!(told.contains("groups were in a scope\n"), "{told}");
    assert!(told.contains("left: \n"), "{told}");
    assert!(!told.contains("at the top") && !told.contains("has changed"), "{told}");
    assert!(told.contains("running\n"), "systemd is content: {told}");
    machine.assert_as_before();
}
