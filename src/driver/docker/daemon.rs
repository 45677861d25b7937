//! The daemon: the one that runs here, or a private one that is gone with surtax.
//!
//! A private daemon touches nothing of the host's: no bridge, no packet filter, no sysctl; its
//! mounts are in a private namespace, its files in its room. For a bridge or a macvlan there is a
//! second one, in a network namespace of its own: its bridge, its NAT rules and its sysctls are
//! gone with it, and nothing leads from there to anywhere else. It insists on a few fixed places
//! (`/etc/docker/key.json`, `/opt/containerd`, sockets below `/run`), so in its namespace there are
//! overlays over `/etc`, `/opt` and `/run`. Volumes must not be overlays over these, since the
//! kernel allows two on top of each other at most: what is below them is kept in sight elsewhere.

use super::candidate::Candidate;
use super::engine::answers;
use super::network::NetworkOptions;
use super::rootless::{self as unprivileged, Shown};
use super::{behind, candidate, runtimes};
use crate::agent::ConsoleTail;
use crate::container::rootless;
use crate::container::storage::{Storage, default_data};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Mount, Process, Program, Room, Service, conceal, environment};
use crate::layer::{LayerSpec, Site, ToolFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Directories in which a daemon or its containerd writes, whatever it is told.
const WRITTEN: [&str; 3] = ["/etc", "/opt", "/run"];

/// Directory of the rooms: below `/run`, and yet to be seen by the daemon as they are.
const ROOMS: &str = "/run/surtax";

/// Pause between two looks for the private daemon's socket.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The network of a private daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DaemonNetwork {
    /// This level's, in which it makes nothing.
    Level,
    /// A namespace of its own, in which it has its bridge.
    Own,
    /// One of its user's own, which rootlesskit connects with one that nothing leads out of.
    OfItsUser,
}

impl DaemonNetwork {
    /// The one in which a container can have the network that a spec names.
    fn of(spec: &LayerSpec) -> Result<Self, Fault> {
        if rootless::is_asked(spec) {
            return Ok(Self::OfItsUser);
        }
        Ok(if NetworkOptions::read(spec)?.needs_own_namespace() { Self::Own } else { Self::Level })
    }

    /// Returns the daemon's name among the lab's services.
    fn service(self) -> &'static str {
        match self {
            Self::Level => "docker",
            Self::Own => "docker-bridge",
            Self::OfItsUser => "docker-rootless",
        }
    }
}

/// A daemon that answers.
pub struct Daemon {
    /// Name among the lab's services; the machine's own is called so, too.
    pub name: String,
    /// Path of the daemon's unix socket.
    pub socket: PathBuf,
    /// The service, if it is a private one.
    pub private: Option<Service>,
    /// File that it was started from, if it is a private one.
    pub tool: Option<ToolFile>,
    /// View that the daemon has of the files of this level.
    sight: Sight,
}

/// View that a daemon has of the files of this level.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// As we do.
    Same,
    /// With overlays over some places, below which they are to be found here.
    Covered(PathBuf),
    /// With their owners mapped.
    Mapped(Shown),
}

impl Daemon {
    /// The daemon to use. A private one is started once and ends with the lab.
    ///
    /// # Errors
    /// As [`candidate::look`]; or the private one's last words.
    pub fn find(spec: &LayerSpec, site: &Site<'_>) -> Result<Self, Fault> {
        match candidate::look(spec)? {
            Candidate::System(socket) => {
                let name = "docker-system".to_owned();
                Ok(Self { name, socket, private: None, tool: None, sight: Sight::Same })
            }
            Candidate::Private(tool) => {
                // A level of ours is thrown away with what a daemon writes; no other machine is.
                let is_covered = !site.lab.is_in_level();
                let (network, storage) = (DaemonNetwork::of(spec)?, Storage::read(spec)?);
                let wanted = DaemonOptions { program: &tool.path, network, storage };
                let start = |room: &Room| {
                    if network == DaemonNetwork::OfItsUser {
                        return start_rootless(&wanted, room, site).map(Some);
                    }
                    let mounts = if is_covered { cover(room)? } else { Vec::new() };
                    if !is_covered {
                        // A key of the level around is concealed as one, and no daemon takes it.
                        conceal::remove_if_empty(Path::new("/etc/docker/key.json"))?;
                    }
                    start(&wanted, room, &mounts, hybrid(site), site.start_deadline).map(Some)
                };
                let build = candidate::suffix(&tool)?;
                let name = format!("{}{}{build}", network.service(), storage.suffix());
                let service = site.lab.service(&format!("{name}-daemon"), start)?;
                let sight = match (network, &service.memory_directory) {
                    (DaemonNetwork::OfItsUser, Some(it)) => Sight::Mapped(Shown::of(it, site)?),
                    _ if is_covered => Sight::Covered(below(&service.directory)),
                    _ => Sight::Same,
                };
                let socket = match &sight {
                    Sight::Mapped(shown) => socket_in(&shown.memory),
                    _ => socket_in(&service.directory),
                };
                Ok(Self { name, socket, private: Some(service), tool: Some(tool), sight })
            }
        }
    }

