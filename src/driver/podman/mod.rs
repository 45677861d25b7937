//! Podman: Docker's command line without a daemon.
//!
//! surtax (host) ── podman run ── conmon ── runc or crun ── agent (PID 1) ── command
//!
//! - **Needs** `podman` in `PATH` with its `conmon` and an OCI runtime, root; plugins of CNI for
//!   its networks; with `rootless=on` also `newuidmap`, and `slirp4netns` for a network of its own.
//! - **Leaves out** images and, unless one is named, storage drivers: the root is a directory
//!   (`--rootfs`); the log, since the agent's frames are no text; health checks, events and
//!   everything else that is kept of a container.
//! - **Payers** one group: `podman`, `conmon`, the runtime, the agent and the command; with
//!   `rootless=on` also the process that holds the user's namespace, and `slirp4netns`.
//! - **Checked against** podman 4.3.1, `podman-run(1)`.

mod network;
mod storage;

use crate::container::conmon::Conmon;
use crate::container::engine_runtime::Kernel;
use crate::container::first_process::THROTTLING;
use crate::container::oci::config::{AGENT, open_files_max};
use crate::container::tool::{
    Beside, ContainerRequest, ContainerTool, ToolStart, agent_words, word,
};
use crate::container::tool_network::Wiring;
use crate::container::users::ContainerUsers;
use crate::container::{
    engine_runtime, oci, rootless, storage as engine_storage, tool_network, users,
};
use crate::fault::{Doing, Fault};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{self, Limits, Mount};
use crate::layer::publish::Port;
use crate::layer::{
    Descriptor, Exchange, LayerSpec, Limit, NETWORK, OF_CALLS, Reach, Site, StartGuess,
    Unavailable, medium, option, publish,
};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;
use storage::Store;
use surtax_instrument::wire::SCRATCH;

/// Directory for what is gone at a reboot, in a `/run` of its own: at most 50 characters, says
/// podman.
const RUN: &str = "/run/surtax-podman";

/// Limit on processes to which podman lowers its own, and so the most that it can pass on.
const PROCESSES: u64 = 32 << 10;

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "podman", "podman:net=host", "podman:net=bridge", "podman:net=bridge,publish=5201",
    "podman:net=user", "podman:net=macvlan", "podman:net=slirp4netns", "podman:runtime=runc",
    "podman:runtime=crun", "podman:runtime=youki", "podman:runtime=runsc",
    "podman:seccomp=default", "podman:seccomp=unconfined", "podman:user=private",
    "podman:rootless=on", "podman:rootless=on,net=host", "podman:rootless=on,net=slirp4netns",
    "podman:storage=overlay2", "podman:storage=vfs", "podman:storage=btrfs",
    "podman:scratch=layer", "podman:scratch=volume", "podman:scratch=bind", "podman:scratch=tmpfs",
];

/// Podman.
pub static PODMAN: ContainerTool = ContainerTool {
    descriptor: &Descriptor {
        kind: "podman",
        summary: "a container by podman, Docker's command line without a daemon",
        package: "podman",
        reach: &[
            ("host", Reach::Level),
            ("bridge", Reach::Link),
            ("user", Reach::Link),
            ("macvlan", Reach::Link),
            ("slirp4netns", Reach::Link),
        ],
        options: &[
            tool_network::choice(&["none", "host", "bridge", "user", "macvlan", "slirp4netns"]),
            publish::CHOICE,
            option(engine_runtime::KEY, &["runc", "crun", "youki", "runsc"]).help(
                "the OCI runtime, which must be installed (default: runc, or crun where there is \
                 no runc)",
            ),
            engine_runtime::SECCOMP,
            rootless::CHOICE,
            storage::CHOICE,
            users::CHOICE,
            medium::choice(&["layer", "bind", "tmpfs", "volume"]),
        ],
        limits: Limit::OF_A_GROUP,
        both_ways: &["bridge", "slirp4netns", "host"],
        default_users: Some("host"),
        start_guess: StartGuess::of(1_000),
        exchanges: &[Exchange {
            option: ("seccomp", "unconfined"),
            instead: "no filter of system calls",
            causes: OF_CALLS,
        }],
        variants: VARIANTS,
        ..Descriptor::CONTAINER
    },
    program: "podman",
    refuse,
    require,
    starts_below: true,
    agent_words: |_| Vec::new(),
    networks: &[
        ("bridge", Wiring::Bare),
        ("user", Wiring::Given(network::USER_GATEWAY)),
        ("macvlan", Wiring::Pair),
        ("slirp4netns", Wiring::UserMode),
    ],
    order,
};

/// The network that a spec names.
fn net(spec: &LayerSpec) -> &str {
    spec.option(NETWORK).unwrap_or("none")
}

