//! Tools that make one container from their command line alone: bubblewrap, systemd-nspawn, LXC,
//! Podman.
//!
//! surtax (host) ── TOOL ── namespaces, pivot_root ── agent ── command
//!
//! - **Needs** the tool in `PATH` and root.
//! - **Leaves out** what only an init inside would do, unless it is asked for: the agent is the
//!   container's command.
//! - **Payers** one group with the tool's own processes and the container: engine. It carries the
//!   command, so what is left of it is the tool, its monitor and the agent. The limits hold for
//!   them together, and the tool is inside them before its first instruction. Root inside has no
//!   way to the group that has them.
//! - **Checked against** what each tool's own file says.

use crate::container::conmon::Conmon;
use crate::container::engine_runtime::Kernel;
use crate::container::first_process::{FirstProcess, empties, limited_together};
use crate::container::init::{Init, Prepared};
use crate::container::oci::config::AGENT;
use crate::container::tool_network::{NamedNetwork, ToolNetwork};
use crate::container::users::ContainerUsers;
use crate::container::{engine_runtime, group, init, published_port, storage, tool_network};
use crate::fault::Fault;
use crate::lab::disk::Disk;
use crate::lab::{self, HeldProcess, Lab, Limits, Mount, Process, Program, Room, tool_version};
use crate::layer::publish::Port;
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Payer, Running, Site, Source, Started, TOOL, ToolFile,
    Unavailable, Usable, WorkloadNetwork, medium,
};
use crate::rootfs::root::Lower;
use crate::rootfs::{root, scratch, secrets};
use rustix::process::Signal;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, Role};

