//! LXD: a container by liblxc that a daemon starts, whose root is nobody here.
//!
//! surtax (host) ── lxd ── monitor ── namespaces, pivot_root, seccomp ── agent (PID 1) ── command
//!
//! - **Needs** `lxd` and `nsenter` in `PATH`, root; where root inside is nobody here, a kernel that
//!   maps the owners of files, and files that are on no overlay.
//! - **Leaves out** the machine's own daemon: one is started for the run, and gone with it; images
//!   and storage drivers, since the root is a directory; profiles of AppArmor, lxcfs, `/dev/lxd`
//!   and what LXD shows of the kernel's own file systems; `limits.*`, since the limits are those of
//!   a group around the container; `CAP_LINUX_IMMUTABLE` and the kernel's keyrings, by which a
//!   command reaches what is this machine's.
//! - **Payers** the daemon, which all containers of a run share; one group with the container's
//!   monitor, the agent and the command.
//! - **Checked against** LXD 5.0.2, `doc/rest-api.md`, `doc/environment.md`; LXC 5.0.2,
//!   `lxc.container.conf(5)`.

mod daemon;

use crate::agent::{Call, ConsoleTail, Link};
use crate::container::engine_runtime::Kernel;
use crate::container::first_process::{FirstProcess, empties, limited_together};
use crate::container::init::SOCKET;
use crate::container::oci::config::AGENT;
use crate::container::tool::{self, word};
use crate::container::tool_network::{NamedNetwork, ToolNetwork, Wiring};
use crate::container::users::ContainerUsers;
use crate::container::{group, tool_network};
use crate::fault::{Doing, Fault};
use crate::lab::{Limits, Room, tool_version};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Limit, NETWORK, Payer, Reach, Root, Running, Site, Source,
    StartGuess, Started, Unavailable, Usable, WorkloadNetwork, medium, option, require_program,
    require_root,
};
use crate::rootfs::root;
use daemon::Daemon;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, Role};

/// Between two looks at the socket.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Time limit for a container to end after its agent was asked to leave.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// The command that installs it.
const REMEDY: &str = "apt-get install lxd";

/// The networks that are made for it.
const NETWORKS: &[NamedNetwork] = &[("veth", Wiring::Prepared)];

/// A container by LXD's API.
pub struct Lxd;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "lxd",
    summary: "a container by LXD, whose daemon is started for the run",
    package: "lxd",
    reach: &[("host", Reach::Level), ("veth", Reach::Link)],
    options: &[
        tool_network::choice(&["none", "host", "veth"]),
        option("user", &["private", "host"]).help(
            "whether root inside is nobody here (`private`, default), or root here (`host`); the \
             files of its root are mapped",
        ),
        medium::CHOICE,
    ],
    limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Pids, Limit::Weight],
    both_ways: &["veth", "host"],
    default_users: Some("private"),
    shuts_keyrings: true,
    start_guess: StartGuess::of(500),
    variants: &["lxd", "lxd:user=host", "lxd:user=host,net=host", "lxd:user=host,net=veth"],
    ..Descriptor::CONTAINER
};

impl Layer for Lxd {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    /// It mounts a `/sys` of its own, which the kernel lets users do that have a network of their
    /// own.
    fn refuse(&self, spec: &LayerSpec, _: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        let word = spec.option(NETWORK).unwrap_or("none");
        let users = ContainerUsers::of(spec, &DESCRIPTOR);
        if word == "none" || users == ContainerUsers::OfTheLevel {
            return Ok(());
        }
        Err(Fault::user(format!(
            "lxd: with `net={word}` it is in a network of this level's, in which it can show `/sys` \
             to nobody but root"
        ))
        .hint("add `user=host`, or use `net=none`"))
    }

    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        let program = require_program("lxd", REMEDY)?;
        require_program("nsenter", "apt-get install util-linux")?;
        require_root("a private LXD daemon can only be started by root")?;
        tool_network::require(spec, NETWORKS)?;
        let daemon = Fact::new("daemon", "private, started when needed", "PATH");
        Ok(Usable { facts: vec![daemon, version(&program)?] })
    }

    fn prepare(&self, _: &LayerSpec, site: &Site<'_>) -> Result<(), Fault> {
        found(site).map(drop)
    }

    /// The order of the lines is the protocol.
    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let (daemon, version) = found(site)?;
        let users = ContainerUsers::of(spec, &DESCRIPTOR);
        let scratch = room.memory_directory()?;
        let agent = scratch.join("agent");
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let mapped = users.namespace(room)?;
        let mut mounts = tool::mounts(&lowers, &agent, mapped.as_ref(), site, room)?;
        mounts.extend(daemon::mounts(scratch)?);
        let namespace = room.mount_namespace(&mounts)?;
        let (group, _) = group::make(false, site, room)?;
        let network = ToolNetwork::make(spec, NETWORKS, site, room)?;
        let joined = match network.is_shared() {
            true => Some(PathBuf::from(format!("/proc/{}/ns/net", std::process::id()))),
            false => network.prepared(),
        };
        let socket = scratch.join("socket");
        let call = users.listen(&socket)?;
        let system = rustix::system::uname();
        let container = Container {
            root: &root::merged_at(scratch),
            mount_point: &scratch.join("rootfs"),
            agent: &agent,
            socket: &socket,
            group: &group,
            host_name: &system.nodename().to_string_lossy(),
            users,
            joined: joined.as_deref(),
            has_own_run: site.view.root == Root::Overlay,
        };
        let file = container.write(&scratch.join("config"))?;

        let name = site.container_name(room);
        daemon.create(&name, users, &file)?;
        daemon.start(&name, &namespace)?;
        let link = link(&call, room, &group, site.start_deadline)?;
        let facts = [vec![version], root::facts(&site.view.root, &lowers)].concat();
        let running = RunningLxd {
            is_daemon_shared: site.level == 0,
            daemon,
            name,
            group,
            hierarchies: site.lab.hierarchies().clone(),
            limits: site.limits.clone(),
            users,
            network,
            facts,
        };
        Ok(Started::new(link, running))
    }
}

