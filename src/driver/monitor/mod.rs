//! Monitors that are told by an HTTP API what to run: Cloud Hypervisor and Firecracker.
//!
//! surtax (host) ── monitor ── vCPU threads ── guest kernel ── agent (PID 1), which calls by vsock
//!               └─ virtiofsd ─────────────────── root file system, where the monitor shares files
//!
//! Each is a table of what it is asked, in its own file; what is here is the same for all. Their
//! guests have the kernel, the agent and the files of `qemu`'s.
//!
//! - **Needs** the monitor, in `PATH` or by `binary=`, of a version whose API was read; root; a
//!   `/dev/kvm` that boots the reference guest of `qemu`, and so what `qemu` needs.
//! - **Leaves out** network and disks unless asked for, and jailers; KVM is all that these monitors
//!   have, so nothing is translated.
//! - **Payers** vCPU threads, by their names: guest kernel, with the workload in it; the monitor's
//!   other threads and virtiofsd: hypervisor.
//! - **Checked against** the published APIs, to which simulators hold it in tests; Cloud Hypervisor
//!   53.0 and Firecracker 1.16.1 under the KVM of an emulated machine. Not yet run on hardware.

mod cloud_hypervisor;
mod firecracker;
pub(super) mod http;
mod running;
#[cfg(test)]
mod tests;
pub(super) mod vsock;

pub use cloud_hypervisor::CLOUD_HYPERVISOR;
pub use firecracker::FIRECRACKER;

use super::machine_group::MachineGroup;
use super::qemu::kvm_proof;
use crate::agent::{Call, ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::guest::channel::Channel;
use crate::guest::kernel;
use crate::lab::{self, Limits, Process, Program, Room, Shaped, tool_version};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Limit, OptionSpec, Root, Site, Started, TOOL, ToolFile,
    Unavailable, Usable, option,
};
use crate::vm::board::Board;
use crate::vm::disk::{CACHE, DISK_SIZE, DiskDefaults, Made};
use crate::vm::equipped_guest::{EquippedGuest, GuestTraits};
use crate::vm::nic;
use crate::vm::request::{VmDefaults, require_cpus};
use http::Api;
use running::RunningMonitor;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// Time that a monitor may take to listen at its socket.
const LISTEN_DEADLINE: Duration = Duration::from_secs(10);

/// Time that the monitor's end is waited for when the agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

const KERNEL: OptionSpec = option("kernel", &[]).path().help(
    "a kernel's file that is entered by PVH, its modules in ../lib/modules (default: as `qemu`)",
);

