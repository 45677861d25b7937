//! Podman: Docker's command line without a daemon.
//!
//! surtax (host) ── podman run ── conmon ── runc or crun ── agent (PID 1) ── command
//!
//! - **Needs** `podman` in `PATH` with its `conmon` and an OCI runtime, root.
//! - **Leaves out** images and storage drivers: the root is a directory (`--rootfs`); the log, since the
//!   agent's frames are no text; health checks, events and everything else that is kept of a container.
//! - **Payers** one group: `podman`, `conmon`, the runtime, the agent and the command.
//! - **Checked against** podman 4.3.1, `podman-run(1)`.

use super::container_tool::{ContainerTool, Order, Wanted, agent_words, word};
use super::tool_network::Ground;
use super::{Card, Limit, Site, Unavailable, scratch, tool_network};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Mount};
use crate::layer::oci::config::{AGENT, open_files_max};
use crate::stack::LayerSpec;
use rustix::process::{Resource, getrlimit};
use std::fs;
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
            tool_network::choice(&["none", "host", "bridge"]),
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
    require,
    agent_words: |_| Vec::new(),
    networks: &[("bridge", Ground::Bare)],
    order,
};

/// What makes podman's networks: its own program, or plugins.
const NETWORK_MAKERS: [&str; 5] = [
    "/usr/lib/podman/netavark",
    "/usr/libexec/podman/netavark",
    "/usr/lib/cni/bridge",
    "/usr/libexec/cni/bridge",
    "/opt/cni/bin/bridge",
];

fn require(spec: &LayerSpec, _: &Site<'_>) -> Result<(), Unavailable> {
    let is_made = spec.options.get("net").is_some_and(|word| word == "bridge");
    if is_made && !NETWORK_MAKERS.iter().any(|path| Path::new(path).exists()) {
        return Err(Unavailable {
            why: String::from("podman finds neither `netavark` nor plugins that make a bridge"),
            remedy: Some(String::from("apt-get install containernetworking-plugins")),
        });
    }
    Ok(())
}

fn order(wanted: &Wanted<'_>) -> Result<Order, Fault> {
    let books = wanted.scratch.join("podman");
    fs::create_dir_all(&books).doing(format_args!("make `{}`", books.display()))?;
    let file = books.join("containers.conf");
    // Where its volumes are is the question that such a stack asks: on a disk, as they are unless podman
    // is told otherwise.
    let volumes = match wanted.medium {
        Some(scratch::Medium::Volume) => wanted.room.disk_directory()?.join("volumes"),
        _ => books.join("volumes"),
    };
    fs::write(&file, configuration(&books, &volumes))
        .doing(format_args!("write `{}`", file.display()))?;
    let mut argv = vec![wanted.program.to_owned()];
    let at = |name: &str| word(&books.join(name));
    argv.extend(["--root".to_owned(), at("root")?, "--runroot".to_owned(), RUN.to_owned()]);
    argv.extend(["run", "--rm", "--interactive", "--log-driver=none"].map(str::to_owned));
    argv.extend(["--name".to_owned(), wanted.name.to_owned()]);
    argv.push(format!("--hostname={}", wanted.host_name));
    argv.push(format!("--network={}", wanted.network.word));
    argv.push(format!("--cgroup-parent=/{}", word(wanted.group)?));
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
    let environment = vec![(String::from("CONTAINERS_CONF"), word(&file)?)];
    // Plugins for networks keep their books where no option moves them.
    let places = ["/run", "/var/lib"];
    let mounts = places.map(|place| Mount::Tmpfs { target: place.into() }).to_vec();
    Ok(Order { argv, mounts, environment })
}

/// All that it keeps is in the room; and it asks for no more files and processes than we may have, since
/// without `CAP_SYS_RESOURCE` nobody can raise a limit.
fn configuration(books: &Path, volumes: &Path) -> String {
    let open_files = open_files_max();
    let processes = getrlimit(Resource::Nproc).maximum.unwrap_or(PROCESSES).min(PROCESSES);
    let runtime = if lab::find("runc").is_some() { "runc" } else { "crun" };
    let (books, volumes) = (books.display(), volumes.display());
    format!(
        "[containers]\n\
         default_ulimits = [\"nofile={open_files}:{open_files}\", \"nproc={processes}:{processes}\"]\n\
         [engine]\n\
         runtime = \"{runtime}\"\n\
         cgroup_manager = \"cgroupfs\"\n\
         events_logger = \"none\"\n\
         static_dir = \"{books}/static\"\n\
         volume_path = \"{volumes}\"\n\
         tmp_dir = \"{RUN}/tmp\"\n"
    )
}
