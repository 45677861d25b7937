//! Docker: a container by the Engine API, with everything that stands behind it.
//!
//! surtax (host) ── dockerd ── containerd ── shim ── runc ── agent (PID 1) ── command
//!
//! - **Needs** a daemon that listens, or `dockerd`, in `PATH` or by `binary=`, and root to start a
//!   private one; for a rootless one also `rootlesskit`, `slirp4netns` and `newuidmap`.
//! - **Leaves out** the log driver, since the agent's frames are no text; pulling and building
//!   images: the root is a skeleton image with an overlay volume for each directory of it; plain
//!   files in `/`.
//! - **Payers** the container's group, which carries the command; shim, containerd and dockerd:
//!   engine, shared by the trials of a run, and a private daemon is started before the first. With
//!   Kata, virtual CPUs: guest, which carry the command; the hypervisor's other threads and
//!   virtiofsd: hypervisor.
//! - **Checked against** Docker Engine API 1.41, dockerd 20.10.24.

pub(super) mod attach;
mod behind;
mod candidate;
mod container;
mod daemon;
mod engine;
mod facts;
mod kata;
mod network;
mod rootless;
mod running;
mod runtimes;

use super::qemu::kvm_proof;
use crate::agent::{ConsoleTail, Link};
use crate::container::engine_runtime::Kernel;
use crate::container::first_process::FirstProcess;
use crate::container::oci::config;
use crate::container::skeleton::{self, Skeleton};
use crate::container::storage::{self, Storage};
use crate::container::{engine_runtime, group, rootless as layer_rootless};
use crate::fault::{Doing, Fault};
use crate::lab::conceal::Owners;
use crate::lab::{self, Limits, Room, Undo, tool_version};
use crate::layer::{
    BINARY, Descriptor, Exchange, Inner, Layer, LayerSpec, Limit, OF_CALLS, OF_NETWORK, OptionSpec,
    Reach, Site, StartGuess, Started, TOOL, Unavailable, Usable, medium, option, publish,
    require_root,
};
use crate::rootfs::root::{Lower, Writes};
use crate::rootfs::secrets::Hidden;
use crate::rootfs::{root, scratch, secrets};
use candidate::Candidate;
use container::{ContainerOptions, Layered};
use daemon::Daemon;
use engine::{About, Engine};
use facts::{container_facts, daemon_facts};
use running::{RunningDocker, pid};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::{Fact, SCRATCH};

/// Time that the daemon may take over one request. Not the layer's deadline: a request that is
/// given up may still be done, after we have looked for what to remove.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);

/// The repository of our skeleton images.
const REPOSITORY: &str = "surtax/root";

/// A container by the Engine API.
pub struct Docker;

/// Specs that the doctor asks about.
const VARIANTS: &[&str] = &[
    "docker", "docker:net=bridge", "docker:net=bridge,publish=5201", "docker:net=user",
    "docker:net=macvlan", "docker:net=host", "docker:net=none", "docker:runtime=runc",
    "docker:runtime=crun", "docker:runtime=youki", "docker:runtime=runsc", "docker:runtime=kata",
    "docker:seccomp=default", "docker:seccomp=unconfined", "docker:rootless=on",
    "docker:rootless=on,net=user", "docker:rootless=on,storage=overlay2",
    "docker:rootless=on,storage=vfs", "docker:storage=overlay2", "docker:storage=vfs",
    "docker:storage=btrfs", "docker:scratch=layer", "docker:scratch=volume", "docker:scratch=bind",
    "docker:scratch=tmpfs", "docker+runc", "docker+qemu:accel=tcg", "docker+qemu:accel=tcg+runc",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "docker",
    summary: "a container by Docker's daemon: the machine's own, or a private one",
    package: "docker.io",
    aliases: &[("kata", "runtime=kata")],
    reach: &[
        // A daemon may have a bridge, or none.
        ("", Reach::Unknown),
        ("host", Reach::Daemon),
        ("bridge", Reach::Engine),
        ("user", Reach::Engine),
        ("macvlan", Reach::Engine),
    ],
    options: &[
        network::NET,
        publish::CHOICE,
        option(engine_runtime::KEY, &[]).help(
            "the OCI runtime by the daemon's name for it; a private daemon knows runc, crun, runsc \
             and youki where they are installed (default: the daemon's)",
        ),
        option("socket", &[]).path().help(
            "the daemon's unix socket (default: $DOCKER_HOST, /var/run/docker.sock, a private \
             daemon)",
        ),
        storage::CHOICE,
        layer_rootless::CHOICE,
        medium::choice(&["layer", "bind", "tmpfs", "volume"]),
        engine_runtime::SECCOMP,
        option("privileged", &["true", "false"])
            .help("all capabilities and devices, as layers inside may need (default: false)"),
        OptionSpec {
            help: "the file of `dockerd` that a private daemon is started from, to compare it with \
                   another version of itself (default: the one in `PATH`)",
            ..BINARY
        },
    ],
    limits: Limit::OF_A_CONTAINER,
    holds_layers: true,
    both_ways: &["bridge", "host"],
    default_users: Some("host"),
    shuts_keyrings: true,
    start_guess: StartGuess::of(1_000),
    exchanges: &[
        Exchange {
            option: ("seccomp", "unconfined"),
            instead: "no filter of system calls",
            causes: OF_CALLS,
        },
        Exchange {
            option: ("net", "host"),
            instead: "the network of its level",
            causes: OF_NETWORK,
        },
    ],
    variants: VARIANTS,
    not_yet_run: &["docker:runtime=kata"],
    may_prove_kvm: |spec| spec.says("runtime", "kata"),
    ..Descriptor::CONTAINER
};

