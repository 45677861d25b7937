//! Podman: Docker's command line without a daemon.
//!
//! surtax (host) ── podman run ── conmon ── runc or crun ── agent (PID 1) ── command
//!
//! - **Needs** `podman` in `PATH` with its `conmon` and an OCI runtime, root; with `rootless=on` also
//!   `newuidmap`, and `slirp4netns` for a network of its own.
//! - **Leaves out** images and storage drivers: the root is a directory (`--rootfs`); the log, since the
//!   agent's frames are no text; health checks, events and everything else that is kept of a container.
//! - **Payers** one group: `podman`, `conmon`, the runtime, the agent and the command; with `rootless=on` also
//!   the process that holds the user's namespace, and `slirp4netns`.
//! - **Checked against** podman 4.3.1, `podman-run(1)`.

use super::container_tool::{ContainerTool, Order, Wanted, agent_words, word};
use super::container_users::{self, ContainerUsers};
use super::first_process::THROTTLING;
use super::tool_network::Ground;
use super::{Card, Limit, Site, Unavailable, rootless, scratch, tool_network};
use crate::fault::{Doing, Fault};
use crate::lab::network::{BELOW, OUTSIDE, PREFIX, WORKLOAD};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{self, Mount};
use crate::layer::oci::config::{AGENT, open_files_max};
use crate::stack::LayerSpec;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use surtax_instrument::wire::SCRATCH;

/// Where it keeps what is gone at a reboot, in a `/run` of its own: at most 50 characters, says podman.
const RUN: &str = "/run/surtax-podman";

/// What podman lowers its own limit on processes to, and so the most that it can pass on.
const PROCESSES: u64 = 32 << 10;

/// Podman.
pub static PODMAN: ContainerTool = ContainerTool {
    card: &Card {
        kind: "podman",
        summary: "a container by podman, Docker's command line without a daemon",
        options: &[
            tool_network::choice(&["none", "host", "bridge", "macvlan", "slirp4netns"]),
            rootless::CHOICE,
            container_users::CHOICE,
            scratch::choice(&["layer", "bind", "tmpfs", "volume"]),
        ],
        subject: None,
        limits: Limit::OF_A_GROUP,
        holds_layers: false,
        elsewhere: false,
        ran_on_hardware: true,
    },
    program: "podman",
    remedy: "apt-get install podman",
    refuse,
    require,
    agent_words: |_| Vec::new(),
    networks: &[
        ("bridge", Ground::Bare),
        ("macvlan", Ground::Pair),
        ("slirp4netns", Ground::UserMode),
    ],
    order,
};

/// What its macvlan is called, of which it knows by a file.
const MACVLAN: &str = "surtax-macvlan";

/// Where the plugins are that make a macvlan.
const MACVLAN_MAKERS: [&str; 3] =
    ["/usr/lib/cni/macvlan", "/usr/libexec/cni/macvlan", "/opt/cni/bin/macvlan"];

/// What makes podman's networks: its own program, or plugins.
const NETWORK_MAKERS: [&str; 5] = [
    "/usr/lib/podman/netavark",
    "/usr/libexec/podman/netavark",
    "/usr/lib/cni/bridge",
    "/usr/libexec/cni/bridge",
    "/opt/cni/bin/bridge",
];

/// What a user without privileges cannot have.
fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    if !rootless::is_asked(spec) {
        return Ok(());
    }
    let (option, why, hint) = match spec.options.get(tool_network::KEY).map(String::as_str) {
        Some("macvlan") => (
            "net=macvlan",
            "would be on a link of this level, which its user may not touch",
            "use `net=slirp4netns`, or leave `rootless=on` out",
        ),
        Some("bridge") => (
            "net=bridge",
            "would stand in a namespace of its user's, where nobody outside can be called or listen",
            "use `net=slirp4netns`, or leave `rootless=on` out",
        ),
        _ if spec
            .options
            .get(container_users::CHOICE.key)
            .is_some_and(|word| word == "private") =>
        {
            (
                "user=private",
                "is what it has anyway: its users are nobody here",
                "leave `user=private` out",
            )
        }
        _ => return Ok(()),
    };
    Err(Fault::user(format!("podman: with `rootless=on`, `{option}` {why}")).hint(hint))
}

