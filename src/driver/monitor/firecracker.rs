//! Firecracker: a monitor in Rust with few devices and no shared files: what the guest has is in
//! its memory.
//!
//! The API of the versions 1.12 to 1.16 was read: `src/firecracker/swagger/firecracker.yaml` of
//! v1.12.0, v1.13.0, v1.14.0, v1.15.0 and v1.16.1, in which all that is asked here is the same; the
//! names of the threads are in `vstate/vcpu.rs` of its `vmm`. 1.12 is the first that enters a
//! kernel by PVH. From 1.8 on it tells the guest of its virtio devices by ACPI; a distribution's
//! kernel finds them in no other way.
//!
//! It ends when its guest restarts, which an agent does whom nobody listens to; the API has no word
//! for it.

use super::http::Api;
use super::vsock::GUEST;
use super::{
    Board, DISK_SIZE, Descriptor, KERNEL, Limit, Machine, Monitor, NET, Versions, agree, nic, text,
};
use crate::fault::Fault;
use crate::lab::network::TAP;
use crate::layer::{BINARY, Reach, RootKind, StartGuess, impairment, medium, option};
use serde_json::{Value, json};
use surtax_instrument::wire::Fact;

const KIND: &str = "firecracker";

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "firecracker:root=packed",
    "firecracker:root=packed,net=tap",
    "firecracker:root=packed,scratch=virtio-blk",
];

/// Firecracker, by its HTTP API.
pub static FIRECRACKER: Monitor = Monitor {
    descriptor: &Descriptor {
        kind: KIND,
        summary: "a virtual machine by Firecracker, under KVM, with `root=packed`; not yet run on \
                  hardware",
        reach: &[("tap", Reach::Link)],
        options: &[
            KERNEL,
            medium::choice(&["layer", "tmpfs", "virtio-blk"]),
            option("cache", &["writeback", "unsafe"]).help(
                "how Firecracker caches the scratch disk: in this level's page cache, with the \
                 guest's flushes or without (default: writeback)",
            ),
            option("aio", &["sync", "io_uring"])
                .help("how Firecracker reads and writes the scratch disk's file (default: sync)"),
            DISK_SIZE,
            NET,
            impairment::DELAY,
            impairment::LOSS,
            impairment::RATE,
            BINARY,
        ],
        limits: Limit::OF_A_MACHINE,
        both_ways: &["tap"],
        roots: &[RootKind::Packed],
        start_guess: StartGuess::of(1_000),
        may_prove_kvm: |_| true,
        variants: VARIANTS,
        ..Descriptor::MACHINE
    },
    program: "firecracker",
    arguments: ("--api-sock", &["--id", "surtax"]),
    versions: Versions { major: Some(1), range: 12..=16 },
    remedy: "put `firecracker`, 1.12 to 1.16, of its project's releases into `PATH`; Debian has \
             none",
    board: Board::Microvm,
    vcpu: "fc_vcpu ",
    cpus_max: 32,
    shares_files: false,
    boot,
    disk: ("writeback", "sync"),
    prove,
    end: |_| {},
};

/// That of `qemu`'s guests, but for the way to restart, and the bus that is not there.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 reboot=k pci=off cryptomgr.notests";

fn boot(api: &mut Api, machine: &Machine) -> Result<(), Fault> {
    requests(machine).iter().try_for_each(|(path, body)| api.put(path, Some(body)))
}

/// Lists the requests to put, in this order.
fn requests(machine: &Machine) -> Vec<(&'static str, Value)> {
    let source = json!({
        "kernel_image_path": machine.kernel,
        "initrd_path": machine.initramfs,
        "boot_args": COMMAND_LINE,
    });
    let (cpus, memory) = (machine.cpus, machine.memory_mib);
    let mut requests = vec![
        ("/boot-source", source),
        ("/machine-config", json!({"vcpu_count": cpus, "mem_size_mib": memory, "smt": false})),
        ("/vsock", json!({"guest_cid": GUEST, "uds_path": machine.vsock})),
    ];
    requests.extend(machine.has_tap.then(|| ("/network-interfaces/eth0", interface())));
    requests.extend(machine.disk.iter().map(|disk| ("/drives/scratch", drive(disk))));
    requests.push(("/actions", json!({"action_type": "InstanceStart"})));
    requests
}

/// `NetworkInterface`.
fn interface() -> Value {
    json!({"iface_id": "eth0", "host_dev_name": TAP, "guest_mac": nic::MAC})
}