impl Layer for Docker {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(
        &self,
        spec: &LayerSpec,
        limits: &Limits,
        inside: Option<Inner<'_>>,
    ) -> Result<(), Fault> {
        candidate::refuse(spec)?;
        rootless::refuse(spec, inside.is_some())?;
        engine_runtime::refuse(spec, limits, inside.is_some())?;
        network::NetworkOptions::read(spec)?;
        Storage::read(spec).map(drop)
    }

    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        // The daemon that the environment names is one, too.
        let named = candidate::named_socket(spec).unwrap_or_default();
        let socket = candidate::socket_path(&named).ok().map(PathBuf::from);
        let socket = socket.filter(|socket| socket.is_absolute());
        spec.files(&DESCRIPTOR).into_iter().chain(socket).collect()
    }

    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        match candidate::look(spec)? {
            Candidate::System(socket) => {
                let (_, about) = Engine::connect(&socket, REQUEST_DEADLINE)?;
                let asked = network::NetworkOptions::read(spec)?;
                asked.choose(&about, false, site.lab.id())?;
                runtimes::require_of(spec, &about)?;
                Storage::require_of(spec, about.info.driver.as_deref())?;
                if Kernel::asked(spec) == Kernel::Machine {
                    let remedy = "use `docker` with another runtime, or `qemu:accel=tcg`";
                    kvm_proof::require_reference_guest("runtime=kata", remedy, site)?;
                }
                Ok(Usable { facts: daemon_facts("system", &socket, &about) })
            }
            Candidate::Private(tool) => {
                daemon::require_of_private(spec)?;
                let version = tool_version::of(&tool.path, &[])
                    .map_err(|fault| Unavailable::new(fault.message, &tool.remedy))?;
                require_root("a private Docker daemon can only be started by root")?;
                let source = "no daemon listens that could be used";
                let daemon = Fact::new("daemon", "private, started when needed", source);
                let version = Fact::new("docker_version", version, "--version");
                Ok(Usable { facts: [vec![daemon, version], tool.facts(TOOL)?].concat() })
            }
        }
    }

    fn prepare(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<(), Fault> {
        Shared::ready(spec, site).map(drop)
    }

    /// The order of the lines is the protocol.
    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let Shared { daemon, engine, about, network, lowers, skeleton, image } =
            Shared::ready(spec, site)?;
        let disk = scratch::bound(site.view, room)?;
        let layers =
            layers(&skeleton, &lowers, &secrets::hidden(site.view), room, daemon.is_rootless())?;
        let source = |path: &Path, is_kept| daemon.source(path, is_kept);

        // A daemon without privileges could set none of them.
        let told = if daemon.is_rootless() { Limits::default() } else { site.limits.clone() };
        let parent = parent(spec, &about, (&told, site.carries_layers), room)?;
        let system = rustix::system::uname();
        let wanted = ContainerOptions {
            image: &image,
            agent: &daemon.agent(site.agent),
            host_name: &system.nodename().to_string_lossy(),
            group: parent.as_deref(),
            limits: &told,
            limited_disk: told.io.disk()?,
            layers: &layers,
            source: &source,
            view: site.view,
            scratch: disk.as_deref(),
            network: &network,
            runtime: spec.option("runtime"),
            is_unfiltered: spec.says("seccomp", "unconfined"),
            is_rootless: daemon.is_rootless(),
            is_privileged: site.carries_layers || spec.says("privileged", "true"),
            bounding_capabilities: config::bounding_capabilities()?,
        };
        let body = container::body(&wanted)?;
        let name = site.container_name(room);
        room.promise(Undo::EngineContainer { socket: daemon.socket.clone(), name: name.clone() })?;
        engine.create(&name, body)?;
        let console = ConsoleTail::new();
        let (output, input) = attach::attach(&daemon.socket, &name, &console, REQUEST_DEADLINE)?;
        engine.start(&name)?;

        let inspected = engine.inspect(&name)?;
        let first = FirstProcess::of(pid(&inspected)?, site.lab.hierarchies());
        if daemon.is_rootless() {
            rootless::confine(room, pid(&inspected)?, site.limits)?;
        } else if site.limits.hugetlb.is_some() {
            room.admit_to_huge_pages(pid(&inspected)?)?;
        }
        let mut facts = facts_of(&daemon, &about)?;
        facts.extend(container_facts(&inspected));
        let privileged = wanted.is_privileged.to_string();
        facts.push(Fact::new("privileged", privileged, "POST /containers/create"));
        facts.extend(root::facts(&site.view.root, &lowers));
        let running = RunningDocker {
            is_daemon_shared: site.level == 0,
            group: counted(spec, site, parent).map_or_else(|| first.group(), Ok)?,
            engine,
            daemon,
            name,
            first,
            spec: spec.clone(),
            limits: site.limits.clone(),
            network,
            inspected,
            facts,
        };
        Ok(Started::new(Link::over("docker", output, input, &console)?, running))
    }
}

