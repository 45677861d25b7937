//! A monitor's machine that runs: who pays for it, what proves it, and how it ends.

use super::http::Api;
use super::{LAST_WORDS, Machine, MachineNetwork, Prove, agree, numbers};
use crate::fault::Fault;
use crate::lab::{Process, network};
use crate::layer::{Payer, Running, WorkloadNetwork};
use crate::vm::equipped_guest::EquippedGuest;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// Time that the monitor may take to end after it, or its guest, was told to.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A machine that runs.
pub(super) struct RunningMonitor {
    pub(super) kind: &'static str,
    pub(super) prove: Prove,
    pub(super) end: fn(&mut Api),
    pub(super) call: UnixStream,
    pub(super) process: Process,
    pub(super) api: Api,
    pub(super) vcpus: Vec<u32>,
    pub(super) machine: Machine,
    pub(super) guest: EquippedGuest,
    pub(super) wires: Option<MachineNetwork>,
    /// Version that the program told.
    pub(super) said: String,
    pub(super) facts: Vec<Fact>,
}

impl Running for RunningMonitor {
    fn payers(&self) -> Vec<Payer> {
        let (pid, vcpus) = (self.process.pid(), self.vcpus.clone());
        let mut payers = Payer::of_machine(self.kind, pid, vcpus).to_vec();
        payers.extend(self.guest.payers_of_files());
        payers
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        let wires = self.wires.as_ref()?;
        let (outside, workload) = (network::OUTSIDE, Some(network::WORKLOAD));
        Some(WorkloadNetwork::apart(wires.network.path(), outside, workload))
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let (mut facts, version) = (self.prove)(&mut self.api, &self.machine)?;
        if numbers(&version) != numbers(&self.said) {
            agree(self.kind, "its version", &self.said, &version)?;
        }
        facts.extend(self.guest.prove(inside)?);
        let network = if self.wires.is_some() { "tap" } else { "none" };
        facts.push(Fact::new("network", network, "the API"));
        if let Some(MachineNetwork { network, shaped: Some(shaped) }) = &self.wires {
            facts.extend(shaped.prove(network)?);
        }
        facts.append(&mut self.facts);
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let signal = self.process.wait(LAST_WORDS).ok().flatten()?.signal()?;
        Some(format!("`{}` itself was ended by signal {signal}", self.kind))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        (self.end)(&mut self.api);
        // An agent that nobody listens to restarts its machine; where the other end is gone
        // already, so is the machine.
        let _ = self.call.shutdown(Shutdown::Both);
        let ended = self.process.wait(STOP_DEADLINE)?;
        if ended.is_none() {
            self.process.kill()?;
        }
        self.guest.stop()?;
        match ended {
            Some(_) => Ok(()),
            None => {
                let kind = self.kind;
                Err(Fault::machine(format!("{kind}: it was told to end, did not, and was killed")))
            }
        }
    }
}
