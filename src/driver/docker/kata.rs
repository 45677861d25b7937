//! Kata Containers behind the daemon: a container that lives in a virtual machine of its own.
//!
//! surtax (host) ── dockerd ── containerd ── shim ── hypervisor ── guest kernel ── kata-agent ── agent ── command
//!
//! What the daemon takes for the container's process is the hypervisor, or the shim where that one
//! is the hypervisor as well; the agent it is never. So those who work for the container are found
//! by its id, which is on each of their command lines. That there is a machine is proved by the
//! kernel's handle on it, which one of them has open, and by the kernel inside, which is not the
//! one here.
//!
//! Not yet run on hardware: tested against trees of processes as Kata 3 leaves them.
//!
//! Source: Kata Containers 3, `docs/design/architecture`, `docs/design/host-cgroups.md`, and
//! `src/runtime/pkg/containerd-shim-v2/service.go` (what it says of a process id).

use crate::fault::{Doing, Fault};
use crate::lab;
use crate::layer::{Payer, Source, value_of};
use std::fs;
use std::path::Path;
use surtax_instrument::wire::{Fact, Role};

/// Directory of processes.
pub const PROCESSES: &str = "/proc";

/// The beginning of the shim's name.
const SHIM: &str = "containerd-shim-kata";

/// Beginnings of the names of programs that run a machine.
const HYPERVISORS: [&str; 5] = ["qemu", "cloud-hypervisor", "firecracker", "stratovirt", "acrn-dm"];

/// Beginnings of the names of programs that serve a machine its files.
const FILE_SERVERS: [&str; 2] = ["virtiofsd", "nydusd"];

/// Number of an id's characters that are on every command line: Firecracker takes 32 of 64.
const ID_LENGTH: usize = 24;

/// Kernel's name for the handle on a machine.
const HANDLE: &str = "anon_inode:kvm-vm";

/// Task that a process does for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Shim,
    Hypervisor,
    Files,
}

/// Somebody who works for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Helper {
    pid: u32,
    program: String,
    task: Task,
}

/// Processes that work for a container, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    helpers: Vec<Helper>,
    /// The one that has the machine, and whether there is a kernel's handle on it.
    hypervisor: Helper,
    is_kvm: bool,
}

impl Machine {
    /// Looks for it among the processes of this level.
    ///
    /// # Errors
    /// The machine's: nobody works for such a container, or nobody has a machine.
    pub fn find(processes: &Path, id: &str) -> Result<Self, Fault> {
        let id = id.get(..ID_LENGTH).ok_or_else(|| {
            Fault::machine(format!(
                "docker: `{id}` is too short to find a container's processes by"
            ))
        })?;
        let entries = fs::read_dir(processes)
            .doing(format_args!("list the processes in `{}`", processes.display()))?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut helpers: Vec<Helper> =
            pids.filter_map(|pid: u32| helper(processes, pid, id)).collect();
        helpers.sort_by_key(|helper| helper.pid);
        let has_machine = |helper: &&Helper| has_handle(processes, helper.pid);
        let holder = helpers.iter().find(has_machine);
        let is_kvm = holder.is_some();
        let named = || helpers.iter().find(|helper| helper.task == Task::Hypervisor);
        let hypervisor = holder.or_else(named).cloned().ok_or_else(|| {
            let seen: Vec<&str> = helpers.iter().map(|helper| helper.program.as_str()).collect();
            let seen = if seen.is_empty() { String::from("nobody") } else { seen.join(", ") };
            Fault::machine(format!(
                "docker: nobody runs a machine for the container `{id}…`; {seen} works for it"
            ))
        })?;
        Ok(Self { helpers, hypervisor, is_kvm })
    }

    /// Returns the payers of the machine, right now.
    pub fn payers(&self, processes: &Path) -> Vec<Payer> {
        let Helper { pid, program, .. } = &self.hypervisor;
        let vcpus = cpu_threads(processes, *pid);
        let mut payers = Payer::of_machine(program, *pid, vcpus).to_vec();
        for helper in self.helpers.iter().filter(|helper| **helper != self.hypervisor) {
            let role = if helper.task == Task::Shim { Role::Engine } else { Role::Hypervisor };
            payers.push(Payer::new(&helper.program, role, Source::Process(helper.pid)));
        }
        payers
    }

