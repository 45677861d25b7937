//! Outcome of a command: how it ended, and what it used.

use super::{Reading, Status};
use crate::amount::Amounts;
use crate::calls::{Call, Counts};
use crate::quantity::{Bytes, Nanoseconds};

/// Outcome of a finished command: how it ended, and what it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Status with which it ended.
    pub status: Status,
    /// From just before `fork` to just after `wait`, in the level's own clock.
    pub wall: Nanoseconds,
    /// User CPU time of the command and its waited-for descendants, as the level's kernel counts.
    pub cpu_user: Nanoseconds,
    /// System CPU time, likewise.
    pub cpu_system: Nanoseconds,
    /// Largest resident set of any one process of the command (`ru_maxrss`).
    pub memory_peak: Bytes,
    /// Page faults and context switches of the command and its waited-for descendants, as its
    /// kernel counts them; none where it counts none.
    pub counts: Amounts,
    /// System calls of it, where they were to be counted.
    pub calls: Option<Box<Calls>>,
    /// Stops of it meanwhile; `None` where that level's kernel does not tell.
    pub stops: Option<Stops>,
    /// Number of processes that level's kernel killed meanwhile because memory had run out,
    /// whosever they were; `None` where it does not tell.
    pub oom_kill_count: Option<u64>,
    /// Number of processes it left running, which were killed then: what they did afterwards is in
    /// no time of it.
    pub left_running_count: u32,
    /// CPU time of the agent itself meanwhile, which is in its group beside the command.
    pub agent_cpu: Nanoseconds,
    /// Readings of what the agent's machine used as a whole meanwhile, where that was asked for.
    pub machine: Vec<Reading>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Instances that ran at once, where there were several, in their order. The fields above are
    /// then those of all together: the first of the worst ends, the longest time, and sums; of the
    /// streams the length and a hash of all hashes.
    pub instances: Vec<Instance>,
}

/// One of several instances of a command that began at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Status with which it ended.
    pub status: Status,
    /// From when all were let go to just after its `wait`, in the level's own clock.
    pub wall: Nanoseconds,
    /// As [`Outcome::cpu_user`].
    pub cpu_user: Nanoseconds,
    /// As [`Outcome::cpu_system`].
    pub cpu_system: Nanoseconds,
    /// As [`Outcome::memory_peak`].
    pub memory_peak: Bytes,
    /// As [`Outcome::counts`].
    pub counts: Amounts,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
}

impl From<Instance> for Outcome {
    /// The outcome of a command that was one process, of which nothing else is known.
    fn from(one: Instance) -> Self {
        let Instance { status, wall, cpu_user, cpu_system, memory_peak, counts, stdout, stderr } =
            one;
        Self {
            status,
            wall,
            cpu_user,
            cpu_system,
            memory_peak,
            counts,
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
            stdout,
            stderr,
            instances: Vec::new(),
        }
    }
}

/// The most instances of a command that run at once: what each prints must fit into one frame.
pub const INSTANCES_LIMIT: usize = 64;

/// The variable by which each of several instances knows which it is, from 0.
pub const INSTANCE_VARIABLE: &str = "SURTAX_INSTANCE";

/// System calls of a command, or why nobody could count them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Those that it asked for, by number.
    pub counted: Vec<Call>,
    /// Number of programs that were started: of calls that execute a file, those that did.
    pub program_count: u64,
    /// Number of page faults of pages of files; `None` where nobody says.
    pub file_fault_count: Option<u64>,
    /// Reason why they were not counted; empty if they were.
    pub failure: String,
}

impl Calls {
    /// Makes them of what a counter says at its end.
    #[must_use]
    pub fn of(counted: std::io::Result<Counts>) -> Self {
        match counted {
            Ok(Counts { calls: counted, program_count, file_fault_count }) => {
                Self { counted, program_count, file_fault_count, failure: String::new() }
            }
            Err(error) => Self { failure: error.to_string(), ..Self::default() },
        }
    }
}

/// Times that a command stood still because it was told to (`SIGSTOP`, `SIGTSTP`), and not for want
/// of anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Number of stops: of the command's first process, or of whoever watches or carries it.
    pub count: u32,
    /// For how long that first process did, in the level's own clock; how long the others did is
    /// not known.
    pub time: Nanoseconds,
}

/// One output stream of a finished command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// XXH3-128 of every byte of it.
    pub hash: u128,
    /// Length of the whole stream.
    pub length: Bytes,
    /// End of the stream, at most `keep_bytes`.
    pub tail: Vec<u8>,
}