/// Lists facts about a daemon that is used, and about its file.
fn facts_of(daemon: &Daemon, about: &About) -> Result<Vec<Fact>, Fault> {
    let mut facts = daemon_facts(daemon.origin(), &daemon.socket, about);
    if let Some(tool) = &daemon.tool {
        facts.extend(tool.facts(TOOL)?);
    }
    Ok(facts)
}

/// Parts that containers of one spec share, one after another: made once, and gone with the lab.
struct Shared {
    daemon: Daemon,
    engine: Engine,
    about: About,
    network: network::ContainerNetwork,
    lowers: Vec<Lower>,
    skeleton: Skeleton,
    image: String,
}

impl Shared {
    /// Finds it, or makes what is missing. The order of the lines is the protocol.
    fn ready(spec: &LayerSpec, site: &Site<'_>) -> Result<Self, Fault> {
        let daemon = Daemon::find(spec, site)?;
        let (engine, about) = Engine::connect(&daemon.socket, REQUEST_DEADLINE)?;
        runtimes::require_of(spec, &about)?;
        require_weight(site.limits, &about)?;
        require_place_for_huge_pages(site.limits, &about)?;
        Storage::require_of(spec, about.info.driver.as_deref())?;
        let is_private = daemon.private.is_some();
        let network =
            network::NetworkOptions::read(spec)?.choose(&about, is_private, site.lab.id())?;
        daemon.can_share_network(&network.name)?;
        network.make(site, &daemon, &engine)?;
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let has_own = site.view.scratch.is_some();
        let skeleton = Skeleton::read(&lowers[0].source, has_own.then_some(SCRATCH))?;
        let image = image(site, &daemon, &engine, &skeleton)?;
        Ok(Self { daemon, engine, about, network, lowers, skeleton, image })
    }
}

/// The skeleton's image in this daemon; imported once, and removed when the lab is closed.
fn image(
    site: &Site<'_>,
    daemon: &Daemon,
    engine: &Engine,
    skeleton: &Skeleton,
) -> Result<String, Fault> {
    let archive = skeleton.archive()?;
    let tag = format!("{}-{}", site.lab.id(), skeleton::tag(&archive));
    let name = format!("{REPOSITORY}:{tag}");
    site.lab.service(&format!("{}-image-{tag}", daemon.name), |room| {
        room.promise(Undo::EngineImage { socket: daemon.socket.clone(), name: name.clone() })?;
        engine.import(REPOSITORY, &tag, archive)?;
        Ok(None)
    })?;
    Ok(name)
}