/// Time limit for a tool to end after the container's command has.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for an init to end its container.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// A tool, and what sets it apart from the others.
pub struct ContainerTool {
    /// Descriptor of the layer.
    pub(crate) descriptor: &'static Descriptor,
    /// Name of its program in `PATH`.
    pub(crate) program: &'static str,
    /// Refuses what cannot be, on whatever machine.
    pub(crate) refuse: fn(&LayerSpec, &Limits) -> Result<(), Fault>,
    /// Checks what else must be there for a spec.
    pub(crate) require: fn(&LayerSpec, &Site<'_>) -> Result<(), Unavailable>,
    /// The networks that it makes itself.
    pub(crate) networks: &'static [NamedNetwork],
    /// True if it is started one group below the one with the limits: see [`group::make`].
    pub(crate) starts_below: bool,
    /// Returns the words that the agent is told before it speaks to the host.
    pub(crate) agent_words: fn(&ToolNetwork) -> Vec<String>,
    /// Makes the command line for one container, and what it needs beside it.
    pub(crate) order: fn(&ContainerRequest<'_>) -> Result<ToolStart, Fault>,
}

/// A container, as asked for.
pub(crate) struct ContainerRequest<'a> {
    /// Spec of the layer, as asked for.
    pub spec: &'a LayerSpec,
    /// The hierarchies of this level's groups.
    pub hierarchies: &'a Hierarchies,
    /// The tool's file.
    pub program: &'a str,
    /// The lab, for what outlives a room.
    pub lab: &'a Lab,
    /// The root before it was merged, in which there is nothing but its own top level.
    pub base: &'a Path,
    /// The merged root, in the room's mount namespace.
    pub root: &'a Path,
    /// The static agent as a file that the tool can see.
    pub agent: &'a Path,
    /// The trial's room, for what a tool wants elsewhere.
    pub room: &'a Room,
    /// A directory of the room in memory, for what the tool wants to write.
    pub scratch: &'a Path,
    /// The group that has the limits; it is started in this one, or one below.
    pub group: &'a Path,
    /// The container's name: ours, and nobody else's on this machine.
    pub name: &'a str,
    /// The level's own, so that a command sees the same name everywhere.
    pub host_name: &'a str,
    /// Directories of the merged root whose writes are kept.
    pub writable: &'a [PathBuf],
    /// Medium of its scratch directory, if it has one; a volume is the tool's to make.
    pub medium: Option<medium::Medium>,
    /// Limits of the container, which that group has.
    pub limits: &'a Limits,
    /// That disk, if there is a limit, where a group that the tool makes inside ours is not held by
    /// it: in cgroup v1. Then the tool must be told.
    pub throttled_disk: Option<Disk>,
    /// Network of the container.
    pub network: &'a ToolNetwork,
    /// Users of the container.
    pub users: ContainerUsers,
    /// Init of the container, if the agent is not its first process.
    pub init: Option<&'a Prepared>,
    /// True if it gets a `/run` of its own; else it has the one of its root.
    pub has_own_run: bool,
}

/// Start of a tool: its command line, and the mounts and the rest that it needs.
#[derive(Default)]
pub(crate) struct ToolStart {
    /// The command line, the tool's file first.
    pub argv: Vec<String>,
    /// Part of the command line that no other start has, where there is one.
    pub random: Option<String>,
    /// Mounts of the room's namespace that the tool needs, after those of the root.
    pub mounts: Vec<Mount>,
    /// Variables of the tool's environment; it gets no others but `PATH`.
    pub environment: Vec<(String, String)>,
    /// Number of the user who runs the tool, if not root.
    pub user: Option<u32>,
    /// Objects that there are beside the container.
    pub beside: Beside,
    /// The image of a file system that the tool needs, and where it is to be mounted after all
    /// else.
    pub image: Option<(PathBuf, PathBuf)>,
}

impl ToolStart {
    /// Returns the command line as evidence has it, with a placeholder for all that no other start
    /// has.
    fn command_line(&self, room: &Room) -> String {
        let line = room.redact_paths(&self.argv.join(" "));
        match &self.random {
            Some(random) => line.replace(random, "RANDOM"),
            None => line,
        }
    }
}

/// Objects that an engine makes beside its container.
#[derive(Clone, Default)]
pub(crate) struct Beside {
    /// A file with the number of a process that the tool leaves behind on purpose, for its next
    /// container: it is ended with this one.
    pub left_behind: Option<PathBuf>,
    /// The monitor that stays with the container, and the runtime behind it.
    pub conmon: Option<Conmon>,
    /// The port that is published.
    pub port: Option<Port>,
}

impl ContainerTool {
    /// The command that installs it.
    fn remedy(&self) -> String {
        format!("apt-get install {}", self.descriptor.package)
    }
}

impl Layer for ContainerTool {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn refuse(&self, spec: &LayerSpec, limits: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        init::refuse(spec)?;
        (self.refuse)(spec, limits)
    }

    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let tool = ToolFile::find(spec, self.program, &self.remedy())?;
        tool_network::require(spec, self.networks)?;
        init::require(spec, site)?;
        (self.require)(spec, site)?;
        let facts =
            tool_facts(&tool).map_err(|fault| Unavailable::new(fault.message, &tool.remedy))?;
        Ok(Usable { facts })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let kind = self.descriptor.kind;
        let found = ToolFile::find(spec, self.program, &self.remedy());
        let tool = found.map_err(|it| it.fault().during(kind))?;
        let scratch = room.memory_directory()?;
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let agent = scratch.join("agent");
        let users = ContainerUsers::of(spec, self.descriptor);
        let mapped = users.namespace(room)?;
        let mut mounts = mounts(&lowers, &agent, mapped.as_ref(), site, room)?;
        let (group, start) = group::make(self.starts_below, site, room)?;
        let network = ToolNetwork::make(spec, self.networks, site, room)?;
        let base = &lowers.first().ok_or_else(|| Fault::bug("a root of no directories"))?.source;
        let init = init::prepare(spec, base, &(self.agent_words)(&network), users, scratch)?;
        let order = (self.order)(&ContainerRequest {
            spec,
            hierarchies: site.lab.hierarchies(),
            program: &tool.path.to_string_lossy(),
            lab: site.lab,
            base,
            root: &root::merged_at(scratch),
            agent: &agent,
            room,
            scratch,
            group: &group,
            name: &site.container_name(room),
            host_name: &rustix::system::uname().nodename().to_string_lossy(),
            writable: &site.view.writable,
            medium: site.view.scratch,
            limits: site.limits,
            throttled_disk: group::throttled_disk(site)?,
            network: &network,
            users,
            init: init.as_ref(),
            has_own_run: site.view.root == crate::layer::Root::Overlay,
        })?;
        let (way, ends) = init::way(kind, init.as_ref())?;
        let command_line = order.command_line(room);
        let beside = order.beside.clone();
        mounts.extend(order.mounts.iter().cloned());
        let mut process = spawn(order, &mounts, &network, ends, &start, room)?;
        let patience = site.start_deadline;
        network.finish(&mut process, patience).map_err(|fault| fault.during(kind))?;
        let link = way.link(kind, init.as_ref(), &mut process, patience)?;
        let started = Fact::new("tool_command_line", command_line, "its start");
        let of_root = root::facts(&site.view.root, &lowers);
        let facts = [tool_facts(&tool)?, vec![started], of_root].concat();
        let running = RunningContainer {
            process,
            init: init.map_or(Init::None, |init| init.init),
            group,
            hierarchies: site.lab.hierarchies().clone(),
            limits: site.limits.clone(),
            kind,
            network,
            users,
            beside,
            spec: spec.clone(),
            facts,
        };
        Ok(Started::new(link, running))
    }
}

