//! Layers: each is one way of starting one process, our agent, somewhere else.
//!
//! Here is the contract between drivers and everybody else, and how stacks are written. No driver
//! is known here.

mod descriptor;
mod common_options;
pub mod impairment;
mod list;
pub mod medium;
mod nearest;
mod parse;
pub(crate) mod publish;
mod reach;
mod rights;
mod site;
mod spec;
mod tool_file;

use crate::agent::Link;
use crate::fault::{Blame, Fault};
use crate::lab::{self, Limits, Room, us};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use surtax_instrument::probe::command_group::CommandGroup;
use surtax_instrument::probe::machine::{self, Links};
use surtax_instrument::wire::{Fact, Role};

pub use descriptor::{
    Descriptor, Exchange, Files, Inner, Limit, Need, OF_CALLS, OF_FILES, OF_NETWORK, OptionSpec,
    RootKind, StartGuess, option,
};
pub use list::{parse_list_with, split_list};
pub use nearest::{instead, nearest};
#[cfg(test)]
pub(crate) use parse::tests;
pub use parse::{DEPTH_LIMIT, meaning};
pub use reach::{NETWORK, Reach, Reaches};
pub use rights::Rights;
pub use site::{OWN_PLACES, Root, Site, TRANSPORT, View};
pub use spec::{LayerSpec, StackSpec};
pub use tool_file::BINARY;
pub(crate) use tool_file::{TOOL, ToolFile};

/// Returns what the agent said of `key`.
///
/// # Errors
/// The machine's: it said nothing of it.
pub fn value_of<'a>(inside: &'a [Fact], key: &str) -> Result<&'a str, Fault> {
    let fact = inside.iter().find(|fact| fact.key == key);
    fact.map(|fact| fact.value.as_str())
        .ok_or_else(|| Fault::machine(format!("the agent could not see `{key}`")))
}

impl From<Fault> for Unavailable {
    fn from(fault: Fault) -> Self {
        Self { blame: fault.blame, why: fault.message, remedy: fault.hint }
    }
}

impl Unavailable {
    /// The same as the fault of a start that cannot do without.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault { blame: self.blame, hint: self.remedy, ..Fault::machine(self.why) }
    }
}

/// One way of starting the agent somewhere else.
pub trait Layer: Sync {
    /// Returns the layer's descriptor: its name, and which options it takes.
    fn descriptor(&self) -> &'static Descriptor;

    /// Refuses what cannot be, on whatever machine: options that contradict each other, a layer
    /// inside that cannot run there. It is asked before anything of a plan is started.
    ///
    /// # Errors
    /// The user's: what contradicts what, and what to write instead.
    fn refuse(
        &self,
        _spec: &LayerSpec,
        _limits: &Limits,
        _inside: Option<Inner<'_>>,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Lists files of this level that the layer is made of, absolute: no command may write where
    /// one of them is.
    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        spec.files(self.descriptor())
    }

    /// Says whether this machine can run the layer; if it cannot, why, and what would help.
    ///
    /// Looks, and changes nothing: `surtax doctor` calls it on machines we were only asked to
    /// inspect.
    ///
    /// # Errors
    /// Why not, and the command that would make it so.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable>;

    /// Starts what outlives a trial, such as an engine's daemon and the image in it: it is called
    /// before the first trial, so that none pays for that. A start without it does the same where
    /// it is missing.
    ///
    /// # Errors
    /// What could not be started. Nothing of it is left, and a start will say it again.
    fn prepare(&self, _spec: &LayerSpec, _site: &Site<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// Starts the agent in a new instance of the layer. A start that fails half-way leaves nothing.
    ///
    /// # Errors
    /// What could not be started, with the foreign tool's last words.
    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault>;
}

/// A layer that was started, and the way to its agent.
pub struct Started {
    /// The way to the agent, which leaves when that ends: so it goes before the layer does.
    pub link: Link,
    /// The layer.
    pub running: Box<dyn Running>,
}

impl Started {
    /// A layer with the way to its agent.
    pub fn new(link: Link, running: impl Running + 'static) -> Self {
        Self { link, running: Box::new(running) }
    }
}

/// A layer whose agent has been started. Dropped, it is stopped without a report.
pub trait Running: Send {
    /// Lists who works for this layer on the level where it was started, right now.
    fn payers(&self) -> Vec<Payer>;

