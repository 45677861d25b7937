//! Boots a machine and takes hold of its ends: the agent's channel, QMP, the console.
//!
//! Both conversations run over socket pairs that QEMU inherits: no path, no listener that anybody
//! else could reach, and nothing to remove.

use super::command_line::{AGENT_DESCRIPTOR, Boots, Machine, QMP_DESCRIPTOR};
use super::image::IMAGE_DESCRIPTOR;
use super::vcpu;
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Jail, Process, Program, Room, RoomNetwork};
use crate::vm::nic::{NetBackend, TAP_DESCRIPTOR, VHOST_DESCRIPTOR};
use crate::vm::qmp::{Qmp, VirtualCpu};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time that a QEMU that hung up may take to be gone, with its last words read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A machine that was switched on.
pub(super) struct Booted {
    /// QEMU.
    pub(super) process: Process,
    /// QEMU's own tongue.
    pub(super) qmp: Qmp,
    /// The virtual CPUs with their threads.
    pub(super) cpus: Vec<VirtualCpu>,
    /// The way to the agent; its first frame has not been read.
    pub(super) link: Link,
}

/// Starts QEMU in its jail and, if it is not to be the room's, in a group; it takes the taps of
/// `wires` with it. What it and the guest's console print goes to `console`.
///
/// # Errors
/// QEMU is not there or refuses its command line; then with its last words.
pub(super) fn boot(
    machine: &Machine,
    wires: &mut NetBackend,
    room: &Room,
    (group, jail): (Option<&Path>, &Jail),
    console: &ConsoleTail,
) -> Result<Booted, Fault> {
    let (agent, agent_of_qemu) = UnixStream::pair().doing("make a socket pair for the agent")?;
    let (qmp, qmp_of_qemu) = UnixStream::pair().doing("make a socket pair for QMP")?;
    let (output, output_of_qemu) = std::io::pipe().doing("make a pipe for the guest's console")?;
    let errors_of_qemu = output_of_qemu.try_clone().doing("share the console's pipe")?;
    console.drain(output.into());

    let mut descriptors =
        vec![(agent_of_qemu.into(), AGENT_DESCRIPTOR), (qmp_of_qemu.into(), QMP_DESCRIPTOR)];
    descriptors.extend(wires.taps.drain(..).zip(TAP_DESCRIPTOR..));
    descriptors.extend(wires.vhosts.drain(..).zip(VHOST_DESCRIPTOR..));
    if let Boots::Disk(image) = &machine.boots {
        descriptors.push((image.descriptor()?, IMAGE_DESCRIPTOR));
    }
    let jailed = jail.close(room)?;
    let mut process = room.spawn(Program {
        argv: machine.command_line(),
        environment: Some(lab::path_alone()),
        stdio: [None, Some(output_of_qemu.into()), Some(errors_of_qemu.into())],
        descriptors,
        group: group.map(Path::to_owned),
        mount_namespace: Some(jailed.mount_namespace),
        confinement: Some(jailed.confinement),
        network_namespace: wires.network.as_ref().map(RoomNetwork::namespace).transpose()?,
        ..Program::default()
    })?;
    let greeted = Qmp::open(qmp).and_then(|mut qmp| {
        let cpus = qmp.cpus()?;
        vcpu::pin(process.pid(), &cpus, &machine.pinned)?;
        machine.memory.inflate(&mut qmp)?;
        Ok((cpus, qmp))
    });
    let (cpus, qmp) = match greeted {
        Ok(greeted) => greeted,
        Err(fault) => {
            let ended = process.wait(LAST_WORDS)?;
            // The thread that reads the console may not have come to its end yet.
            if ended.is_some() {
                console.settle(LAST_WORDS);
            }
            let how = ended.map_or(String::new(), |status| format!(" ({status})"));
            let ended = format!("qemu: {}{how}", fault.message);
            return Err(Fault::machine(ended).saying(&console.quote()));
        }
    };
    let link = Link::over_socket("qemu", agent, console)?;
    Ok(Booted { process, qmp, cpus, link })
}