/// Tells whether the layer's users are others than those of the level.
fn has_users(spec: &LayerSpec) -> bool {
    spec.says("user", "private")
}

fn refuse(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    storage::refuse(spec)?;
    Port::read(spec, net(spec))?;
    engine_runtime::refuse(spec, limits, false)?;
    refuse_of_gvisor(spec)?;
    refuse_of_rootless(spec)
}

/// Refuses options that a gVisor sandbox would not have, though podman was told of them.
fn refuse_of_gvisor(spec: &LayerSpec) -> Result<(), Fault> {
    if Kernel::asked(spec) != Kernel::Gvisor {
        return Ok(());
    }
    let (option, why, hint) = if net(spec) == "host" {
        (
            "net=host",
            "would be a network stack of its own on this level's links",
            "use `gvisor:net=host`, which passes this level's sockets through, or `net=bridge`",
        )
    } else if rootless::is_asked(spec) {
        ("rootless=on", "is not set up for such a user", "leave `runtime` or `rootless=on` out")
    } else if has_users(spec) {
        ("user=private", "would map the sandbox and not what is in it", "leave `user=private` out")
    } else if spec.options.contains_key("storage") {
        (
            "storage",
            "is hidden by the sandbox's own overlay, so that nothing could prove it",
            "leave `storage` out, or use `docker:runtime=runsc` with it",
        )
    } else {
        return Ok(());
    };
    Err(Fault::user(format!("podman: with `runtime=runsc`, `{option}` {why}")).hint(hint))
}

/// Refuses options that a user without privileges cannot have.
fn refuse_of_rootless(spec: &LayerSpec) -> Result<(), Fault> {
    if !rootless::is_asked(spec) {
        return Ok(());
    }
    let (option, why, hint) = match spec.option(NETWORK) {
        Some("macvlan") => (
            "net=macvlan",
            "would be on a link of this level, which its user may not touch",
            "use `net=slirp4netns`, or leave `rootless=on` out",
        ),
        Some("bridge" | "user") => (
            "net=bridge` or `net=user",
            "would stand in a namespace of its user's, where nobody outside can be called or \
             listen",
            "use `net=slirp4netns`, or leave `rootless=on` out",
        ),
        _ if has_users(spec) => (
            "user=private",
            "is what it has anyway: its users are nobody here",
            "leave `user=private` out",
        ),
        _ => return Ok(()),
    };
    Err(Fault::user(format!("podman: with `rootless=on`, `{option}` {why}")).hint(hint))
}

/// That a limit on a disk can be kept: the group that has it in cgroup v1 is the one that the
/// runtime makes, and a rootless one makes none.
fn require_of_rootless(spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    if !rootless::is_asked(spec) {
        return Ok(());
    }
    rootless::require("podman", &[])?;
    if site.lab.hierarchies().of(THROTTLING).is_some() && site.limits.io.rates().next().is_some() {
        return Err(Unavailable::new(
            "podman: with `rootless=on` and cgroup v1 it cannot limit what is read and written",
            "leave that limit out, or use `podman` without `rootless=on`",
        ));
    }
    Ok(())
}

fn require(spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    require_of_rootless(spec, site)?;
    if spec.options.contains_key("storage") {
        engine_storage::Storage::read(spec)?.require("podman")?;
    }
    Conmon::with(runtime(spec), Path::new(RUN))?;
    network::require(net(spec), spec.options.contains_key("publish"))
}

/// The runtime that a spec names, or the one that there is.
fn runtime(spec: &LayerSpec) -> &str {
    let installed = || if lab::find("runc").is_some() { "runc" } else { "crun" };
    spec.option(engine_runtime::KEY).unwrap_or_else(installed)
}

