//! Machines of Kata's, in trees of processes as they are left by its hypervisors.

use super::*;
use std::os::unix::fs::symlink;

const ID: &str = "dc7a95dc3219fa58f6b87ac10cb2f5b0a562d8434c2cdc8d4d940d8e763e5103";
const OTHER: &str = "00ff95dc3219fa58f6b87ac10cb2f5b0a562d8434c2cdc8d4d940d8e763e5103";

/// A process with its command line, its threads' names, and whether it has a machine.
fn add(tree: &Path, pid: u32, line: &str, threads: &[(u32, &str)], has_machine: bool) {
    let directory = tree.join(pid.to_string());
    fs::create_dir_all(directory.join("fd")).unwrap();
    fs::write(directory.join("cmdline"), line.replace(' ', "\0") + "\0").unwrap();
    fs::write(directory.join("status"), "Uid:\t0\t0\t0\t0\n").unwrap();
    for (tid, name) in threads {
        let task = directory.join("task").join(tid.to_string());
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), format!("{name}\n")).unwrap();
    }
    symlink("/dev/null", directory.join("fd/0")).unwrap();
    if has_machine {
        symlink("/dev/kvm", directory.join("fd/11")).unwrap();
        symlink(HANDLE, directory.join("fd/12")).unwrap();
    }
}

fn shim(id: &str) -> String {
    format!(
        "/opt/kata/bin/containerd-shim-kata-v2 -namespace moby -address \
         /run/containerd/containerd.sock -publish-binary /usr/bin/containerd -id {id}"
    )
}

fn qemu(id: &str) -> String {
    format!(
        "/opt/kata/bin/qemu-system-x86_64 -name sandbox-{id} -machine q35,accel=kvm \
         -qmp unix:/run/vc/vm/{id}/qmp.sock,server=on,wait=off -m 2048M"
    )
}

/// With QEMU: four processes, of which two are virtiofsd's; beside them another container's, and
/// others.
fn with_qemu() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let threads =
        [(40, "qemu-system-x86"), (41, "CPU 0/KVM"), (42, "IO mon_iothread"), (43, "CPU 1/KVM")];
    add(tree.path(), 30, &shim(ID), &[(30, "containerd-shim")], false);
    add(tree.path(), 40, &qemu(ID), &threads, true);
    let files = format!(
        "/opt/kata/libexec/virtiofsd --fd=3 \
         --shared-dir=/run/kata-containers/shared/sandboxes/{ID}/shared"
    );
    add(tree.path(), 50, &files, &[(50, "virtiofsd")], false);
    add(tree.path(), 51, &files, &[(51, "virtiofsd")], false);
    add(tree.path(), 60, &shim(OTHER), &[], false);
    add(tree.path(), 61, &qemu(OTHER), &[(61, "CPU 0/KVM")], true);
    add(tree.path(), 70, &format!("/usr/bin/docker logs {ID}"), &[], false);
    // A user who says to be its hypervisor, has a machine, and comes first.
    add(tree.path(), 20, &qemu(ID), &[(20, "CPU 0/KVM")], true);
    fs::write(tree.path().join("20/status"), "Uid:\t65534\t65534\t65534\t65534\n").unwrap();
    fs::create_dir(tree.path().join("sys")).unwrap();
    tree
}

fn inside(release: &str, vendor: &str) -> Vec<Fact> {
    let facts = [
        ("kernel_release", release),
        ("kernel_version", "#1 SMP Fri Nov 3 00:00:00 UTC 2023"),
        ("hypervisor_vendor", vendor),
    ];
    facts.map(|(key, value)| Fact::new(key, value, "test")).to_vec()
}

