//! A switch in user space between a machine and a tap, over vhost-user: DPDK's `testpmd`.
//!
//! It polls both ends without rest, so that a whole CPU is its price, paid by the hypervisor, and
//! no kernel of this level moves frames between QEMU and the tap. All that it writes is in the
//! room.
//!
//! Source: DPDK `doc/guides/testpmd_app_ug`, `doc/guides/nics/vhost.rst`,
//! `doc/guides/nics/tap.rst`.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Process, Program, Room, RoomNetwork, network};
use crate::layer::{Site, Unavailable, require_program};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// The program.
pub(super) const PROGRAM: &str = "dpdk-testpmd";

/// Memory for its packets: it holds so many, of at most 2 KiB each.
const MEMORY_MIB: u32 = 64;
const PACKETS: u32 = 4096;

/// Pause between two looks for the switch's socket and its tap.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Time that the switch may take to end after it was killed.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// A switch that runs. It ends with its standard input, too.
pub(super) struct Switch {
    /// Itself.
    pub(super) process: Process,
    /// Path of the socket where QEMU finds the switch.
    pub(super) socket: PathBuf,
    /// For the evidence.
    pub(super) command_line: String,
    _input: OwnedFd,
}

/// That the program is here.
///
/// # Errors
/// The machine's: it is not.
pub(super) fn require() -> Result<(), Fault> {
    let found = require_program(PROGRAM, "apt-get install dpdk-dev, or use `net=tap`");
    found.map(drop).map_err(Unavailable::fault)
}

impl Switch {
    /// Starts it in a network namespace, where its tap becomes a port of the bridge.
    ///
    /// # Errors
    /// It is not there, or ends or says nothing within the layer's deadline; with its last words.
    pub(super) fn start(
        network: &RoomNetwork,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        require()?;
        let socket = room.directory().join("network.sock");
        let argv = command_line(&socket, &cpus(site)?);
        let words = ConsoleTail::new();
        let (output, said) = std::io::pipe().doing("make a pipe for a switch's words")?;
        let errors = said.try_clone().doing("share the pipe for a switch's words")?;
        words.drain(output.into());
        let (input, kept) = lab::pipe()?;
        // Else it keeps its books in `/run/dpdk`, and leaves them there.
        let books = room.directory().display().to_string();
        let environment = lab::path_and(vec![(String::from("RUNTIME_DIRECTORY"), books)]);
        let process = room.spawn(Program {
            argv: argv.clone(),
            environment: Some(environment),
            stdio: [Some(input), Some(said.into()), Some(errors.into())],
            group: group.map(Path::to_owned),
            network_namespace: Some(network.namespace()?),
            ..Program::default()
        })?;
        let command_line = argv.join(" ");
        let mut switch = Self { process, socket, command_line, _input: kept };
        switch.wait_until_ready(network, site.start_deadline).map_err(|fault| {
            words.settle(LOOK_AGAIN);
            fault.saying(&words.quote())
        })?;
        Ok(switch)
    }

    fn wait_until_ready(&mut self, network: &RoomNetwork, deadline: Duration) -> Result<(), Fault> {
        let began = monotonic_raw();
        while !(self.socket.exists() && network.plug_in_tap()?) {
            let why = match self.process.wait(LOOK_AGAIN)? {
                Some(status) => format!("ended with {status}"),
                None if Duration::from(monotonic_raw().since(began)) < deadline => continue,
                None => format!("was not ready within {:.1} s", deadline.as_secs_f64()),
            };
            return Err(Fault::machine(format!("the switch `{PROGRAM}` {why}")));
        }
        Ok(())
    }

    /// Ends it. It has nothing to lose.
    ///
    /// # Errors
    /// It would not end.
    pub(super) fn stop(mut self) -> Result<(), Fault> {
        self.process.kill()?;
        match self.process.wait(STOP_DEADLINE)? {
            Some(_) => Ok(()),
            None => Err(Fault::machine("the switch did not end when it was killed")),
        }
    }
}

/// The CPUs on which it may poll: those of the layer, or all on which we may run.
fn cpus(site: &Site<'_>) -> Result<Vec<u32>, Fault> {
    if let Some(cpus) = &site.limits.cpuset {
        return Ok(cpus.clone());
    }
    let set = rustix::thread::sched_getaffinity(None).doing("ask on which CPUs we may run")?;
    let numbers = (0..1024u32).filter(|cpu| usize::try_from(*cpu).is_ok_and(|cpu| set.is_set(cpu)));
    Ok(numbers.collect())
}

/// One thread polls and one waits, on any of these CPUs.
fn command_line(socket: &Path, cpus: &[u32]) -> Vec<String> {
    let cpus = lab::list(cpus);
    let memory = MEMORY_MIB.to_string();
    let (vhost, tap) = (
        format!("net_vhost0,iface={},queues=1", socket.display()),
        format!("net_tap0,iface={}", network::TAP),
    );
    let lcores = format!("0@({cpus}),1@({cpus})");
    let packets = format!("--total-num-mbufs={PACKETS}");
    let words = [
        PROGRAM, "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--file-prefix=surtax",
        "-m", &memory, "--lcores", &lcores, "--vdev", &vhost, "--vdev", &tap, "--", &packets,
        "--forward-mode=io", "--nb-cores=1", "--auto-start",
    ];
    words.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_joins_the_machine_s_socket_and_the_tap_on_the_layers_cpus() {
        assert_eq!(
            command_line(Path::new("/room/network.sock"), &[0, 3]).join(" "),
            "dpdk-testpmd --no-huge --no-pci --no-telemetry --no-shconf --file-prefix=surtax -m 64 \
             --lcores 0@(0,3),1@(0,3) --vdev net_vhost0,iface=/room/network.sock,queues=1 \
             --vdev net_tap0,iface=tap0 -- --total-num-mbufs=4096 --forward-mode=io --nb-cores=1 \
             --auto-start"
        );
    }
}