/// `Drive`. It has no direct I/O, and by default drops the guest's flushes.
fn drive(disk: &super::Disk) -> Value {
    json!({
        "drive_id": medium::KEY,
        "is_root_device": false,
        "is_read_only": false,
        "path_on_host": disk.file,
        "cache_type": cache_type(disk),
        "io_engine": io_engine(disk),
    })
}

fn cache_type(disk: &super::Disk) -> &'static str {
    if disk.cache == "unsafe" { "Unsafe" } else { "Writeback" }
}

fn io_engine(disk: &super::Disk) -> &'static str {
    if disk.aio == "io_uring" { "Async" } else { "Sync" }
}

fn prove(api: &mut Api, machine: &Machine) -> Result<(Vec<Fact>, String), Fault> {
    let version = text(&api.get("/version")?, "/firecracker_version");
    let about = api.get("/")?;
    let told = api.get("/machine-config")?;
    let whole = api.get("/vm/config")?;
    let shown = |path: &std::path::Path| path.display().to_string();
    for (what, asked, answer, pointer) in [
        ("its state", "Running".into(), &about, "/state"),
        ("the number of CPUs", machine.cpus.to_string(), &told, "/vcpu_count"),
        ("the memory in MiB", machine.memory_mib.to_string(), &told, "/mem_size_mib"),
        ("the kernel", shown(&machine.kernel), &whole, "/boot-source/kernel_image_path"),
        ("the initramfs", shown(&machine.initramfs), &whole, "/boot-source/initrd_path"),
        ("the kernel's command line", COMMAND_LINE.into(), &whole, "/boot-source/boot_args"),
    ] {
        agree(KIND, what, &asked, &text(answer, pointer))?;
    }
    let mut devices = Vec::new();
    if machine.has_tap {
        let of = |key: &str| text(&whole, &format!("/network-interfaces/0/{key}"));
        agree(KIND, "its tap", TAP, &of("host_dev_name"))?;
        agree(KIND, "its MAC address", nic::MAC, &of("guest_mac"))?;
        devices.push(Fact::new("nic_model", "virtio-net-device", "GET /vm/config"));
    }
    if let Some(disk) = &machine.disk {
        let of = |key: &str| text(&whole, &format!("/drives/0/{key}"));
        agree(KIND, "its disk", &shown(&disk.file), &of("path_on_host"))?;
        agree(KIND, "its disk's cache", cache_type(disk), &of("cache_type"))?;
        agree(KIND, "its disk's engine", io_engine(disk), &of("io_engine"))?;
        devices.push(Fact::new("disk_cache", &disk.cache, "GET /vm/config"));
        devices.push(Fact::new("disk_aio", &disk.aio, "GET /vm/config"));
    }
    let facts = vec![
        Fact::new("firecracker_version", &version, "GET /version"),
        Fact::new("machine_config", told.to_string(), "GET /machine-config"),
        Fact::new("kernel_command_line", COMMAND_LINE, "GET /vm/config"),
    ];
    Ok(([facts, devices].concat(), version))
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_tap_and_a_disk_are_two_more_before_the_start() {
        let requests = requests(&super::super::tests::furnished("unsafe", "io_uring"));
        let told: Vec<String> =
            requests[3..5].iter().map(|(path, body)| format!("{path} {body}")).collect();
        assert_eq!(
            told,
            [
                r#"/network-interfaces/eth0 {"guest_mac":"52:54:00:12:34:56","host_dev_name":"tap0","iface_id":"eth0"}"#,
                r#"/drives/scratch {"cache_type":"Unsafe","drive_id":"scratch","io_engine":"Async","is_read_only":false,"is_root_device":false,"path_on_host":"/room/disk.raw"}"#,
            ]
        );
        assert_eq!(requests[5].0, "/actions");
    }

    #[test]
    fn a_machine_is_four_requests() {
        let told: String =
            requests(&machine()).iter().map(|(path, body)| format!("{path} {body}\n")).collect();
        assert_eq!(
            told,
            r#"/boot-source {"boot_args":"console=ttyS0 quiet panic=-1 reboot=k pci=off cryptomgr.notests","initrd_path":"/room/initramfs.cpio","kernel_image_path":"/cache/vmlinux"}
/machine-config {"mem_size_mib":512,"smt":false,"vcpu_count":2}
/vsock {"guest_cid":3,"uds_path":"/room/vsock"}
/actions {"action_type":"InstanceStart"}
"#
        );
        assert_eq!(
            FIRECRACKER.command_line(Path::new("/usr/bin/firecracker"), Path::new("/room/api")),
            ["/usr/bin/firecracker", "--api-sock", "/room/api", "--id", "surtax"]
        );
    }
}
