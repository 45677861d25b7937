//! Brings the agent to another machine: a script for its shell, and our end of what that asks for.
//!
//! The shell says what machine this is, takes the agent from its input into a directory of its own,
//! and becomes the agent. Whatever fails before that, also a link that is lost, takes the directory
//! away again; the agent itself does it then. Nothing else is sent until the shell says that the
//! file is whole, so that no program there can read too far.

use crate::fault::{Doing, Fault};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;
use surtax_instrument::clock::BOOT_ID;

/// Time that the agent lives without hearing us.
pub(crate) const LEASE: Duration = Duration::from_secs(20);

/// Time between two signs of life that it hears from us: a few may come late before its lease ends.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Output of `uname -sm` on a machine on which the agent runs.
pub(crate) const SYSTEM: &str = "Linux x86_64";

/// Beginning of the line in which the shell says what machine it is on.
const HERE: &str = "surtax-here ";

/// The line after which the shell is the agent.
const READY: &str = "surtax-ready";

/// Largest number of bytes that a login shell may print before it does what it was asked to.
const GREETING_LIMIT: usize = 64 << 10;

/// Answer of the shell there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `uname -sm`.
    pub(crate) system: String,
    /// `uname -r`.
    pub(crate) release: String,
    /// `id -u`.
    pub(crate) user_id: String,
    /// Id of the boot of that machine; `-` where it cannot be read.
    pub(crate) boot_id: String,
    /// Both ends of the connection as the shell says them, if it knows of one: ours as it is seen
    /// there, and its own. A claim.
    pub(crate) ends: Option<(SocketAddr, SocketAddr)>,
}

impl Arrival {
    /// Tells whether it is this very machine, another one, or unknown; only a fact, and as good as
    /// any other.
    pub(crate) fn machine(&self) -> &'static str {
        let ours = std::fs::read_to_string(BOOT_ID);
        match ours {
            Ok(ours) if ours.trim() == self.boot_id => "this level's own",
            Ok(_) if self.boot_id != "-" => "another one",
            _ => "unknown",
        }
    }

    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kernel, machine, release, user_id, boot_id, connection @ ..] = words.as_slice() else {
            return None;
        };
        Some(Self {
            system: format!("{kernel} {machine}"),
            release: (*release).to_owned(),
            user_id: (*user_id).to_owned(),
            boot_id: (*boot_id).to_owned(),
            ends: ends(connection),
        })
    }
}

/// The ends in what `sshd` says of a connection: the client's address and port, and its own.
/// Source: `ssh(1)`, `SSH_CONNECTION`.
fn ends(connection: &[&str]) -> Option<(SocketAddr, SocketAddr)> {
    let [client, client_port, server, port] = connection else { return None };
    let end = |address: &str, port: &str| {
        Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
    };
    Some((end(client, client_port)?, end(server, port)?))
}

/// Returns what the login shell is given, whichever it is: one line with a script for `sh` in
/// single quotes, in which there are none.
pub(crate) fn script(length: usize, deadline: Duration, lease: Duration) -> String {
    let lines = include_str!("ssh_bootstrap.sh").lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    let filled = [
        ("@HERE@", HERE.to_owned()),
        ("@SYSTEM@", SYSTEM.to_owned()),
        ("@LENGTH@", length.to_string()),
        ("@DEADLINE@", deadline.as_secs().max(1).to_string()),
        ("@READY@", READY.to_owned()),
        ("@LEASE@", lease.as_secs().to_string()),
    ];
    let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
    format!("exec sh -c '{}'", filled.iter().fold(lines.join("; "), fill))
}

/// Brings the agent there: gives what the shell said, and the channel that the agent speaks on now.
///
/// # Errors
/// The machine's: no shell answered in time, it is on another system, or it could not do its part.
pub(crate) fn bring(
    (mut to, mut from): (File, File),
    agent: Vec<u8>,
    deadline: Duration,
) -> Result<(Arrival, File, File), Fault> {
    let (sender, receiver) = channel();
    // Dropped by who waits no longer, the client ends, and with it this thread's pipes.
    std::thread::spawn(move || {
        let brought = hand_over(&mut to, &mut from, &agent);
        let _ = sender.send(brought.map(|arrival| (arrival, to, from)));
    });
    receiver.recv_timeout(deadline).unwrap_or_else(|_| {
        let seconds = deadline.as_secs_f64();
        Err(Fault::machine(format!("the shell there did not take it within {seconds:.1} s"))
            .hint("allow it more with `--start-deadline`, if the way is only slow"))
    })
}

