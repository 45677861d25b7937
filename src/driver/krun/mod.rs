//! libkrun: a monitor that is a library, as behind crun's handler `krun` and krunvm.
//!
//! surtax (host) ── surtax, which has loaded libkrun ── vCPU threads ── guest kernel ── agent (PID 1)
//!                                                   └─ virtiofs by a thread: root file system
//!
//! Its guest's kernel is a library too, libkrunfw, and its first root a directory that it serves
//! itself. Ours holds the agent, which puts the same root together as in `qemu`'s guests.
//!
//! - **Needs** `libkrun.so.1`, 1.19 or later, with `libkrunfw.so.5`; root; a `/dev/kvm` that boots
//!   the reference guest of `qemu`, and so what `qemu` needs: libkrun itself does not say when KVM
//!   hangs.
//! - **Leaves out** its network by lent sockets (TSI), disks, graphics and sound.
//! - **Payers** vCPU threads, by their names: guest kernel, with the workload in it; the other
//!   threads of that process, among them its virtiofs: hypervisor.
//! - **Checked against** libkrun 1.19.7 with the kernels of libkrunfw 5.5.0 (6.12.91) and of
//!   `setup/krun.sh`, under the KVM of an emulated machine. Not yet run on hardware.

mod found;
pub mod library;

use super::machine_group::MachineGroup;
use super::monitor::{names_of_threads, vcpus, vsock};
use super::qemu::kvm_proof;
use crate::agent::{Call, ConsoleTail, Link};
use crate::container::first_process::FirstProcess;
use crate::fault::Fault;
use crate::guest::channel::Channel;
use crate::guest::share::Protocol;
use crate::lab::{self, Limits, Process, Program, Room};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Limit, Payer, Running, Site, Started, Unavailable, Usable,
    medium,
};
use crate::vm::board::Board;
use crate::vm::equipped_guest::{EquippedGuest, GuestTraits};
use crate::vm::request::{VmDefaults, require_cpus};
use found::Library;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

const KIND: &str = "krun";

/// The port that the agent calls.
const PORT: u32 = vsock::PORT;

/// Prefix of the names of its vCPU threads: it was Firecracker once.
const VCPU: &str = "fc_vcpu ";

/// The thread that serves the first root.
const SERVER: &str = "fs worker";

/// The most virtual CPUs that it takes.
const CPUS_MAX: u32 = 32;

/// Time that the machine may take to end after its agent was told to.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Time that the machine's end is waited for when the agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// libkrun.
pub struct Krun;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    summary: "a virtual machine by libkrun, under KVM; not yet run on hardware",
    reach: &[],
    options: &[medium::CHOICE],
    limits: Limit::OF_A_MACHINE,
    holds_layers: true,
    may_prove_kvm: |_| true,
    ..Descriptor::MACHINE
};

/// Values of a machine where a spec names nothing.
const DEFAULTS: VmDefaults = VmDefaults::of(Board::Q35);

impl Layer for Krun {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(&self, spec: &LayerSpec, limits: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        let why = format!("libkrun makes at most {CPUS_MAX}");
        require_cpus(spec, limits, DEFAULTS, (CPUS_MAX, &why))
    }

    /// Changes nothing but our own cache, as `qemu`'s check, whose reference guest proves KVM.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let room = site.lab.room("krun-check")?;
        let found = Library::look(site.cache, &room, &program(site))?;
        let borrowed = kvm_proof::check(spec, site)?;
        let mut facts = vec![
            Fact::new("libkrun", found.library.display().to_string(), "dlopen(3)"),
            Fact::new("libkrunfw", found.firmware.display().to_string(), "dlopen(3)"),
        ];
        facts.extend(borrowed.facts.into_iter().filter(|fact| fact.key == "kvm"));
        Ok(Usable { facts })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let program = program(site);
        let found =
            Library::look(site.cache, room, &program).map_err(|it| it.fault().during(KIND))?;
        // It would spin without a word where KVM is not what it says.
        kvm_proof::require_kvm(site, room).map_err(|fault| fault.during(KIND))?;
        let group = MachineGroup::make(site, room)?;
        let traits = GuestTraits {
            files: Protocol::FirstRoot,
            fact_source: "krun_set_vm_config",
            ..GuestTraits::under_kvm(DEFAULTS, CPUS_MAX, Channel::Vsock(PORT))
        };
        let bundle = (&*found.firmware, library::AGENT);
        let (guest, export, namespace) =
            EquippedGuest::prepare_bundled(spec, bundle, traits, site, room)?;
        let size = (guest.cpus, guest.memory_mib);
        let booted = boot(
            &words(&program, &found, size, &export, room),
            (namespace, guest.cpus),
            room,
            group.path(),
            site.start_deadline,
        )?;
        let seen = FirstProcess::of(booted.process.pid(), site.lab.hierarchies());
        let who = "vCPUs and libkrun's other threads";
        let facts = group.prove(booted.process.pid(), who, site)?;
        let Booted { process, vcpus, link, call } = booted;
        Ok(Started::new(link, RunningKrun { call, process, seen, vcpus, found, guest, facts }))
    }
}

/// This program, for a process that loads libkrun.
fn program(site: &Site<'_>) -> PathBuf {
    site.lab.executable().map_or_else(|| PathBuf::from("/proc/self/exe"), Path::to_owned)
}

