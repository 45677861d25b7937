//! Appliances: a unikernel, or any image that is one application, in a machine of QEMU's or a
//! domain of Xen's. No agent can run there.
//!
//! surtax (host) ── a thread that answers for it ── console or TCP ── appliance on qemu-system-x86_64, or on Xen
//!                └─ agent ── command, as a client: only where the recipe says `runs = "beside"`
//!
//! - **Needs** `qemu-system-x86_64` 7.2 or later, or a Dom0 as the layer `xen` does; a recipe, and
//!   an image; root for one with a network, and for a client.
//! - **Leaves out** every device that the recipe does not name, and the way out: a network card
//!   leads to one port only, which QEMU forwards from the loopback of a network namespace of its
//!   own; a domain's to a bridge.
//! - **Payers** vCPU threads: guest kernel, with the application in it; QEMU's other threads:
//!   hypervisor; a client's agent and the client: surtax. Of a domain: itself, and all of Dom0.
//! - **Checked against** QEMU 7.2.22 and ArceOS 0.3.0-preview.3; Xen 4.17.7 and GRUB 2.06, `xen-pv`
//!   alone; the other recipes not yet run.

mod answer;
mod booted;
mod command_line;
mod domain;
mod evidence;
mod guest;
mod proxy;
mod ready;
pub(super) mod recipe;
mod request;

use super::machine_group::MachineGroup;
use super::native::{PlainProcess, same_kernel};
use super::qemu::check::{accelerator, qemu_version};
use super::xen::application;
use crate::agent::{ConsoleTail, Link};
use crate::container::first_process::FirstProcess;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Jail, Limits, Process, Program, Room, RoomNetwork};
use crate::layer::{
    Descriptor, Files, Inner, Layer, LayerSpec, Limit, Need, Payer, Reach, Running, Site, Started,
    Unavailable, Usable, WorkloadNetwork, option, require_root,
};
use crate::vm::accelerator::Accelerator;
use crate::vm::qemu::{ACCELERATOR, CPU_MODEL, PROGRAM};
use crate::vm::qmp::{Qmp, VirtualCpu};
use booted::Booted;
use command_line::{CONSOLE_DESCRIPTOR, Machine, QMP_DESCRIPTOR};
use guest::InQemu;
use request::ApplianceOptions;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// Time limit for the end of the machine's process when it hung up.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Time that QEMU may take to end after it was told to.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A machine that is one application.
pub struct Appliance;

/// Specs that the doctor asks about.
const VARIANTS: &[&str] = &[
    "appliance:arceos", "appliance:arceos-echo", "appliance:grub-xen", "appliance:grub-xen-pvh",
    "appliance:hermit", "appliance:mirage", "appliance:mirage-xen", "appliance:nanos",
    "appliance:osv", "appliance:rumprun", "appliance:unikraft",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "appliance",
    summary: "a unikernel or another image that is one application, by QEMU or Xen and without an \
              agent",
    // An image may be a server, or none.
    reach: &[("", Reach::Unknown)],
    options: &[
        option("recipe", &[]).help(
            "how it is booted and spoken to: `arceos`, `arceos-echo`, `grub-xen`, `grub-xen-pvh`, \
             or, not yet run, `hermit`, `mirage`, `mirage-xen`, `nanos`, `osv`, `rumprun`, \
             `unikraft`; or a file of yours that ends with `.toml`",
        ),
        option("image", &[])
            .path()
            .help("the kernel or the disk that is booted (default: the recipe's)"),
        ACCELERATOR,
        option("machine", &["q35", "pc", "microvm", "xen-pv", "xen-pvh"])
            .help("the board, or how a domain of Xen's is virtualized (default: the recipe's)"),
        CPU_MODEL,
    ],
    subject: Some("recipe"),
    limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Weight, Limit::Numa, Limit::Io],
    files: Files::AsTheyAre,
    has_own_program: true,
    may_prove_kvm: |_| true,
    translates: |spec| spec.says("accel", "tcg"),
    variants: VARIANTS,
    needs,
    ..Descriptor::MACHINE
};

/// A Xen below it, where it is a domain of Xen's as far as its text and its recipe say.
fn needs(spec: &LayerSpec) -> &'static [Need] {
    match request::kind_of(spec) {
        Ok(Some(_)) => &[Need::Xen],
        _ => &[],
    }
}

impl Layer for Appliance {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(&self, spec: &LayerSpec, limits: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        request::refuse(spec, limits)
    }

    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        [spec.files(&DESCRIPTOR), request::files(spec)].concat()
    }

    /// Changes nothing but our own cache, as with `qemu`.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let accel = spec.option("accel").unwrap_or("any");
        let recipe = spec.option("recipe").map(|name| name.replace(['/', '.'], "-"));
        let name = format!("appliance-check-{}-{accel}", recipe.unwrap_or_default());
        let room = site.lab.room(&name)?;
        let checked = check_in(&room, spec, site);
        let closed = room.close().map_err(Unavailable::from);
        let usable = checked?;
        closed.map(|_| usable)
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let asked = ApplianceOptions::read(spec, site)?;
        if let Some(order) = asked.order(site, room)? {
            return domain::start(&asked, order, site, room);
        }
        let chosen =
            accelerator(asked.accelerator.as_deref(), site, room).map_err(request::named)?;
        let machine = asked.machine(chosen, site)?;
        let (mut running, console) = RunningAppliance::boot(machine, &asked, site, room)?;
        let link = running.open(console, &asked, site, room)?;
        Ok(Started::new(link, running))
    }
}

