//! Machines by QEMU: memory, threads, firmware and files are what QEMU, this level's kernel and the
//! guest say they are.

use crate::answers::{arm, compare, fact};
use crate::machine::{Machine, is_slow_made, is_usable, text};
use crate::suite::{lab, run, start};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns what the only trial of each stack proved, which must be one that counts.
fn proofs<'a>(answer: &'a Value, stack: &str) -> &'a Value {
    let arm = arm(answer, stack);
    assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    &arm["evidence"][0]
}

#[track_caller]
fn assert_facts(level: &Value, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(fact(level, key), *value, "{key}");
    }
}

#[test]
fn a_machine_has_the_memory_threads_and_firmware_that_were_asked_for() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    // As the answer names them: their options in the order of their names.
    let ballooned =
        "qemu:accel=tcg,balloon=256M,cpus=1,memory=512M,pin=on,prealloc=on,scratch=layer";
    let packed =
        "qemu:accel=tcg,cpus=1,entry=bzimage,firmware=qboot,mem-lock=on,memory=512M,scratch=layer";
    let uefi = "qemu:accel=tcg,cpus=1,firmware=ovmf,iothread=on,memory=512M,scratch=virtio-blk";
    let ninep =
        "qemu:accel=tcg,cpus=1,files=9p,machine=microvm,memory=512M,mergeable=on,scratch=layer";
    let stacks = [ballooned, packed, uefi, ninep].join(",");
    let stacks = format!("native,{stacks}");
    let answer = machine.json(&compare(&stacks, "1", &["true"]));

    let level = proofs(&answer, ballooned);
    let left = (256u64 << 20).to_string();
    assert_facts(level, &[("balloon_actual_bytes", &left), ("memory_prealloc", "on")]);
    assert!(fact(level, "vcpu_pinned_to").parse::<u32>().is_ok());
    let seen: u64 = fact(level, "inside_memory_total_bytes").parse().unwrap();
    assert!(seen < 256 << 20, "{seen}");
    assert_facts(
        level,
        &[("firmware", "bios-256k.bin"), ("kernel_entry", "PVH"), ("files", "virtiofs")],
    );

    let level = proofs(&answer, packed);
    assert_facts(level, &[("firmware", "qboot.rom"), ("kernel_entry", "bzImage")]);
    assert_facts(level, &[("memory_locked", "on"), ("inside_boot_protocol", "0x020f")]);

    let level = proofs(&answer, uefi);
    assert_facts(level, &[("firmware", "OVMF.fd"), ("kernel_entry", "bzImage")]);
    assert_facts(level, &[("disk_iothread", "on")]);
    assert!(fact(level, "inside_firmware").starts_with("UEFI "));
    let payers = arm(&answer, uefi)["payers"].as_array().unwrap();
    assert!(payers.iter().any(|payer| payer["payer"] == "the disk's I/O thread"), "{payers:?}");

    let level = proofs(&answer, ninep);
    assert_facts(level, &[("files", "9p"), ("memory_mergeable", "on"), ("memory_share", "off")]);
    assert!(!fact(level, "kernel_release").contains("cloud"));
    let payers = arm(&answer, ninep)["payers"].as_array().unwrap();
    assert!(payers.iter().all(|payer| payer["payer"] != "virtiofsd"), "{payers:?}");
    machine.assert_as_before();
}

#[test]
fn by_9p_writes_are_kept_where_they_are_to_be_and_a_layer_stands_on_it() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") || !is_usable(&machine, "runc") {
        return;
    }
    let kept = machine.path("kept");
    fs::create_dir(&kept).unwrap();
    let shown = kept.display().to_string();
    let script = format!(
        "set -e; echo mine >> {shown}/file; echo theirs > /etc/surtax-was-here; \
         dd if=/dev/zero of=/scratch/data bs=64k count=4 conv=fsync 2>/dev/null"
    );
    let outer = "qemu:accel=tcg,files=9p,scratch=bind";
    let stacks = [outer, "qemu:accel=tcg,cpus=1,files=9p+runc:scratch=layer"];
    let list = stacks.join(",");
    let mut arguments = vec!["compare", "--in", &list, "--baseline", outer, "--runs", "1"];
    arguments.extend(["--writable", &shown, "--format", "json", "--", "sh", "-c", &script]);
    let answer = machine.json(&arguments);
    for stack in stacks {
        assert_facts(proofs(&answer, stack), &[("files", "9p")]);
    }
    assert!(fs::read_to_string(kept.join("file")).unwrap().starts_with("mine\nmine\n"));
    assert!(!std::path::Path::new("/etc/surtax-was-here").exists());
    machine.assert_as_before();
}