/// Path of the monitor's socket, beside which the agent's calls arrive.
fn socket(room: &Room) -> PathBuf {
    room.directory().join("vsock")
}

/// Returns the command line of the process that becomes the machine.
fn words(
    program: &Path,
    found: &Library,
    (cpus, memory_mib): (u32, u64),
    export: &Path,
    room: &Room,
) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    vec![
        text(program),
        library::ARGUMENT.to_owned(),
        String::from("enter"),
        text(&found.place),
        cpus.to_string(),
        memory_mib.to_string(),
        text(export),
        text(&vsock::place(&socket(room))),
    ]
}

/// A machine that was switched on.
struct Booted {
    process: Process,
    vcpus: Vec<u32>,
    link: Link,
    /// The agent's call, to hang up.
    call: UnixStream,
}

/// Starts the process that becomes the machine, and waits for the agent's call.
fn boot(
    words: &[String],
    (namespace, cpus): (OwnedFd, u32),
    room: &Room,
    group: Option<&Path>,
    deadline: Duration,
) -> Result<Booted, Fault> {
    let console = ConsoleTail::new();
    let (output, output_of_machine) = lab::pipe()?;
    let (errors, errors_of_machine) = lab::pipe()?;
    console.drain(output);
    console.drain(errors);
    let call = Call::at(&vsock::place(&socket(room)))?;
    let mut process = room.spawn(Program {
        argv: words.to_vec(),
        environment: Some(lab::path_alone()),
        // Its console, and what libkrun itself says.
        stdio: [None, Some(output_of_machine), Some(errors_of_machine)],
        group: group.map(Path::to_owned),
        mount_namespace: Some(namespace),
        ..Program::default()
    })?;
    let (link, call) = vsock::take(&call, KIND, &mut process, &console, deadline)?;
    let vcpus = vcpus(KIND, process.pid(), VCPU, cpus)?;
    Ok(Booted { process, vcpus, link, call })
}

/// A machine that runs.
struct RunningKrun {
    call: UnixStream,
    process: Process,
    /// The same, as this level's kernel sees it.
    seen: FirstProcess,
    vcpus: Vec<u32>,
    found: Library,
    guest: EquippedGuest,
    facts: Vec<Fact>,
}

impl Running for RunningKrun {
    fn payers(&self) -> Vec<Payer> {
        Payer::of_machine("libkrun", self.process.pid(), self.vcpus.clone()).to_vec()
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = self.guest.prove(inside)?;
        let mapped = self.seen.text("maps")?;
        for (key, file) in [("libkrun", &self.found.library), ("libkrunfw", &self.found.firmware)] {
            let shown = file.display().to_string();
            if !mapped.lines().any(|line| line.ends_with(&shown)) {
                let text =
                    format!("krun: `{shown}` was to be loaded, and `/proc/PID/maps` has it not");
                return Err(Fault::machine(text));
            }
            facts.push(Fact::new(format!("{key}_file"), shown, "/proc/PID/maps"));
            facts.push(Fact::new(format!("{key}_sha256"), lab::sha256(file)?, "the file"));
        }
        if !names_of_threads(self.process.pid())?.iter().any(|name| name == SERVER) {
            return Err(Fault::machine(format!("krun: none of its threads is called `{SERVER}`")));
        }
        facts.push(Fact::new("files_server", SERVER, "/proc/PID/task/TID/comm"));
        facts.push(Fact::new("network", "none", "krun_add_vsock without lent sockets"));
        facts.append(&mut self.facts);
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let signal = self.process.wait(LAST_WORDS).ok().flatten()?.signal()?;
        Some(format!("`{KIND}` itself was ended by signal {signal}"))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        // An agent that nobody listens to restarts its machine, which libkrun takes for its end.
        let _ = self.call.shutdown(Shutdown::Both);
        if self.process.wait(STOP_DEADLINE)?.is_some() {
            return Ok(());
        }
        self.process.kill()?;
        Err(Fault::machine("krun: its machine was told to restart, did not end, and was killed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cpus_than_libkrun_makes_are_refused() {
        let limits = Limits::default();
        let many = Limits { cpu_millis: Some(33_000), ..Limits::default() };
        let spec = LayerSpec { kind: KIND.into(), options: [].into() };
        let fault = Krun.refuse(&spec, &many, None).unwrap_err();
        assert_eq!(fault.message, "krun: `cpus=33`: libkrun makes at most 32");
        assert!(Krun.refuse(&spec, &limits, None).is_ok());
    }

    #[test]
    fn the_process_that_becomes_the_machine_is_told_all_by_its_words() {
        let found = Library {
            place: "/cache/krun".into(),
            library: "/cache/krun/libkrun.so.1".into(),
            firmware: "/cache/krun/libkrunfw.so.5".into(),
        };
        let directory = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(directory.path());
        let room = lab.room("machine").unwrap();
        let (program, served) = (Path::new("/bin/surtax"), Path::new("/room/served"));
        let told = words(program, &found, (2, 512), served, &room);
        let at = room.directory().join("vsock_1024").display().to_string();
        assert_eq!(
            told,
            ["/bin/surtax", "__krun", "enter", "/cache/krun", "2", "512", "/room/served", &at]
        );
        room.close().unwrap();
        lab.close().unwrap();
    }
}
