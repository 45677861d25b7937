//! Another machine by the OpenSSH client: the agent there, and nothing between it and the kernel.
//!
//! surtax (host) ── ssh ══ sshd ── agent (leased) ── command
//!
//! - **Needs** `ssh` in `PATH`, a host whose key is known, a login without questions, Linux on
//!   x86-64.
//! - **Leaves out** terminals, forwarding and shared connections; the other machine's files are
//!   seen as they are and writes to them stay, as in `native:root=host`. A layer behind has a
//!   throw-away root.
//! - **Payers** the client: engine. What `sshd` and the agent use on the other machine nobody
//!   reads.
//! - **Checked against** `ssh(1)`, `ssh_config(5)` of OpenSSH 9.2.
//!
//! One connection brings the agent and runs it: what is between two could be left behind. The agent
//! removes its own file before its first frame, and lives under a lease: when nothing of us was
//! heard for [`ssh_bootstrap::LEASE`] it kills its command and leaves. So a frame goes there every
//! [`ssh_bootstrap::KEEP_ALIVE`], also while a command runs, which costs a wake-up on both
//! machines. A surtax that is itself stopped for longer than the lease loses its trial.
//!
//! Times are this machine's, as everywhere: one of a command contains the way of two frames, there
//! and back. A workload with two sides goes the way that ssh has gone: each side calls the other's
//! end of that connection, as `sshd` says it and the client's own socket has it. A starter for a
//! layer behind is kept in the memory of the agent and is no file there.

mod client;

use crate::agent::ssh_bootstrap::{Arrival, KEEP_ALIVE, LEASE, SYSTEM};
use crate::agent::{ConsoleTail, Link, ssh_bootstrap};
use crate::fault::{Doing, Fault, last_words};
use crate::lab::{self, Process, Program, Room, tool_version};
use crate::layer::{
    Descriptor, Files, Layer, LayerSpec, Payer, Reach, Rights, RootKind, Running, Site, Source,
    StartGuess, Started, Unavailable, Usable, WorkloadNetwork, option, require_program, value_of,
};
use crate::regular_file;
use client::Client;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::{Fact, Role};

/// Time limit of a login.
const LOGIN_DEADLINE: Duration = Duration::from_secs(20);

/// Time that the client may take to end after the agent was asked to leave.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Time that the last words of a client that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Another machine.
pub struct Ssh;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "ssh",
    summary: "another machine by ssh: its own kernel and files, on which writes stay",
    reach: &[("", Reach::Far)],
    rights: |_| Rights::User,
    options: &[
        option("host", &[])
            .help("the machine, as `ssh` and its configuration know it: `ssh:lab7`, `ssh:me@lab7`"),
        option("user", &[]).help("who logs in there (default: as configured)"),
        option("port", &[]).help("where its `sshd` listens (default: 22)"),
        option("identity", &[]).path().help("the private key's file, and no other"),
        option("known-hosts", &[]).path().help("the file of known host keys, and no other"),
        option("config", &[]).path().help("the client's configuration, and no other"),
    ],
    subject: Some("host"),
    limits: &[],
    holds_layers: true,
    is_remote: true,
    files: Files::AsTheyAre,
    roots: &[RootKind::Host],
    start_guess: StartGuess::of(2_000),
    ..Descriptor::CONTAINER
};

impl Layer for Ssh {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    /// Without a host, as the doctor asks, the client alone is looked at.
    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        require_program(client::PROGRAM, client::REMEDY)?;
        let mut facts = vec![version_fact()?];
        if spec.options.contains_key("host") {
            let client = Client::read(spec)?;
            facts.push(look(&client)?);
        }
        Ok(Usable { facts })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let client = Client::read(spec)?;
        let version = version_fact()?;
        let agent = fs::read(site.agent)
            .doing(format_args!("read the agent `{}`", site.agent.display()))?;
        let (requests, to_agent) = lab::pipe()?;
        let (replies, from_agent) = lab::pipe()?;
        let (last_words, stderr) = lab::pipe()?;
        let script = ssh_bootstrap::script(agent.len(), site.start_deadline, LEASE);
        let log = Log::in_directory(room.directory());
        let says_key = client::tells_its_key(&version.value);
        let process = room.spawn(Program {
            argv: client.run(Some(&log.0), says_key, &script),
            stdio: [Some(requests), Some(from_agent), Some(stderr)],
            // The keys and the settings are theirs.
            as_themselves: true,
            ..Program::default()
        })?;
        let console = ConsoleTail::new();
        console.drain(last_words);
        let channel = (File::from(to_agent), File::from(replies));
        let arrived = ssh_bootstrap::bring(channel, agent, site.start_deadline);
        let (arrival, to_agent, replies) = arrived.map_err(|fault| {
            console.settle(LAST_WORDS);
            explained(&client, fault, (&log, &console))
        })?;
        let name = format!("ssh:{}", client.host);
        let link = Link::kept_alive(name, replies, to_agent, &console, KEEP_ALIVE)?;
        let ends = arrival.ends.filter(|said| process.connections().contains(said));
        Ok(Started::new(link, RunningSsh { client, version, process, arrival, ends, log }))
    }
}

