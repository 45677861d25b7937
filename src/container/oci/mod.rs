//! OCI runtimes: `runc`, `crun`, `youki` and gVisor's `runsc`, by the command line they all share.
//!
//! surtax (host) ── runc run ── namespaces, groups, pivot_root ── agent (PID 1) ── command
//!
//! - **Needs** the runtime in `PATH` or by `binary=`, root, and cgroup v1 or v2.
//! - **Leaves out** seccomp, AppArmor and user namespaces, which are an engine's choice and not the
//!   runtime's; links, which are an engine's: `net=veth` prepares a namespace as its plugin would.
//! - **Payers** the runtime's own process and the container's group: engine. The group carries the
//!   command. The runtime makes another in it, with the same limits, which root inside may see.
//! - **Checked against** OCI runtime specification 1.0.2; runc 1.1.5, crun 1.8.1, runsc 20260905.

mod command_line;
pub(crate) mod config;
mod resources;

use crate::container::engine_runtime::Kernel;
use crate::container::first_process::FirstProcess;
use crate::container::group;
use crate::container::tool_network::{NamedNetwork, ToolNetwork, Wiring};
use crate::container::{stdio, tool_network};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Limits, Mount, Process, Program, Room, tool_version};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, OptionSpec, Payer, Running, Site, Source, Started,
    ToolFile, Unavailable, Usable, impairment, medium, option,
};
use crate::rootfs::root::Lower;
use crate::rootfs::{root, scratch, secrets};
use command_line::{CommandLine, text};
use config::{Container, NetworkNamespace};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, Role};

/// Time limit for a runtime to end after its container's first process has.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// Time limit of a question to a runtime.
const ASK_DEADLINE: Duration = Duration::from_secs(10);

/// A runtime's own proof.
type Prove = fn(&FirstProcess, &LayerSpec, &[Fact]) -> Result<Vec<Fact>, Fault>;