/// The daemon, and what it says of its version.
fn found(site: &Site<'_>) -> Result<(Daemon, Fact), Fault> {
    let program = require_program("lxd", REMEDY).map_err(|it| it.fault().during("lxd"))?;
    let daemon = Daemon::find(&program, site)?;
    Ok((daemon, version(&program)?))
}

fn version(program: &Path) -> Result<Fact, Fault> {
    Ok(Fact::new("lxd_version", tool_version::of(program, &[])?, "--version"))
}

/// A container, as LXC is told of it.
struct Container<'a> {
    root: &'a Path,
    mount_point: &'a Path,
    agent: &'a Path,
    socket: &'a Path,
    group: &'a Path,
    host_name: &'a str,
    users: ContainerUsers,
    /// The network namespace of somebody else that it is to be in.
    joined: Option<&'a Path>,
    has_own_run: bool,
}

impl Container<'_> {
    /// Writes its configuration into a file, whose path is returned as a word.
    fn write(&self, file: &Path) -> Result<String, Fault> {
        fs::create_dir(self.mount_point)
            .doing(format_args!("make `{}`", self.mount_point.display()))?;
        fs::write(file, self.lines()?).doing(format_args!("write `{}`", file.display()))?;
        word(file)
    }

    /// The lines that follow LXD's own.
    fn lines(&self) -> Result<String, Fault> {
        let mut lines = Vec::new();
        let mut set = |key: &str, value: &str| {
            lines.push(format!("lxc.{key} = {value}").trim_end().to_owned());
        };
        let is_own = self.users == ContainerUsers::Own;
        let kernel = if is_own { "proc:rw sys:rw" } else { "proc:mixed sys:mixed" };
        // What LXD shows of this machine is taken back, with directories that are not here.
        set("mount.entry", "");
        set("mount.auto", "");
        set("mount.auto", &format!("{kernel} cgroup:mixed"));
        // What is immutable would stay behind in a directory of this machine's.
        set("cap.drop", "linux_immutable");
        set("uts.name", self.host_name);
        set("rootfs.path", &format!("dir:{}", word(self.root)?));
        set("rootfs.mount", &word(self.mount_point)?);
        if let Some(joined) = self.joined {
            set("namespace.share.net", &word(joined)?);
        } else {
            set("net.0.type", "empty");
            set("net.0.flags", "up");
        }
        // All of its groups below the one with the limits, also those in hierarchies that limit
        // nothing.
        let group = word(self.group)?;
        set("cgroup.dir.monitor", &format!("{group}/monitor"));
        set("cgroup.dir.monitor.pivot", &format!("{group}/end"));
        set("cgroup.dir.container", &format!("{group}/payload"));
        // The agent calls: nobody speaks to a console.
        set("console.path", "none");
        set("mount.entry", "tmpfs dev/shm tmpfs nosuid,nodev,create=dir,mode=1777 0 0");
        if self.has_own_run {
            set("mount.entry", "tmpfs run tmpfs nosuid,nodev,mode=755 0 0");
        }
        for (file, place, mode) in [(self.agent, AGENT, "bind,ro"), (self.socket, SOCKET, "bind")] {
            let (file, place) = (word(file)?, place.trim_start_matches('/'));
            set("mount.entry", &format!("{file} {place} none {mode},create=file 0 0"));
        }
        set("init.cmd", &format!("{AGENT} dial {SOCKET}"));
        Ok(lines.join("\n") + "\n")
    }
}

