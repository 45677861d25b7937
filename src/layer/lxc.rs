//! LXC: a container by liblxc's own programs, for one command and without an init inside.
//!
//! surtax (host) ── lxc-start (monitor) ── namespaces, pivot_root, seccomp ── agent (PID 1) ── command
//!
//! - **Needs** `lxc-start` in `PATH`, root.
//! - **Leaves out** system containers, whose own init would start services beside the command.
//! - **Payers** one group: the monitor, the agent and the command.
//! - **Checked against** LXC 5.0.2, `lxc.container.conf(5)`.

use super::container_tool::{ContainerTool, Order, Wanted, agent_words, word};
use super::oci::NET;
use super::{Card, Limit, scratch};
use crate::fault::{Doing, Fault};
use crate::lab::Mount;
use crate::layer::oci::config::AGENT;
use std::fs;
use std::path::Path;

/// What Debian's containers begin with: devices, capabilities, seccomp, mounts of the kernel's own.
const COMMON: &str = "/usr/share/lxc/config/common.conf";

/// LXC.
pub static LXC: ContainerTool = ContainerTool {
    card: &Card {
        kind: "lxc",
        summary: "a container by LXC, for one command without an init",
        options: &[NET, scratch::CHOICE],
        subject: None,
        limits: Limit::OF_A_GROUP,
        holds_layers: false,
        elsewhere: false,
        ran_on_hardware: true,
    },
    program: "lxc-start",
    remedy: "apt-get install lxc",
    order,
};

fn order(wanted: &Wanted<'_>) -> Result<Order, Fault> {
    let containers = wanted.scratch.join("lxc");
    let rootfs = containers.join("rootfs");
    fs::create_dir_all(&rootfs).doing(format_args!("make `{}`", rootfs.display()))?;
    let file = containers.join("config");
    let text = config(wanted, Path::new(COMMON).exists(), &rootfs)?;
    fs::write(&file, text).doing(format_args!("write `{}`", file.display()))?;
    let words = [
        wanted.program,
        "--foreground",
        "--name",
        wanted.name,
        "--lxcpath",
        &word(&containers)?,
        "--rcfile",
        &word(&file)?,
    ];
    // It keeps its locks in `/run/lxc`.
    let mounts = vec![Mount::Tmpfs { target: "/run".into() }];
    Ok(Order { argv: words.map(str::to_owned).to_vec(), mounts, environment: Vec::new() })
}

fn config(wanted: &Wanted<'_>, has_common: bool, rootfs: &Path) -> Result<String, Fault> {
    let mut lines = Vec::new();
    if has_common {
        lines.push(format!("lxc.include = {COMMON}"));
    }
    lines.push(format!("lxc.uts.name = {}", wanted.host_name));
    lines.push(format!("lxc.rootfs.path = dir:{}", word(wanted.root)?));
    lines.push(format!("lxc.rootfs.mount = {}", word(rootfs)?));
    let network = if wanted.shares_network { "none" } else { "empty" };
    lines.push(format!("lxc.net.0.type = {network}"));
    if !wanted.shares_network {
        lines.push(String::from("lxc.net.0.flags = up"));
    }
    // All of its groups below the one that it is started in, where the limits are: also those in
    // hierarchies that limit nothing, at the root of which it would leave them when it is killed.
    let group = word(wanted.group)?;
    for (key, name) in [("monitor", "monitor"), ("monitor.pivot", "end"), ("container", "payload")]
    {
        lines.push(format!("lxc.cgroup.dir.{key} = {group}/{name}"));
    }
    if let Some(disk) = &wanted.throttled_disk {
        for (key, rate) in wanted.io.rates() {
            let (key, disk) = (key.replace('-', "_"), disk.number());
            lines.push(format!("lxc.cgroup.blkio.throttle.{key}_device = {disk} {rate}"));
        }
    }
    // The agent's channel is what it inherits; a console would be a terminal, and change the bytes.
    for key in ["lxc.console.path = none", "lxc.tty.max = 0", "lxc.pty.max = 1024"] {
        lines.push(key.to_owned());
    }
    if wanted.has_own_run {
        lines.push(String::from("lxc.mount.entry = tmpfs run tmpfs nosuid,nodev,mode=755 0 0"));
    }
    let (agent, place) = (word(wanted.agent)?, AGENT.trim_start_matches('/'));
    lines.push(format!("lxc.mount.entry = {agent} {place} none bind,ro,create=file 0 0"));
    lines.push(format!("lxc.init.cmd = {}", agent_words().join(" ")));
    Ok(lines.join("\n") + "\n")
}