/// An OCI runtime, and what sets it apart from the others.
pub struct Oci {
    /// Descriptor of the layer.
    pub(crate) descriptor: &'static Descriptor,
    /// Name of its program in `PATH`.
    pub(crate) program: &'static str,
    /// The command that installs it.
    pub(crate) remedy: &'static str,
    /// Whose kernel is inside.
    pub(crate) kernel: Kernel,
    /// The networks that are prepared for it.
    pub(crate) networks: &'static [NamedNetwork],
    /// The variable that names the directory where it lays a copy of itself while it starts, which
    /// it leaves there when it is killed; without it that is `/tmp`.
    pub(crate) copies_to: Option<&'static str>,
    /// True if it refuses to work where cgroup v2 is mounted beside v1.
    pub(crate) refuses_hybrid: bool,
    /// Returns its own options before the word `run`, from those of the layer.
    pub(crate) arguments: fn(&LayerSpec) -> Vec<String>,
    /// Refuses a layer that cannot run in its containers.
    pub(crate) holds: fn(&LayerSpec, Inner<'_>) -> Result<(), Fault>,
    /// Checks what else must hold for it to be usable, given its path.
    pub(crate) require: fn(&Path, &LayerSpec, &Site<'_>) -> Result<(), Unavailable>,
    /// Runtime's own proof, from its first process on this level and what was seen on the inside.
    pub(crate) prove: Prove,
}

/// A container's own network and no link, or this level's: the choice of those that prepare none.
pub(crate) const NET: OptionSpec = option("net", &["none", "host"]).help(
    "the network: `none` is a namespace with only `lo` (default), `host` is this level's own",
);

/// Option that lets layers be started inside.
pub(crate) const PRIVILEGED: OptionSpec = option("privileged", &["true", "false"])
    .help("all capabilities, devices and groups, as layers inside may need (default: false)");

impl Oci {
    /// A runtime on this level's kernel that needs nothing special, by its descriptor, its program
    /// and what installs it.
    pub(crate) const fn plain(
        descriptor: &'static Descriptor,
        program: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self {
            descriptor,
            program,
            remedy,
            kernel: Kernel::Shared,
            networks: &[("veth", Wiring::Prepared)],
            copies_to: None,
            refuses_hybrid: false,
            arguments: |_| Vec::new(),
            holds: |_, _| Ok(()),
            require: |_, _, _| Ok(()),
            prove: same_kernel,
        }
    }
}

impl Layer for Oci {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn refuse(&self, spec: &LayerSpec, _: &Limits, inside: Option<Inner<'_>>) -> Result<(), Fault> {
        self.shape(spec)?;
        inside.map_or(Ok(()), |inside| (self.holds)(spec, inside))
    }

    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let tool = ToolFile::find(spec, self.program, self.remedy)?;
        let version =
            version(&tool.path).map_err(|fault| Unavailable::new(fault.message, &tool.remedy))?;
        tool_network::require(spec, self.networks)?;
        impairment::require(self.shape(spec)?, site)?;
        (self.require)(&tool.path, spec, site)?;
        Ok(Usable { facts: runtime_facts(&tool, &version)? })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let found = ToolFile::find(spec, self.program, self.remedy);
        let tool = found.map_err(|it| it.fault().during(self.descriptor.kind))?;
        if site.level > 0 {
            // A level that was just made has not been asked before.
            (self.require)(&tool.path, spec, site)
                .and_then(|()| impairment::require(self.shape(spec)?, site))
                .map_err(|it| it.fault().during(self.descriptor.kind))?;
        }
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let bundle = room.memory_directory()?;
        let mounts = self.mounts(&lowers, bundle, site, room)?;
        let namespace = room.mount_namespace(&mounts)?;
        let network = ToolNetwork::make(spec, self.networks, site, room)?;
        let group = room.subgroup(group::LIMITED, site.limits)?;
        write_bundle(spec, &network, site, (room, &group), bundle)?;

        let (link, ends) = stdio::link(self.descriptor.kind)?;
        let command_line = CommandLine {
            program: text(&tool.path),
            own: (self.arguments)(spec),
            keeps_keyring: site.level > 0 && self.kernel == Kernel::Shared,
            bundle: bundle.to_path_buf(),
        };
        let process = room.spawn(Program {
            argv: command_line.run(),
            stdio: ends,
            environment: self
                .copies_to
                .map(|name| lab::path_and(vec![(name.to_owned(), text(bundle))])),
            mount_namespace: Some(namespace.try_clone().doing("keep the mount namespace")?),
            ..Program::default()
        })?;
        let mut facts = root::facts(&site.view.root, &lowers);
        let privileged = is_privileged(spec, site).to_string();
        facts.push(Fact::new("privileged", privileged, "config.json"));
        let running = RunningOci {
            version: version(&tool.path)?,
            tool,
            process,
            namespace,
            command_line,
            group,
            hierarchies: site.lab.hierarchies().clone(),
            limits: site.limits.clone(),
            spec: spec.clone(),
            network,
            kernel: self.kernel,
            prove: self.prove,
            facts,
        };
        Ok(Started::new(link, running))
    }
}

impl Oci {
    /// Lists the mounts that make a container's root, in the room's own namespace.
    fn mounts(
        &self,
        lowers: &[Lower],
        bundle: &Path,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Vec<Mount>, Fault> {
        let above = scratch::above(site.view, room)?;
        let hidden = secrets::hidden(site.view);
        let mut mounts = root::merge((lowers, &hidden), bundle, above.as_deref())?;
        if self.refuses_hybrid {
            mounts.extend(cover_unified(site.lab.hierarchies()));
        }
        if site.view.scratch == Some(medium::Medium::Layer) {
            mounts.extend(scratch::mounts(site.view, &root::merged_at(bundle), room)?);
        }
        Ok(mounts)
    }

    /// Reads how bad the link of a spec's network is to be, if the spec says so.
    fn shape(&self, spec: &LayerSpec) -> Result<Option<lab::Shape>, Fault> {
        impairment::read(spec, &tool_network::made_here(self.networks))
            .map_err(|fault| fault.during(&spec.kind))
    }
}

struct RunningOci {
    tool: ToolFile,
    version: String,
    process: Process,
    namespace: OwnedFd,
    command_line: CommandLine,
    group: PathBuf,
    hierarchies: Hierarchies,
    limits: Limits,
    spec: LayerSpec,
    network: ToolNetwork,
    kernel: Kernel,
    prove: Prove,
    facts: Vec<Fact>,
}

impl Running for RunningOci {
    fn payers(&self) -> Vec<Payer> {
        let engine = |name: String, source, carries_workload| {
            Payer::new(name, Role::Engine, source).carrying(carries_workload)
        };
        let group = match self.kernel {
            Kernel::Shared => "container",
            Kernel::Gvisor | Kernel::Machine => "sandbox",
        };
        vec![
            engine(self.spec.kind.clone(), Source::Process(self.process.pid()), false),
            engine(group.to_owned(), Source::Group(self.group.clone()), true),
        ]
    }