/// Starts a tool on its mounts.
fn spawn(
    order: ToolStart,
    mounts: &[Mount],
    network: &ToolNetwork,
    stdio: [Option<OwnedFd>; 3],
    group: &Path,
    room: &Room,
) -> Result<Process, Fault> {
    let namespace = room.mount_namespace_in(network.held(), mounts)?;
    if let Some((image, target)) = &order.image {
        storage::mount_image(image, target, &namespace)?;
    }
    room.spawn(Program {
        argv: order.argv,
        environment: Some(lab::path_and(order.environment)),
        stdio,
        group: Some(group.to_path_buf()),
        mount_namespace: Some(namespace),
        network_namespace: network.held().map(lab::RoomNetwork::namespace).transpose()?,
        user: order.user,
        own_keyring: true,
        ..Program::default()
    })
}

/// The mounts of the root with all that surtax puts into it, and the agent at a place that the tool
/// can see: its own `/run` may cover the one in which the agent is.
pub(crate) fn mounts(
    lowers: &[Lower],
    agent: &Path,
    users: Option<&lab::Users>,
    site: &Site<'_>,
    room: &Room,
) -> Result<Vec<Mount>, Fault> {
    let scratch = room.memory_directory()?;
    let merged = root::merged_at(scratch);
    let above = scratch::above(site.view, room)?;
    let mut mounts = root::merge((lowers, &secrets::hidden(site.view)), scratch, above.as_deref())?;
    mounts.extend(root::writable(site.view, &merged));
    if let Some(users) = users {
        room.let_users_pass()?;
        mounts = root::mapped(mounts, &users.path());
    }
    mounts.extend(scratch::mounts(site.view, &merged, room)?);
    mounts.push(Mount::bind_read_only(site.agent, agent));
    Ok(mounts)
}

struct RunningContainer {
    process: Process,
    init: Init,
    group: PathBuf,
    hierarchies: Hierarchies,
    limits: Limits,
    kind: &'static str,
    network: ToolNetwork,
    users: ContainerUsers,
    beside: Beside,
    spec: LayerSpec,
    facts: Vec<Fact>,
}