/// The directories of the root, each with a throw-away layer in memory, where every daemon of the
/// machine can see it.
fn layers(
    skeleton: &Skeleton,
    lowers: &[Lower],
    hidden: &[Hidden],
    room: &Room,
    is_rootless: bool,
) -> Result<Vec<Layered>, Fault> {
    let (base, rest) = lowers.split_first().ok_or_else(|| Fault::bug("a root of nothing"))?;
    let top = skeleton.directories().map(|name| Lower {
        source: base.source.join(name),
        place: Path::new("/").join(name),
        writes: Writes::ThrownAway,
    });
    // What is mounted on a directory of the top level hides it.
    let top = top.filter(|lower| !rest.iter().any(|other| other.place == lower.place));
    let memory = room.memory_directory()?;
    if is_rootless {
        room.let_users_pass()?;
    }
    let mut layers = Vec::new();
    let parts = root::shown(top.chain(rest.iter().cloned()).collect(), hidden);
    for (index, lower) in parts.iter().cloned().enumerate() {
        let above = memory.join(index.to_string());
        for directory in [above.join("upper"), above.join("work")] {
            fs::create_dir_all(&directory)
                .doing(format_args!("make the volume's layer `{}`", directory.display()))?;
        }
        if lower.writes == Writes::ThrownAway {
            lab::look_like(&above.join("upper"), &lower.source)?;
        }
        if is_rootless {
            layer_rootless::hand_over(&above.join("upper"))?;
            layer_rootless::hand_over(&above.join("work"))?;
        }
        if lower.writes == Writes::ThrownAway {
            let own = root::hidden_in(hidden, &lower, &parts);
            let owners = match is_rootless {
                true => Owners::Theirs(layer_rootless::USER),
                false => Owners::Same,
            };
            secrets::conceal_now(&own, (&lower.source, &above.join("upper")), owners)?;
        }
        layers.push(Layered { lower, above });
    }
    Ok(layers)
}

/// From shares Docker makes the weight of cgroup v2, each version by its own formula.
fn require_weight(limits: &Limits, about: &About) -> Result<(), Fault> {
    let is_two = about.info.cgroup_version.is_some_and(|version| version.to_string() == "2");
    // A rootless one is told nothing of it: then the weight is that of a group of ours.
    let is_told = about.info.cgroup_driver.is_none_or(|driver| driver.to_string() != "none");
    if limits.weight.is_none() || !is_two || !is_told {
        return Ok(());
    }
    Err(Fault::user(
        "docker: with cgroup v2 it takes shares and no weight, and what becomes of them \
                     differs between its versions",
    )
    .hint("give `weight=` to `podman` or `runc`, or leave it out"))
}

/// The limit is that of the room, above the container; a daemon that asks systemd has its
/// containers elsewhere.
fn require_place_for_huge_pages(limits: &Limits, about: &About) -> Result<(), Fault> {
    let is_elsewhere =
        about.info.cgroup_driver.is_some_and(|driver| driver.to_string() == "systemd");
    if limits.hugetlb.is_none() || !is_elsewhere {
        return Ok(());
    }
    Err(Fault::user(
        "docker: `hugetlb` takes a daemon that makes groups itself, and this one asks \
                     systemd",
    )
    .hint(
        "set `\"exec-opts\": [\"native.cgroupdriver=cgroupfs\"]` in /etc/docker/daemon.json, \
               or use `podman`",
    ))
}

/// The group in which the daemon is to make the container's, where it takes a path: one with the
/// same limits, where root inside may become root of its own group.
fn parent(
    spec: &LayerSpec,
    about: &About,
    (told, carries_layers): (&Limits, bool),
    room: &Room,
) -> Result<Option<PathBuf>, Fault> {
    Ok(match takes_paths(about) {
        true if has_group_around(spec, carries_layers) => {
            Some(room.subgroup(group::LIMITED, told)?)
        }
        takes => takes.then(|| room.group().to_path_buf()),
    })
}

/// The group that is counted instead of the container's own, if there is one around that.
fn counted(spec: &LayerSpec, site: &Site<'_>, parent: Option<PathBuf>) -> Option<PathBuf> {
    parent.filter(|_| has_group_around(spec, site.carries_layers))
}

/// Tells whether the container is counted and limited by a group around its own, which root inside
/// may write to.
fn has_group_around(spec: &LayerSpec, carries_layers: bool) -> bool {
    let is_privileged = carries_layers || spec.says("privileged", "true");
    spec.says("seccomp", "unconfined") && !is_privileged
}

/// Tells whether the daemon takes a path for the parent of a container's group; systemd's names are
/// not ours.
fn takes_paths(about: &About) -> bool {
    about.info.cgroup_driver.is_some_and(|driver| driver.to_string() == "cgroupfs")
}
