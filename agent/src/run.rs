//! Starts the command, times it, reaps it, and keeps the end of what it printed.
//!
//! Timed from just before `fork` to just after `wait`. Its output is hashed whole and kept only at
//! its end, so that a command which floods its output costs time but no memory.

use crate::concurrency::{self, AtGate};
use crate::engine::OWN_FILE;
use crate::started::{Started, time};
use crate::stops::Watcher;
use crate::victim;
use crate::watching::Watched;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, pidfd_open,
};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use surtax_engines::OURSELVES;
use surtax_instrument::calls::Counter;
use surtax_instrument::clock;
use surtax_instrument::probe::oom;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Calls, Cause, Command, Failure, Outcome, Reply, Status, WireError};

/// Time that output is awaited after the command has ended and all it left behind was killed.
const DRAIN: Duration = Duration::from_secs(1);

/// Most rounds in which what a command left is killed, with 2 ms between: a bomb forks while it is
/// killed.
const KILL_ROUNDS: u32 = 500;

/// Most dead children that are reaped between two such rounds.
const REAP_LIMIT: u32 = 100_000;

/// A command that runs: one process, or several instances of it that began at once.
pub struct Running {
    processes: Vec<Started>,
    began: Nanoseconds,
    deadline: Nanoseconds,
    stops: Option<Watcher>,
    before: Before,
    counter: Option<io::Result<Counter>>,
    machine: Option<Watched>,
    killed: Option<Status>,
}

/// A command that is ready to be started.
pub struct Ready {
    waiting: Waiting,
    deadline: Nanoseconds,
    before: Before,
    counter: Option<io::Result<Counter>>,
    machine: Option<Watched>,
}

/// Counters that were read before anything is timed.
#[derive(Clone, Copy)]
struct Before {
    oom_kills: Option<u64>,
    /// User and system time of every child that has been reaped.
    reaped: (Nanoseconds, Nanoseconds),
    /// The same of ourselves.
    own: (Nanoseconds, Nanoseconds),
}

/// Process or processes that wait to be started.
enum Waiting {
    /// A process that is not there yet.
    One(Command),
    /// Several that wait at a gate.
    Several(AtGate),
}

impl Ready {
    /// Makes ready; what must not be timed is done here.
    pub fn of(command: Command) -> Result<Self, Failure> {
        let before = Before {
            oom_kills: oom::of_machine(),
            reaped: cpu_of(libc::RUSAGE_CHILDREN),
            own: cpu_of(libc::RUSAGE_SELF),
        };
        let deadline = command.deadline;
        let counter = command.counts_calls.then(|| Counter::begin(std::process::id()));
        let machine = Watched::begin(command.watching.as_ref());
        let waiting = if command.instances.is_empty() {
            Waiting::One(command)
        } else {
            Waiting::Several(concurrency::gather(&command)?)
        };
        Ok(Self { waiting, deadline, before, counter, machine })
    }

    /// Looks at the machine, where that is wanted while it runs.
    pub fn look(&mut self) -> Option<Reply> {
        self.machine.as_mut().and_then(Watched::look)
    }
}

impl Running {
    /// Starts it, in a process group of its own.
    pub fn start(ready: Ready) -> Result<Self, Failure> {
        let Ready { waiting, deadline, before, counter, machine } = ready;
        let stops = Watcher::open();
        let (processes, began) = match waiting {
            Waiting::One(command) => start_one(&command)?,
            Waiting::Several(gathered) => gathered.let_go(),
        };
        let stops = stops.map(|it| it.begin(processes.iter().map(|process| process.pid)));
        Ok(Self { processes, began, deadline, stops, before, counter, machine, killed: None })
    }

