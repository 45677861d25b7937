//! Descriptors: what the registry, the grammar, `doctor`, the help and other layers ask of a kind
//! of layer.

use super::{LayerSpec, Reaches, Rights};

/// The layer that is to be started inside of another.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// Spec of the layer, as asked for.
    pub spec: &'a LayerSpec,
    /// Descriptor of the layer.
    pub descriptor: &'static Descriptor,
}

impl Inner<'_> {
    /// Tells whether it needs this of the level that it is started on.
    #[must_use]
    pub fn needs(&self, need: Need) -> bool {
        (self.descriptor.needs)(self.spec).contains(&need)
    }
}

/// Need of a layer that not every level meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A Xen below it, whose first domain the level is.
    Xen,
    /// Kernel features that virtiofsd asks for.
    FileServer,
    /// To make a network of its own in a network namespace that is not the machine's.
    OwnNetwork,
}

/// Part of a layer that can be exchanged alone, which shows what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Option by which it is exchanged, and its value.
    pub option: (&'static str, &'static str),
    /// Words for what is there then in its place.
    pub instead: &'static str,
    /// Causes of an overhead that it may change, by their names in an explanation.
    pub causes: &'static [&'static str],
}

/// Causes that have to do with files.
pub const OF_FILES: &[&str] = &[
    "file_stat", "file_stat_first", "file_open", "file_open_first", "file_read", "file_write",
    "file_create",
];

/// Causes that every system call has a part in.
pub const OF_CALLS: &[&str] = &["system_call", "file_stat", "file_open", "file_read", "file_write"];

/// Causes that have to do with the network.
pub const OF_NETWORK: &[&str] = &["tcp_connect", "udp_send"];

/// Description of a layer for the registry, the grammar, `doctor` and the help.
#[derive(Debug)]
pub struct Descriptor {
    /// The word in a stack's text.
    pub kind: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Debian's package of its tool; empty where there is none.
    pub package: &'static str,
    /// Other words for it in a stack's text, each with the option that it means, if it means one,
    /// such as `accel=kvm`. A stack is printed without them.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Meaning of the words of its `net=` to those outside.
    pub reach: Reaches,
    /// The driver's own options.
    pub options: &'static [OptionSpec],
    /// The option without which the layer means nothing, such as the host of `ssh`. It may stand
    /// first without its key: `ssh:lab7` is `ssh:host=lab7`, which is how a stack is printed.
    pub subject: Option<&'static str>,
    /// The common limits that it maps; the others are refused.
    pub limits: &'static [Limit],
    /// True if another layer can be started inside.
    pub holds_layers: bool,
    /// True if the inside is another machine, with files of its own that are seen as they are: then
    /// there is no root to choose, and nothing of this level's files is there.
    pub is_remote: bool,
    /// Way in which its files come to it: no more than two overlays can lie on each other.
    pub files: Files,
    /// Networks on which its inside and the outside can call each other, by the words after `net=`:
    /// what is nearest to a cable first. Where one side of a workload is outside and a stack names
    /// no network, the first that fits is taken.
    pub both_ways: &'static [&'static str],
    /// Sources that its root file system may come from.
    pub roots: &'static [RootKind],
    /// True if its inside has memory of its own, which other limits do not end.
    pub has_own_memory: bool,
    /// True if it holds its program itself, and shows a command none of its level's files.
    pub has_own_program: bool,
    /// Word of `user=` that goes without saying, where the kernel has to map the owners of its
    /// files for users of its own; `None` where it never has to.
    pub default_users: Option<&'static str>,
    /// True if it shuts the kernel's keyrings to a command, of which root's are this machine's.
    pub shuts_keyrings: bool,
    /// Lists what it needs of its level that not every level has.
    pub needs: fn(&LayerSpec) -> &'static [Need],
    /// Time that a start may take before one was measured.
    pub start_guess: StartGuess,
    /// Tells whether its check may boot a guest that proves KVM.
    pub may_prove_kvm: fn(&LayerSpec) -> bool,
    /// Tells whether its guest's instructions are translated.
    pub translates: fn(&LayerSpec) -> bool,
    /// True if the doctor asks about it; false for a layer that tests surtax itself.
    pub is_listed: bool,
    /// Tells what rights it takes to start.
    pub rights: fn(&LayerSpec) -> Rights,
    /// Parts of it that can be exchanged alone.
    pub exchanges: &'static [Exchange],
    /// Variants that the doctor asks about: every way in which two of the kind differ in what they
    /// need or cost. The kind alone, if none is given.
    pub variants: &'static [&'static str],
    /// Those that nobody of us has run, of a kind that we have.
    pub not_yet_run: &'static [&'static str],
    /// True if what it needs is seen from a level outside, as a level's files are, and no other
    /// kernel than its own.
    pub is_seen_from_outside: bool,
    /// True if it runs below the kernel of its level, which counts nothing of what its guests use.
    pub is_below_kernel: bool,
    /// True if it has run on real hardware of the kind it needs; false if only here in emulation.
    pub ran_on_hardware: bool,
}