/// A monitor: what it is called, and what it is asked.
pub struct Monitor {
    descriptor: &'static Descriptor,
    /// The program, as it is found in `PATH`.
    program: &'static str,
    /// Arguments before the socket's path on the command line, and those behind it.
    arguments: (&'static str, &'static [&'static str]),
    /// The versions whose API was read: major numbers, or with `1.` before them the minor ones.
    versions: Versions,
    /// Advice on where to get the program.
    remedy: &'static str,
    /// The board of `qemu`'s whose virtio devices are on the same bus.
    board: Board,
    /// Prefix of the names of its vCPU threads, before their number.
    vcpu: &'static str,
    /// The most virtual CPUs that it takes.
    cpus_max: u32,
    /// True where virtiofsd serves its guests; else what they have is in their initramfs.
    shares_files: bool,
    /// Asks for the machine and starts it; the order of the requests is the monitor's.
    boot: fn(&mut Api, &Machine) -> Result<(), Fault>,
    /// Default for how a disk is cached, and for how it is read and written.
    disk: (&'static str, &'static str),
    /// Holds what the monitor says that it runs against what was asked for; returns that and its
    /// version.
    prove: Prove,
    /// Tells it to end, where it can be told.
    end: fn(&mut Api),
}

/// Function that reads what a monitor says of its machine, and its version.
type Prove = fn(&mut Api, &Machine) -> Result<(Vec<Fact>, String), Fault>;

/// The versions of a monitor that are taken.
struct Versions {
    /// The first number, where only the second counts.
    major: Option<u64>,
    range: RangeInclusive<u64>,
}

/// A machine, as a monitor is told of it.
struct Machine {
    cpus: u32,
    memory_mib: u64,
    kernel: PathBuf,
    initramfs: PathBuf,
    /// The socket of each virtiofsd, with its tag.
    files: Vec<(&'static str, PathBuf)>,
    /// Path at which the monitor makes the socket of its vsock device.
    vsock: PathBuf,
    /// True where the machine has the tap of the network in which its monitor runs.
    has_tap: bool,
    /// The disk of the scratch directory.
    disk: Option<Disk>,
}

/// A disk, as a monitor is told of it.
struct Disk {
    file: PathBuf,
    /// Cache mode, and the way to read and write, in the words of the options; empty where the
    /// monitor has no choice.
    cache: String,
    aio: String,
}

/// Option that chooses the network of these monitors.
const NET: OptionSpec = option("net", &["none", "tap"])
    .help("the network: `tap` is a bridge on this level (default: none; not yet run on hardware)");

/// A machine that was switched on.
struct Booted {
    process: Process,
    api: Api,
    vcpus: Vec<u32>,
    link: Link,
    /// The agent's call, to hang up.
    call: UnixStream,
}

impl Layer for Monitor {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn refuse(&self, spec: &LayerSpec, limits: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        let (kind, most) = (&spec.kind, self.cpus_max);
        if !self.shares_files && spec.root()? != Root::Packed {
            return Err(Fault::user(format!("{kind}: it cannot share files with its guest"))
                .hint(format!("write `{kind}:root=packed`")));
        }
        let why = format!("its machines have at most {most} CPUs");
        require_cpus(spec, limits, self.defaults(), (most, &why))
    }

    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        kernel::files(spec, self.descriptor)
    }

    /// Changes nothing but our own cache, as `qemu`'s check, whose reference guest proves KVM.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let tool = ToolFile::find(spec, self.program, self.remedy)?;
        let said = self.version(&tool)?;
        let borrowed = kvm_proof::check(spec, site)?;
        let key = format!("{}_version", self.program.replace('-', "_"));
        let said = Fact::new(key, said, format!("{} --version", self.program));
        let mut facts = tool.facts(TOOL)?;
        facts.push(said);
        facts.extend(borrowed.facts.into_iter().filter(|fact| fact.key != "accelerator"));
        Ok(Usable { facts })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let kind = self.descriptor.kind;
        let tool = ToolFile::find(spec, self.program, self.remedy).map_err(Unavailable::fault)?;
        let said = self.version(&tool)?;
        // A device that opens proves nothing: these monitors would hang without a word.
        kvm_proof::check(spec, site).map_err(|it| it.fault().during(kind))?;
        let group = MachineGroup::make(site, room)?;
        let channel = Channel::Vsock(vsock::PORT);
        let traits = GuestTraits::under_kvm(self.defaults(), self.cpus_max, channel);
        let guest = EquippedGuest::prepare(spec, traits, site, room, group.path())?;
        let network = guest.network(site, room)?;
        let machine = Machine {
            cpus: guest.cpus,
            memory_mib: guest.memory_mib,
            kernel: guest.kernel().to_owned(),
            initramfs: guest.initramfs().to_owned(),
            files: guest.files().to_vec(),
            vsock: room.directory().join("vsock"),
            has_tap: network.is_some(),
            disk: guest.disk.as_ref().map(disk),
        };
        let place = (group.path(), network.as_ref().map(|(network, _)| network));
        let booted = self
            .boot(&tool.path, &machine, room, place, site.start_deadline)
            .map_err(|fault| Fault { message: fault.message + &guest.words(), ..fault })?;
        let wires =
            network.map(|(network, shape)| MachineNetwork::lay(network, shape)).transpose()?;
        let server = if !guest.files().is_empty() { " and virtiofsd" } else { "" };
        let who = format!("vCPUs, the monitor's other threads{server}");
        let mut facts = group.prove(booted.process.pid(), &who, site)?;
        facts.extend(tool.facts(TOOL)?);
        let Booted { process, api, vcpus, link, call } = booted;
        let running = RunningMonitor {
            kind,
            prove: self.prove,
            end: self.end,
            call,
            process,
            api,
            vcpus,
            machine,
            guest,
            wires,
            said,
            facts,
        };
        Ok(Started::new(link, running))
    }
}

/// The network of a machine.
struct MachineNetwork {
    network: lab::RoomNetwork,
    shaped: Option<Shaped>,
}

impl MachineNetwork {
    fn lay(network: lab::RoomNetwork, shape: Option<lab::Shape>) -> Result<Self, Fault> {
        let shape = shape.map(|shape| Shaped::make(&network, lab::network::TAP, shape));
        let shaped = shape.transpose()?;
        Ok(Self { network, shaped })
    }
}

/// The disk of the scratch directory, as the monitor is told of it.
fn disk(made: &Made) -> Disk {
    let (cache, aio) = made.disk.mode();
    Disk { file: made.file.clone(), cache: cache.to_owned(), aio: aio.to_owned() }
}

impl Monitor {
    /// Returns its values where a spec names nothing.
    fn defaults(&self) -> VmDefaults {
        let (cache, aio) = self.disk;
        let disk = DiskDefaults { cache, aio, ..DiskDefaults::QEMU };
        VmDefaults { disk, ..VmDefaults::of(self.board) }
    }