/// A program that is read anew at each of its starts, by way of this level, would be on the bill of
/// the machine. What it may write to, this level may change meanwhile.
#[test]
fn a_guest_keeps_what_it_has_read_but_where_it_may_write_and_sees_what_changes_there() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg";
    if !is_usable(&machine, stack) {
        return;
    }
    let kept = machine.path("kept");
    fs::create_dir(&kept).unwrap();
    let file = kept.join("file");
    fs::write(&file, "before\n").unwrap();
    // `fincore` opens what it looks at.
    let script = "for it in /bin/bash $0/file; do cat $it > /dev/null; fincore -nbo RES $it; done; \
                  read -r line; cat $0/file";
    let shown = kept.display().to_string();
    let mut surtax = machine
        .command(&["enter", stack, "--writable", &shown, "--", "sh", "-c", script, &shown])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(surtax.stdout.take().unwrap()).lines();
    let mut next = || said.next().unwrap().unwrap();
    let size = fs::metadata("/bin/bash").unwrap().len();
    let [program, written] = [next(), next()].map(|it| it.trim().parse::<u64>().unwrap());
    assert!(program >= size, "{program} of {size} bytes");
    assert_eq!(written, 0);
    fs::write(&file, "after!\n").unwrap();
    surtax.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(next(), "after!");
    assert!(surtax.wait().unwrap().success());
    machine.assert_as_before();
}

/// KVM works at least in a machine that is translated, with the processor's own extensions
/// emulated.
#[test]
fn a_partition_has_all_that_it_stands_for() {
    let machine = Machine::take();
    if !is_slow_made("a machine in a machine")
        || !is_usable(&machine, "qemu:accel=tcg+qemu:accel=kvm")
    {
        return;
    }
    let surtax = env!("CARGO_BIN_EXE_surtax");
    let stack = "qemu:cpus=1,memory=256M,profile=partition";
    let script = format!(
        "modprobe -a kvm_amd 2>/dev/null || modprobe kvm_intel || exit 9
         echo 160 > /proc/sys/vm/nr_hugepages
         export XDG_DATA_HOME=/root/data
         exec {surtax} compare --quiet --in {stack} --baseline {stack} --runs 1 \
             --start-deadline 200s --format json -- true"
    );
    let outer = "qemu:accel=tcg,cpus=1,memory=2G";
    let output = machine.surtax(&["enter", outer, "--", "sh", "-c", &script]);
    let said = text(&output.stdout);
    let begin = said.find('{').unwrap_or_else(|| panic!("{said}\n{}", text(&output.stderr)));
    let answer: Value = serde_json::from_str(&said[begin..]).unwrap();
    let level = proofs(&answer, stack);
    assert_facts(level, &[("accelerator", "kvm"), ("vcpu_pinned_to", "0"), ("halt_exits", "0")]);
    for key in ["memory_hugepages", "memory_prealloc", "memory_locked"] {
        assert_facts(level, &[(key, "on")]);
    }
    machine.assert_as_before();
}

#[test]
fn a_guest_may_look_at_more_files_than_the_user_may_have_open() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let walk = "find /usr /proc -xdev 2>/dev/null | head -5000 | wc -l; head -c 1 \
                /etc/debian_version | wc -c";
    let surtax = env!("CARGO_BIN_EXE_surtax");
    // Beyond the hard limit goes who has the right to; a root in a container may have been left
    // without it.
    let line = "ulimit -Sn 2000; (ulimit -Hn 2000; ulimit -Hn 2001) 2>/dev/null && ulimit -Hn \
                2000; exec \"$0\" enter qemu:accel=tcg -- sh -c \"$1\"";
    let mut sh = Command::new("sh");
    sh.args(["-c", line, surtax, walk]).env("XDG_DATA_HOME", machine.path("data"));
    let output = sh.stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output.stdout), "5000\n1\n", "{}", text(&output.stderr));
    machine.assert_as_before();
}