    /// Returns the path that the daemon must be told for a file of this level; `is_kept` if writes
    /// to it are.
    pub fn source(&self, path: &Path, is_kept: bool) -> PathBuf {
        let is_covered = WRITTEN.iter().any(|place| path.starts_with(place));
        match (&self.sight, path.strip_prefix("/")) {
            (Sight::Covered(below), Ok(relative)) if is_covered && !path.starts_with(ROOMS) => {
                below.join(relative)
            }
            (Sight::Mapped(shown), _) => unprivileged::source(shown, path, is_kept),
            _ => path.to_path_buf(),
        }
    }

    /// Tells whether a user without privileges runs the daemon.
    pub fn is_rootless(&self) -> bool {
        matches!(self.sight, Sight::Mapped(_))
    }

    /// Returns the path at which the daemon finds the agent, which we have as a file at `path`.
    pub fn agent(&self, path: &Path) -> PathBuf {
        match &self.sight {
            Sight::Mapped(shown) => unprivileged::agent_in(&shown.memory),
            _ => path.to_path_buf(),
        }
    }

    /// Returns the daemon's process id, if it is a private one of a user's; else `None`.
    ///
    /// # Errors
    /// The machine's: it has not said which.
    pub fn rootless_pid(&self) -> Result<Option<u32>, Fault> {
        match &self.sight {
            Sight::Mapped(shown) => written_pid(&shown.memory).map(Some),
            _ => Ok(None),
        }
    }
}

fn below(directory: &Path) -> PathBuf {
    directory.join("below")
}

impl Daemon {
    /// The network namespace in which its bridge stands, as a file.
    pub fn network_namespace(&self) -> PathBuf {
        let private = self.private.as_ref().and_then(|service| service.pid);
        // What was started is rootlesskit, on the other side of slirp4netns.
        let private = self.rootless_pid().ok().flatten().or(private);
        let pid = private.or_else(|| behind::daemon(&self.socket));
        PathBuf::from(format!("/proc/{}/ns/net", pid.unwrap_or_else(std::process::id)))
    }

    /// For the evidence.
    pub fn origin(&self) -> &'static str {
        if self.private.is_some() { "private" } else { "system" }
    }

    /// That `net=host` means this level's network.
    ///
    /// # Errors
    /// A private daemon had to be kept away from it.
    pub fn can_share_network(&self, network: &str) -> Result<(), Fault> {
        if network != "host" || self.private.is_none() || !docker0_exists() {
            return Ok(());
        }
        Err(Fault::machine(
            "docker: the private daemon was kept off this network, to spare its `docker0`",
        )
        .hint("start the machine's own daemon, or use `net=none`"))
    }
}

/// Returns the mount point of cgroup v2 beside v1; `None` if it is not mounted so.
fn hybrid<'a>(site: &'a Site<'_>) -> Option<&'a Path> {
    let hierarchies = site.lab.hierarchies();
    let unified = hierarchies.unified().filter(|_| hierarchies.0.len() > 1)?;
    Some(&unified.mount_point)
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("docker.sock")
}

/// One of ours, so that the machine's own is not read: its settings would contradict ours.
fn configuration_in(directory: &Path) -> PathBuf {
    directory.join("daemon.json")
}

/// A private daemon, as asked for.
struct DaemonOptions<'a> {
    program: &'a Path,
    network: DaemonNetwork,
    storage: Storage,
}

/// The number of a daemon's process, which it has written into its directory.
///
/// # Errors
/// The machine's: it has not.
fn written_pid(directory: &Path) -> Result<u32, Fault> {
    let file = directory.join("pid");
    let text = fs::read_to_string(&file).doing(format_args!("read `{}`", file.display()))?;
    text.trim().parse().doing(format_args!("take `{}` for a process id", text.trim()))
}

