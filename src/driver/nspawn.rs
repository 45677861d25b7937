//! systemd-nspawn: the container of systemd, for one command, or with an init inside.
//!
//! surtax (host) ── systemd-nspawn ── namespaces, pivot_root, seccomp ── agent (PID 1) ── command
//!
//! - **Needs** `systemd-nspawn`, in `PATH` or by `binary=`; root; not systemd as PID 1: it
//!   registers nowhere, and works in a `/run` of its own.
//! - **Leaves out** `--property` limits, which systemd would have to keep: the limits are those of
//!   a group that surtax makes around it; `CAP_LINUX_IMMUTABLE`, by which a command makes files of
//!   this machine that nobody may remove.
//! - **Payers** one group: `systemd-nspawn`, the agent and the command.
//! - **Checked against** systemd 252, `systemd-nspawn(1)`.

use crate::container::init::Init;
use crate::container::oci::config::AGENT;
use crate::container::tool::{ContainerRequest, ContainerTool, ToolStart, word};
use crate::container::tool_network::{ToolNetwork, Wiring};
use crate::container::users::ContainerUsers;
use crate::container::{init, tool_network, users};
use crate::fault::Fault;
use crate::lab::Mount;
use crate::lab::network::{BELOW, BRIDGE, OUTSIDE, PREFIX, WORKLOAD};
use crate::lab::users::{COUNT, FIRST};
use crate::layer::{BINARY, Descriptor, Limit, Reach, medium};
use std::path::Path;

/// Name that it gives to the inner end of a veth pair.
const INNER_END: &str = "host0";

/// Prefix of a macvlan's name inside, before the name of the link below.
const MACVLAN_PREFIX: &str = "mv-";

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "nspawn", "nspawn:net=host", "nspawn:net=veth", "nspawn:net=bridge", "nspawn:net=macvlan",
    "nspawn:init=systemd", "nspawn:init=busybox", "nspawn:user=private",
];

/// systemd-nspawn.
pub static NSPAWN: ContainerTool = ContainerTool {
    descriptor: &Descriptor {
        kind: "nspawn",
        summary: "a container by systemd-nspawn, for one command, or with an init",
        package: "systemd-container",
        aliases: &[("systemd-nspawn", "")],
        reach: &[
            ("host", Reach::Level),
            ("veth", Reach::Link),
            ("bridge", Reach::Link),
            ("macvlan", Reach::Link),
        ],
        options: &[
            tool_network::choice(&["none", "host", "veth", "bridge", "macvlan"]),
            init::CHOICE,
            users::CHOICE,
            medium::CHOICE,
            BINARY,
        ],
        limits: Limit::OF_A_GROUP,
        both_ways: &["veth", "bridge", "host"],
        default_users: Some("host"),
        shuts_keyrings: true,
        variants: VARIANTS,
        ..Descriptor::CONTAINER
    },
    program: "systemd-nspawn",
    refuse: |_, _| Ok(()),
    require: |_, _| Ok(()),
    starts_below: true,
    agent_words: address,
    networks: &[
        ("veth", Wiring::OuterEnd("ve-")),
        ("bridge", Wiring::Bridge),
        ("macvlan", Wiring::Pair),
    ],
    order,
};

/// The option that makes a network.
fn network(word: &str) -> Option<String> {
    match word {
        "host" => None,
        "veth" => Some(String::from("--network-veth")),
        "bridge" => Some(format!("--network-bridge={BRIDGE}")),
        "macvlan" => Some(format!("--network-macvlan={BELOW}")),
        _ => Some(String::from("--private-network")),
    }
}

/// To give links addresses is the business of a service that runs in few containers, so it is the
/// agent's.
fn address(network: &ToolNetwork) -> Vec<String> {
    if network.held().is_none() {
        return Vec::new();
    }
    let address = format!("{WORKLOAD}/{PREFIX}");
    let link = match network.word.as_str() {
        "macvlan" => format!("{MACVLAN_PREFIX}{BELOW}"),
        _ => INNER_END.to_owned(),
    };
    vec![String::from("addressed"), link, address, OUTSIDE.to_string()]
}

/// A `/sys` that cannot be written, but for its groups: there nspawn takes a link as it is, and
/// does not wait for udev, which does not see the network of the room, to say that the link is
/// ready.
fn settled_links(aside: &Path) -> [Mount; 3] {
    let bind = |source: &Path, target: &Path, read_only| Mount::Bind {
        source: source.to_path_buf(),
        target: target.to_path_buf(),
        recursive: true,
        read_only,
    };
    let (sys, groups) = (Path::new("/sys"), Path::new("/sys/fs/cgroup"));
    [bind(groups, aside, false), bind(sys, sys, true), bind(aside, groups, false)]
}

fn order(wanted: &ContainerRequest<'_>) -> Result<ToolStart, Fault> {
    if wanted.throttled_disk.is_some() {
        return Err(Fault::user(
            "nspawn: it puts the container into a group of its own, which cgroup v1 lets use a \
             disk as it likes",
        )
        .hint("give the limit to `podman`, `lxc` or `bubblewrap`"));
    }
    let mut argv = vec![wanted.program.to_owned()];
    let fixed = ["--quiet", "--register=no", "--keep-unit", "--settings=no", "--console=pipe"];
    // What is on the host stays as it is, and what is inside is the root's own.
    let files = ["--link-journal=no", "--resolv-conf=off", "--timezone=off"];
    argv.extend(fixed.into_iter().chain(files).map(str::to_owned));
    // What is immutable would stay behind in a directory of this machine's.
    argv.push(String::from("--drop-capability=CAP_LINUX_IMMUTABLE"));
    argv.push(format!("--directory={}", word(wanted.root)?));
    argv.push(format!("--machine={}", wanted.name));
    argv.push(format!("--hostname={}", wanted.host_name));
    argv.push(format!("--bind-ro={}:{AGENT}", word(wanted.agent)?));
    argv.extend(network(&wanted.network.word));
    if wanted.users == ContainerUsers::Own {
        argv.push(format!("--private-users={FIRST}:{COUNT}"));
        // The files of the root are mapped already.
        argv.push(String::from("--private-users-ownership=off"));
    }
    match wanted.init {
        None => {
            argv.extend([String::from("--"), AGENT.to_owned()]);
            argv.extend(address(wanted.network));
            argv.push(String::from("stdio"));
        }
        Some(prepared) => {
            for (file, place) in &prepared.shown {
                argv.push(format!("--bind={}:{place}", word(file)?));
            }
            // It finds systemd by itself, and another init is a program as any other.
            let is_found = prepared.init == Init::Systemd;
            argv.extend(is_found.then(|| String::from("--boot")));
            argv.push(String::from("--"));
            argv.extend(prepared.argv.iter().skip(usize::from(is_found)).cloned());
        }
    }
    // It keeps its books in `/run/systemd`, and dislikes one on a disk.
    let mut mounts = vec![Mount::Tmpfs { target: "/run".into() }];
    if wanted.network.word == "macvlan" {
        mounts.extend(settled_links(&wanted.scratch.join("cgroup")));
    }
    if wanted.network.held().is_some() {
        mounts.extend(tool_network::own_links(&wanted.scratch.join("sys")));
    }
    // It would hide the root's `/tmp` under an empty one.
    let environment = vec![(String::from("SYSTEMD_NSPAWN_TMPFS_TMP"), String::from("0"))];
    Ok(ToolStart { argv, mounts, environment, ..ToolStart::default() })
}