#[test]
fn an_image_that_names_a_file_of_this_machine_is_refused_and_nothing_is_started() {
    let machine = Machine::take();
    let path = |name: &str| machine.path(name).display().to_string();
    fs::write(path("secret"), "this machine's").unwrap();
    let make = |words: &[&str]| {
        let made = Command::new("qemu-img").args(["create", "-q"]).args(words).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
    };
    make(&["-f", "qcow2", "-F", "raw", "-b", &path("secret"), &path("over.qcow2")]);
    let data = format!("data_file={},data_file_raw=on", path("data"));
    make(&["-f", "qcow2", "-o", &data, &path("outside.qcow2"), "1M"]);
    make(&["-f", "vmdk", "-o", "subformat=monolithicFlat", &path("flat.vmdk"), "1M"]);
    for (name, said) in [
        ("over.qcow2", format!("lies over another file, `{}`", path("secret"))),
        ("outside.qcow2", "has its data in another file".into()),
        ("flat.vmdk", "is of format `vmdk`".into()),
    ] {
        let stack = format!("qemu:accel=tcg,root=image:{}", path(name));
        let output = machine.surtax(&["enter", &stack, "--", "true"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {told}");
        assert!(told.contains(&said), "{name}: {told}");
    }
    machine.assert_as_before();
}

/// A first sector that says `booted` on the serial console, and stops.
const LOADER: &[u8] =
    b"\x31\xc0\x8e\xd8\xba\xf8\x03\xbe\x15\x7c\xac\x84\xc0\x74\x03\xee\xeb\xf8\xf4\xeb\xfd\
from the image: booted\r\n\0";

#[test]
fn a_disk_of_either_format_is_what_the_machine_boots_from_and_is_not_written_to() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let raw = machine.path("disk.img");
    let mut sector = LOADER.to_vec();
    sector.resize(510, 0);
    sector.extend(b"\x55\xaa");
    // No whole sector at its end.
    sector.resize((1 << 20) + 7, 0);
    fs::write(&raw, &sector).unwrap();
    let qcow2 = machine.path("disk.qcow2");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-f", "raw", "-O", "qcow2"]).args([&raw, &qcow2]);
    assert!(convert.status().unwrap().success());
    for image in [raw, qcow2] {
        let before = fs::read(&image).unwrap();
        let stack = format!("qemu:accel=tcg,root=image:{}", image.display());
        let lab = lab();
        let started = start(&lab, &stack, "sector", Duration::from_secs(12)).map(drop);
        lab.close().unwrap();
        let fault = started.unwrap_err();
        assert!(fault.message.contains("from the image: booted"), "{fault}");
        assert!(before == fs::read(&image).unwrap(), "the image is never written to");
    }
    machine.assert_as_before();
}

/// Time that a whole system may take to come up where its instructions are translated.
const SYSTEM_DEADLINE: Duration = Duration::from_secs(600);

/// A whole Debian on a disk, made when it is first asked for.
pub fn full_system() -> PathBuf {
    let images = surtax::lab::cache_directory().unwrap().join("images");
    let image = images.join("debian-12.qcow2");
    if !image.is_file() {
        fs::create_dir_all(&images).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/full-system.sh");
        let made = Command::new("sh").arg(script).arg(&image).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    image
}

#[test]
#[ignore = "makes the image of a whole Debian from packages, which takes minutes, and then boots \
            it"]
fn a_whole_system_boots_from_its_image_by_its_own_loader_and_init() {
    let image = full_system();
    let before = fs::read(&image).unwrap();
    let machine = Machine::take();
    let shown = image.display();
    let options = "accel=tcg,cpus=2,firmware=ovmf,memory=1G";
    let given = "net=tap,offloads=off,scratch=virtio-blk";
    let stack = format!("qemu:{options},{given},root=image:{shown}");
    let lab = lab();
    let mut running = start(&lab, &stack, "system", SYSTEM_DEADLINE).unwrap();
    let facts = &running.evidence()[0].facts;
    let told = |key: &str| facts.iter().find(|fact| fact.key == key).unwrap().value.as_str();
    for (key, value) in [
        ("image", shown.to_string().as_str()),
        ("firmware", "OVMF.fd"),
        ("files", "ext4"),
        ("scratch", "disk"),
        ("disk_controller", "virtio_blk"),
        ("network", "tap"),
        ("nic_driver", "virtio_net"),
    ] {
        assert_eq!(told(key), value, "{key}");
    }
    assert!(!told("nic_offloads").contains("tso"), "{}", told("nic_offloads"));
    let script = "cat /proc/1/comm; touch /scratch/x /root/x; systemctl is-active surtax.service; \
                  findmnt -no FSTYPE /scratch; ping -qc 1 198.18.0.1 >/dev/null && echo outside";
    let outcome = run(&mut running, script).unwrap();
    assert_eq!(text(&outcome.stdout.tail), "systemd\nactive\next4\noutside\n");
    assert_eq!(running.stop().unwrap(), Vec::<String>::new());
    lab.close().unwrap();
    assert!(before == fs::read(&image).unwrap(), "the image is never written to");
    machine.assert_as_before();
}

#[test]
#[ignore = "boots the image of a whole Debian, which takes minutes"]
fn a_whole_system_answers_requests_by_its_own_network() {
    let image = full_system();
    let machine = Machine::take();
    let options = "accel=tcg,cpus=2,firmware=ovmf,memory=1G,net=tap";
    let stack = format!("qemu:{options},root=image:{}", image.display());
    let mut words = vec!["compare", "--quiet", "--in", &stack, "--runs", "1", "--format", "json"];
    words.extend(["--start-deadline", "10m", "--workload", "net.tcp_rr:time=200"]);
    let output = machine.command(&words).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = arm(&answer, &stack);
    assert_eq!(found["trial_count"], 1, "{}", found["trouble"]);
    let level = &found["evidence"][0];
    assert_facts(level, &[("workload_address", "198.18.0.2"), ("network", "tap")]);
    machine.assert_as_before();
}
