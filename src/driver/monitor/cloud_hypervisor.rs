//! Cloud Hypervisor: a monitor in Rust with a PCI bus of virtio devices and files by virtiofsd.
//!
//! The API of the versions 44 to 53 was read: `vmm/src/api/openapi/cloud-hypervisor.yaml` of v44.0
//! to v53.0, in which all that is asked here is the same; the names of the threads are in
//! `vmm/src/cpu.rs`.
//!
//! A guest that restarts is started again by it; so it is told to end, and never waited for.

use super::http::Api;
use super::vsock::GUEST;
use super::{
    Board, CACHE, DISK_SIZE, Descriptor, KERNEL, Limit, Machine, Monitor, NET, Versions, agree,
    nic, text,
};
use crate::fault::Fault;
use crate::lab::network::TAP;
use crate::layer::{BINARY, OptionSpec, Reach, RootKind, StartGuess, impairment, medium};
use serde_json::{Value, json};
use surtax_instrument::wire::Fact;

const KIND: &str = "cloud-hypervisor";

/// Largest number of virtual CPUs that all of these versions take: the older ones count them in
/// eight bits.
const CPUS_MAX: u32 = 254;

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "cloud-hypervisor", "cloud-hypervisor:root=packed", "cloud-hypervisor:net=tap",
    "cloud-hypervisor:scratch=virtio-blk",
];

/// Cloud Hypervisor, by its HTTP API.
pub static CLOUD_HYPERVISOR: Monitor = Monitor {
    descriptor: &Descriptor {
        kind: KIND,
        summary: "a virtual machine by Cloud Hypervisor, under KVM; not yet run on hardware",
        reach: &[("tap", Reach::Link)],
        options: &[
            KERNEL,
            medium::choice(&["layer", "bind", "tmpfs", "virtio-blk"]),
            OptionSpec { values: &["none", "writeback"], ..CACHE },
            DISK_SIZE,
            NET,
            impairment::DELAY,
            impairment::LOSS,
            impairment::RATE,
            BINARY,
        ],
        limits: Limit::OF_A_MACHINE,
        holds_layers: true,
        both_ways: &["tap"],
        roots: &[RootKind::Overlay, RootKind::Directory, RootKind::Oci, RootKind::Packed],
        start_guess: StartGuess::of(1_000),
        may_prove_kvm: |_| true,
        variants: VARIANTS,
        ..Descriptor::MACHINE
    },
    program: "cloud-hypervisor",
    arguments: ("--api-socket", &[]),
    versions: Versions { major: None, range: 44..=53 },
    remedy: "put a static `cloud-hypervisor`, 44 to 53, of its project's releases into `PATH`; \
             Debian has none",
    board: Board::Q35,
    vcpu: "vcpu",
    cpus_max: CPUS_MAX,
    shares_files: true,
    boot,
    // It takes io_uring, Linux's AIO or neither, as the kernel has them.
    disk: ("none", ""),
    prove,
    end,
};

fn boot(api: &mut Api, machine: &Machine) -> Result<(), Fault> {
    api.put("/api/v1/vm.create", Some(&config(machine)))?;
    api.put("/api/v1/vm.boot", None)
}

/// `VmConfig`.
fn config(machine: &Machine) -> Value {
    let files: Vec<Value> = machine
        .files
        .iter()
        .map(|(tag, socket)| {
            json!({
                "tag": tag, "socket": socket, "num_queues": 1, "queue_size": 1024
            })
        })
        .collect();
    // Two queues are one pair. The tap is there, so that it gets no address.
    let tap = json!({"id": "eth0", "tap": TAP, "mac": nic::MAC, "num_queues": 2});
    let disks: Vec<Value> = machine.disk.iter().map(disk).collect();
    let mut config = json!({
        "payload": {
            "kernel": machine.kernel,
            "initramfs": machine.initramfs,
            "cmdline": command_line(),
        },
        "cpus": {"boot_vcpus": machine.cpus, "max_vcpus": machine.cpus},
        // virtiofsd reads and writes the guest's buffers in place.
        "memory": {"size": machine.memory_mib << 20, "shared": true},
        "fs": files,
        "vsock": {"cid": GUEST, "socket": machine.vsock},
        "serial": {"mode": "Tty"},
        "console": {"mode": "Off"},
    });
    if machine.has_tap {
        config["net"] = json!([tap]);
    }
    if !disks.is_empty() {
        config["disks"] = json!(disks);
    }
    config
}