    fn network(&self) -> Option<crate::layer::WorkloadNetwork> {
        self.network.reach()
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let first = self.first_process()?;
        let mut facts = runtime_facts(&self.tool, &self.version)?;
        let command_line = self.command_line.run().join(" ");
        facts.push(Fact::new("runtime_command_line", command_line, "its start"));
        facts.push(first.group_is(&self.group)?);
        // What it was told, and what holds whatever is written inside.
        first.limits(&group::inside(&self.group), &self.limits)?;
        facts.extend(first.limits(&self.group, &self.limits)?);
        facts.extend((self.prove)(&first, &self.spec, inside)?);
        let proved = self.network.prove(self.kernel, inside);
        facts.extend(proved.map_err(|fault| fault.during(&self.spec.kind))?);
        facts.extend(self.facts.iter().cloned());
        Ok(facts)
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        if self.process.wait(STOP_DEADLINE)?.is_some() {
            return Ok(());
        }
        let namespace = self.namespace.try_clone().doing("enter the mount namespace again")?;
        // The room's group is killed in any case; this only asks the runtime to do its own part.
        let deleted = lab::ask(&self.command_line.delete(), Some(namespace), ASK_DEADLINE);
        let kind = &self.spec.kind;
        let why = deleted.err().map_or_else(String::new, |fault| format!(": {}", fault.message));
        Err(Fault::machine(format!(
            "{kind}: the container did not end and was deleted by force{why}"
        )))
    }
}

impl RunningOci {
    /// The container's first process. runc says which it is only after that process has begun.
    fn first_process(&mut self) -> Result<FirstProcess, Fault> {
        let file = self.command_line.pid_file();
        let asked = monotonic_raw();
        loop {
            match FirstProcess::read(&file, &self.hierarchies) {
                Err(_) if Duration::from(monotonic_raw().since(asked)) < ASK_DEADLINE => {}
                other => return other,
            }
            if let Some(status) = self.process.wait(Duration::from_millis(1))? {
                let kind = &self.spec.kind;
                return Err(Fault::machine(format!("{kind}: it ended with {status}")));
            }
        }
    }
}

/// Writes the bundle, which needs nothing but the file.
fn write_bundle(
    spec: &LayerSpec,
    network: &ToolNetwork,
    site: &Site<'_>,
    (room, group): (&Room, &Path),
    bundle: &Path,
) -> Result<(), Fault> {
    let network = match network.prepared() {
        Some(path) => NetworkNamespace::Prepared(path),
        None if network.is_shared() => NetworkNamespace::Host,
        None => NetworkNamespace::None,
    };
    let system = rustix::system::uname();
    let disk = scratch::bound(site.view, room)?;
    let container = Container {
        root: &root::merged_at(bundle),
        agent: site.agent,
        host_name: &system.nodename().to_string_lossy(),
        group: &Path::new("/").join(group::inside(group)),
        limits: site.limits,
        hides_groups: site.lab.hierarchies().0.len() == 1
            && site.lab.hierarchies().unified().is_some(),
        counts_swap: counts_swap(site),
        cpu_groups: site.lab.cpu_groups(),
        limited_disk: site.limits.io.disk()?,
        view: site.view,
        scratch: disk.as_deref(),
        network,
        is_privileged: is_privileged(spec, site),
        bounding_capabilities: config::bounding_capabilities()?,
        open_files_max: config::open_files_max(),
    };
    let file = bundle.join("config.json");
    let text = format!("{:#}", config::config(&container)?);
    fs::write(&file, text).doing(format_args!("write `{}`", file.display()))
}

/// Tells whether layers may be started inside: the user says so, or one will be.
fn is_privileged(spec: &LayerSpec, site: &Site<'_>) -> bool {
    site.carries_layers || spec.says("privileged", "true")
}

/// Tells whether swap can be limited: a kernel without swap accounting refuses to be asked.
pub(crate) fn counts_swap(site: &Site<'_>) -> bool {
    site.lab.hierarchies().of("memory").is_some_and(|memory| {
        memory.mount_point.join("memory.memsw.limit_in_bytes").exists()
            || site.lab.hierarchies().unified() == Some(memory)
    })
}

/// Hides cgroup v2 from a runtime that refuses it beside v1: only in the room's own namespace.
pub(crate) fn cover_unified(hierarchies: &Hierarchies) -> Option<Mount> {
    let unified = hierarchies.unified()?;
    // It makes a group there nevertheless, in vain.
    (hierarchies.0.len() > 1).then(|| Mount::fresh("tmpfs", &unified.mount_point, ""))
}

/// A runtime that shares this level's kernel: the agent is the container's first process, in
/// namespaces that are not ours.
fn same_kernel(
    first: &FirstProcess,
    spec: &LayerSpec,
    inside: &[Fact],
) -> Result<Vec<Fact>, Fault> {
    let shared: &[&str] = match spec.option("net") {
        Some("host") => &["net", "user"],
        _ => &["user"],
    };
    let mut facts = vec![first.is_the_agent(inside)?, first.namespaces(shared)?];
    facts.extend(first.privileges()?);
    Ok(facts)
}

fn runtime_facts(tool: &ToolFile, version: &str) -> Result<Vec<Fact>, Fault> {
    let mut facts = tool.facts("runtime")?;
    facts.push(Fact::new("runtime_version", version, "--version"));
    Ok(facts)
}

fn version(path: &Path) -> Result<String, Fault> {
    tool_version::of_runtime(path)
}

#[cfg(test)]
mod tests;