    /// That the process of which the daemon speaks is one of these, that they have a machine, and
    /// that the kernel inside is not this one.
    ///
    /// # Errors
    /// The machine's: one of that is not so.
    pub fn prove(&self, told: u32, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        if !self.helpers.iter().any(|helper| helper.pid == told) {
            return Err(Fault::machine(format!(
                "docker: the daemon's process {told} is none of those that work for the machine"
            )));
        }
        let Helper { pid, program, .. } = &self.hypervisor;
        if !self.is_kvm {
            return Err(Fault::machine(format!(
                "docker: `{program}` ({pid}) has no `{HANDLE}` open: nothing shows that it runs a \
                 machine"
            ))
            .hint("use a hypervisor of Kata's that runs by KVM"));
        }
        let system = rustix::system::uname();
        let ours = [system.release(), system.version()].map(std::ffi::CStr::to_string_lossy);
        let [release, version] =
            [value_of(inside, "kernel_release")?, value_of(inside, "kernel_version")?];
        if [release, version] == [&*ours[0], &*ours[1]] {
            return Err(Fault::machine(format!(
                "docker: the container was to be in a machine, and the kernel inside is this one, \
                 `{release}`"
            )));
        }
        let vendor = value_of(inside, "hypervisor_vendor")?;
        if vendor == "none" {
            return Err(Fault::machine(
                "docker: the container was to be in a machine, and the processor inside admits to \
                 none",
            ));
        }
        let source = "/proc/PID/cmdline, by the container's id";
        let shim = self.helpers.iter().find(|helper| helper.task == Task::Shim);
        let mut facts = vec![
            Fact::new("hypervisor", program, source),
            Fact::new("accelerator", "kvm", "/proc/PID/fd of the hypervisor"),
            Fact::new("kernel_release", release, "uname(2) inside"),
            Fact::new("container_pid", told.to_string(), "GET /containers/NAME/json"),
        ];
        facts.extend(shim.map(|shim| Fact::new("shim", &shim.program, source)));
        Ok(facts)
    }
}

/// Somebody who works for the container of this id, by name and command line: everybody can choose
/// these, and only root's are believed.
fn helper(processes: &Path, pid: u32, id: &str) -> Option<Helper> {
    let process = processes.join(pid.to_string());
    let line = fs::read(process.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split('\0');
    let program = Path::new(words.next()?).file_name()?.to_string_lossy().into_owned();
    let begins = |names: &[&str]| names.iter().any(|name| program.starts_with(name));
    let task = if begins(&[SHIM]) {
        Task::Shim
    } else if begins(&HYPERVISORS) {
        Task::Hypervisor
    } else if begins(&FILE_SERVERS) {
        Task::Files
    } else {
        return None;
    };
    let is_of_it = words.any(|word| word.contains(id)) && lab::user(&process) == Some(0);
    is_of_it.then_some(Helper { pid, program, task })
}

/// Tells whether a process has the kernel's handle on a machine open.
fn has_handle(processes: &Path, pid: u32) -> bool {
    let open = fs::read_dir(processes.join(pid.to_string()).join("fd")).into_iter().flatten();
    let mut links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link == Path::new(HANDLE))
}

/// The threads of a hypervisor that are virtual CPUs, by the names that it gives them.
fn cpu_threads(processes: &Path, pid: u32) -> Vec<u32> {
    let threads = lab::tasks(processes.join(pid.to_string()).join("task")).unwrap_or_default();
    let cpus = threads.into_iter().filter(|(name, _)| is_cpu(name));
    let mut tids: Vec<u32> = cpus.map(|(_, tid)| tid).collect();
    tids.sort_unstable();
    tids
}

/// QEMU's are `CPU 0/KVM`, Stratovirt's `CPU0/KVM`, Cloud Hypervisor's and Dragonball's `vcpu0`,
/// Firecracker's `fc_vcpu 0`.
fn is_cpu(name: &str) -> bool {
    name.contains("vcpu") || (name.starts_with("CPU") && name.ends_with("/KVM"))
}

#[cfg(test)]
mod tests;