impl Running for RunningContainer {
    fn payers(&self) -> Vec<Payer> {
        vec![Payer::new(self.kind, Role::Engine, Source::Group(self.group.clone())).carrying(true)]
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        Some(WorkloadNetwork { published: self.beside.port, ..self.network.reach()? })
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let kernel = self.beside.conmon.as_ref().map_or(Kernel::Shared, Conmon::kernel);
        let first = match &self.beside.conmon {
            Some(conmon) if kernel == Kernel::Gvisor => conmon.first(&self.hierarchies)?,
            _ => FirstProcess::among(&self.group, &self.hierarchies, inside)?,
        };
        let mut facts = self.facts.clone();
        facts.push(first.group_is(&self.group)?);
        facts.extend(first.limits(&self.group, &self.limits)?);
        if self.limits != Limits::default() {
            facts.push(limited_together(&format!("{} and the container", self.kind)));
        }
        let privileges = first.privileges()?;
        if let Some(conmon) = &self.beside.conmon {
            let proved = conmon.prove(&self.hierarchies);
            facts.extend(proved.map_err(|fault| fault.during(self.kind))?);
        }
        match (kernel, &self.beside.conmon) {
            (Kernel::Gvisor, Some(conmon)) => {
                facts.push(engine_runtime::prove_gvisor(self.kind, &conmon.runtime, inside)?);
            }
            _ => {
                facts.extend(self.isolation(&first, inside)?);
                engine_runtime::prove_filter(&self.spec, &privileges)?;
            }
        }
        facts.extend(privileges);
        if self.init != Init::None {
            let proved = init::prove(self.init, &first.init(&self.group)?);
            facts.push(proved.map_err(|fault| fault.during(self.kind))?);
        }
        if let Some(proved) = storage::prove(&self.spec, inside)? {
            let asked = self.spec.option("storage").unwrap_or_default();
            facts.extend([Fact::new("storage_driver", asked, "its start"), proved]);
        }
        let proved = self.network.prove(kernel, inside);
        facts.extend(proved.map_err(|fault| fault.during(self.kind))?);
        if let (Some(port), Some(network)) = (self.beside.port, self.network.reach()) {
            facts.push(
                published_port::prove(port, &network).map_err(|fault| fault.during(self.kind))?,
            );
        }
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let status = self.process.wait(Duration::ZERO).ok()??;
        Some(format!("`{}` has ended with {status}", self.kind))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        let deadline = if self.init == Init::None { STOP_DEADLINE } else { SHUTDOWN_DEADLINE };
        let ended = self.process.wait(deadline)?;
        self.end_what_was_left()?;
        match ended.filter(|_| empties(&self.group, &self.hierarchies, STOP_DEADLINE)) {
            Some(_) => Ok(()),
            None => Err(Fault::machine(format!(
                "{}: the container did not end and was killed",
                self.kind
            ))),
        }
    }
}

impl RunningContainer {
    /// Proves its namespaces and its users, where it is on this level's kernel.
    fn isolation(&self, first: &FirstProcess, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let has_users = self.users != ContainerUsers::OfTheLevel;
        let shared = [(self.network.is_shared(), "net"), (!has_users, "user")];
        let shared = shared.into_iter().filter_map(|(is_shared, kind)| is_shared.then_some(kind));
        let mut facts = vec![first.namespaces(&shared.collect::<Vec<_>>())?];
        let tool = FirstProcess::of(self.process.pid(), &self.hierarchies);
        let proved = self.users.prove(&tool, first, inside);
        facts.extend(proved.map_err(|fault| fault.during(self.kind))?);
        Ok(facts)
    }

    /// Ends the process that the tool left behind, if it is one of this container's group.
    fn end_what_was_left(&self) -> Result<(), Fault> {
        let Some(file) = &self.beside.left_behind else { return Ok(()) };
        let text = fs::read_to_string(file).unwrap_or_default();
        let Ok(pid) = text.trim().parse() else { return Ok(()) };
        let Some(held) = HeldProcess::of(pid) else { return Ok(()) };
        if FirstProcess::of(pid, &self.hierarchies).is_in_group(&self.group).is_ok() {
            held.signal(Signal::TERM);
        }
        Ok(())
    }
}

/// Reports the path of the tool, and what it says of its version.
fn tool_facts(tool: &ToolFile) -> Result<Vec<Fact>, Fault> {
    let mut facts = tool.facts(TOOL)?;
    facts.push(Fact::new("tool_version", tool_version::of(&tool.path, &[])?, "--version"));
    Ok(facts)
}

/// The words that every tool's command line ends with: what runs in the container.
pub(crate) fn agent_words() -> [String; 2] {
    [AGENT.to_owned(), "stdio".to_owned()]
}

/// A path as a word of a command line.
///
/// # Errors
/// The user's: it is not text.
pub(crate) fn word(path: &Path) -> Result<String, Fault> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Fault::user(format!("`{}` is not UTF-8", path.display())))
}
