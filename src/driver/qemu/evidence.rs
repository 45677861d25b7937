//! Evidence: what QEMU says it runs, held against what the agent saw from the inside.

use super::check::named;
use super::command_line::{Boots, Machine};
use super::guest_root::GuestRoot;
use super::vcpu;
use crate::fault::Fault;
use crate::guest::kernel::Kernel;
use crate::lab;
use crate::layer::value_of;
use crate::vm::claims;
use crate::vm::qemu::CPU_TYPE_SUFFIX;
use crate::vm::qmp::{Qmp, VirtualCpu};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The board, its firmware, the accelerator, CPUs and memory; `pid` is QEMU's.
///
/// # Errors
/// QEMU does not answer, or two of asked, told and seen disagree.
pub(super) fn of_machine(
    qmp: &mut Qmp,
    (pid, cpus): (u32, &[VirtualCpu]),
    machine: &Machine,
    inside: &[Fact],
    patience: Duration,
) -> Result<Vec<Fact>, Fault> {
    let kvm = qmp.kvm()?;
    let told = if kvm.enabled { "kvm" } else { "tcg" };
    agree("the accelerator", ("asked for", machine.accelerator.name()), ("QMP says", told))?;
    let vendor = value_of(inside, "hypervisor_vendor")?;
    let expected = machine.accelerator.signature();
    agree("the hypervisor's signature", ("expected", expected), ("the guest sees", vendor))?;

    let asked = machine.cpus.to_string();
    let seen = value_of(inside, "cpus_online")?;
    agree("the number of CPUs", ("asked for", &asked), ("QMP says", &cpus.len().to_string()))?;
    agree("the number of CPUs", ("asked for", &asked), ("the guest sees", seen))?;
    let memory = machine.memory.prove(qmp, pid, inside, patience)?;
    let pinned = Some(machine.pinned.as_slice()).filter(|pinned| !pinned.is_empty());
    let placed = vcpu::prove(pid, cpus, pinned)?;
    let bytes = machine.memory.mib << 20;
    let kept = machine.overcommit.prove(qmp, pid, bytes, machine.accelerator)?;

    let board = qmp.type_of("/machine")?;
    if !board.contains(machine.board.type_word()) {
        agree("the board", ("asked for", machine.board.name()), ("QMP says", &board))?;
    }
    let model = match cpus.first() {
        Some(cpu) => qmp.type_of(&cpu.path)?,
        None => return Err(Fault::machine("qemu: QMP lists no virtual CPU")),
    };
    let asked_model = machine.cpu_model().split(',').next().unwrap_or_default();
    if model.strip_suffix(CPU_TYPE_SUFFIX) != Some(asked_model) {
        agree("the CPU model", ("asked for", asked_model), ("QMP says", &model))?;
    }
    agree("QEMU's state", ("expected", "running"), ("QMP says", &qmp.status()?))?;
    let mut facts = vec![
        Fact::new("accelerator", told, "query-kvm, and CPUID leaf 0x40000000 inside"),
        Fact::new("machine", board, "qom-get /machine type"),
        Fact::new("qemu_version", qmp.version(), "QMP greeting"),
        Fact::new("cpu_model", model, "qom-get of the first virtual CPU"),
        Fact::new("cpus", asked, "query-cpus-fast, and sched_getaffinity(2) inside"),
        placed,
        Fact::new("qemu_command_line", machine.command_line().join(" "), "the command line"),
    ];
    facts.extend(memory);
    facts.extend(kept);
    Ok(facts)
}

/// Proves which kernel or which disk QEMU was given, which firmware started it, and that the guest
/// runs it.
///
/// # Errors
/// The guest says that it runs another one.
pub(super) fn of_start(
    (qmp, pid): (&mut Qmp, u32),
    started: &GuestRoot,
    machine: &Machine,
    inside: &[Fact],
) -> Result<Vec<Fact>, Fault> {
    // Xen enters its Dom0 itself, whatever the firmware entered.
    let kernel = started.chosen_kernel().filter(|_| machine.xen().is_none());
    let entry = kernel.map(Kernel::entry);
    let mut facts = machine.firmware.prove(entry, machine.board, qmp, inside)?;
    if let Boots::Disk(image) = &started.boots {
        facts.extend(image.prove(qmp, pid, inside)?);
    }
    if let Some(xen) = machine.xen() {
        facts.extend(xen.prove(inside)?);
    }
    if let Some(kernel) = started.chosen_kernel() {
        facts.extend(of_kernel(kernel, machine, inside)?);
    }
    Ok(facts)
}

fn of_kernel(kernel: &Kernel, machine: &Machine, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
    let release = value_of(inside, "kernel_release")?;
    agree("the kernel", ("booted", &kernel.found.release), ("the guest sees", release))?;
    // Of the file as it was shipped, which anybody can compare with the package; what QEMU was
    // given was unpacked from it, and is four times as long to hash in an emulated machine.
    let shipped = &kernel.found.file;
    Ok(vec![
        Fact::new("kernel_release", release, "the kernel's file, and uname(2) inside"),
        Fact::new("kernel_sha256", lab::sha256(shipped)?, shipped.display().to_string()),
        Fact::new("kernel_origin", kernel.found.origin, "the search for a kernel"),
        Fact::new("kernel_command_line", machine.kernel_command_line(), "the command line"),
    ])
}

/// Requires that two sources say the same of `what`.
fn agree(what: &str, one: (&str, &str), other: (&str, &str)) -> Result<(), Fault> {
    claims::agree(what, one, other).map_err(named)
}