struct RunningSsh {
    client: Client,
    version: Fact,
    process: Process,
    arrival: Arrival,
    /// Ends of the connection, ours and theirs, where the client's own socket has those that the
    /// other machine says.
    ends: Option<(SocketAddr, SocketAddr)>,
    log: Log,
}

/// File of what the client itself says, to which nobody else writes.
struct Log(PathBuf);

/// The most of it that is read, in bytes.
const LOG_LIMIT: u64 = 64 << 10;

impl Log {
    fn in_directory(directory: &Path) -> Self {
        Self(directory.join("ssh.log"))
    }

    /// Returns what is in it; nothing where the client has said nothing.
    fn text(&self) -> String {
        let said = regular_file::open(&self.0)
            .and_then(|file| regular_file::read_again(&file, LOG_LIMIT))
            .unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Running for RunningSsh {
    fn payers(&self) -> Vec<Payer> {
        vec![Payer::new("ssh client", Role::Engine, Source::Process(self.process.pid()))]
    }

    /// The way that ssh itself has come, if both machines see the same two ends of it: one that
    /// could name another address would have us send to whom it likes.
    fn network(&self) -> Option<WorkloadNetwork> {
        let (ours, theirs) = self.ends?;
        let (outside, workload) = (ours.ip(), Some(theirs.ip()));
        Some(WorkloadNetwork {
            outside,
            workload,
            is_shared: false,
            is_far: true,
            ..WorkloadNetwork::of_level()
        })
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let arrival = &self.arrival;
        for (key, said) in [("kernel_release", &arrival.release), ("user_id", &arrival.user_id)] {
            let seen = value_of(inside, key)?;
            if seen != said {
                return Err(Fault::machine(format!(
                    "ssh: the shell on `{}` says of {key} `{said}`, and the agent `{seen}`",
                    self.client.host
                )));
            }
        }
        let user = self.client.user.as_deref().unwrap_or("as configured");
        let said = self.log.text();
        Ok(vec![
            self.version.clone(),
            Fact::new("ssh_command_line", self.client.by_hand(), "its start"),
            Fact::new("host", &self.client.host, "its start"),
            Fact::new("user", user, "its start"),
            Fact::new(
                "host_key",
                client::host_key(&said),
                "what the client says of the key exchange",
            ),
            Fact::new("user_id", &arrival.user_id, "id(1) there, and getuid(2) inside"),
            Fact::new("kernel_release", &arrival.release, "uname(1) there, and uname(2) inside"),
            Fact::new("boot_id", &arrival.boot_id, "/proc/sys/kernel/random/boot_id there"),
            Fact::new(
                "machine",
                arrival.machine(),
                "/proc/sys/kernel/random/boot_id, here and there",
            ),
            Fact::new("root", "host", "the login shell's own root"),
        ])
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        match self.process.wait(STOP_DEADLINE)? {
            Some(_) => Ok(()),
            None => Err(Fault::machine(format!(
                "ssh: the connection to `{}` did not end and was cut",
                self.client.host
            ))),
        }
    }
}

/// Logs in once and asks what machine it is.
fn look(client: &Client) -> Result<Fact, Unavailable> {
    let answer = lab::ask_as_themselves(&client.run(None, false, "uname -sm"), LOGIN_DEADLINE);
    let answer = answer.map_err(|fault| Fault {
        hint: client.remedy(&fault.message),
        ..Fault::machine(client.refusal(&fault.message))
    })?;
    // A login shell may greet before it does what it was asked to.
    let system = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    if system != SYSTEM {
        return Err(client.wrong_system(system).into());
    }
    Ok(Fact::new("system", system, format!("uname -sm on `{}`", client.host)))
}

/// Adds to a fault why no agent came up, in the client's own words and those of the shell there,
/// and what would help.
fn explained(client: &Client, fault: Fault, (log, console): (&Log, &ConsoleTail)) -> Fault {
    let said = log.text();
    // A client on the way, of a jump, has no log of its own.
    let hint = client.remedy(&said).or_else(|| client.remedy(&console.text()));
    let hint = hint.or(fault.hint.clone());
    let mut explained = fault.during(format_args!("ssh: no agent on `{}`", client.host));
    let own = last_words::last_lines(client::without_key(&said));
    explained.message += &(own + &console.quote());
    Fault { hint, ..explained }
}

/// Asks the client for its version, which it prints on its standard error.
fn version_fact() -> Result<Fact, Fault> {
    let version = tool_version::asked([client::PROGRAM, "-V"].map(String::from).to_vec())?;
    Ok(Fact::new("ssh_version", version, "ssh -V"))
}