fn hand_over(to: &mut impl Write, from: &mut impl Read, agent: &[u8]) -> Result<Arrival, Fault> {
    let said = awaited(from, |line| line.strip_prefix(HERE).map(str::to_owned))
        .doing("hear from the shell there")?;
    let arrival = Arrival::read(&said).ok_or_else(|| {
        Fault::machine(format!("the shell there said of itself `{}`", said.escape_debug()))
    })?;
    if arrival.system != SYSTEM {
        let system = arrival.system.escape_debug();
        return Err(Fault::machine(format!("it runs on `{SYSTEM}`, and that is `{system}`")));
    }
    to.write_all(agent).doing("send the agent")?;
    awaited(from, |line| (line == READY).then_some(())).doing("have the shell start the agent")?;
    Ok(arrival)
}

/// Reads lines until one that is meant for us, and not a byte further.
fn awaited<T>(from: &mut impl Read, ours: impl Fn(&str) -> Option<T>) -> io::Result<T> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    for _ in 0..GREETING_LIMIT {
        match from.read(&mut byte)? {
            0 => break,
            _ if byte == *b"\n" => {
                let text = String::from_utf8_lossy(&line).into_owned();
                if let Some(found) = ours(text.trim_end()) {
                    return Ok(found);
                }
                line.clear();
            }
            _ => line.extend(byte),
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without a word for us"))
}

#[cfg(test)]
mod tests {
    use crate::agent::ssh_bootstrap::*;
    use crate::lab;
    use std::path::Path;

    #[test]
    fn a_greeting_is_passed_over_and_not_a_byte_of_the_agent_is_read() {
        let said = b"Welcome!\nsurtax-here Linux x86_64 6.1.0 0 b007\nsurtax-ready\n\x01frame";
        let (mut from, mut to) = (said.as_slice(), Vec::new());
        let arrival = hand_over(&mut to, &mut from, b"ELF").unwrap();
        assert_eq!((to.as_slice(), from), (b"ELF".as_slice(), b"\x01frame".as_slice()));
        assert_eq!(arrival.release, "6.1.0");
        assert_eq!((arrival.user_id.as_str(), arrival.boot_id.as_str()), ("0", "b007"));
    }

    #[test]
    fn both_ends_of_a_connection_are_read_where_sshd_says_them() {
        let read = |connection: &str| {
            Arrival::read(&format!("Linux x86_64 6.1.0 0 b007 {connection}")).unwrap().ends
        };
        let ends = Some((([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 22).into()));
        assert_eq!(read("10.0.0.1 40000 10.0.0.2 22"), ends);
        for other in [
            "-", "UNKNOWN 65535 UNKNOWN 65535", "10.0.0.1 40000", "10.0.0.1 40000 10.0.0.2 65536",
            "fe80::1%eth0 1 ::1 22",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn another_system_gets_no_agent() {
        let (mut from, mut to) = (b"surtax-here Darwin arm64 23.1 501 -\n".as_slice(), Vec::new());
        let fault = hand_over(&mut to, &mut from, b"ELF").unwrap_err();
        assert_eq!(fault.message, "it runs on `Linux x86_64`, and that is `Darwin arm64`");
        assert!(to.is_empty());
    }

    #[test]
    fn a_shell_that_ends_or_never_stops_greeting_is_given_up() {
        for said in [&b"Sorry.\n"[..], &[b'x'; 100_000]] {
            let fault = hand_over(&mut Vec::new(), &mut &*said, b"ELF").unwrap_err();
            assert!(fault.message.starts_with("cannot hear from the shell there: "), "{fault}");
        }
    }

    /// A directory whose `sh` is this shell: the script starts one by that name.
    fn directory_of(shell: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let found = lab::find(shell).unwrap();
        std::os::unix::fs::symlink(found, directory.path().join("sh")).unwrap();
        directory
    }

    /// Gives `agent` to the script in a shell, and what it answers.
    fn arrive(shell: &str, place: &Path, agent: &str, length: usize) -> Result<String, Fault> {
        let script = script(length, Duration::from_secs(20), Duration::from_secs(9));
        let line = r#"printf "$4" | TMPDIR=$1 SSH_CONNECTION= PATH=$2:$PATH sh -c "$3""#;
        let place = place.to_str().unwrap();
        let shells = directory_of(shell);
        let first = shells.path().to_str().unwrap();
        let argv = ["sh", "-c", line, "sh", place, first, &script, agent].map(String::from);
        lab::ask(&argv, None, Duration::from_secs(20))
    }

    #[test]
    fn every_shell_becomes_the_agent_and_keeps_nothing_of_one_that_is_not_whole() {
        let agent = r#"#!/bin/sh\necho "$0 $*"\n"#;
        let length = agent.len() - 2; // two line feeds are written as two characters each
        for shell in ["sh", "bash", "busybox"] {
            if lab::find(shell).is_none() {
                println!("SKIPPED {shell}: it is not here");
                continue;
            }
            let place = tempfile::tempdir().unwrap();
            let said = arrive(shell, place.path(), agent, length).unwrap();
            let mut lines = said.lines();
            let here = Arrival::read(lines.next().unwrap().strip_prefix(HERE).unwrap()).unwrap();
            assert_eq!((here.system.as_str(), here.machine()), (SYSTEM, "this level's own"));
            assert_eq!(lines.next(), Some(READY), "{shell}");
            let ran = lines.next().unwrap();
            assert_eq!(here.ends, None, "there is no `SSH_CONNECTION` here");
            assert!(ran.starts_with(place.path().to_str().unwrap()), "{shell}: {ran}");
            assert!(ran.ends_with("/surtax-agent leased 9"), "{shell}: {ran}");

            let place = tempfile::tempdir().unwrap();
            let fault = arrive(shell, place.path(), agent, length + 1).unwrap_err();
            assert!(fault.message.contains("did not arrive whole"), "{shell}: {fault}");
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{shell}");
        }
    }

    #[test]
    fn a_shell_whose_link_is_lost_before_the_agent_is_whole_leaves_nothing() {
        // Who listens goes away after the first line: what is said after it meets a pipe without a
        // reader.
        let line = r#"{ sleep 0.3; printf part; } | { TMPDIR=$1 PATH=$2:$PATH sh -c "$3" 2>&1; : > "$1/ended"; } | head -n 1"#;
        let script = script(100, Duration::from_secs(20), Duration::from_secs(9));
        for shell in ["sh", "bash", "busybox"] {
            if lab::find(shell).is_none() {
                println!("SKIPPED {shell}: it is not here");
                continue;
            }
            let place = tempfile::tempdir().unwrap();
            let path = place.path().to_str().unwrap();
            let shells = directory_of(shell);
            let first = shells.path().to_str().unwrap();
            let argv = ["sh", "-c", line, "sh", path, first, &script].map(String::from);
            let said = lab::ask(&argv, None, Duration::from_secs(20)).unwrap();
            assert!(said.starts_with(HERE), "{shell}: {said}");
            let left: Vec<_> =
                std::fs::read_dir(path).unwrap().flatten().map(|it| it.file_name()).collect();
            assert_eq!(left, ["ended"], "{shell}");
        }
    }

    #[test]
    fn the_script_can_stand_in_single_quotes_of_any_shell() {
        let script = script(3, Duration::ZERO, Duration::from_secs(20));
        assert_eq!(script.matches('\'').count(), 2);
        assert!(!script.contains('\n') && script.contains("timeout 1 head -c 3"), "{script}");
        assert!(script.ends_with("exec \"$d/surtax-agent\" leased 20'"), "{script}");
    }
}
