//! A forger: says in its agent's name what the agent has not said, wherever it can reach the
//! agent's channel.
//!
//! It looks for the agent's descriptors as any command could (`/proc/PPID/fd`, `pidfd_getfd`), and
//! writes one frame to each that is no file. It has no key, and does not look for one. It fails
//! where nothing was in its reach, so that a command which succeeds has written. With `--shut` one
//! that succeeds has reached nothing, and its answer tells that from a success that was forged.
//!
//! Source: `proc_pid_fd(5)`, `pidfd_getfd(2)`.

use super::duration;
use crate::{Answer, Engine, Options, Refused, option};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getppid, pidfd_getfd, pidfd_open};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::specimen::{KINDS, specimen};
use surtax_instrument::wire::{Hello, PROTOCOL, Reply, Request};
use surtax_instrument::wire::{agents, hosts, read_request, write_reply, write_request};

/// The forger.
pub(crate) const ENGINE: Engine = Engine {
    name: "forge",
    about: "frames in the agent's name, written wherever its channel can be reached",
    options: &[
        option("kind", "REPLY", "what is said; exited"),
        option("manner", "whole|half|twice", "how much of it; whole"),
        option("duration", "TIME", "for how long it works then; 2s"),
        option("shut", "", "succeeds where nothing is in reach, only there"),
    ],
    run,
};

/// Time that a try takes at least, whatever was in reach.
pub const SHORTEST_TRY: Duration = Duration::from_millis(1);

/// Number of descriptors that are tried, from 0 on, where they cannot be listed.
const NUMBERS: i32 = 1024;

fn run(options: &Options) -> Result<Answer, Refused> {
    let kind = options.text("kind").unwrap_or("exited");
    if !KINDS.contains(&kind) {
        let shown = kind.escape_debug();
        return Err(Refused::user(format!("there is no kind of reply `{shown}`"))
            .hint(format!("name one of {}", KINDS.join(", "))));
    }
    let whole = frame(kind)?;
    let said = match options.text("manner").unwrap_or("whole") {
        "whole" => whole,
        "half" => whole.get(..whole.len() / 2).unwrap_or_default().to_vec(),
        "twice" => whole.repeat(2),
        other => {
            let shown = other.escape_debug();
            return Err(Refused::user(format!("`{shown}` is no manner of saying something"))
                .hint("say it `whole`, `half` or `twice`"));
        }
    };
    let duration = duration(options)?;
    let parent = getppid().ok_or_else(|| Refused::machine("nobody has started this forger"))?;
    let (by_name, by_copy) = (written_by_name(parent, &said), written_by_copy(parent, &said));
    std::thread::sleep(SHORTEST_TRY);
    let (is_shut, shall_be) = (by_name + by_copy == 0, options.has("shut"));
    if is_shut && shall_be {
        return Ok(answer_out_of_reach());
    }
    if is_shut {
        return Err(Refused::machine("the agent's channel is out of reach")
            .hint("nothing: that is how it shall be"));
    }
    std::thread::sleep(duration);
    if shall_be {
        return Err(Refused::machine("the agent's channel was reached"));
    }
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("written_by_name", by_name);
    answer.whole("written_by_copy", by_copy);
    Ok(answer)
}

/// The answer with `--shut` where nothing is in its reach. Nobody who forges says it.
#[must_use]
pub fn answer_out_of_reach() -> Answer {
    let mut answer = Answer::of(ENGINE.name);
    answer.truth("shut", true);
    answer
}

/// A frame of that kind, sealed with the key of another session.
fn frame(kind: &str) -> Result<Vec<u8>, Refused> {
    let Some(reply) = specimen(kind) else { return Ok(vec![0x5a; 64]) };
    let cannot = |error: &dyn std::fmt::Display| {
        Refused::machine(format!("cannot make a frame to forge: {error}"))
    };
    let (mut asking, _) = hosts().map_err(|error| cannot(&error))?;
    let (mut sealer, mut asked) = agents();
    let (mut greeting, mut opening, mut frame) = (Vec::new(), Vec::new(), Vec::new());
    let hello = Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) });
    let is_greeting = kind == "hello";
    write_reply(&mut greeting, &mut sealer, if is_greeting { &reply } else { &hello })
        .and_then(|()| write_request(&mut opening, &mut asking, &Request::Go))
        .and_then(|()| read_request(&mut opening.as_slice(), &mut asked))
        .and_then(|_| write_reply(&mut frame, &mut sealer, &reply))
        .map_err(|error| cannot(&error))?;
    Ok(if is_greeting { greeting } else { frame })
}

/// Opens what the descriptors of a process are, by their names in `/proc`; how many took it.
fn written_by_name(process: Pid, said: &[u8]) -> u64 {
    let directory = format!("/proc/{}/fd", process.as_raw_nonzero());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut count = 0;
    for entry in entries {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.write(true).custom_flags(flags.bits().cast_signed());
        count += u64::from(options.open(entry.path()).is_ok_and(|file| write(file, said)));
    }
    count
}

/// Has the kernel copy descriptors of a process; how many took it.
fn written_by_copy(process: Pid, said: &[u8]) -> u64 {
    let Ok(pidfd) = pidfd_open(process, PidfdFlags::empty()) else { return 0 };
    let mut count = 0;
    for number in 0..NUMBERS {
        let Ok(copy) = pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) else { continue };
        count += u64::from(write(File::from(copy), said));
    }
    count
}

/// Writes into what is a channel: no file, and not what the command says itself.
fn write(mut file: File, said: &[u8]) -> bool {
    let Ok(found) = fstat(&file) else { return false };
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_null = kind == FileType::CharacterDevice && found.st_rdev == NULL;
    let is_ours = [fstat(std::io::stdout()), fstat(std::io::stderr())].iter().any(|ours| {
        ours.as_ref().is_ok_and(|ours| (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino))
    });
    let is_channel = matches!(kind, FileType::Fifo | FileType::Socket | FileType::CharacterDevice);
    if !is_channel || is_null || is_ours {
        return false;
    }
    // A pipe that is full must not hold the forger; what is shared by its agent is set back.
    let before = fcntl_getfl(&file);
    let _ = before.map(|flags| fcntl_setfl(&file, flags | OFlags::NONBLOCK));
    let is_written = file.write(said).is_ok_and(|count| count > 0);
    let _ = before.map(|flags| fcntl_setfl(&file, flags));
    is_written
}

/// `makedev(1, 3)`: the device that takes everything and is nobody's.
const NULL: u64 = 0x103;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer_to;
    use surtax_instrument::wire::{WireError, read_reply};

    #[test]
    fn what_it_writes_is_a_frame_of_another_session() {
        for kind in KINDS {
            let (_, mut opener) = hosts().unwrap();
            let mut greeting = Vec::new();
            let hello = Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) });
            write_reply(&mut greeting, &mut agents().0, &hello).unwrap();
            read_reply(&mut greeting.as_slice(), &mut opener).unwrap();
            let frame = frame(kind).unwrap();
            assert!(frame.len() > 24, "{kind}");
            let heard = read_reply(&mut frame.as_slice(), &mut opener);
            assert!(matches!(heard, Err(WireError::Forged)), "{kind}: {heard:?}");
        }
    }

    #[test]
    fn what_is_not_there_cannot_be_forged() {
        for line in ["forge --kind ", "forge --kind sealed", "forge --manner loudly"] {
            assert!(answer_to(line).unwrap_err().is_users, "{line}");
        }
    }
}
