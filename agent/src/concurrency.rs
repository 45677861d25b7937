//! Several instances of one command that begin at once.
//!
//! Each is first this very program at a gate (`agent gate WORDS`): it says that it is there, waits
//! until its standard input ends, which is that of all, and only then becomes the command. So no
//! instance begins before the last one is ready, and one act lets all go.

use crate::run::{cannot_start, file, prepare, spawn};
use crate::started::Started;
use crate::stream::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, ExitCode, Stdio};
use surtax_engines::OURSELVES;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{
    Command, Failure, INSTANCE_VARIABLE, INSTANCES_LIMIT, Instance, Outcome, Output, Status,
};
use surtax_instrument::{clock, command_file};
use xxhash_rust::xxh3::Xxh3Default;

/// The word by which the agent becomes an instance.
pub const GATE: &str = "gate";

/// Bytes that an instance says when it is at the gate.
const READY: &[u8] = b"\n";

/// Time that an instance may take until it is there, in seconds: a guest without hardware support
/// is slow.
const READY_DEADLINE: i64 = 60;

/// Number of bytes kept of all standard outputs, and of all standard errors: one frame holds them.
const KEPT: [usize; 2] = [640 << 10, 192 << 10];

/// The instances of a command, all of them at the gate. Dropped there, they are killed.
pub struct AtGate {
    processes: Vec<Started>,
    held: OwnedFd,
}

impl AtGate {
    /// Lets all go; the processes, and when that was.
    pub fn let_go(self) -> (Vec<Started>, Nanoseconds) {
        let began = clock::monotonic_raw();
        drop(self.held);
        (self.processes, began)
    }
}

/// Brings every instance of a command to the gate.
pub fn gather(command: &Command) -> Result<AtGate, Failure> {
    let count = command.instances.len();
    if count > INSTANCES_LIMIT {
        return Err(Failure::of(format!("{count} instances are above {INSTANCES_LIMIT}")));
    }
    let (gate, held) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| Failure::of(format!("cannot make a gate for instances: {error}")))?;
    let mut waiting = Vec::new();
    for (number, words) in command.instances.iter().enumerate() {
        waiting.push(queue(command, number, words, &gate)?);
    }
    let mut processes = Vec::new();
    for (number, (mut process, mut stdout)) in waiting.into_iter().enumerate() {
        let is_there = stdout.as_mut().is_some_and(is_ready);
        if !is_there {
            return Err(Failure::of(format!("instance {number} of the command did not get ready")));
        }
        process.hear(stdout);
        processes.push(process);
    }
    Ok(AtGate { processes, held })
}

/// Brings one instance to the gate.
fn queue(
    command: &Command,
    number: usize,
    words: &[Vec<u8>],
    gate: &OwnedFd,
) -> Result<(Started, Option<ChildStdout>), Failure> {
    let own = Command { argv: words.to_vec(), instances: Vec::new(), ..command.clone() };
    if words.first().is_some_and(|word| word != OURSELVES.as_bytes())
        && command_file::find(&own).is_none()
    {
        return Err(cannot_start(&own, &io::Error::from_raw_os_error(libc::ENOENT)));
    }
    let mut argv = vec![OURSELVES.as_bytes().to_vec(), GATE.as_bytes().to_vec()];
    argv.extend_from_slice(words);
    let at_gate = Command { argv, ..own };
    let mut process = prepare(&at_gate)?;
    let stdin = gate.try_clone().map_err(|error| cannot_start(&at_gate, &error))?;
    process.env(INSTANCE_VARIABLE, number.to_string()).process_group(0);
    process.stdin(Stdio::from(stdin)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut process, &at_gate)?;
    let wanted = usize::try_from(command.keep_bytes).unwrap_or(0);
    let [keep, keep_error] = KEPT.map(|all| wanted.min(all / command.instances.len().max(1)));
    let stdout = child.stdout.take();
    let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), keep_error);
    Ok((Started::unheard(&child, stderr, keep)?, stdout))
}

/// Waits until an instance is at the gate.
fn is_ready(stdout: &mut ChildStdout) -> bool {
    let mut said = [0; READY.len()];
    let timeout = Timespec { tv_sec: READY_DEADLINE, tv_nsec: 0 };
    let has_spoken = loop {
        let mut files = [PollFd::new(&*stdout, PollFlags::IN)];
        match poll(&mut files, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            answer => break answer.is_ok_and(|count| count > 0),
        }
    };
    has_spoken && stdout.read_exact(&mut said).is_ok() && said == READY
}

/// Says that it is there, waits until all are let go, and becomes the command that the words are.
pub fn gate(words: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = words.split_first() else { return ExitCode::from(2) };
    let mut stdout = io::stdout();
    if stdout.write_all(READY).and_then(|()| stdout.flush()).is_err() {
        return ExitCode::from(3);
    }
    // Nobody writes there: that it ends is what lets go.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    let nothing = File::open("/dev/null").and_then(|file| Ok(rustix::stdio::dup2_stdin(file)?));
    if let Err(error) = nothing {
        eprintln!("surtax agent: an instance gets no empty input: {error}");
        return not_started();
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing starts: this process becomes the command"
    )]
    let mut command = std::process::Command::new(file(program.as_bytes()));
    let error = command.arg0(program).args(arguments).exec();
    eprintln!("surtax agent: cannot start `{}`: {error}", program.display());
    not_started()
}

/// Ends this process so that it never counts. No exit status would tell it from one of the
/// command's own, which counts where failure is ignored.
fn not_started() -> ExitCode {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    ExitCode::FAILURE
}

/// Makes the outcome of a command: of one process just that, of several the whole and each of them.
/// `None` where there are no instances.
pub fn whole(mut instances: Vec<Instance>) -> Option<Outcome> {
    let all = if instances.len() == 1 { instances.pop()? } else { sum(&instances)? };
    Some(Outcome { instances, ..Outcome::from(all) })
}

fn sum(instances: &[Instance]) -> Option<Instance> {
    let sum = |of: fn(&Instance) -> u64| instances.iter().map(of).fold(0, u64::saturating_add);
    let streams = |of: fn(&Instance) -> &Output| {
        let mut hash = Xxh3Default::new();
        instances.iter().for_each(|it| hash.update(&of(it).hash.to_le_bytes()));
        let length = Bytes(instances.iter().map(|it| of(it).length.0).sum());
        Output { hash: hash.digest128(), length, tail: Vec::new() }
    };
    Some(Instance {
        status: Status::worst(instances.iter().map(|it| it.status))?,
        wall: instances.iter().map(|it| it.wall).max()?,
        cpu_user: Nanoseconds(sum(|it| it.cpu_user.0)),
        cpu_system: Nanoseconds(sum(|it| it.cpu_system.0)),
        memory_peak: Bytes(sum(|it| it.memory_peak.0)),
        counts: instances.iter().map(|it| it.counts.clone()).reduce(|all, it| all.plus(&it))?,
        stdout: streams(|it| &it.stdout),
        stderr: streams(|it| &it.stderr),
    })
}