    /// Proves what runs: what was asked of the foreign tool, cross-checked with what the agent saw.
    ///
    /// # Errors
    /// The two disagree, or a claim of the stack's text is not true: the trial is invalid.
    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault>;

    /// Returns how the workload and the outside reach each other; `None` where they cannot.
    ///
    /// The outside is whoever talks with the workload: a client of its, or a server. It stands on
    /// the level where this layer was started.
    fn network(&self) -> Option<WorkloadNetwork> {
        None
    }

    /// Tells how the process that carries the stack has ended, if it has; it is told where its
    /// agent is gone.
    fn exit_reason(&mut self) -> Option<String> {
        None
    }

    /// Ends it. The room removes what is left; that anything was left is said by the room.
    ///
    /// # Errors
    /// It would not end in time and had to be killed.
    fn stop(self: Box<Self>) -> Result<(), Fault>;
}

/// The network between a layer's workload and the outside.
///
/// Whoever wants to talk with the workload enters `namespace` and listens there: the workload calls
/// `outside`. To call the workload, they use `workload` from in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadNetwork {
    /// The network namespace in which the outside stands: a file of the level where the layer was
    /// started, such as `/proc/PID/ns/net`, to be opened and entered while the layer runs.
    pub namespace: PathBuf,
    /// The outside's address, as the workload sees it.
    pub outside: IpAddr,
    /// The workload's address, as the outside sees it; `None` where the workload can only call.
    pub workload: Option<IpAddr>,
    /// True if the workload is itself in `namespace`, as on the level's own network: then it
    /// reaches all that the level reaches, under the same addresses.
    pub is_shared: bool,
    /// True if the workload is on another machine, which is reached over the level's own network:
    /// then each side listens at the address that the other one calls, and at no other.
    pub is_far: bool,
    /// The port at which what was booted serves by itself, where it can hold no server of ours:
    /// then a command in the stack is its client.
    pub serves: Option<u16>,
    /// A port of the workload's that is also one of `outside`, by destination NAT.
    pub published: Option<publish::Port>,
}

impl WorkloadNetwork {
    /// That of a workload which is in no network of its level's: the outside stands in
    /// `namespace`, and each has an address there, unless the workload can only call.
    #[must_use]
    pub fn apart(
        namespace: PathBuf,
        outside: impl Into<IpAddr>,
        workload: Option<impl Into<IpAddr>>,
    ) -> Self {
        let (outside, workload) = (outside.into(), workload.map(Into::into));
        Self { namespace, outside, workload, is_shared: false, ..Self::of_level() }
    }

    /// That of a layer which leaves its workload on the network of its level.
    #[must_use]
    pub fn of_level() -> Self {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            namespace: PathBuf::from(format!("/proc/{}/ns/net", std::process::id())),
            outside: address,
            workload: Some(address),
            is_shared: true,
            is_far: false,
            serves: None,
            published: None,
        }
    }
}

/// A layer that can run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// Facts that were found: programs with their versions, the accelerator, the daemon.
    pub facts: Vec<Fact>,
}

/// A layer that cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Whose it is: mostly the machine's; the user's where what was typed can run on none.
    pub blame: Blame,
    /// Reason: what is missing or wrong.
    pub why: String,
    /// The command that would make it usable, where one is known.
    pub remedy: Option<String>,
}

impl Unavailable {
    /// A layer that cannot run here, and what would make it usable.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { blame: Blame::Machine, why: why.into(), remedy: Some(remedy.into()) }
    }
}