    /// Lists the descriptors that `poll` must watch.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let signals = self.stops.iter().map(Watcher::descriptor);
        self.processes.iter().flat_map(Started::descriptors).chain(signals)
    }

    /// Returns the time that `poll` may wait; `None` is for ever.
    pub fn time_left(&self) -> Option<Duration> {
        let until_look = self.machine.as_ref().and_then(Watched::time_left);
        self.until_deadline().into_iter().chain(until_look).min()
    }

    fn until_deadline(&self) -> Option<Duration> {
        let is_limited = self.deadline > Nanoseconds(0) && self.killed.is_none();
        is_limited.then(|| (self.deadline - clock::monotonic_raw().since(self.began)).into())
    }

    /// Looks at the machine, if it is time to.
    pub fn look(&mut self) -> Option<Reply> {
        self.machine.as_mut().and_then(Watched::look)
    }

    /// Looks at it for the last time.
    pub fn last_look(&mut self) -> Option<Reply> {
        self.machine.as_mut().and_then(Watched::last_look)
    }

    /// Kills it because we were asked to.
    pub fn cancel(&mut self) {
        self.kill(Status::Cancelled);
    }

    /// Reads what is there; whether it has ended.
    pub fn turn(&mut self) -> Result<bool, WireError> {
        if self.until_deadline().is_some_and(|left| left.is_zero()) {
            self.kill(Status::Deadline);
        }
        let mut is_over = true;
        for process in &mut self.processes {
            is_over &= process.turn(self.began, self.killed)?;
        }
        if let (false, Some(stops)) = (is_over, &mut self.stops) {
            stops.look();
        }
        Ok(is_over)
    }

    /// Removes what it left, and gives its outcome; it must have ended.
    pub fn end(mut self) -> Result<Option<Outcome>, WireError> {
        let stops = self.stops.take().map(Watcher::end);
        // Before what the command left is killed by us: that is no kill of the kernel's.
        let kills = oom::of_machine().zip(self.before.oom_kills);
        let oom_kill_count = kills.map(|(now, before)| now.saturating_sub(before));
        // Whoever has ended by now runs on no more, however it ended.
        (0..REAP_LIMIT).take_while(|_| matches!(wait_for_anybody(), Ok(Some(_)))).for_each(drop);
        self.processes.iter().for_each(Started::kill);
        let killed = kill_leftovers();
        // Of a command that is killed itself, nothing is left by it.
        let left_running_count = if self.killed.is_none() { killed } else { 0 };
        let until = clock::monotonic_raw() + DRAIN.into();
        let mut instances = Vec::new();
        for process in &mut self.processes {
            instances.extend(process.end(until)?);
        }
        let counted = self.counter.take().map(|counter| counter.and_then(Counter::end));
        let machine = self.machine.as_mut().map(Watched::readings).unwrap_or_default();
        // What nobody waited for has become our child, and is the command's all the same.
        let (user, system) = cpu_of(libc::RUSAGE_CHILDREN);
        let own = cpu_of(libc::RUSAGE_SELF);
        let own_before = self.before.own;
        let (user, system) = (user.since(self.before.reaped.0), system.since(self.before.reaped.1));
        Ok(concurrency::whole(instances).map(|outcome| Outcome {
            cpu_user: outcome.cpu_user.max(user),
            cpu_system: outcome.cpu_system.max(system),
            calls: counted.map(|counted| Box::new(Calls::of(counted))),
            stops,
            oom_kill_count,
            left_running_count,
            agent_cpu: own.0.since(own_before.0) + own.1.since(own_before.1),
            machine,
            ..outcome
        }))
    }

    fn kill(&mut self, why: Status) {
        self.killed.get_or_insert(why);
        self.processes.iter().for_each(Started::kill);
    }
}

fn start_one(command: &Command) -> Result<(Vec<Started>, Nanoseconds), Failure> {
    let mut process = prepare(command)?;
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let timed = || (clock::monotonic_raw(), process.spawn());
    let (began, child) = victim::starting(timed);
    let child = child.map_err(|error| cannot_start(command, &error))?;
    let keep = usize::try_from(command.keep_bytes).unwrap_or(0);
    Ok((vec![Started::of(child, [keep, keep])?], began))
}

/// Starts a process that is not timed, as one that is killed before this program.
pub fn spawn(process: &mut std::process::Command, command: &Command) -> Result<Child, Failure> {
    victim::starting(|| process.spawn()).map_err(|error| cannot_start(command, &error))
}

