//! Layers: each is one way of starting one process, our agent, somewhere else.
//!
//! Here is the contract between drivers and everybody else, and how stacks are written. No driver is known here.

mod common_options;
mod list;
pub mod medium;
mod nearest;
mod parse;
pub(crate) mod publish;
mod reach;
mod spec;
pub mod watch;

use crate::agent::Link;
use crate::fault::Fault;
use crate::lab::{Lab, Limits, Room};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::{Command, Fact, Role};

pub use list::parse_list_with;
pub use nearest::{instead, nearest};
pub use parse::DEPTH_LIMIT;
#[cfg(test)]
pub(crate) use parse::tests;
pub use reach::{Reach, Reaches};
pub use spec::{LayerSpec, StackSpec};

/// What the agent said of `key`.
///
/// # Errors
/// The machine's: it said nothing of it.
pub fn value_of<'a>(inside: &'a [Fact], key: &str) -> Result<&'a str, Fault> {
    let fact = inside.iter().find(|fact| fact.key == key);
    fact.map(|fact| fact.value.as_str())
        .ok_or_else(|| Fault::machine(format!("the agent could not see `{key}`")))
}

/// Takes the link of a layer of this kind.
///
/// # Errors
/// Ours: it was taken before.
pub(crate) fn take_link(link: &mut Option<Link>, kind: &str) -> Result<Link, Fault> {
    link.take().ok_or_else(|| Fault::bug(format!("the link of `{kind}` was taken twice")))
}

impl From<Fault> for Unavailable {
    fn from(fault: Fault) -> Self {
        Self { why: fault.message, remedy: fault.hint }
    }
}

impl Unavailable {
    /// The same as the fault of a start that cannot do without.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault { hint: self.remedy, ..Fault::machine(self.why) }
    }
}

/// One way of starting the agent somewhere else.
pub trait Layer: Sync {
    /// What the layer is called and which options it takes.
    fn card(&self) -> &'static Card;

