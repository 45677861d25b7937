//! The wire: what surtax and its agent say to each other, as frames on a byte stream.
//!
//! A frame is a length (`u32`, little endian, at most [`FRAME_LIMIT`]) and four bytes of seal over
//! it, one byte of kind, the fields in order, and sixteen bytes of seal over both: see `seal.rs`.
//! Integers are little endian, byte strings have a `u32` length before them, lists a `u32` count.
//! Written by hand so that a hostile guest meets a reader that checks every length before it
//! allocates.
//!
//! The same language serves two speakers on the inside: the **agent**, which starts the command,
//! and the **starter** (the full binary pushed into a level), which starts the next layer there and
//! passes on what its agent says. [`Request::StartNested`] is understood by the starter only.

mod encoding;
mod failure;
mod outcome;
mod seal;
pub mod specimen;
mod status;

use crate::amount::{Amounts, CPU_SYSTEM, CPU_USER};
use crate::quantity::Nanoseconds;
pub use encoding::{
    Malformed, WireError, body_of, length_of_reply, read_reply, read_request, require_short,
    write_any, write_reply, write_request,
};
pub use failure::{Cause, FORGED, Failure};
pub use outcome::{Calls, INSTANCE_VARIABLE, INSTANCES_LIMIT, Instance, Outcome, Output, Stops};
pub use seal::{Opener, Sealer, agents, hosts};
pub use status::Status;

/// Raised whenever a frame changes its meaning; both ends must agree.
pub const PROTOCOL: u16 = 15;

/// The longest frame that either side accepts, in bytes.
pub const FRAME_LIMIT: usize = 1 << 20;

/// The most bytes of one [`Request::Put`] or `Data` frame.
pub const CHUNK: usize = 64 << 10;

/// Key of the fact by which a host sees whether the command's file was changed while it ran.
pub const COMMAND_FILE_STATE: &str = "command_file_state";

/// Size of the input that an agent keeps for a command that reads none of it, in bytes: a host that
/// sent less may still be answered, and one that sent more may have to wait for the command.
pub const INPUT_ROOM: usize = 256 << 10;

/// Path at which a starter is put that the level does not have. Under a lease no file is made of
/// it: the agent keeps it in memory, under this name, for a [`Request::Relay`].
pub const PUSHED_STARTER: &str = "/surtax-starter";

/// Path at which a command finds its scratch directory, in every stack that names a medium for it.
pub const SCRATCH: &str = "/scratch";

/// Request of the outside to the inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Make ready to start this command, and answer [`Reply::Started`].
    Run(Command),
    /// Start it now; [`Reply::Ended`] follows when it ends, and then [`Reply::Exited`]. That the
    /// host says so only after it has seen `Started` keeps the two frames apart: on a slow channel
    /// they would arrive together.
    Go,
    /// Kill the running command; its [`Reply::Exited`] follows.
    Cancel,
    /// Say which file this command is there, and read it. Answer: [`Reply::Identity`].
    Resolve(Command),
    /// Say which file it is as far as can be told without reading it. Answer: [`Reply::Identity`].
    Locate(Command),
    /// Append `bytes` to the file at `path`, made with `mode` if absent. Answer:
    /// [`Reply::Written`].
    Put {
        /// Absolute path on the inside.
        path: Vec<u8>,
        /// Permission bits of a file that is made.
        mode: u32,
        /// Bytes to append; at most [`CHUNK`].
        bytes: Vec<u8>,
    },
    /// Start this process and pass bytes between it and us as `Data`, until it ends.
    Relay(Command),
    /// Bytes for the relayed process's standard input.
    Data(Vec<u8>),
    /// Close the relayed process's standard input.
    CloseRelay,
    /// The terminal of the relayed process has this size now.
    Resize {
        /// Lines.
        rows: u16,
        /// Characters in a line.
        columns: u16,
    },
    /// Say what time it is there. Answer: [`Reply::Clock`].
    Clock,
    /// Say what can be seen there. Answer: [`Reply::Identity`].
    Identify,
    /// Write what is dirty to disk and drop the page cache. Answer: [`Reply::Dropped`].
    DropCaches,
    /// The host is still there. It renews an agent's lease, if it has one, and has no answer.
    KeepAlive,
    /// Starter only: start the rest of the stack there. Answer: [`Reply::StartedNested`].
    StartNested(StartNested),
    /// End everything that was started and answer [`Reply::Stopped`], then leave.
    Stop,
}

/// Reply of the inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// First frame after start.
    Hello(Hello),
    /// The command is ready to be started.
    Started {
        /// `CLOCK_MONOTONIC_RAW` of the level.
        at: Nanoseconds,
    },
    /// The command has just ended; [`Reply::Exited`] follows when all that it left is gone. That it
    /// is said at once is what the host holds the command's time against.
    Ended {
        /// `CLOCK_MONOTONIC_RAW` of the level.
        at: Nanoseconds,
    },
    /// Outcome of the command that has ended.
    Exited(Box<Outcome>),
    /// Readings of what each payer of the starter's own levels used during the run; sent by a
    /// starter after `Exited`, so that reading the counters is not timed.
    Bill(Vec<Reading>),
    /// Sight of a level at a moment while a command runs, where that was asked for.
    Sampled {
        /// `CLOCK_MONOTONIC_RAW` of the level, before it looked.
        at: Nanoseconds,
        /// Readings, all of one level; of what grows, since the command was to begin.
        readings: Vec<Reading>,
    },
    /// The request could not be done.
    Failed(Failure),
    /// The bytes of a `Put` are in the file.
    Written,
    /// Bytes from the relayed process's standard output.
    Data(Vec<u8>),
    /// The relayed process has ended.
    RelayEnded {
        /// Status with which it ended.
        status: Status,
        /// The end of its standard error.
        stderr: Vec<u8>,
    },
    /// The level's clock now.
    Clock {
        /// `CLOCK_MONOTONIC_RAW` of the level.
        at: Nanoseconds,
        /// The same of each level of a starter that passed this on, by its number, the innermost
        /// first.
        passed: Vec<(u8, Nanoseconds)>,
    },
    /// Facts seen on the inside.
    Identity(Vec<Fact>),
    /// The rest of the stack runs; what it proved about itself, outermost level first.
    StartedNested(Vec<LevelFacts>),
    /// Results of dropping the caches, one entry per level that was asked, the deepest last.
    Dropped(Vec<Dropped>),
    /// Everything is gone; the last frame.
    Stopped,
}

