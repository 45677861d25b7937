//! Native: the agent as an ordinary process of this level, and nothing between it and the kernel.
//!
//! surtax (host) ── agent ── command
//!
//! - **Needs** root, for the throw-away layer over `/`; with `root=host` nothing.
//! - **Leaves out** every namespace but the mount namespace that holds the merged root.
//! - **Payers** the agent, in one group with the command: surtax.
//! - **Checked against** `unshare(2)`, `mount(8)`.

use crate::agent::Link;
use crate::container::first_process::FirstProcess;
use crate::container::stdio;
use crate::fault::{Doing, Fault};
use crate::lab::network::OUTSIDE;
use crate::lab::{self, Limits, Process, Program, Room, us};
use crate::layer::{
    Descriptor, Layer, LayerSpec, Limit, Payer, Reach, Rights, Root, RootKind, Running, Site,
    Source, StartGuess, Started, Unavailable, Usable, WorkloadNetwork, medium,
};
use crate::rootfs::{root, scratch};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, Role};

/// Time that the agent may take to leave after it was asked to.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// The level's own kernel and processes.
pub struct Native;

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "native", "native:root=host", "native:scratch=bind", "native:scratch=tmpfs", "native:cpus=0.5",
    "native:cpuset=0", "native:weight=50", "native:memory=1G", "native:hugetlb=0",
    "native:hugetlb=64M", "native:pids=100", "native:numa=0", "native:read-bps=8M",
    "native:write-iops=100", "native:cpuset=0,partition=root",
    "native:cpuset=0,partition=isolated",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "native",
    rights: |spec| if spec.says("root", "host") { Rights::User } else { Rights::Namespace },
    summary: "an ordinary process of this machine, on a throw-away layer over its files",
    aliases: &[("host", "")],
    reach: &[("", Reach::Level)],
    options: &[medium::CHOICE],
    limits: Limit::OF_A_GROUP,
    roots: &[RootKind::Overlay, RootKind::Host, RootKind::Directory, RootKind::Oci],
    start_guess: StartGuess::of(20),
    variants: VARIANTS,
    ..Descriptor::CONTAINER
};

impl Layer for Native {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn check(&self, _: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(Usable { facts: vec![Fact::new("kernel_release", release, "uname(2)")] })
    }

    fn start(&self, _: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let enter = |path: &Path| File::open(path).doing(format!("open `{}`", path.display()));
        let network = site.network.map(enter).transpose()?;
        let elsewhere = site.network.map(link_of).transpose()?;
        let (link, plain) = PlainProcess::start(
            network.map(OwnedFd::from),
            Grouping::Own,
            "native",
            &["stdio"],
            site,
            room,
        )?;
        let bridge = site.network.map(Path::to_path_buf);
        Ok(Started::new(link, RunningNative { plain, elsewhere, bridge }))
    }
}

/// The agent as a process of this level, on a merged root of its own: `native`, and what begins
/// with it.
pub(super) struct PlainProcess {
    kind: &'static str,
    pub process: Process,
    /// Group of the process; `None` where it was left in this level's own.
    pub group: Option<PathBuf>,
    pub hierarchies: Hierarchies,
    pub limits: Limits,
    root_facts: Vec<Fact>,
}

/// Group that a plain process is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// One of its own, with the limits of the site.
    Own,
    /// None: it stays in this level's.
    OfTheLevel,
}

impl PlainProcess {
    /// Starts the agent with these arguments, in a group with the limits of the site; and in this
    /// network namespace, if it is to be in another than this level's.
    ///
    /// # Errors
    /// The machine's: the group, a mount or the process could not be made.
    pub fn start(
        network: Option<OwnedFd>,
        grouping: Grouping,
        kind: &'static str,
        arguments: &[&str],
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Link, Self), Fault> {
        let group = match grouping {
            Grouping::Own => Some(room.subgroup("command", site.limits)?),
            Grouping::OfTheLevel => None,
        };
        let (link, ends) = stdio::link(kind)?;
        let agent = site.agent.to_string_lossy().into_owned();
        let mut program = Program {
            argv: std::iter::once(agent).chain(arguments.iter().map(|&w| w.to_owned())).collect(),
            // Root beside it may read what it was started with.
            environment: Some(lab::path_alone()),
            stdio: ends,
            group: group.clone(),
            is_ungrouped: group.is_none(),
            as_themselves: kind == DESCRIPTOR.kind,
            network_namespace: network,
            ..Program::default()
        };
        let lowers = match site.view.root {
            Root::Host => Vec::new(),
            _ => root::lowers(&site.view.root, site.cache)?,
        };
        if site.view.root != Root::Host {
            let place = room.directory();
            let above = scratch::above(site.view, room)?;
            let mut mounts = root::merge_for_native(site.view, &lowers, place, above.as_deref())?;
            mounts.extend(scratch::mounts(site.view, &root::merged_at(place), room)?);
            mounts.push(root::become_root(place));
            program.mount_namespace = Some(room.mount_namespace(&mounts)?);
        }
        let process = room.spawn(program)?;
        let plain = Self {
            kind,
            process,
            group,
            hierarchies: site.lab.hierarchies().clone(),
            limits: site.limits.clone(),
            root_facts: root::facts(&site.view.root, &lowers),
        };
        Ok((link, plain))
    }