    /// Refuses what cannot be, on whatever machine: options that contradict each other, a layer inside that
    /// cannot run there. It is asked before anything of a plan is started.
    ///
    /// # Errors
    /// The user's: what contradicts what, and what to write instead.
    fn refuse(
        &self,
        _spec: &LayerSpec,
        _limits: &Limits,
        _inside: Option<&LayerSpec>,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Says whether this machine can run the layer; if it cannot, why, and what would help.
    ///
    /// Looks, and changes nothing: `surtax doctor` calls it on machines we were only asked to inspect.
    ///
    /// # Errors
    /// Why not, and the command that would make it so.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable>;

    /// Starts what outlives a trial, such as an engine's daemon and the image in it: it is called before the first trial, so
    /// that none pays for that. A start without it does the same where it is missing.
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
    fn start(
        &self,
        spec: &LayerSpec,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Box<dyn Running>, Fault>;
}

/// A layer whose agent has been started. Dropped, it is stopped without a report.
pub trait Running: Send {
    /// The way to the agent, once.
    ///
    /// # Errors
    /// The layer's, when the agent did not come up.
    fn link(&mut self) -> Result<Link, Fault>;

    /// Who works for this layer on the level where it was started, right now.
    fn payers(&self) -> Vec<Payer>;

    /// Proves what runs: what was asked of the foreign tool, cross-checked with what the agent saw.
    ///
    /// # Errors
    /// The two disagree, or a claim of the stack's text is not true: the trial is invalid.
    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault>;

    /// How the workload and the outside reach each other; `None` where they cannot.
    ///
    /// The outside is whoever talks with the workload: a client of its, or a server. It stands on the
    /// level where this layer was started.
    fn network(&self) -> Option<Network> {
        None
    }

    /// How the process that carries the stack has ended, if it has: told where its agent is gone.
    fn obituary(&mut self) -> Option<String> {
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
/// Whoever wants to talk with the workload enters `namespace`, and listens there on every address: the
/// workload calls `outside`. To call the workload, they use `workload` from in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The network namespace in which the outside stands: a file of the level where the layer was
    /// started, such as `/proc/PID/ns/net`, to be opened and entered while the layer runs.
    pub namespace: PathBuf,
    /// The outside's address, as the workload sees it.
    pub outside: IpAddr,
    /// The workload's address, as the outside sees it; `None` where the workload can only call.
    pub workload: Option<IpAddr>,
    /// Whether the workload is itself in `namespace`, as on the level's own network: then it reaches all
    /// that the level reaches, under the same addresses.
    pub is_shared: bool,
    /// Whether the workload is on another machine, which is reached over the level's own network: then each side
    /// listens at the address that the other one calls, and at no other.
    pub is_far: bool,
    /// The port at which what was booted serves by itself, where it can hold no server of ours: then a command in
    /// the stack is its client.
    pub serves: Option<u16>,
    /// A port of the workload's that is also one of `outside`, by destination NAT.
    pub published: Option<publish::Port>,
}

impl Network {
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

/// What the registry, the grammar, `doctor` and the help say about a layer.
#[derive(Debug)]
pub struct Card {
    /// The word in a stack's text.
    pub kind: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// What the words of its `net=` mean to those outside.
    pub reach: Reaches,
    /// The driver's own options.
    pub options: &'static [Choice],
    /// The option without which the layer means nothing, such as the host of `ssh`. It may stand first
    /// without its key: `ssh:lab7` is `ssh:host=lab7`, which is how a stack is printed.
    pub subject: Option<&'static str>,
    /// The common limits that it maps; the others are refused.
    pub limits: &'static [Limit],
    /// Whether another layer can be started inside.
    pub holds_layers: bool,
    /// Whether the inside is another machine, with files of its own that are seen as they are: then
    /// there is no root to choose, and nothing of this level's files is there.
    pub elsewhere: bool,
    /// How its files come to it: no more than two overlays can lie on each other.
    pub files: Files,
    /// Networks on which its inside and the outside can call each other, by the words after `net=`: what is nearest
    /// to a cable first. Where one side of a workload is outside and a stack names no network, the first that
    /// fits is taken.
    pub both_ways: &'static [&'static str],
    /// Where its root file system may come from.
    pub roots: &'static [RootKind],
    /// Whether its inside has memory of its own, which other limits do not end.
    pub has_own_memory: bool,
    /// Whether it holds its program itself, and shows a command none of its level's files.
    pub has_own_program: bool,
    /// Whether the kernel has to map the owners of its files for users of its own.
    pub maps_owners: bool,
    /// How long a start may take before one was measured.
    pub start_guess: StartGuess,
    /// Whether its check may boot a guest that proves KVM.
    pub may_prove_kvm: bool,
    /// Whether the doctor asks about it; not of a layer that tests surtax itself.
    pub is_listed: bool,
    /// What the doctor asks about: every way in which two of the kind differ in what they need or cost. The kind alone, if
    /// none is given.
    pub variants: &'static [&'static str],
    /// Those that nobody of us has run, of a kind that we have.
    pub not_yet_run: &'static [&'static str],
    /// Whether what it needs is seen from a level outside, as a level's files are, and no other kernel than its own.
    pub is_seen_from_outside: bool,
    /// Whether it has run on real hardware of the kind it needs, or only here in emulation.
    pub ran_on_hardware: bool,
}

impl Card {
    /// What most containers are, but for what each must say itself: a container driver states the rest as it differs.
    pub const CONTAINER: Self = Self {
        kind: "",
        summary: "",
        reach: &[],
        options: &[],
        subject: None,
        limits: &[],
        holds_layers: false,
        elsewhere: false,
        files: Files::Overlaid,
        both_ways: &[],
        roots: &[RootKind::Overlay, RootKind::Directory, RootKind::Oci],
        has_own_memory: false,
        has_own_program: false,
        maps_owners: false,
        start_guess: StartGuess::of(200),
        may_prove_kvm: false,
        is_listed: true,
        variants: &[],
        not_yet_run: &[],
        is_seen_from_outside: true,
        ran_on_hardware: true,
    };

    /// What most machines with a kernel of their own are.
    pub const MACHINE: Self = Self {
        files: Files::OfItsOwn,
        has_own_memory: true,
        start_guess: StartGuess::of(2_000),
        ran_on_hardware: false,
        ..Self::CONTAINER
    };
}

/// How long a start may take before one was measured, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct StartGuess {
    /// On the CPU itself.
    pub milliseconds: u64,
    /// Where each instruction is translated.
    pub translated_milliseconds: u64,
}

impl StartGuess {
    /// One that translation does not change.
    #[must_use]
    pub const fn of(milliseconds: u64) -> Self {
        Self { milliseconds, translated_milliseconds: milliseconds }
    }
}

/// Kinds of root file systems: what may follow `root=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// `overlay`.
    Overlay,
    /// `host`.
    Host,
    /// `dir:PATH`.
    Directory,
    /// `oci:PATH`.
    Oci,
    /// `image:PATH`.
    Image,
    /// `packed`.
    Packed,
}

impl RootKind {
    /// As it is written.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Host => "host",
            Self::Directory => "dir:PATH",
            Self::Oci => "oci:PATH",
            Self::Image => "image:PATH",
            Self::Packed => "packed",
        }
    }
}

/// How a layer's files come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// By an overlay over those of its level, unless these are shown as they are.
    Overlaid,
    /// By a server or in memory to a kernel of its own, where one overlay lies over them; a whole system from an
    /// image has a file system of its own.
    OfItsOwn,
    /// Nothing is laid over those that it has: the level's, another machine's, or none.
    AsTheyAre,
}