fn order(wanted: &ContainerRequest<'_>) -> Result<ToolStart, Fault> {
    let books = wanted.scratch.join("podman");
    let is_rootless = wanted.users == ContainerUsers::OfAnEngine;
    let make = |path: &Path| match is_rootless {
        true => rootless::directory(path),
        false => fs::create_dir_all(path).doing(format_args!("make `{}`", path.display())),
    };
    make(&books)?;
    let file = books.join("containers.conf");
    // Where its volumes are is the question that such a stack asks: on a disk, as they are unless
    // podman is told otherwise.
    let volumes = match wanted.medium {
        Some(medium::Medium::Volume) => wanted.room.disk_directory()?.join("volumes"),
        _ => books.join("volumes"),
    };
    let temporary = if is_rootless { books.join("tmp") } else { Path::new(RUN).join("tmp") };
    if is_rootless {
        make(&volumes)?;
        wanted.room.let_users_pass()?;
    }
    let conmon =
        Conmon::with(runtime(wanted.spec), &books).map_err(|it| it.fault().during("podman"))?;
    let (network, networks) = network::known(&wanted.network.word, &books)?;
    let text = configuration(&conmon, &books, &volumes, &temporary) + &networks;
    lab::write(&file, text)?;
    let mut argv = vec![wanted.program.to_owned()];
    let store = Store::of(wanted)?;
    argv.extend(match &store {
        Some(store) => store.words()?,
        None => places(&books, wanted.medium.map(|medium| (medium, volumes.as_path())))?,
    });
    let port = Port::read(wanted.spec, &wanted.network.word)?;
    argv.extend(run_words(wanted, &network, &conmon, port, store.as_ref())?);
    let mut environment = vec![(String::from("CONTAINERS_CONF"), word(&file)?)];
    // Plugins for networks keep their books where no option moves them.
    let places = ["/run", "/var/lib"];
    let mut mounts = places.map(|place| Mount::Tmpfs { target: place.into() }).to_vec();
    if conmon.runtime == "crun" {
        mounts.extend(oci::cover_unified(wanted.hierarchies));
    }
    let conmon = Some(conmon);
    if !is_rootless {
        let image = store.and_then(|store| store.image_to_mount());
        let beside = Beside { left_behind: None, conmon, port };
        return Ok(ToolStart { argv, mounts, environment, image, beside, ..ToolStart::default() });
    }
    let (home, session) = (books.join("home"), Path::new(RUN));
    make(&home)?;
    mounts.push(rootless::known(wanted.scratch, &home)?);
    mounts.push(rootless::session(session));
    environment.extend(rootless::environment(&home, session));
    let beside = Beside { left_behind: Some(temporary.join("pause.pid")), conmon, port };
    let user = Some(rootless::USER);
    Ok(ToolStart { argv, mounts, environment, user, beside, ..ToolStart::default() })
}

/// The words from `run` on: the container, and the agent in it.
fn run_words(
    wanted: &ContainerRequest<'_>,
    network: &str,
    conmon: &Conmon,
    port: Option<Port>,
    store: Option<&Store>,
) -> Result<Vec<String>, Fault> {
    let mut argv = Vec::new();
    argv.extend(["run", "--rm", "--interactive", "--log-driver=none"].map(str::to_owned));
    argv.extend(["--name".to_owned(), wanted.name.to_owned()]);
    argv.push(format!("--hostname={}", wanted.host_name));
    argv.push(format!("--network={network}"));
    argv.extend(conmon.words());
    argv.extend(told_if_asked(wanted, port));
    // A user without privileges makes no groups: all that it starts stays in the one where it was
    // started.
    if wanted.users != ContainerUsers::OfAnEngine {
        argv.push(format!("--cgroup-parent=/{}", word(wanted.group)?));
    }
    if wanted.has_own_run {
        argv.push(String::from("--tmpfs=/run:rw,exec,nosuid,nodev,mode=755,notmpcopyup"));
    }
    argv.push(format!("--volume={}:{AGENT}:ro", word(wanted.agent)?));
    if wanted.medium == Some(medium::Medium::Volume) {
        argv.push(format!("--mount=type=volume,destination={SCRATCH}"));
    }
    argv.push(String::from("--no-hosts"));
    argv.extend(match store {
        Some(store) => store.container(wanted.root)?,
        None => vec![String::from("--rootfs"), word(wanted.root)?],
    });
    argv.extend(agent_words());
    Ok(argv)
}

/// Returns the options for where podman keeps what it makes, where no storage driver is named.
fn places(books: &Path, volumes: Option<(medium::Medium, &Path)>) -> Result<Vec<String>, Fault> {
    let root = word(&books.join("root"))?;
    let mut words = ["--root", &root, "--runroot", RUN].map(str::to_owned).to_vec();
    // A root that is named makes podman forget what the file says of volumes.
    if let Some((medium::Medium::Volume, volumes)) = volumes {
        words.extend([String::from("--volumepath"), word(volumes)?]);
    }
    Ok(words)
}

/// Returns the options that are told only where they were asked for: users, a port, no filter of
/// system calls, limits.
fn told_if_asked(wanted: &ContainerRequest<'_>, port: Option<Port>) -> Vec<String> {
    let mut words = Vec::new();
    if wanted.users == ContainerUsers::Own {
        words.extend(["uid", "gid"].map(|kind| format!("--{kind}map=0:{FIRST}:{COUNT}")));
    }
    if let Some(Port { number, protocol }) = port {
        words.push(format!("--publish={number}:{number}/{protocol}"));
    }
    if wanted.spec.says("seccomp", "unconfined") {
        words.push(String::from("--security-opt=seccomp=unconfined"));
    }
    words.extend(shown(wanted));
    if let Some(disk) = &wanted.throttled_disk {
        let node = disk.node.display();
        words.extend(
            wanted.limits.io.rates().map(|(key, rate)| format!("--device-{key}={node}:{rate}")),
        );
    }
    words
}