/// An appliance that runs, or stands still until it is told its command.
struct RunningAppliance {
    client: Option<PlainProcess>,
    tail: ConsoleTail,
    qmp: Arc<Mutex<Qmp>>,
    /// A network of its own, with its port on the loopback, where it has a card.
    network: Option<Arc<RoomNetwork>>,
    process: Process,
    cpus: Vec<VirtualCpu>,
    machine: Machine,
    /// As QEMU was told of it.
    command_line: String,
    /// TCP port on which it is spoken to.
    port: Option<u16>,
    facts: Vec<Fact>,
    /// QEMU's user is nobody else's as long as it runs.
    _jail: Option<Jail>,
}

/// QEMU for a machine: in a jail, unless a user without privileges runs it anyway.
fn confined(machine: &Machine, room: &Room) -> Result<(Program, Option<Jail>), Fault> {
    if !rustix::process::geteuid().is_root() {
        return Ok((Program { argv: machine.command_line(), ..Program::default() }, None));
    }
    let mut jail = Jail::make("machine", room)?;
    let shown = machine.within(&mut jail)?;
    // What is written to a disk goes to a file without a name there.
    let written = room.disk_directory()?.join("written");
    std::fs::create_dir(&written).doing(format_args!("make `{}`", written.display()))?;
    let written = jail.lend("written", &written)?;
    let mut argv = shown.command_line();
    // In a mount namespace of its own a program is not looked for.
    if let (Some(first), Some(found)) = (argv.first_mut(), crate::lab::find(PROGRAM)) {
        *first = found.display().to_string();
    }
    let written = (String::from("TMPDIR"), written.display().to_string());
    let jailed = jail.close(room)?;
    let program = Program {
        argv,
        environment: Some(crate::lab::path_and(vec![written])),
        mount_namespace: Some(jailed.mount_namespace),
        confinement: Some(jailed.confinement),
        ..Program::default()
    };
    Ok((program, Some(jail)))
}

/// QEMU and its virtual CPUs, once it has greeted.
fn greeted(
    qmp: UnixStream,
    process: &mut Process,
    tail: &ConsoleTail,
) -> Result<(Vec<VirtualCpu>, Qmp), Fault> {
    match Qmp::open(qmp).and_then(|mut qmp| Ok((qmp.cpus()?, qmp))) {
        Ok(greeted) => Ok(greeted),
        Err(fault) => {
            if process.wait(LAST_WORDS)?.is_some() {
                tail.settle(LAST_WORDS);
            }
            Err(Fault::machine(format!("appliance: {}", fault.message)).saying(&tail.quote()))
        }
    }
}

impl RunningAppliance {
    fn boot(
        machine: Machine,
        asked: &ApplianceOptions,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Self, UnixStream), Fault> {
        let (console, console_of_qemu) =
            UnixStream::pair().doing("make a socket pair for a console")?;
        let (qmp, qmp_of_qemu) =
            UnixStream::pair().doing("make a socket pair for QEMU's own tongue")?;
        let (errors, errors_of_qemu) = std::io::pipe().doing("make a pipe for QEMU's errors")?;
        let tail = ConsoleTail::new();
        tail.drain(errors.into());
        let group = MachineGroup::make(site, room)?;
        let network = machine.network.as_ref().map(|_| room.open_network()).transpose()?;
        let (program, jail) = confined(&machine, room)?;
        let command_line = program.argv.join(" ");
        let mut process = room.spawn(Program {
            stdio: [None, None, Some(errors_of_qemu.into())],
            descriptors: vec![
                (console_of_qemu.into(), CONSOLE_DESCRIPTOR),
                (qmp_of_qemu.into(), QMP_DESCRIPTOR),
            ],
            group: group.path().map(Path::to_owned),
            network_namespace: network.as_ref().map(RoomNetwork::namespace).transpose()?,
            ..program
        })?;
        let (cpus, qmp) = greeted(qmp, &mut process, &tail)?;
        let mut facts = vec![
            Fact::new("recipe", &asked.found.name, "the stack's own text"),
            Fact::new("recipe_about", &asked.found.recipe.about, "the recipe"),
        ];
        facts.extend(group.prove(process.pid(), "vCPUs and QEMU's other threads", site)?);
        let (qmp, network) = (Arc::new(Mutex::new(qmp)), network.map(Arc::new));
        let port = asked.found.recipe.command.port;
        let running = Self {
            client: None,
            tail,
            qmp,
            network,
            process,
            cpus,
            machine,
            command_line,
            port,
            facts,
            _jail: jail,
        };
        Ok((running, console))
    }

