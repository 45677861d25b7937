//! Both drivers against simulators of the published APIs, with the real agent at the end of the
//! vsock socket.

mod simulator;

use super::*;
use crate::lab::tests::lab;
use std::fs;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use surtax_instrument::wire::Reply;

const DEADLINE: Duration = Duration::from_secs(20);

/// This test's binary is the monitor: it is started by a script with the monitor's own arguments.
#[test]
fn this_process_is_a_monitor() {
    if let Ok(kind) = std::env::var(simulator::KIND) {
        simulator::main(&kind);
    }
}

/// A machine, for what monitors are told of one.
pub(super) fn machine() -> Machine {
    Machine {
        cpus: 2,
        memory_mib: 512,
        kernel: "/cache/vmlinux".into(),
        initramfs: "/room/initramfs.cpio".into(),
        files: vec![("host", "/room/files-host.sock".into())],
        vsock: "/room/vsock".into(),
        has_tap: false,
        disk: None,
    }
}

/// The same with a tap and a disk.
pub(super) fn furnished(cache: &str, aio: &str) -> Machine {
    let (cache, aio) = (cache.to_owned(), aio.to_owned());
    let disk = Some(Disk { file: "/room/disk.raw".into(), cache, aio });
    Machine { has_tap: true, disk, ..machine() }
}

/// A lab, a simulated monitor, and a machine to ask it for.
struct Bench {
    lab: crate::lab::Lab,
    _directory: tempfile::TempDir,
    program: PathBuf,
    machine: Machine,
}

fn bench(monitor: &Monitor) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("state")).unwrap();
    let lab = lab(&at("state"));
    fs::write(at("vmlinux"), "a kernel").unwrap();
    fs::write(at("initramfs"), format!("load /modules/vsock.ko\nhello {}\n", vsock::PORT)).unwrap();
    let (before, _) = monitor.arguments;
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = {before} ] || exit 9\n{}={} {}=\"$2\" {}={} exec {} --exact \
         driver::monitor::tests::this_process_is_a_monitor --nocapture\n",
        simulator::KIND,
        monitor.descriptor.kind,
        simulator::SOCKET,
        simulator::AGENT,
        lab.agent().unwrap().display(),
        std::env::current_exe().unwrap().display(),
    );
    fs::write(at("monitor"), script).unwrap();
    fs::set_permissions(at("monitor"), fs::Permissions::from_mode(0o755)).unwrap();
    let machine = Machine {
        kernel: at("vmlinux"),
        initramfs: at("initramfs"),
        files: Vec::from_iter(monitor.shares_files.then(|| ("host", at("files-host.sock")))),
        vsock: at("vsock"),
        ..machine()
    };
    Bench { lab, program: at("monitor"), machine, _directory: directory }
}

#[test]
fn a_machine_is_asked_for_as_the_published_api_wants_and_its_agent_calls() {
    for monitor in [&CLOUD_HYPERVISOR, &FIRECRACKER] {
        let bench = bench(monitor);
        let room = bench.lab.room("machine").unwrap();
        let mut booted =
            monitor.boot(&bench.program, &bench.machine, &room, (None, None), DEADLINE).unwrap();
        let first = booted.link.receive(DEADLINE).unwrap();
        assert!(matches!(first.reply, Reply::Hello(_)), "{first:?}");
        assert_eq!(booted.vcpus.len(), 2);

        let (facts, version) = (monitor.prove)(&mut booted.api, &bench.machine).unwrap();
        assert!(monitor.versions.hold(&version), "{version}");
        assert!(facts.iter().any(|fact| fact.key == "kernel_command_line"));
        let other = Machine { cpus: 3, ..bench.machine };
        let fault = (monitor.prove)(&mut booted.api, &other).unwrap_err();
        assert!(fault.message.contains("the number of CPUs was to be `3`"), "{fault}");

        (monitor.end)(&mut booted.api);
        booted.call.shutdown(Shutdown::Both).unwrap();
        let ended = booted.process.wait(DEADLINE).unwrap().expect("it ends");
        assert!(ended.success(), "{ended}");
        drop(booted);
        assert_eq!(room.close().unwrap(), Vec::<String>::new());
        bench.lab.close().unwrap();
    }
}