    /// Asks the program for its version. One whose API was not read is an error.
    fn version(&self, tool: &ToolFile) -> Result<String, Fault> {
        let said = tool_version::of(&tool.path, &[]).map_err(|it| it.hint(&tool.remedy))?;
        if self.versions.hold(&said) {
            return Ok(said);
        }
        let (shown, known) = (said.escape_debug(), self.versions.names());
        Err(Fault::machine(format!(
            "`{} --version` says `{shown}`, and the API is known of {known} only",
            self.program
        ))
        .hint(&tool.remedy))
    }

    /// Starts the monitor, has it start the machine, and waits for the agent's call.
    fn boot(
        &self,
        program: &Path,
        machine: &Machine,
        room: &Room,
        (group, network): (Option<&Path>, Option<&lab::RoomNetwork>),
        deadline: Duration,
    ) -> Result<Booted, Fault> {
        let kind = self.descriptor.kind;
        let console = ConsoleTail::new();
        let (output, output_of_monitor) = lab::pipe()?;
        let errors_of_monitor = output_of_monitor.try_clone().doing("share a monitor's pipe")?;
        console.drain(output);
        let call = Call::at(&vsock::place(&machine.vsock))?;
        let socket = room.directory().join("api");
        let mut process = room.spawn(Program {
            argv: self.command_line(program, &socket),
            environment: Some(lab::path_alone()),
            // The guest's serial port is its standard output.
            stdio: [None, Some(output_of_monitor), Some(errors_of_monitor)],
            group: group.map(Path::to_owned),
            network_namespace: network.map(lab::RoomNetwork::namespace).transpose()?,
            ..Program::default()
        })?;
        let mut api = Api::connect(kind, &socket, &mut process, &console, LISTEN_DEADLINE)?;
        (self.boot)(&mut api, machine).map_err(|fault| {
            console.settle(LAST_WORDS);
            fault.saying(&console.quote())
        })?;
        let vcpus = vcpus(kind, process.pid(), self.vcpu, machine.cpus)?;
        let (link, call) = vsock::take(&call, kind, &mut process, &console, deadline)?;
        Ok(Booted { process, api, vcpus, link, call })
    }

    fn command_line(&self, program: &Path, socket: &Path) -> Vec<String> {
        let (before, behind) = self.arguments;
        let words =
            [program.display().to_string(), before.to_owned(), socket.display().to_string()];
        words.into_iter().chain(behind.iter().map(|&word| word.to_owned())).collect()
    }
}

impl Versions {
    fn hold(&self, said: &str) -> bool {
        let Some((first, second)) = numbers(said) else { return false };
        match self.major {
            Some(major) => first == major && self.range.contains(&second),
            None => self.range.contains(&first),
        }
    }

    fn names(&self) -> String {
        let before = self.major.map_or(String::new(), |major| format!("{major}."));
        format!("{before}{} to {before}{}", self.range.start(), self.range.end())
    }
}

/// The first two numbers of a version, wherever it stands: `Firecracker v1.12.0`, `53.0.0`.
fn numbers(said: &str) -> Option<(u64, u64)> {
    let words = said.split_ascii_whitespace().map(|word| word.strip_prefix('v').unwrap_or(word));
    words
        .filter_map(|word| {
            let mut parts = word.split(|c: char| !c.is_ascii_digit());
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
        .next()
}

/// The virtual CPUs of a process, by its threads whose names begin so, before a number.
///
/// # Errors
/// The machine's: the process is gone, or has not `count` of them.
pub(super) fn vcpus(kind: &str, pid: u32, begins: &str, count: u32) -> Result<Vec<u32>, Fault> {
    let numbered =
        |(name, tid): (String, u32)| Some((name.strip_prefix(begins)?.parse().ok()?, tid));
    let mut found: Vec<(u32, u32)> = threads(pid)?.into_iter().filter_map(numbered).collect();
    if found.len() != usize::try_from(count).unwrap_or(usize::MAX) {
        return Err(Fault::machine(format!(
            "{kind}: {count} virtual CPUs were asked for, and {} of its threads are called \
             `{begins}…`",
            found.len()
        )));
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, tid)| tid).collect())
}

/// Lists the names of a process's threads.
///
/// # Errors
/// The machine's: the process is gone.
pub(super) fn names_of_threads(pid: u32) -> Result<Vec<String>, Fault> {
    Ok(threads(pid)?.into_iter().map(|(name, _)| name).collect())
}

fn threads(pid: u32) -> Result<Vec<(String, u32)>, Fault> {
    let directory = format!("/proc/{pid}/task");
    lab::tasks(&directory).doing(format_args!("read `{directory}`"))
}

/// Requires that the monitor says what was asked for.
fn agree(kind: &str, what: &str, asked: &str, told: &str) -> Result<(), Fault> {
    if asked == told {
        return Ok(());
    }
    let told = told.escape_debug();
    Err(Fault::machine(format!("{kind}: {what} was to be `{asked}`, and the API says `{told}`")))
}

/// A field of an answer as text; empty where it is not there.
fn text(answer: &serde_json::Value, pointer: &str) -> String {
    match answer.pointer(pointer) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