/// That a limit on a disk can be kept: the group that has it in cgroup v1 is the one that the runtime makes, and a
/// rootless one makes none.
fn require_of_rootless(spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    if !rootless::is_asked(spec) {
        return Ok(());
    }
    rootless::require("podman", &[])?;
    if site.lab.hierarchies().of(THROTTLING).is_some() && site.limits.io.rates().next().is_some() {
        return Err(Unavailable {
            why: String::from(
                "podman: with `rootless=on` and cgroup v1 it cannot limit what is read and written",
            ),
            remedy: Some(String::from(
                "leave that limit out, or use `podman` without `rootless=on`",
            )),
        });
    }
    Ok(())
}

fn require(spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    require_of_rootless(spec, site)?;
    let makers: &[&str] = match spec.options.get("net").map(String::as_str) {
        Some("bridge") => &NETWORK_MAKERS,
        Some("macvlan") => &MACVLAN_MAKERS,
        Some("slirp4netns") if lab::find("slirp4netns").is_none() => {
            return Err(Unavailable {
                why: String::from("`net=slirp4netns` takes `slirp4netns`, which is not in `PATH`"),
                remedy: Some(String::from("apt-get install slirp4netns")),
            });
        }
        _ => return Ok(()),
    };
    if !makers.iter().any(|path| Path::new(path).exists()) {
        return Err(Unavailable {
            why: format!("podman finds no plugin for its network, such as `{}`", makers[0]),
            remedy: Some(String::from("apt-get install containernetworking-plugins")),
        });
    }
    Ok(())
}

fn order(wanted: &Wanted<'_>) -> Result<Order, Fault> {
    let books = wanted.scratch.join("podman");
    let is_rootless = wanted.users == ContainerUsers::OfAnEngine;
    let make = |path: &Path| match is_rootless {
        true => rootless::directory(path),
        false => fs::create_dir_all(path).doing(format_args!("make `{}`", path.display())),
    };
    make(&books)?;
    let file = books.join("containers.conf");
    // Where its volumes are is the question that such a stack asks: on a disk, as they are unless podman
    // is told otherwise.
    let volumes = match wanted.medium {
        Some(scratch::Medium::Volume) => wanted.room.disk_directory()?.join("volumes"),
        _ => books.join("volumes"),
    };
    let temporary = match is_rootless {
        true => books.join("tmp"),
        false => Path::new(RUN).join("tmp"),
    };
    if is_rootless {
        make(&volumes)?;
        wanted.room.let_users_pass()?;
    }
    let mut text = configuration(&books, &volumes, &temporary);
    let network = match wanted.network.word.as_str() {
        "macvlan" => {
            text += &by_plugins(&books)?;
            MACVLAN
        }
        // Else nobody of this level can be called.
        "slirp4netns" => "slirp4netns:allow_host_loopback=true",
        word => word,
    };
    fs::write(&file, text).doing(format_args!("write `{}`", file.display()))?;
    let mut argv = vec![wanted.program.to_owned()];
    let at = |name: &str| word(&books.join(name));
    argv.extend(["--root".to_owned(), at("root")?, "--runroot".to_owned(), RUN.to_owned()]);
    argv.extend(["run", "--rm", "--interactive", "--log-driver=none"].map(str::to_owned));
    argv.extend(["--name".to_owned(), wanted.name.to_owned()]);
    argv.push(format!("--hostname={}", wanted.host_name));
    argv.push(format!("--network={network}"));
    if wanted.users == ContainerUsers::Own {
        argv.extend(["uid", "gid"].map(|kind| format!("--{kind}map=0:{FIRST}:{COUNT}")));
    }
    // A user without privileges makes no groups: all that it starts stays in the one where it was started.
    if !is_rootless {
        argv.push(format!("--cgroup-parent=/{}", word(wanted.group)?));
    }
    if let Some(disk) = &wanted.throttled_disk {
        let node = disk.node.display();
        argv.extend(wanted.io.rates().map(|(key, rate)| format!("--device-{key}={node}:{rate}")));
    }
    if wanted.has_own_run {
        argv.push(String::from("--tmpfs=/run:rw,exec,nosuid,nodev,mode=755,notmpcopyup"));
    }
    argv.push(format!("--volume={}:{AGENT}:ro", word(wanted.agent)?));
    if wanted.medium == Some(scratch::Medium::Volume) {
        argv.push(format!("--mount=type=volume,destination={SCRATCH}"));
    }
    argv.extend(["--no-hosts".to_owned(), "--rootfs".to_owned(), word(wanted.root)?]);
    argv.extend(agent_words());
    let mut environment = vec![(String::from("CONTAINERS_CONF"), word(&file)?)];
    // Plugins for networks keep their books where no option moves them.
    let places = ["/run", "/var/lib"];
    let mut mounts = places.map(|place| Mount::Tmpfs { target: place.into() }).to_vec();
    if !is_rootless {
        return Ok(Order { argv, mounts, environment, ..Order::default() });
    }
    let (home, session) = (books.join("home"), Path::new(RUN));
    make(&home)?;
    mounts.push(rootless::known(wanted.scratch, &home)?);
    mounts.push(rootless::session(session));
    environment.extend(rootless::environment(&home, session));
    let (user, left_behind) = (Some(rootless::USER), Some(temporary.join("pause.pid")));
    Ok(Order { argv, mounts, environment, user, left_behind })
}