/// One option of a layer.
#[derive(Debug)]
pub struct Choice {
    /// The word before `=`.
    pub key: &'static str,
    /// The words allowed after it; empty when any text is.
    pub values: &'static [&'static str],
    /// One line for people, with the default.
    pub help: &'static str,
}

/// The names of the fields of [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `cpus`
    Cpus,
    /// `cpuset`
    Cpuset,
    /// `memory`
    Memory,
    /// `hugetlb`
    Hugetlb,
    /// `pids`
    Pids,
    /// `weight`
    Weight,
    /// `partition`
    Partition,
    /// `numa`
    Numa,
    /// `read-bps`, `write-bps`, `read-iops` and `write-iops`
    Io,
}

impl Limit {
    /// What engines and runtimes can tell the kernel of a container's group.
    pub const OF_A_CONTAINER: &'static [Self] = &[
        Self::Cpus,
        Self::Cpuset,
        Self::Memory,
        Self::Hugetlb,
        Self::Pids,
        Self::Weight,
        Self::Numa,
        Self::Io,
    ];

    /// What a machine has of its own, and what holds for the group of those who make it.
    pub const OF_A_MACHINE: &'static [Self] = &[
        Self::Cpus,
        Self::Cpuset,
        Self::Memory,
        Self::Weight,
        Self::Numa,
        Self::Io,
        Self::Partition,
    ];

    /// What we can tell the kernel of a group of our own.
    pub const OF_A_GROUP: &'static [Self] = &[
        Self::Cpus,
        Self::Cpuset,
        Self::Memory,
        Self::Hugetlb,
        Self::Pids,
        Self::Weight,
        Self::Numa,
        Self::Io,
        Self::Partition,
    ];
}

/// Where a layer is started: the level, what is at hand there, and what the command must see.
pub struct Site<'a> {
    /// The one door to the level's objects.
    pub lab: &'a Lab,
    /// 0 is the host.
    pub level: u8,
    /// The static agent, as a file of this level.
    pub agent: &'a Path,
    /// Kernels, unpacked images and verdicts that outlive a run.
    pub cache: &'a Path,
    /// What the command must see.
    pub view: &'a View,
    /// The command that will run, where that is known: for a layer that is made for it alone.
    pub command: Option<&'a Command>,
    /// The layer's share of the common limits.
    pub limits: &'a Limits,
    /// Whether another layer will be started inside: then it gets the privileges that takes, as
    /// with `docker run --privileged`, and its evidence says so.
    pub carries_layers: bool,
    /// The network namespace of a process of this level that is to stand in another than the level's own:
    /// of `native` alone, with which the outside of another stack is made.
    pub network: Option<&'a Path>,
    /// How long the layer may take to start.
    pub start_deadline: Duration,
}

impl Site<'_> {
    /// A name for the container of this room: ours, and nobody else's on this machine.
    pub fn container_name(&self, room: &Room) -> String {
        let room = room.directory().file_name().unwrap_or_default().to_string_lossy();
        format!("surtax-{}-{room}", self.lab.id())
    }
}

/// What a command sees: the same files in every stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Where its root comes from.
    pub root: Root,
    /// Directories whose writes are kept.
    pub writable: Vec<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Where its scratch directory is, if it has one.
    pub scratch: Option<medium::Medium>,
    /// Whether it sees what this level keeps secret.
    pub shows_secrets: bool,
}

/// Where a root file system comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The level's own root under a throw-away upper layer: `root=overlay`, the default.
    Overlay,
    /// The level's own root as it is, writes and all: `root=host`, for `native`, and the only one of another
    /// machine.
    Host,
    /// A directory under a throw-away upper layer: `root=dir:/path`.
    Directory(PathBuf),
    /// An OCI image layout, a directory or an archive: `root=oci:/path`.
    Oci(PathBuf),
    /// The image of a disk with a whole system, for virtual machines: `root=image:/path`.
    Image(PathBuf),
    /// The command's own file and its libraries, and nothing else: `root=packed`, for a machine of its own.
    Packed,
}

/// A layer that can run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// What was found: programs with their versions, the accelerator, the daemon.
    pub facts: Vec<Fact>,
}

/// A layer that cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What is missing or wrong.
    pub why: String,
    /// The command that would make it usable, where one is known.
    pub remedy: Option<String>,
}

/// Somebody who works for a layer, and where the kernel counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// For people: `virtiofsd`, `dockerd`, `vCPU threads`.
    pub name: String,
    /// Its part of the bill.
    pub role: Role,
    /// Where its CPU time and memory are read.
    pub source: Source,
    /// Whether the deeper levels and the command run inside it.
    pub carries_workload: bool,
    /// Whether it is there for all trials of a run, as a daemon is, so that its memory is no single one's.
    pub is_shared: bool,
}

/// Where a payer's usage is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One process with all its threads.
    Process(u32),
    /// Some threads of one process.
    Threads {
        /// The process.
        pid: u32,
        /// Its threads.
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
}