#[test]
fn a_machine_is_billed_to_its_cpus_its_hypervisor_its_files_and_its_shim() {
    let tree = with_qemu();
    let machine = Machine::find(tree.path(), ID).unwrap();
    let payers: Vec<(String, Role, Source, bool)> = machine
        .payers(tree.path())
        .into_iter()
        .map(|it| (it.name, it.role, it.source, it.carries_workload))
        .collect();
    let tids = vec![41, 43];
    assert_eq!(
        payers,
        [
            (
                "vCPU threads".into(),
                Role::GuestKernel,
                Source::Threads { pid: 40, tids: tids.clone() },
                true
            ),
            (
                "qemu-system-x86_64's other threads".into(),
                Role::Hypervisor,
                Source::OtherThreads { pid: 40, except: tids },
                false
            ),
            ("containerd-shim-kata-v2".into(), Role::Engine, Source::Process(30), false),
            ("virtiofsd".into(), Role::Hypervisor, Source::Process(50), false),
            ("virtiofsd".into(), Role::Hypervisor, Source::Process(51), false),
        ]
    );
}

#[test]
fn what_the_daemon_says_is_compared_with_who_has_the_machine_and_with_the_kernel_inside() {
    let tree = with_qemu();
    let machine = Machine::find(tree.path(), ID).unwrap();
    let facts = machine.prove(40, &inside("6.1.62", "KVMKVMKVM")).unwrap();
    assert_eq!(value_of(&facts, "hypervisor").unwrap(), "qemu-system-x86_64");
    assert_eq!(value_of(&facts, "accelerator").unwrap(), "kvm");
    assert_eq!(value_of(&facts, "shim").unwrap(), "containerd-shim-kata-v2");

    let fault = machine.prove(61, &inside("6.1.62", "KVMKVMKVM")).unwrap_err();
    assert!(fault.message.contains("process 61 is none of those"), "{fault}");
    let fault = machine.prove(40, &inside("6.1.62", "none")).unwrap_err();
    assert!(fault.message.contains("admits to none"), "{fault}");
    let system = rustix::system::uname();
    let mut ours = inside(&system.release().to_string_lossy(), "KVMKVMKVM");
    ours[1].value = system.version().to_string_lossy().into_owned();
    let fault = machine.prove(40, &ours).unwrap_err();
    assert!(fault.message.contains("the kernel inside is this one"), "{fault}");
}

#[test]
fn a_shim_that_is_its_own_hypervisor_is_split_by_its_threads() {
    let tree = tempfile::tempdir().unwrap();
    let threads = [(30, "containerd-shim"), (31, "vcpu0"), (32, "tokio-runtime-w")];
    add(tree.path(), 30, &shim(ID), &threads, true);
    let machine = Machine::find(tree.path(), ID).unwrap();
    let payers = machine.payers(tree.path());
    assert_eq!(payers.len(), 2, "{payers:?}");
    assert_eq!(payers[0].source, Source::Threads { pid: 30, tids: vec![31] });
    assert!(machine.prove(30, &inside("6.1.62", "KVMKVMKVM")).is_ok());
}

#[test]
fn firecracker_knows_but_the_beginning_of_an_id() {
    let tree = tempfile::tempdir().unwrap();
    add(tree.path(), 30, &shim(ID), &[], false);
    let line = format!("/opt/kata/bin/firecracker --id {} --api-sock run/fc.socket", &ID[..32]);
    add(tree.path(), 40, &line, &[(40, "firecracker"), (41, "fc_vcpu 0")], true);
    let machine = Machine::find(tree.path(), ID).unwrap();
    assert_eq!(machine.payers(tree.path())[0].source, Source::Threads { pid: 40, tids: vec![41] });
}

#[test]
fn processes_without_a_machine_prove_none() {
    let tree = tempfile::tempdir().unwrap();
    let fault = Machine::find(tree.path(), ID).unwrap_err();
    assert!(fault.message.contains("nobody works for it"), "{fault}");
    add(tree.path(), 30, &shim(ID), &[], false);
    let fault = Machine::find(tree.path(), ID).unwrap_err();
    assert!(fault.message.contains("containerd-shim-kata-v2 works for it"), "{fault}");
    add(tree.path(), 40, &qemu(ID), &[], false);
    let machine = Machine::find(tree.path(), ID).unwrap();
    let fault = machine.prove(40, &inside("6.1.62", "KVMKVMKVM")).unwrap_err();
    assert!(fault.message.contains("nothing shows that it runs a machine"), "{fault}");
    assert!(Machine::find(tree.path(), "short").is_err());
}