    /// Waits until it is ready, and opens the way that its recipe names.
    fn open(
        &mut self,
        console: UnixStream,
        asked: &ApplianceOptions,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Link, Fault> {
        let talk = &asked.found.recipe.command;
        let mut booted = Booted {
            console,
            tail: self.tail.clone(),
            network: self.network.clone(),
            address: Ipv4Addr::LOCALHOST,
        };
        let ready = booted.wait(talk, site).map_err(|fault| self.explained(fault))?;
        self.facts.extend(ready);
        let (qmp, bell) = (Arc::clone(&self.qmp), self.qmp().bell()?);
        let guest = Box::new(InQemu { pid: self.process.pid(), tids: self.tids(), qmp, bell });
        let image = self.machine.image().unwrap_or(Path::new(""));
        let (link, client) = booted.open(talk, guest, image, site, room)?;
        self.client = client;
        Ok(link)
    }

    fn qmp(&self) -> MutexGuard<'_, Qmp> {
        self.qmp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tids(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.thread_id).collect()
    }

    /// The fault, with how QEMU has ended if it has.
    fn explained(&mut self, fault: Fault) -> Fault {
        match self.exit_reason() {
            Some(exit_reason) => {
                Fault { message: format!("{exit_reason}; {}", fault.message), ..fault }
            }
            None => fault,
        }
    }
}

impl Running for RunningAppliance {
    fn payers(&self) -> Vec<Payer> {
        let [vcpus, others] = Payer::of_machine("QEMU", self.process.pid(), self.tids());
        let mut payers = self.client.as_ref().map(PlainProcess::payers).unwrap_or_default();
        payers.extend([vcpus.carrying(self.client.is_none()), others]);
        payers
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts =
            evidence::told(&mut self.qmp(), &self.cpus, (&self.machine, &self.command_line))?;
        if self.network.is_some() {
            let client = self.client.as_ref().map(|_| inside);
            facts.push(evidence::of_network(self.process.pid(), client)?);
        }
        for (name, file) in self.machine.files() {
            facts.push(Fact::new(name, lab::sha256(file)?, file.display().to_string()));
        }
        if let Some(client) = &mut self.client {
            let agent = FirstProcess::of(client.process.pid(), &client.hierarchies);
            facts.extend(client.facts(&agent)?);
            facts.push(same_kernel(DESCRIPTOR.kind, inside)?);
        }
        facts.append(&mut self.facts);
        Ok(facts)
    }

    /// An image that serves is met on the loopback of its network, where its client is, too.
    fn network(&self) -> Option<WorkloadNetwork> {
        self.client.as_ref()?;
        let namespace = PathBuf::from(format!("/proc/{}/ns/net", self.process.pid()));
        let serves = Some(self.port?);
        Some(WorkloadNetwork { namespace, is_shared: false, serves, ..WorkloadNetwork::of_level() })
    }

    fn exit_reason(&mut self) -> Option<String> {
        let signal = self.process.wait(LAST_WORDS).ok().flatten()?.signal()?;
        Some(format!("`{PROGRAM}` of the appliance was ended by signal {signal}"))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        let client = self.client.take().map_or(Ok(()), PlainProcess::stop);
        self.qmp().quit();
        if self.process.wait(STOP_DEADLINE)?.is_none() {
            self.process.kill()?;
            return Err(Fault::machine("appliance: QEMU did not end when told to and was killed"));
        }
        client
    }
}

fn check_in(room: &Room, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let asked = ApplianceOptions::read(spec, site)?;
    let run = if asked.found.recipe.ran { "run by surtax's tests" } else { "not yet run" };
    if let Some(kind) = asked.domain()? {
        let mut facts = application::check(kind, asked.has_network(), site)?;
        let order = asked.order(site, room)?.map(|order| order.kernel).unwrap_or_default();
        facts.push(Fact::new("image", order.display().to_string(), "the recipe"));
        facts.push(Fact::new("recipe", run, "the recipe"));
        return Ok(Usable { facts });
    }
    if crate::lab::find(PROGRAM).is_none() {
        return Err(Unavailable::new(
            format!("`{PROGRAM}`, which boots appliances, is not in `PATH`"),
            "apt-get install qemu-system-x86",
        ));
    }
    let machine = asked.machine(Accelerator::Tcg, site)?;
    if machine.network.is_some() {
        require_root("a network for the appliance alone can only be made by root")?;
    }
    let version = qemu_version(room)?;
    let chosen = accelerator(asked.accelerator.as_deref(), site, room).map_err(request::named)?;
    let image = machine.image().unwrap_or(Path::new("")).display().to_string();
    Ok(Usable {
        facts: vec![
            Fact::new("image", image, "the recipe"),
            Fact::new("recipe", run, "the recipe"),
            Fact::new("qemu_version", version, "qemu-system-x86_64 --version"),
            Fact::new("accelerator", chosen.name(), "the choice for this level"),
        ],
    })
}