/// That this process is root's.
///
/// # Errors
/// It is not, and `why` it has to be.
pub(crate) fn require_root(why: &str) -> Result<(), Unavailable> {
    match us::is_machines_root() {
        true => Ok(()),
        false => Err(Unavailable::new(why, "sudo surtax …")),
    }
}

/// The path of a program, which is installed by `remedy`.
///
/// # Errors
/// It is not in `PATH`.
pub(crate) fn require_program(program: &str, remedy: &str) -> Result<PathBuf, Unavailable> {
    let missing = || Unavailable::new(format!("`{program}` is not in `PATH`"), remedy);
    lab::find(program).ok_or_else(missing)
}

/// Somebody who works for a layer, and where the kernel counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// For people: `virtiofsd`, `dockerd`, `vCPU threads`.
    pub name: String,
    /// Part of the bill that is the payer's.
    pub role: Role,
    /// Source of its CPU time and memory.
    pub source: Source,
    /// True if the deeper levels and the command run inside it.
    pub carries_workload: bool,
    /// True if it is there for all trials of a run, as a daemon is, so that its memory is no single
    /// one's.
    pub is_shared: bool,
    /// The part of the payer's group in which nobody works for the layer, where there is one.
    pub command: Option<CommandGroup>,
}

impl Payer {
    /// Someone of a trial's own, who does not carry the workload.
    pub fn new(name: impl Into<String>, role: Role, source: Source) -> Self {
        let (carries_workload, is_shared, command) = (false, false, None);
        Self { name: name.into(), role, source, carries_workload, is_shared, command }
    }

    /// Somebody who is there, of whom nothing tells which process it is: what it uses is unknown,
    /// and so is every sum of which that is a part.
    pub fn untold(name: impl Into<String>, role: Role) -> Self {
        // No process has that number.
        Self::new(name, role, Source::Process(0))
    }

    /// The process of a machine monitor: its virtual CPUs, which carry the workload, and its other
    /// threads.
    #[must_use]
    pub fn of_machine(monitor: &str, pid: u32, vcpus: Vec<u32>) -> [Self; 2] {
        let others = Source::OtherThreads { pid, except: vcpus.clone() };
        let vcpus = Source::Threads { pid, tids: vcpus };
        [
            Self::new("vCPU threads", Role::GuestKernel, vcpus).carrying(true),
            Self::new(format!("{monitor}'s other threads"), Role::Hypervisor, others),
        ]
    }

    /// This machine as a whole, and each of its network links: nobody who pays.
    #[must_use]
    pub fn whole_machine() -> Vec<Self> {
        let link = |(name, _): (String, _)| {
            Self::new(format!("{}{name}", machine::LINK), Role::Machine, Source::Link(name))
        };
        let links = Links::open(Path::new("/")).read();
        let machine = Self::new(machine::MACHINE, Role::Machine, Source::Machine);
        std::iter::once(machine).chain(links.into_iter().map(link)).collect()
    }

    /// The same who carries the workload, if `carries_workload`.
    #[must_use]
    pub fn carrying(self, carries_workload: bool) -> Self {
        Self { carries_workload, ..self }
    }
}

/// Place where a payer's usage is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One process with all its threads.
    Process(u32),
    /// Some threads of one process.
    Threads {
        /// The process.
        pid: u32,
        /// Ids of the threads.
        tids: Vec<u32>,
    },
    /// All threads of one process but these.
    OtherThreads {
        /// The process.
        pid: u32,
        /// Those that another payer has.
        except: Vec<u32>,
    },
    /// A group of the room, with everything that ever ran in it.
    Group(PathBuf),
    /// A domain of Xen's, by its number, with everything in it: counted by Xen.
    Domain(u16),
    /// This whole machine, by its own kernel's account.
    Machine,
    /// A network link of it.
    Link(String),
}