/// Waits for the call of the agent in a group.
fn link(call: &Call, room: &Room, group: &Path, deadline: Duration) -> Result<Link, Fault> {
    let taken = call.take(deadline, || {
        std::thread::sleep(LOOK_AGAIN);
        Ok(room.members(group).is_empty().then(|| String::from("has ended")))
    });
    let stream = taken?.map_err(|why| Fault::machine(format!("lxd: the container {why}")))?;
    Link::over_socket("lxd", stream, &ConsoleTail::new())
}

struct RunningLxd {
    /// True if its daemon serves all trials of a run: further in, it is a trial's own.
    is_daemon_shared: bool,
    daemon: Daemon,
    name: String,
    group: PathBuf,
    hierarchies: Hierarchies,
    limits: Limits,
    users: ContainerUsers,
    network: ToolNetwork,
    facts: Vec<Fact>,
}

impl Running for RunningLxd {
    fn payers(&self) -> Vec<Payer> {
        let source = |group: &Path| Source::Group(group.to_owned());
        let daemon = Payer::new("lxd", Role::Engine, source(&self.daemon.service.group));
        vec![
            Payer::new("container", Role::Engine, source(&self.group)).carrying(true),
            Payer { is_shared: self.is_daemon_shared, ..daemon },
        ]
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        self.network.reach()
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let first = FirstProcess::among(&self.group, &self.hierarchies, inside)?;
        let (told, seen) = (self.daemon.first_pid(&self.name)?, first.pid());
        if told != seen {
            return Err(Fault::machine(format!(
                "lxd: it says that its container begins with process {told}, and the agent is \
                 {seen}"
            )));
        }
        let mut facts = self.facts.clone();
        facts.push(Fact::new("container_pid", told.to_string(), "GET /1.0/instances/NAME/state"));
        facts.push(first.group_is(&self.group)?);
        facts.extend(first.limits(&self.group, &self.limits)?);
        if self.limits != Limits::default() {
            facts.push(limited_together("the container and its monitor"));
        }
        let is_users_shared = self.users == ContainerUsers::OfTheLevel;
        let shared = [(self.network.is_shared(), "net"), (is_users_shared, "user")];
        let shared = shared.into_iter().filter_map(|(is_shared, kind)| is_shared.then_some(kind));
        facts.push(first.namespaces(&shared.collect::<Vec<_>>())?);
        let proved = self.users.prove(&first, &first, inside);
        facts.extend(proved.map_err(|fault| fault.during("lxd"))?);
        facts.extend(first.privileges()?);
        let proved = self.network.prove(Kernel::Shared, inside);
        facts.extend(proved.map_err(|fault| fault.during("lxd"))?);
        Ok(facts)
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        let has_ended = empties(&self.group, &self.hierarchies, STOP_DEADLINE);
        if !has_ended {
            self.daemon.kill(&self.name);
        }
        self.daemon.forget(&self.name);
        if has_ended {
            return Ok(());
        }
        Err(Fault::machine("lxd: the container did not end and was stopped by force"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_that_lxc_gets_is_the_golden_one() {
        let container = |users, joined| Container {
            root: Path::new("/m/root/merged"),
            mount_point: Path::new("/m/rootfs"),
            agent: Path::new("/m/agent"),
            socket: Path::new("/m/socket"),
            group: Path::new("surtax-1/room/container"),
            host_name: "lab7",
            users,
            joined,
            has_own_run: true,
        };
        for (name, users, joined) in [
            ("private", ContainerUsers::Own, None),
            ("host", ContainerUsers::OfTheLevel, Some(Path::new("/proc/7/ns/net"))),
        ] {
            let found = container(users, joined).lines().unwrap();
            let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver/lxd/golden");
            let golden = golden.join(name).with_extension("conf");
            if std::env::var_os("SURTAX_BLESS").is_some() {
                fs::write(&golden, &found).unwrap();
            }
            assert_eq!(fs::read_to_string(&golden).unwrap(), found, "review, then SURTAX_BLESS=1");
        }
    }

    #[test]
    fn a_network_of_the_level_s_is_for_root_of_the_level() {
        let refused = |options: &[(&str, &str)]| {
            let options = options.iter().map(|&(key, value)| (key.into(), value.into())).collect();
            let spec = LayerSpec { kind: "lxd".into(), options };
            Lxd.refuse(&spec, &Limits::default(), None).is_err()
        };
        assert!(refused(&[("net", "host")]));
        assert!(!refused(&[("net", "host"), ("user", "host")]));
        assert!(!refused(&[]));
    }
}