/// A macvlan for podman's plugins, which need no command of podman's to make it; and the part of the
/// configuration that names them.
fn by_plugins(books: &Path) -> Result<String, Fault> {
    let directory = books.join("networks");
    fs::create_dir_all(&directory).doing(format_args!("make `{}`", directory.display()))?;
    let file = directory.join(format!("{MACVLAN}.conflist"));
    fs::write(&file, macvlan().to_string()).doing(format_args!("write `{}`", file.display()))?;
    let directory = directory.display();
    Ok(format!("[network]\nnetwork_backend = \"cni\"\nnetwork_config_dir = \"{directory}\"\n"))
}

/// The network of the room's addresses.
fn subnet() -> String {
    let mask = u32::MAX << (32 - u32::from(PREFIX));
    format!("{}/{PREFIX}", Ipv4Addr::from(OUTSIDE.to_bits() & mask))
}

fn macvlan() -> Value {
    let addresses = json!({
        "type": "host-local",
        "routes": [{ "dst": "0.0.0.0/0" }],
        "ranges": [[{ "subnet": subnet(), "gateway": OUTSIDE, "rangeStart": WORKLOAD }]],
    });
    let plugin = json!({ "type": "macvlan", "master": BELOW, "ipam": addresses });
    json!({ "cniVersion": "0.4.0", "name": MACVLAN, "plugins": [plugin] })
}

/// All that it keeps is in the room; and it asks for no more files and processes than we may have, since
/// without `CAP_SYS_RESOURCE` nobody can raise a limit.
fn configuration(books: &Path, volumes: &Path, temporary: &Path) -> String {
    let open_files = open_files_max();
    let processes = getrlimit(Resource::Nproc).maximum.unwrap_or(PROCESSES).min(PROCESSES);
    let runtime = if lab::find("runc").is_some() { "runc" } else { "crun" };
    let (books, volumes, temporary) = (books.display(), volumes.display(), temporary.display());
    format!(
        "[containers]\n\
         default_ulimits = [\"nofile={open_files}:{open_files}\", \"nproc={processes}:{processes}\"]\n\
         [engine]\n\
         runtime = \"{runtime}\"\n\
         cgroup_manager = \"cgroupfs\"\n\
         events_logger = \"none\"\n\
         lock_type = \"file\"\n\
         static_dir = \"{books}/static\"\n\
         volume_path = \"{volumes}\"\n\
         tmp_dir = \"{temporary}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_macvlan_is_told_to_the_plugins_with_the_addresses_of_the_room() {
        let macvlan = macvlan();
        assert_eq!(macvlan["plugins"][0]["master"], "below");
        let range = &macvlan["plugins"][0]["ipam"]["ranges"][0][0];
        assert_eq!(range["subnet"], "198.18.0.0/24");
        assert_eq!(range["gateway"], "198.18.0.1");
        assert_eq!(range["rangeStart"], "198.18.0.2");
    }

    #[test]
    fn no_more_is_asked_for_than_may_be_had() {
        let text = configuration(
            Path::new("/room/podman"),
            Path::new("/disk/volumes"),
            Path::new("/run/surtax-podman/tmp"),
        );
        let limit = open_files_max();
        assert!(text.contains(&format!("nofile={limit}:{limit}")), "{text}");
        assert!(text.contains("volume_path = \"/disk/volumes\"\n"), "{text}");
    }
}