    /// The agent and the command.
    pub fn payers(&self) -> Vec<Payer> {
        let source = match &self.group {
            Some(group) => Source::Group(group.clone()),
            // Of the two processes only the second has anything to do; the command is none of them.
            None => Source::Process(child_of(self.process.pid()).unwrap_or(self.process.pid())),
        };
        let carries_workload = self.group.is_some();
        let name = String::from("surtax agent");
        vec![Payer::new(name, Role::Surtax, source).carrying(carries_workload)]
    }

    /// The agent itself, as a process of this level.
    ///
    /// # Errors
    /// None of those that were started is in its namespaces.
    pub fn agent(&self, inside: &[Fact]) -> Result<FirstProcess, Fault> {
        match &self.group {
            Some(group) => FirstProcess::among(group, &self.hierarchies, inside),
            None => {
                let pid = self.process.pid();
                let pid = child_of(pid).unwrap_or(pid);
                let agent = FirstProcess::of(pid, &self.hierarchies);
                agent.is_the_agent(inside).map(|_| agent)
            }
        }
    }

    /// That `agent`, on this level, has the limits that were asked for, and where its root is from.
    ///
    /// # Errors
    /// A limit is not what was asked for.
    pub fn facts(&mut self, agent: &FirstProcess) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        if self.limits != Limits::default() {
            let group = self.group.as_ref().ok_or_else(|| Fault::bug("limits without a group"))?;
            facts.push(agent.group_is(group)?);
            facts.extend(agent.limits(group, &self.limits)?);
        }
        facts.append(&mut self.root_facts);
        Ok(facts)
    }

    /// Waits until the agent has left.
    ///
    /// # Errors
    /// It did not, and was killed.
    pub fn stop(mut self) -> Result<(), Fault> {
        let kind = self.kind;
        match self.process.wait(STOP_DEADLINE)? {
            Some(_) => Ok(()),
            None => Err(Fault::machine(format!("{kind}: the agent did not leave and was killed"))),
        }
    }
}

/// The first child of a process, if it has one.
fn child_of(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// That the agent runs on the kernel of this level.
///
/// # Errors
/// Another kernel answers.
pub(super) fn same_kernel(kind: &str, inside: &[Fact]) -> Result<Fact, Fault> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let theirs = crate::layer::value_of(inside, "kernel_release")?;
    if release != theirs {
        return Err(Fault::machine(format!(
            "{kind}: it runs on kernel `{theirs}`, and this level on `{release}`"
        )));
    }
    Ok(Fact::new("kernel_release", release, "uname(2), outside and inside"))
}

/// Reads the name of a namespace from a file that stands for it: `net:[4026531840]`.
fn link_of(path: &Path) -> Result<String, Fault> {
    let link = std::fs::read_link(path).doing(format!("read `{}`", path.display()))?;
    Ok(link.to_string_lossy().into_owned())
}

struct RunningNative {
    plain: PlainProcess,
    /// The network namespace that it was to be in, if not this level's.
    elsewhere: Option<String>,
    /// The file of that namespace.
    bridge: Option<PathBuf>,
}

impl Running for RunningNative {
    fn payers(&self) -> Vec<Payer> {
        self.plain.payers()
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        let Some(namespace) = self.bridge.clone() else { return Some(WorkloadNetwork::of_level()) };
        // It stands at the bridge's own address, where the outside of others on that bridge does.
        Some(WorkloadNetwork::apart(namespace, OUTSIDE, Some(OUTSIDE)))
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        for namespace in ["ipc", "net", "pid", "user", "uts"] {
            let path = format!("/proc/self/ns/{namespace}");
            let ours = match &self.elsewhere {
                Some(link) if namespace == "net" => link.clone(),
                // Of who is root of a namespace of their own, it is them again, in one below.
                _ if namespace == "user" && us::is_in_a_namespace() => {
                    us::below_ours(self.plain.process.pid())?
                }
                _ => link_of(Path::new(&path))?,
            };
            let key = format!("namespace_{namespace}");
            let theirs = crate::layer::value_of(inside, &key)?;
            if ours != theirs {
                return Err(Fault::machine(format!(
                    "native: its {namespace} namespace is `{theirs}`, and this level's is `{ours}`"
                )));
            }
            facts.push(Fact::new(key, theirs, path));
        }
        facts.push(same_kernel("native", inside)?);
        let agent = FirstProcess::of(self.plain.process.pid(), &self.plain.hierarchies);
        facts.extend(self.plain.facts(&agent)?);
        Ok(facts)
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        self.plain.stop()
    }
}