/// Returns the limits of processes and of memory, which hold in the group above the container's: so
/// that somebody inside sees them. A user without privileges can be shown none.
fn shown(wanted: &ContainerRequest<'_>) -> Vec<String> {
    if wanted.users == ContainerUsers::OfAnEngine {
        return Vec::new();
    }
    let Limits { pids, memory, .. } = wanted.limits;
    let pids = pids.map(|most| format!("--pids-limit={most}"));
    let memory = memory.map(|most| ["", "-swap"].map(|kind| format!("--memory{kind}={}", most.0)));
    pids.into_iter().chain(memory.into_iter().flatten()).collect()
}

/// All that it keeps is in the room; and it asks for no more files and processes than we may have,
/// since without `CAP_SYS_RESOURCE` nobody can raise a limit. Of processes in a group it has no
/// limit of its own, which no other stack has: what is asked for holds around it.
fn configuration(conmon: &Conmon, books: &Path, volumes: &Path, temporary: &Path) -> String {
    let open_files = open_files_max();
    let processes = getrlimit(Resource::Nproc).maximum.unwrap_or(PROCESSES).min(PROCESSES);
    let (runtime, program) = (&conmon.runtime, conmon.path.display());
    let (books, volumes, temporary) = (books.display(), volumes.display(), temporary.display());
    format!(
        "[containers]\npids_limit = 0\ndefault_ulimits = [\"nofile={open_files}:{open_files}\", \
         \"nproc={processes}:{processes}\"]\n[engine]\nruntime = \"{runtime}\"\ncgroup_manager = \
         \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\nstatic_dir = \
         \"{books}/static\"\nvolume_path = \"{volumes}\"\ntmp_dir = \
         \"{temporary}\"\n[engine.runtimes]\n{runtime} = [\"{program}\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("podman", options)
    }

    #[test]
    fn what_a_sandbox_would_not_have_is_refused_with_a_way_out() {
        let runsc = ("runtime", "runsc");
        assert_eq!(refuse(&spec(&[runsc, ("net", "bridge")]), &Limits::default()), Ok(()));
        for other in [
            ("net", "host"),
            ("rootless", "on"),
            ("user", "private"),
            ("seccomp", "default"),
            ("storage", "vfs"),
        ] {
            let fault = refuse(&spec(&[runsc, other]), &Limits::default()).unwrap_err();
            assert!(fault.message.contains(other.0) && fault.hint.is_some(), "{fault}");
            assert_eq!(refuse(&spec(&[other]), &Limits::default()), Ok(()), "{}", other.0);
        }
    }

    #[test]
    fn volumes_are_where_they_are_wanted_though_a_root_is_named() {
        let (books, disk) = (Path::new("/room/podman"), Path::new("/disk/volumes"));
        let words = places(books, Some((medium::Medium::Volume, disk))).unwrap().join(" ");
        assert!(words.starts_with("--root /room/podman/root "), "{words}");
        assert!(words.ends_with(" --volumepath /disk/volumes"), "{words}");
        // A podman that does not know the word is asked for no volume.
        for medium in [None, Some((medium::Medium::Bind, disk))] {
            assert!(!places(books, medium).unwrap().contains(&String::from("--volumepath")));
        }
    }

    #[test]
    fn a_port_is_published_from_behind_a_bridge_only() {
        let port = ("publish", "80");
        for net in ["bridge", "user"] {
            assert_eq!(refuse(&spec(&[port, ("net", net)]), &Limits::default()), Ok(()));
        }
        let fault = refuse(&spec(&[port]), &Limits::default()).unwrap_err();
        assert!(fault.message.contains("not `net=none`"), "{fault}");
    }

    #[test]
    fn no_more_is_asked_for_than_may_be_had() {
        let shell = Conmon::with("sh", Path::new("/room/podman")).unwrap();
        let text = configuration(
            &shell,
            Path::new("/room/podman"),
            Path::new("/disk/volumes"),
            Path::new("/run/surtax-podman/tmp"),
        );
        let limit = open_files_max();
        assert!(text.contains(&format!("nofile={limit}:{limit}")), "{text}");
        assert!(text.contains("volume_path = \"/disk/volumes\"\n"), "{text}");
        assert!(text.contains("\nruntime = \"sh\"\n"), "{text}");
    }
}
