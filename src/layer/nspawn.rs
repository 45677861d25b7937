//! systemd-nspawn: the container of systemd, here for one command and without an init inside.
//!
//! surtax (host) ── systemd-nspawn ── namespaces, pivot_root, seccomp ── agent (PID 1) ── command
//!
//! - **Needs** `systemd-nspawn` in `PATH`, root; not systemd as PID 1: it registers nowhere, and works
//!   in a `/run` of its own.
//! - **Leaves out** `--property` limits, which systemd would have to keep: the limits are those of a
//!   group that surtax makes around it.
//! - **Payers** one group: `systemd-nspawn`, the agent and the command.
//! - **Checked against** systemd 252, `systemd-nspawn(1)`.

use super::container_tool::{ContainerTool, Order, Wanted, agent_words, word};
use super::oci::NET;
use super::{Card, Limit, scratch};
use crate::fault::Fault;
use crate::lab::Mount;
use crate::layer::oci::config::AGENT;

/// systemd-nspawn.
pub static NSPAWN: ContainerTool = ContainerTool {
    card: &Card {
        kind: "nspawn",
        summary: "a container by systemd-nspawn, for one command without an init",
        options: &[NET, scratch::CHOICE],
        subject: None,
        limits: Limit::OF_A_GROUP,
        holds_layers: false,
        elsewhere: false,
        ran_on_hardware: true,
    },
    program: "systemd-nspawn",
    remedy: "apt-get install systemd-container",
    order,
};

fn order(wanted: &Wanted<'_>) -> Result<Order, Fault> {
    if wanted.throttled_disk.is_some() {
        return Err(Fault::user(
            "nspawn: it puts the container into a group of its own, which cgroup v1 lets use a disk as it \
             likes",
        )
        .hint("give the limit to `podman`, `lxc` or `bubblewrap`"));
    }
    let mut argv = vec![wanted.program.to_owned()];
    let fixed = ["--quiet", "--register=no", "--keep-unit", "--settings=no", "--console=pipe"];
    // What is on the host stays as it is, and what is inside is the root's own.
    let files = ["--link-journal=no", "--resolv-conf=off", "--timezone=off"];
    argv.extend(fixed.into_iter().chain(files).map(str::to_owned));
    argv.push(format!("--directory={}", word(wanted.root)?));
    argv.push(format!("--machine={}", wanted.name));
    argv.push(format!("--hostname={}", wanted.host_name));
    argv.push(format!("--bind-ro={}:{AGENT}", word(wanted.agent)?));
    if !wanted.shares_network {
        argv.push(String::from("--private-network"));
    }
    argv.push(String::from("--"));
    argv.extend(agent_words());
    // It keeps its books in `/run/systemd`, and dislikes one on a disk.
    let mounts = vec![Mount::Tmpfs { target: "/run".into() }];
    // It would hide the root's `/tmp` under an empty one.
    let environment = vec![(String::from("SYSTEMD_NSPAWN_TMPFS_TMP"), String::from("0"))];
    Ok(Order { argv, mounts, environment })
}
