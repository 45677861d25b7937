//! A container of Docker's that runs: who pays for it, how it is reached, and the proof of what it
//! is.

use super::daemon::Daemon;
use super::engine::Engine;
use super::{behind, kata, network};
use crate::container::engine_runtime::{self, Kernel};
use crate::container::first_process::FirstProcess;
use crate::container::{rootless, storage};
use crate::fault::Fault;
use crate::lab::Limits;
use crate::layer::{LayerSpec, Payer, Running, Source, WorkloadNetwork, value_of};
use bollard::models::ContainerInspectResponse;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::{Fact, Role};

/// Time that a container may take to end after its agent was asked to leave.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// A container that runs.
pub(super) struct RunningDocker {
    /// True if its daemon serves all trials of a run: further in, it is a trial's own.
    pub(super) is_daemon_shared: bool,
    pub(super) engine: Engine,
    pub(super) daemon: Daemon,
    pub(super) name: String,
    pub(super) first: FirstProcess,
    pub(super) group: PathBuf,
    pub(super) spec: LayerSpec,
    pub(super) limits: Limits,
    pub(super) network: network::ContainerNetwork,
    pub(super) inspected: ContainerInspectResponse,
    pub(super) facts: Vec<Fact>,
}

impl Running for RunningDocker {
    fn payers(&self) -> Vec<Payer> {
        let is_machine = self.kernel() == Kernel::Machine;
        let machine = is_machine.then(|| self.machine().ok()).flatten();
        let mut payers = match &machine {
            Some(machine) => machine.payers(Path::new(kata::PROCESSES)),
            None => vec![payer("container", Source::Group(self.group.clone()), true)],
        };
        match &self.daemon.private {
            Some(service) => {
                let source = Source::Group(service.group.clone());
                let names = match self.daemon.is_rootless() {
                    true => "rootlesskit, slirp4netns, dockerd, containerd, shim",
                    false => "dockerd, containerd, shim",
                };
                let is_shared = self.is_daemon_shared;
                payers.push(Payer { is_shared, ..payer(names, source, false) });
            }
            None => {
                // That of a machine is among its own.
                // One outside of our namespace of processes has no number here.
                let parent = || self.first.parent().ok().filter(|pid| *pid > 0);
                let shim = (!is_machine).then(|| ("shim".to_owned(), parent()));
                let process = |(name, pid): (String, Option<u32>)| match pid {
                    Some(pid) => payer(&name, Source::Process(pid), false),
                    None => Payer::untold(name, Role::Engine),
                };
                let daemons = behind::processes(&self.daemon.socket).into_iter().map(process);
                let is_shared = self.is_daemon_shared;
                payers.extend(daemons.map(|daemon| Payer { is_shared, ..daemon }));
                payers.extend(shim.map(process));
            }
        }
        payers
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        match self.network.word.as_str() {
            // gVisor has a loopback interface of its own there.
            "host" if self.kernel() == Kernel::Gvisor => None,
            "host" => self.first.shares("net").then(WorkloadNetwork::of_level),
            "none" => None,
            _ => {
                let (outside, workload) = self.network.addresses(&self.inspected)?;
                let namespace = self.daemon.network_namespace();
                let published = self.network.port;
                let apart = WorkloadNetwork::apart(namespace, outside, workload);
                Some(WorkloadNetwork { published, ..apart })
            }
        }
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = self.facts.clone();
        facts.extend(self.network.prove(&self.engine, &self.inspected, inside)?);
        if self.kernel() == Kernel::Machine {
            facts.extend(self.machine()?.prove(pid(&self.inspected)?, inside)?);
            return Ok(facts);
        }
        facts.push(self.first.group_is(&self.group)?);
        facts.extend(self.first.limits(&self.group, &self.limits)?);
        let privileges = self.first.privileges()?;
        if self.kernel() == Kernel::Gvisor {
            let runtime = value_of(&facts, "runtime")?;
            facts.push(engine_runtime::prove_gvisor("docker", runtime, inside)?);
        } else {
            let is_rootless = self.daemon.is_rootless();
            let shared: &[&str] = match self.network.is_shared() {
                true => &["net", "user"],
                false if is_rootless => &[],
                false => &["user"],
            };
            if let Some(pid) = self.daemon.rootless_pid()? {
                let daemon = FirstProcess::of(pid, self.first.hierarchies());
                facts.extend(rootless::prove(&daemon, &self.first)?);
            }
            facts.push(self.first.is_the_agent(inside)?);
            facts.extend(storage::prove(&self.spec, inside)?);
            facts.push(self.first.namespaces(shared)?);
            engine_runtime::prove_filter(&self.spec, &privileges)?;
        }
        facts.extend(privileges);
        Ok(facts)
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        let ended = self.engine.ends(&self.name, STOP_DEADLINE);
        self.engine.remove(&self.name)?;
        if ended? {
            return Ok(());
        }
        let kind = &self.spec.kind;
        Err(Fault::machine(format!("{kind}: the container did not end and was removed by force")))
    }
}

impl RunningDocker {
    /// Whose kernel is inside, by the name that the daemon says its runtime has.
    fn kernel(&self) -> Kernel {
        Kernel::behind(value_of(&self.facts, "runtime").unwrap_or_default())
    }

    /// The machine in which it lives.
    fn machine(&self) -> Result<kata::Machine, Fault> {
        let id = self.inspected.id.as_deref().unwrap_or_default();
        kata::Machine::find(Path::new(kata::PROCESSES), id)
    }
}

/// The first process of a container.
///
/// # Errors
/// The machine's: it has ended.
pub(super) fn pid(inspected: &ContainerInspectResponse) -> Result<u32, Fault> {
    let state = inspected.state.as_ref();
    let pid = state.and_then(|state| state.pid).and_then(|pid| u32::try_from(pid).ok());
    pid.filter(|pid| *pid > 0).ok_or_else(|| {
        let error = state.and_then(|state| state.error.clone()).unwrap_or_default();
        Fault::machine("docker: the container ended as soon as it was started: ").saying(&error)
    })
}

fn payer(name: &str, source: Source, carries_workload: bool) -> Payer {
    Payer::new(name, Role::Engine, source).carrying(carries_workload)
}