/// A process as the user typed it: nothing inherited but what the request says.
pub fn prepare(command: &Command) -> Result<std::process::Command, Failure> {
    let (program, arguments) =
        command.argv.split_first().ok_or_else(|| Failure::of("the command is empty"))?;
    let cwd = Path::new(OsStr::from_bytes(&command.cwd));
    if let Err(error) = std::fs::metadata(cwd) {
        let what = format!("the working directory `{}` is not there: {error}", cwd.display());
        let hint = String::from("run from a directory that the stack's root file system has");
        return Err(Failure { hint, ..Failure::of(what) });
    }
    #[expect(clippy::disallowed_methods, reason = "the agent's one place where processes start")]
    let mut process = std::process::Command::new(file(program));
    process.arg0(OsStr::from_bytes(program));
    process.args(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    process.env_clear();
    process.envs(command.env.iter().map(|(k, v)| (OsStr::from_bytes(k), OsStr::from_bytes(v))));
    process.current_dir(cwd);
    Ok(process)
}

/// The file behind a command's first word: this very binary for `@surtax`.
pub fn file(program: &[u8]) -> &OsStr {
    if program == OURSELVES.as_bytes() { OsStr::new(OWN_FILE) } else { OsStr::from_bytes(program) }
}

/// Says why a command could not be started, in words.
pub fn cannot_start(command: &Command, error: &io::Error) -> Failure {
    let name = command.argv.first().map_or("", |name| std::str::from_utf8(name).unwrap_or("?"));
    let hint = match error.kind() {
        ErrorKind::NotFound if name == OURSELVES => String::from("mount `/proc` in this stack"),
        ErrorKind::NotFound => format!("install `{name}` in this stack's root file system"),
        ErrorKind::PermissionDenied => format!("make `{name}` executable"),
        _ => String::new(),
    };
    let cause = Cause::of_start(error);
    Failure { cause, what: format!("cannot start `{name}`: {error}"), hint }
}

/// A child's process id, and a descriptor that becomes readable when it has ended.
pub fn watch(child: &Child) -> Result<(Pid, OwnedFd), Failure> {
    let pid = Pid::from_child(child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd)),
        Err(error) => {
            let _ = kill_process_group(pid, Signal::KILL);
            let what = format!("cannot watch process {pid}: {error}");
            let cause = Cause::of_errno(error.raw_os_error());
            Err(Failure { cause, ..Failure::of(what) })
        }
    }
}

/// Reaps a child if it has ended, with what it and its waited-for descendants used.
///
/// Source: `wait4(2)`, `getrusage(2)`.
pub fn wait(pid: Pid) -> Result<Option<(Status, libc::rusage)>, WireError> {
    let mut raw = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let number = pid.as_raw_nonzero().get();
    // SAFETY: both pointers are to live local variables of the types that wait4 writes.
    let answer = unsafe { libc::wait4(number, &raw mut raw, libc::WNOHANG, usage.as_mut_ptr()) };
    match answer {
        0 => Ok(None),
        -1 => Err(WireError::Io(io::Error::last_os_error())),
        _ => {
            // SAFETY: a zeroed rusage is valid, and wait4 has filled it.
            let usage = unsafe { usage.assume_init() };
            Ok(Some((status(raw), usage)))
        }
    }
}

/// User and system time of ourselves, or of every child that we have reaped and of those that they
/// had.
///
/// Source: `getrusage(2)`.
fn cpu_of(who: libc::c_int) -> (Nanoseconds, Nanoseconds) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live local variable of the type that getrusage writes. It fails
    // for an unknown `who` alone, and then nothing is counted.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: a zeroed rusage is valid, whether getrusage has filled it or not.
    let usage = unsafe { usage.assume_init() };
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// A wait status in our words.
pub fn status(raw: i32) -> Status {
    if libc::WIFSIGNALED(raw) {
        Status::Signal(libc::WTERMSIG(raw))
    } else {
        Status::Exit(libc::WEXITSTATUS(raw))
    }
}

/// Kills and reaps whatever the command left running; all of it, where we are PID 1. How many were
/// killed.
pub fn kill_leftovers() -> u32 {
    let mut killed = 0;
    let me = rustix::process::getpid();
    for _ in 0..KILL_ROUNDS {
        if me.is_init() {
            // SAFETY: kill takes no pointers; -1 is every process of this PID namespace but us.
            unsafe { libc::kill(-1, libc::SIGKILL) };
        } else {
            for child in children(me) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        // A killed process hands us its own orphans; go on until we have no child.
        for _ in 0..REAP_LIMIT {
            match wait_for_anybody() {
                Err(_) => return killed,
                Ok(Some((_, status))) => {
                    let is_killed = status.terminating_signal() == Some(libc::SIGKILL);
                    killed += u32::from(is_killed);
                }
                Ok(None) => break,
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // One that is frozen dies when it is thawed, and is left all the same.
    killed.saturating_add(u32::try_from(children(me).len()).unwrap_or(u32::MAX))
}

/// Waits until no child is left, at most so long.
pub fn await_children(deadline: Duration) {
    let began = clock::monotonic_raw();
    while Duration::from(clock::monotonic_raw().since(began)) < deadline {
        match wait_for_anybody() {
            Err(_) => return,
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Reaps a child of any group, if one has ended. `waitpid` of nobody in particular looks at the own
/// group alone.
fn wait_for_anybody() -> rustix::io::Result<Option<(Pid, WaitStatus)>> {
    rustix::process::wait(WaitOptions::NOHANG)
}

fn children(parent: Pid) -> Vec<Pid> {
    let number = parent.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}