#[test]
fn a_tap_and_a_disk_are_what_the_published_api_takes_and_proved_by_what_it_says() {
    for monitor in [&CLOUD_HYPERVISOR, &FIRECRACKER] {
        let mut bench = bench(monitor);
        let file = bench.machine.vsock.with_file_name("disk.raw");
        fs::write(&file, "a disk").unwrap();
        let (cache, aio) = monitor.disk;
        bench.machine.disk = Some(Disk { file, cache: cache.into(), aio: aio.into() });
        bench.machine.has_tap = true;
        let room = bench.lab.room("machine").unwrap();
        let network = room.network().unwrap();
        let place = (None, Some(&network));
        let refused = monitor.boot(&bench.program, &bench.machine, &room, place, DEADLINE);
        let fault = refused.err().expect("there is no tap yet");
        assert!(fault.message.contains("no `tap0`"), "{fault}");
        room.close().unwrap();

        let room = bench.lab.room("again").unwrap();
        bench.machine.vsock.set_file_name("vsock-again");
        network.kept_tap().unwrap();
        let mut booted =
            monitor.boot(&bench.program, &bench.machine, &room, place, DEADLINE).unwrap();
        let (facts, _) = (monitor.prove)(&mut booted.api, &bench.machine).unwrap();
        assert!(facts.iter().any(|fact| fact.key == "nic_model"));
        assert!(facts.iter().any(|fact| fact.key == "disk_cache" && fact.value == cache));
        bench.machine.disk.as_mut().unwrap().file = "/another".into();
        let fault = (monitor.prove)(&mut booted.api, &bench.machine).unwrap_err();
        assert!(fault.message.contains("its disk was to be `/another`"), "{fault}");

        (monitor.end)(&mut booted.api);
        booted.call.shutdown(Shutdown::Both).unwrap();
        assert!(booted.process.wait(DEADLINE).unwrap().expect("it ends").success());
        drop(booted);
        drop(network);
        assert_eq!(room.close().unwrap(), Vec::<String>::new());
        bench.lab.close().unwrap();
    }
}

#[test]
fn what_the_api_refuses_is_quoted_with_its_reason() {
    for (monitor, why) in [
        (&CLOUD_HYPERVISOR, "`PUT /api/v1/vm.create` was refused with 500"),
        (&FIRECRACKER, "`PUT /machine-config` was refused with 400"),
    ] {
        let bench = bench(monitor);
        let room = bench.lab.room("machine").unwrap();
        let machine = Machine { cpus: 0, ..bench.machine };
        let booted = monitor.boot(&bench.program, &machine, &room, (None, None), DEADLINE);
        let fault = booted.err().expect("no machine has 0 CPUs");
        assert!(fault.message.contains(why), "{fault}");
        assert!(fault.message.contains("vcpu"), "{fault}");
        room.close().unwrap();
        bench.lab.close().unwrap();
    }
}

#[test]
fn a_monitor_that_ends_at_once_is_no_wait() {
    let bench = bench(&FIRECRACKER);
    let room = bench.lab.room("machine").unwrap();
    let booted =
        FIRECRACKER.boot(Path::new("/bin/false"), &bench.machine, &room, (None, None), DEADLINE);
    let fault = booted.err().expect("`false` has no API");
    assert!(fault.message.contains("it ended with exit status: 1"), "{fault}");
    room.close().unwrap();
    bench.lab.close().unwrap();
}

#[test]
fn only_versions_whose_api_was_read_are_taken() {
    for (versions, said, is_held) in [
        (&FIRECRACKER.versions, "Firecracker v1.12.0", true),
        (&FIRECRACKER.versions, "1.16.1", true),
        (&FIRECRACKER.versions, "Firecracker v1.7.0", false),
        (&FIRECRACKER.versions, "Firecracker v2.12.0", false),
        (&CLOUD_HYPERVISOR.versions, "cloud-hypervisor v53.0", true),
        (&CLOUD_HYPERVISOR.versions, "v44.0-12-gdeadbee", true),
        (&CLOUD_HYPERVISOR.versions, "cloud-hypervisor v38.0", false),
        (&CLOUD_HYPERVISOR.versions, "cloud-hypervisor", false),
    ] {
        assert_eq!(versions.hold(said), is_held, "{said}");
    }
    assert_eq!(FIRECRACKER.versions.names(), "1.12 to 1.16");
}

#[test]
fn more_cpus_than_a_monitor_has_are_refused_before_anything_is_started() {
    let options = [(String::from("root"), String::from("packed"))].into();
    let mut spec = LayerSpec { kind: "firecracker".into(), options };
    let limits = Limits { cpu_millis: Some(33_000), ..Limits::default() };
    let fault = FIRECRACKER.refuse(&spec, &limits, None).unwrap_err();
    assert_eq!(fault.message, "firecracker: `cpus=33`: its machines have at most 32 CPUs");
    let half = Limits { cpu_millis: Some(1500), ..Limits::default() };
    let fault = CLOUD_HYPERVISOR.refuse(&spec, &half, None).unwrap_err();
    assert_eq!(fault.message, "firecracker: `cpus=1.5`: a machine has whole CPUs");
    spec.options.clear();
    let fault = FIRECRACKER.refuse(&spec, &Limits::default(), None).unwrap_err();
    assert_eq!(fault.message, "firecracker: it cannot share files with its guest");
    assert_eq!(fault.hint.unwrap(), "write `firecracker:root=packed`");
}