fn start_rootless(
    wanted: &DaemonOptions<'_>,
    room: &Room,
    site: &Site<'_>,
) -> Result<Process, Fault> {
    let memory = room.memory_directory()?;
    let users = room.users()?;
    let mounts = unprivileged::mounts(site, room, &users.path())?;
    let DaemonOptions { program, network, storage } = wanted;
    let data = match storage {
        Storage::Default => default_data(room, memory)?,
        _ => room.disk_directory()?.join("data"),
    };
    for path in [&data, &memory.join("exec")] {
        rootless::directory(path)?;
    }
    // It makes its socket and writes its number there.
    rootless::directory(memory)?;
    room.let_users_pass()?;
    let configuration = configuration_in(memory);
    lab::write(&configuration, "{}")?;
    let mut argv = unprivileged::words()?;
    let words = command_line(program, memory, &data, *network, storage.driver());
    argv.extend(words.into_iter().skip(1));
    let program = Program {
        argv,
        environment: Some(unprivileged::environment(memory)),
        mount_namespace: Some(room.mount_namespace(&mounts)?),
        network_namespace: Some(room.bare_network()?.namespace()?),
        user: Some(rootless::USER),
        ..Program::default()
    };
    listening(program, &socket_in(memory), room, site.start_deadline)
}

fn start(
    wanted: &DaemonOptions<'_>,
    room: &Room,
    mounts: &[Mount],
    unified: Option<&Path>,
    deadline: Duration,
) -> Result<Process, Fault> {
    let configuration = configuration_in(room.directory());
    let runtimes = runtimes::declare(room.directory(), unified)?;
    let text = serde_json::json!({ "runtimes": runtimes }).to_string();
    fs::write(&configuration, text).doing(format_args!("write `{}`", configuration.display()))?;
    // In its own it makes what it likes; from the level's it is also kept where it would delete a
    // bridge.
    let is_apart = wanted.network == DaemonNetwork::Own || docker0_exists();
    let apart = is_apart.then(|| room.bare_network()).transpose()?;
    let namespace = room.mount_namespace(mounts)?;
    let data = wanted.storage.prepare(room, &namespace)?;
    let DaemonOptions { program, network, storage } = wanted;
    let program = Program {
        argv: command_line(program, room.directory(), &data, *network, storage.driver()),
        // A containerd that ends too late is told to write its stacks down into a temporary file.
        environment: Some(lab::with_temporary_directory(environment::of_tools(), room.directory())),
        mount_namespace: Some(namespace),
        network_namespace: apart.as_ref().map(lab::RoomNetwork::namespace).transpose()?,
        ..Program::default()
    };
    listening(program, &socket_in(room.directory()), room, deadline)
}

/// Starts a daemon and waits until it answers: it listens long before, and may still fail in
/// between.
fn listening(
    program: Program,
    socket: &Path,
    room: &Room,
    deadline: Duration,
) -> Result<Process, Fault> {
    let console = ConsoleTail::new();
    let (words, log) = std::io::pipe().doing("make a pipe from `dockerd`")?;
    console.drain(words.into());
    let copy = log.try_clone().doing("copy the pipe from `dockerd`")?;
    let stdio = [None, Some(copy.into()), Some(log.into())];
    let mut process = room.spawn(Program { stdio, ..program })?;
    let begin = monotonic_raw();
    while !answers(socket) {
        let why = match process.wait(LOOK_AGAIN)? {
            Some(status) => format!("ended with {status}"),
            None if Duration::from(monotonic_raw().since(begin)) < deadline => continue,
            None => format!("did not answer within {:.1} s", deadline.as_secs_f64()),
        };
        let ended = format!("docker: the private daemon {why}");
        return Err(Fault::machine(ended).saying(&console.quote()));
    }
    Ok(process)
}

/// An overlay over each place that a daemon writes to, with what is below kept in sight. The lab's
/// directory, with all rooms, stays in sight by itself.
fn cover(room: &Room) -> Result<Vec<Mount>, Fault> {
    let memory = room.memory_directory()?;
    let below = below(room.directory());
    let mut mounts = vec![Mount::bind_all("/run", below.join("run")), overlay("run", memory)];
    for name in ["etc", "opt"] {
        let place = Path::new("/").join(name);
        if place.is_dir() {
            mounts.extend([Mount::bind_all(&place, below.join(name)), overlay(name, memory)]);
        }
    }
    Ok(mounts)
}