/// A command as the user typed it, with all that a process inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; the program is looked up in `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    /// [`Request::Run`] only: where several instances of it begin at once, the words of each; empty
    /// where one runs, which is `argv`.
    pub instances: Vec<Vec<Vec<u8>>>,
    /// The whole environment; nothing else is inherited.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Number of bytes sent back from the end of each output stream; all of it is hashed.
    pub keep_bytes: u32,
    /// Time after which to kill the command, counted from its start; zero means never.
    pub deadline: Nanoseconds,
    /// [`Request::Relay`] only: give it a terminal of its own, as `enter` does.
    pub terminal: bool,
    /// [`Request::Run`] only: count its system calls, which makes each of them slower.
    pub counts_calls: bool,
    /// [`Request::Run`] only: who is to look at what, where somebody is.
    pub watching: Option<Watching>,
}

/// Looks of those on the inside while a command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// [`crate::clock::kernel_begin_ns`] of the level outside: whoever has another kernel tells what
    /// that counts of its whole machine.
    pub kernel_begin_ns: i64,
    /// The level of the command, and of its agent.
    pub level: u8,
    /// Time between two [`Reply::Sampled`]; zero for none.
    pub every: Nanoseconds,
}

/// The first frame of an agent or a starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Must equal [`PROTOCOL`].
    pub protocol: u16,
    /// Process id there.
    pub pid: u32,
    /// `CLOCK_MONOTONIC_RAW` there.
    pub at: Nanoseconds,
}

/// Result of dropping the page cache of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Beginning of its kernel, [`crate::clock::kernel_begin_ns`], in digits: levels with the same
    /// one share a kernel and its cache. Empty where nobody can tell.
    pub kernel: String,
    /// Reason why the cache was not dropped; empty if it was.
    pub failure: String,
}

/// One thing that was seen, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Stable name, as in `accelerator` or `kernel_release`.
    pub key: String,
    /// Value that was seen.
    pub value: String,
    /// Source of the value: a file, a QMP command, an API call.
    pub source: String,
}

impl Fact {
    /// Makes a fact of what was seen, and where.
    #[must_use]
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), value: value.into(), source: source.into() }
    }
}

/// The facts of one level of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelFacts {
    /// The layer as text, as in `qemu:accel=tcg`.
    pub layer: String,
    /// Facts that it proved.
    pub facts: Vec<Fact>,
}

/// Part of a bill to which a payer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The command itself.
    Workload,
    /// The kernel inside a virtual machine, and all else that runs there beside the workload.
    GuestKernel,
    /// The process that emulates the machine: its I/O threads, file servers.
    Hypervisor,
    /// Runtimes, shims, daemons.
    Engine,
    /// surtax itself: its agent and starters.
    Surtax,
    /// A whole machine by its own kernel's account, or one of its network links: nobody who pays,
    /// and in no sum.
    Machine,
}

crate::words!(Role {
    Workload: "workload",
    GuestKernel: "guest-kernel",
    Hypervisor: "hypervisor",
    Engine: "engine",
    Surtax: "surtax",
    Machine: "machine",
});

/// Amounts that one payer used during one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// For people: `virtiofsd`, `dockerd`, `vCPU threads`.
    pub payer: String,
    /// Part of the bill to which it belongs.
    pub role: Role,
    /// The level whose kernel counted it; 0 is the host.
    pub level: u8,
    /// Amounts that it used, as far as that can be read.
    pub amounts: Amounts,
    /// True where the deeper levels and the command run inside it, so that their time is in it too.
    pub carries_workload: bool,
    /// True where it serves all trials of a run, so that its memory is no single trial's.
    pub is_shared: bool,
}

impl Reading {
    /// User and system CPU time; `None` where it could not be read: a process that ended meanwhile
    /// took its counters with it.
    #[must_use]
    pub fn cpu(&self) -> Option<(Nanoseconds, Nanoseconds)> {
        let of = |key| self.amounts.get(key).map(Nanoseconds);
        of(CPU_USER).zip(of(CPU_SYSTEM))
    }

    /// Tells whether its CPU time could be read.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.cpu().is_some()
    }

    /// Both together.
    #[must_use]
    pub fn cpu_total(&self) -> Option<Nanoseconds> {
        self.cpu().map(|(user, system)| user + system)
    }
}

/// Starter only: what to start, and what it must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartNested {
    /// The rest of the stack, in the grammar of `--in`.
    pub stack: String,
    /// The level of the starter, at least 1.
    pub level: u8,
    /// Directories whose writes are kept.
    pub writable: Vec<Vec<u8>>,
    /// The working directory, which must exist inside.
    pub cwd: Vec<u8>,
    /// The command that will run, where that is known.
    pub command: Option<Command>,
    /// Time that one layer may take to start.
    pub start_deadline: Nanoseconds,
}