impl Descriptor {
    /// Descriptor of most containers, but for what each must say itself: a container driver states
    /// the rest as it differs.
    pub const CONTAINER: Self = Self {
        kind: "",
        summary: "",
        package: "",
        aliases: &[],
        reach: &[],
        options: &[],
        subject: None,
        limits: &[],
        holds_layers: false,
        is_remote: false,
        files: Files::Overlaid,
        both_ways: &[],
        roots: &[RootKind::Overlay, RootKind::Directory, RootKind::Oci],
        has_own_memory: false,
        has_own_program: false,
        default_users: None,
        shuts_keyrings: false,
        needs: |_| &[],
        start_guess: StartGuess::of(200),
        may_prove_kvm: |_| false,
        translates: |_| false,
        is_listed: true,
        rights: |_| Rights::Root,
        exchanges: &[],
        variants: &[],
        not_yet_run: &[],
        is_seen_from_outside: true,
        is_below_kernel: false,
        ran_on_hardware: true,
    };

    /// Descriptor of most machines with a kernel of their own.
    pub const MACHINE: Self = Self {
        files: Files::OfItsOwn,
        has_own_memory: true,
        start_guess: StartGuess::of(2_000),
        ran_on_hardware: false,
        ..Self::CONTAINER
    };

    /// Lists the keys of the driver's options that name a file of its level.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().filter(|option| option.is_path).map(|option| option.key)
    }

    /// Finds the descriptor of a kind.
    #[must_use]
    pub fn of_kind(kind: &str, descriptors: &[&'static Self]) -> Option<&'static Self> {
        descriptors.iter().find(|descriptor| descriptor.kind == kind).copied()
    }
}

/// Time that a start may take before one was measured, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct StartGuess {
    /// On the CPU itself.
    pub milliseconds: u64,
    /// Milliseconds where each instruction is translated.
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
    /// `oci:PATH`, or `docker://NAME` in a registry.
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
            Self::Oci => "oci:PATH, docker://NAME",
            Self::Image => "image:PATH",
            Self::Packed => "packed",
        }
    }
}

/// Way in which a layer's files come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// By an overlay over those of its level, unless these are shown as they are.
    Overlaid,
    /// By a server or in memory to a kernel of its own, where one overlay lies over them; a whole
    /// system from an image has a file system of its own.
    OfItsOwn,
    /// Nothing is laid over those that it has: the level's, another machine's, or none.
    AsTheyAre,
}

/// One option of a layer.
#[derive(Debug)]
pub struct OptionSpec {
    /// The word before `=`.
    pub key: &'static str,
    /// The words allowed after it; empty when any text is.
    pub values: &'static [&'static str],
    /// One line for people, with the default.
    pub help: &'static str,
    /// True if its value names a file of the layer's level.
    pub is_path: bool,
}

impl OptionSpec {
    /// The same with its line for people.
    #[must_use]
    pub const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// The same, whose value names a file of the layer's level.
    #[must_use]
    pub const fn path(self) -> Self {
        Self { is_path: true, ..self }
    }
}

/// An option whose line for people follows; any text is its value where no words are allowed alone.
#[must_use]
pub const fn option(key: &'static str, values: &'static [&'static str]) -> OptionSpec {
    OptionSpec { key, values, help: "", is_path: false }
}

/// A common limit, by the field of [`crate::lab::Limits`]; see [`Limit::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// CPUs' worth of time.
    Cpus,
    /// CPUs on which it may run.
    Cpuset,
    /// Memory.
    Memory,
    /// Memory of huge pages.
    Hugetlb,
    /// Processes and threads.
    Pids,
    /// Share of CPUs that others want too.
    Weight,
    /// CPUs that are nobody else's.
    Partition,
    /// Nodes from which its memory may come.
    Numa,
    /// Bytes and requests a second, from and to the disk.
    Io,
}

impl Limit {
    /// The words before `=` by which it is asked for.
    #[must_use]
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Cpus => &["cpus"],
            Self::Cpuset => &["cpuset"],
            Self::Memory => &["memory"],
            Self::Hugetlb => &["hugetlb"],
            Self::Pids => &["pids"],
            Self::Weight => &["weight"],
            Self::Partition => &["partition"],
            Self::Numa => &["numa"],
            Self::Io => &["read-bps", "write-bps", "read-iops", "write-iops"],
        }
    }

    /// Every limit.
    pub const ALL: [Self; 9] = {
        use Limit::*;
        [Cpus, Cpuset, Memory, Hugetlb, Pids, Weight, Numa, Io, Partition]
    };

    /// Limits that we can tell the kernel of a group of our own.
    pub const OF_A_GROUP: &'static [Self] = &Self::ALL;

    /// Limits that engines and runtimes can tell the kernel of a container's group.
    pub const OF_A_CONTAINER: &'static [Self] = {
        use Limit::*;
        &[Cpus, Cpuset, Memory, Hugetlb, Pids, Weight, Numa, Io]
    };

    /// Limits that a machine has of its own, and those that hold for the group of those who make
    /// it.
    pub const OF_A_MACHINE: &'static [Self] = {
        use Limit::*;
        &[Cpus, Cpuset, Memory, Weight, Numa, Io, Partition]
    };
}