fn overlay(name: &str, memory: &Path) -> Mount {
    let place = Path::new("/").join(name);
    let above = memory.join("above").join(name);
    let (upper, work) = (above.join("upper"), above.join("work"));
    Mount::Overlay { lower: place.clone(), upper, work, target: place }
}

/// Somebody's `docker0`, which a daemon without a bridge would delete.
fn docker0_exists() -> bool {
    Path::new("/sys/class/net/docker0").exists()
}

/// That a private daemon would have what is asked for.
///
/// # Errors
/// The user's: it would not.
pub fn require_of_private(spec: &LayerSpec) -> Result<(), Fault> {
    if rootless::is_asked(spec) {
        unprivileged::require()?;
    }
    if DaemonNetwork::of(spec)? != DaemonNetwork::Level && lab::find("iptables").is_none() {
        return Err(Fault::user("docker: a network takes `iptables`, which is not in `PATH`")
            .hint("apt-get install iptables"));
    }
    Storage::read(spec)?.require("docker")?;
    runtimes::require(spec)
}

fn command_line(
    program: &Path,
    directory: &Path,
    data: &Path,
    network: DaemonNetwork,
    driver: &str,
) -> Vec<String> {
    let in_room = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(["--host".to_owned(), format!("unix://{}", socket_in(directory).display())]);
    words.extend(["--config-file".to_owned(), configuration_in(directory).display().to_string()]);
    words.extend(["--data-root".to_owned(), data.to_string_lossy().into_owned()]);
    for (option, name) in [("--exec-root", "exec"), ("--pidfile", "pid")] {
        words.extend([option.to_owned(), in_room(name)]);
    }
    words.push(format!("--storage-driver={driver}"));
    let rest =
        ["--exec-opt=native.cgroupdriver=cgroupfs", "--ip6tables=false", "--userland-proxy=false"];
    words.extend(rest.map(String::from));
    if network == DaemonNetwork::Level {
        let nothing =
            ["--bridge=none", "--iptables=false", "--ip-masq=false", "--ip-forward=false"];
        words.extend(nothing.map(String::from));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_daemon_is_told_to_leave_the_host_alone() {
        let program = Path::new("/usr/sbin/dockerd");
        let (room, data) = (Path::new("/run/surtax/1/d"), Path::new("/run/surtax/1/d/data"));
        let words = command_line(program, room, data, DaemonNetwork::Level, "overlay2");
        assert_eq!(
            words.join("\n"),
            "/usr/sbin/dockerd\n--host\nunix:///run/surtax/1/d/docker.sock\n\
             --config-file\n/run/surtax/1/d/daemon.json\n\
             --data-root\n/run/surtax/1/d/data\n--exec-root\n/run/surtax/1/d/exec\n\
             --pidfile\n/run/surtax/1/d/pid\n--storage-driver=overlay2\n\
             --exec-opt=native.cgroupdriver=cgroupfs\n--ip6tables=false\n--userland-proxy=false\n\
             --bridge=none\n--iptables=false\n--ip-masq=false\n--ip-forward=false"
        );
        let own = command_line(program, room, data, DaemonNetwork::Own, "btrfs");
        assert!(own.contains(&String::from("--storage-driver=btrfs")), "{own:?}");
        assert!(!own.iter().any(|word| word == "--bridge=none"), "{own:?}");
    }

    #[test]
    fn a_private_daemon_is_told_of_files_where_it_sees_them() {
        let sight = Sight::Covered(PathBuf::from("/run/surtax/1/d/below"));
        let (name, socket) = (String::from("docker"), PathBuf::from("/s"));
        let daemon = Daemon { name, socket, private: None, tool: None, sight };
        let told = |path: &str| daemon.source(Path::new(path), false).display().to_string();
        assert_eq!(told("/etc"), "/run/surtax/1/d/below/etc");
        assert_eq!(told("/opt/tool/data"), "/run/surtax/1/d/below/opt/tool/data");
        assert_eq!(told("/run/surtax/1/agent"), "/run/surtax/1/agent");
        assert_eq!(told("/home"), "/home");
        let system = Daemon { sight: Sight::Same, ..daemon };
        assert_eq!(system.source(Path::new("/etc"), false), Path::new("/etc"));
    }
}