/// `DiskConfig`. Past this level's page cache or through it is all that it lets one choose.
fn disk(disk: &super::Disk) -> Value {
    json!({"id": medium::KEY, "path": disk.file, "direct": disk.cache == "none"})
}

/// That of `qemu`'s guests, but for the way to restart.
fn command_line() -> &'static str {
    "console=ttyS0 quiet panic=-1 reboot=k cryptomgr.notests"
}

fn prove(api: &mut Api, machine: &Machine) -> Result<(Vec<Fact>, String), Fault> {
    let ping = api.get("/api/v1/vmm.ping")?;
    let info = api.get("/api/v1/vm.info")?;
    let shown = |path: &std::path::Path| path.display().to_string();
    for (what, asked, pointer) in [
        ("its state", "Running".into(), "/state"),
        ("the number of CPUs", machine.cpus.to_string(), "/config/cpus/boot_vcpus"),
        ("the memory", (machine.memory_mib << 20).to_string(), "/config/memory/size"),
        ("sharing of memory", String::from("true"), "/config/memory/shared"),
        ("the kernel", shown(&machine.kernel), "/config/payload/kernel"),
        ("the initramfs", shown(&machine.initramfs), "/config/payload/initramfs"),
        ("the kernel's command line", command_line().into(), "/config/payload/cmdline"),
    ] {
        agree(KIND, what, &asked, &text(&info, pointer))?;
    }
    let mut devices = Vec::new();
    if machine.has_tap {
        agree(KIND, "its tap", TAP, &text(&info, "/config/net/0/tap"))?;
        agree(KIND, "its MAC address", nic::MAC, &text(&info, "/config/net/0/mac"))?;
        devices.push(Fact::new("nic_model", "virtio-net-pci", "GET /api/v1/vm.info"));
    }
    if let Some(disk) = &machine.disk {
        let direct = (disk.cache == "none").to_string();
        agree(KIND, "its disk", &shown(&disk.file), &text(&info, "/config/disks/0/path"))?;
        agree(KIND, "direct I/O", &direct, &text(&info, "/config/disks/0/direct"))?;
        devices.push(Fact::new("disk_cache", &disk.cache, "GET /api/v1/vm.info"));
    }
    let version = text(&ping, "/version");
    let facts = vec![
        Fact::new("cloud_hypervisor_version", &version, "GET /api/v1/vmm.ping"),
        Fact::new("cloud_hypervisor_build", text(&ping, "/build_version"), "GET /api/v1/vmm.ping"),
        Fact::new("machine_config", config(machine).to_string(), "PUT /api/v1/vm.create"),
        Fact::new("kernel_command_line", command_line(), "GET /api/v1/vm.info"),
    ];
    Ok(([facts, devices].concat(), version))
}

/// One that is gone already needs no telling.
fn end(api: &mut Api) {
    let _ = api.put("/api/v1/vmm.shutdown", None);
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_tap_and_a_disk_are_two_more_parts_of_it() {
        let told = config(&super::super::tests::furnished("none", ""));
        assert_eq!(
            told["net"].to_string(),
            r#"[{"id":"eth0","mac":"52:54:00:12:34:56","num_queues":2,"tap":"tap0"}]"#
        );
        let disk = r#"[{"direct":true,"id":"scratch","path":"/room/disk.raw"}]"#;
        assert_eq!(told["disks"].to_string(), disk);
    }

    #[test]
    fn a_machine_is_one_configuration() {
        assert_eq!(
            format!("{:#}", config(&machine())),
            r#"{
  "console": {
    "mode": "Off"
  },
  "cpus": {
    "boot_vcpus": 2,
    "max_vcpus": 2
  },
  "fs": [
    {
      "num_queues": 1,
      "queue_size": 1024,
      "socket": "/room/files-host.sock",
      "tag": "host"
    }
  ],
  "memory": {
    "shared": true,
    "size": 536870912
  },
  "payload": {
    "cmdline": "console=ttyS0 quiet panic=-1 reboot=k cryptomgr.notests",
    "initramfs": "/room/initramfs.cpio",
    "kernel": "/cache/vmlinux"
  },
  "serial": {
    "mode": "Tty"
  },
  "vsock": {
    "cid": 3,
    "socket": "/room/vsock"
  }
}"#
        );
        assert_eq!(
            CLOUD_HYPERVISOR
                .command_line(Path::new("/bin/cloud-hypervisor"), Path::new("/room/api")),
            ["/bin/cloud-hypervisor", "--api-socket", "/room/api"]
        );
    }
}
