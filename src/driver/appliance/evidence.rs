//! Evidence: what QEMU says of an appliance, and which image it is.

use super::command_line::Machine;
use crate::fault::{Doing, Fault};
use crate::layer::value_of;
use crate::regular_file;
use crate::vm::claims;
use crate::vm::qemu::CPU_TYPE_SUFFIX;
use crate::vm::qmp::{Qmp, VirtualCpu};
use std::io::{self, BufReader};
use std::path::Path;
use surtax_instrument::wire::Fact;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes of an image that are read at a time.
const PIECE: usize = 1 << 20;

/// Returns what QEMU says that it runs. Nobody inside can be asked whether that is so.
///
/// # Errors
/// QEMU does not answer, or runs something else than it was asked for.
pub(super) fn told(
    qmp: &mut Qmp,
    cpus: &[VirtualCpu],
    (machine, command_line): (&Machine, &str),
) -> Result<Vec<Fact>, Fault> {
    let told = if qmp.kvm()?.enabled { "kvm" } else { "tcg" };
    let agree = |what: &str, asked: &str, told: &str| {
        claims::agree(what, ("asked for", asked), ("QMP says", told))
            .map_err(|fault| fault.during("an appliance"))
    };
    agree("the accelerator", machine.accelerator.name(), told)?;
    agree("the number of CPUs", &machine.cpus.to_string(), &cpus.len().to_string())?;
    let memory = qmp.memory_bytes()?.to_string();
    agree("the memory", &(machine.memory_mib << 20).to_string(), &memory)?;
    let board = qmp.type_of("/machine")?;
    if !board.contains(machine.board.type_word()) {
        agree("the board", machine.board.name(), &board)?;
    }
    let first = cpus.first().ok_or_else(|| Fault::machine("appliance: it has no virtual CPU"))?;
    let model = qmp.type_of(&first.path)?;
    let plain = model.strip_suffix(CPU_TYPE_SUFFIX).unwrap_or(&model);
    agree("the CPU model", machine.cpu_model(), plain)?;
    let state = if machine.stands_still { "prelaunch" } else { "running" };
    agree("QEMU's state", state, &qmp.status()?)?;
    let network = machine.network.as_deref().unwrap_or("none");
    Ok(vec![
        Fact::new("accelerator", told, "query-kvm"),
        Fact::new("machine", board, "qom-get /machine type"),
        Fact::new("qemu_version", qmp.version(), "QMP greeting"),
        Fact::new("cpu_model", model, "qom-get of the first virtual CPU"),
        Fact::new("cpus", machine.cpus.to_string(), "query-cpus-fast"),
        Fact::new("memory_bytes", memory, "query-memory-size-summary"),
        Fact::new("network", network, "the command line"),
        Fact::new("time_taken", "outside, by surtax's own clock", "there is no agent inside"),
        Fact::new("qemu_command_line", command_line, "the command line"),
    ])
}

/// That QEMU has a network of its own, and that its client, if there is one, is in it too.
///
/// # Errors
/// It has this level's, or the client has another.
pub(super) fn of_network(pid: u32, client: Option<&[Fact]>) -> Result<Fact, Fault> {
    let link = |who: &str| {
        let path = format!("/proc/{who}/ns/net");
        let link =
            std::fs::read_link(&path).doing(format_args!("see whose network `{path}` is"))?;
        Ok::<_, Fault>(link.to_string_lossy().into_owned())
    };
    let (ours, theirs) = (link("self")?, link(&pid.to_string())?);
    if ours == theirs {
        return Err(Fault::machine(format!("appliance: its network `{theirs}` is this level's")));
    }
    match client.map(|inside| value_of(inside, "namespace_net")).transpose()? {
        Some(seen) if seen != theirs => Err(Fault::machine(format!(
            "appliance: it is in the network `{theirs}`, and its client in `{seen}`"
        ))),
        _ => Ok(Fact::new("network_namespace", "its own", "/proc/PID/ns/net")),
    }
}

/// Returns the facts that stand for the file of a command that is in an image.
///
/// # Errors
/// The machine's: the image cannot be read.
pub(super) fn of_image(image: &Path) -> Result<Vec<Fact>, Fault> {
    let doing = format!("hash the image `{}`", image.display());
    let file = regular_file::open_kept(image).doing(&doing)?;
    let mut hash = Xxh3Default::new();
    // An image may be longer than memory.
    let count = io::copy(&mut BufReader::with_capacity(PIECE, file), &mut hash).doing(&doing)?;
    let hash = format!("{:032x}", hash.digest128());
    Ok(vec![
        Fact::new("command_file", image.display().to_string(), "the image that was booted"),
        Fact::new("command_file_bytes", count.to_string(), "what was read of it"),
        Fact::new("command_file_xxh3", hash, "all of the image"),
    ])
}
