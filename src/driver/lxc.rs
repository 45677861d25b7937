//! LXC: a container by liblxc's own programs, for one command, or with an init inside.
//!
//! surtax (host) ── lxc-start (monitor) ── namespaces, pivot_root, seccomp ── agent (PID 1) ── command
//!
//! - **Needs** `lxc-start`, in `PATH` or by `binary=`; root.
//! - **Leaves out** what a root enables beyond its init, whose services would run beside the
//!   command; `CAP_LINUX_IMMUTABLE` and the kernel's keyrings, by which a command reaches what is
//!   this machine's.
//! - **Payers** one group: the monitor, the agent and the command.
//! - **Checked against** LXC 5.0.2, `lxc.container.conf(5)`.

use crate::container::oci::config::AGENT;
use crate::container::tool::{ContainerRequest, ContainerTool, ToolStart, agent_words, word};
use crate::container::tool_network::Wiring;
use crate::container::users::ContainerUsers;
use crate::container::{init, tool_network, users};
use crate::fault::{Doing, Fault};
use crate::lab::network::{BELOW, BRIDGE, LINK, OUTSIDE, PREFIX, WORKLOAD};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{self, Limits, Mount, exclusive};
use crate::layer::{BINARY, Descriptor, LayerSpec, Limit, Reach, medium};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Configuration that Debian's containers begin with: devices, capabilities, seccomp, mounts of the
/// kernel's own.
const COMMON: &str = "/usr/share/lxc/config/common.conf";

/// Configuration that they begin with as well, where their users are others than the host's.
const USERNS: &str = "/usr/share/lxc/config/userns.conf";

/// Filter of system calls that [`COMMON`] names.
const SECCOMP: &str = "/usr/share/lxc/config/common.seccomp";

/// A filter that lets everything pass, as LXC reads one.
const EMPTY_FILTER: &str = "2\ndenylist";

/// Lines of a filter that shuts the kernel's keyrings, as docker's does: root's are this machine's.
/// To who asks it is as if the kernel had none, which container runtimes inside take for no error.
const NO_KEYRINGS: &str = "[all]\nadd_key errno 38\nkeyctl errno 38\nrequest_key errno 38\n";

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "lxc", "lxc:net=host", "lxc:net=veth", "lxc:net=macvlan", "lxc:init=systemd",
    "lxc:init=busybox", "lxc:user=private",
];

/// LXC.
pub static LXC: ContainerTool = ContainerTool {
    descriptor: &Descriptor {
        kind: "lxc",
        summary: "a container by LXC, for one command, or with an init",
        package: "lxc",
        reach: &[("host", Reach::Level), ("veth", Reach::Link), ("macvlan", Reach::Link)],
        options: &[
            tool_network::choice(&["none", "host", "veth", "macvlan"]),
            init::CHOICE,
            users::CHOICE,
            medium::CHOICE,
            BINARY,
        ],
        limits: Limit::OF_A_GROUP,
        both_ways: &["veth", "host"],
        default_users: Some("host"),
        shuts_keyrings: true,
        variants: VARIANTS,
        ..Descriptor::CONTAINER
    },
    program: "lxc-start",
    refuse,
    require: |_, _| Ok(()),
    starts_below: false,
    agent_words: |_| Vec::new(),
    networks: &[("veth", Wiring::Bridge), ("macvlan", Wiring::Pair)],
    order,
};

/// It mounts a `/sys` of its own, which the kernel lets users do that have a network of their own.
fn refuse(spec: &LayerSpec, _: &Limits) -> Result<(), Fault> {
    if spec.says("user", "private") && spec.says("net", "host") {
        return Err(Fault::user(
            "lxc: it cannot show `/sys` to `user=private` in this level's network",
        )
        .hint("use `net=none` or `net=veth`"));
    }
    Ok(())
}

fn order(wanted: &ContainerRequest<'_>) -> Result<ToolStart, Fault> {
    // Its path is the name of LXC's command socket, which anybody could bind before it does.
    let random = exclusive::unguessable()?;
    let containers = wanted.scratch.join(&random).join("lxc");
    let rootfs = containers.join("rootfs");
    fs::create_dir_all(&rootfs).doing(format_args!("make `{}`", rootfs.display()))?;
    let has_common = Path::new(COMMON).exists();
    let mut text = config(wanted, has_common, &rootfs)?;
    let seccomp = containers.join("seccomp");
    fs::write(&seccomp, filter(Path::new(SECCOMP))?)
        .doing(format_args!("write `{}`", seccomp.display()))?;
    text.push_str(&format!("lxc.seccomp.profile = {}\n", word(&seccomp)?));
    let file = containers.join("config");
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
    let mut mounts = vec![Mount::Tmpfs { target: "/run".into() }];
    if wanted.network.held().is_some() {
        mounts.extend(tool_network::own_links(&wanted.scratch.join("sys")));
    }
    // Where `newuidmap` is, LXC leaves the mapping of users to it, also that of root's.
    if wanted.users == ContainerUsers::Own && lab::find("newuidmap").is_some() {
        let line = format!("root:{FIRST}:{COUNT}");
        let lines = [("subuid", line.clone()), ("subgid", line)];
        mounts.push(users::over_etc(wanted.scratch, &lines)?);
    }
    let argv = words.map(str::to_owned).to_vec();
    Ok(ToolStart { argv, mounts, random: Some(random), ..ToolStart::default() })
}

/// Tells whether AppArmor is on, and has not loaded what LXC wants to put its containers under.
fn lacks_profile(sys: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(sys.join(name)).unwrap_or_default();
    read("module/apparmor/parameters/enabled").trim() == "Y"
        && !read("kernel/security/apparmor/profiles").contains("lxc-container-default")
}

/// The filter of this file with the keyrings shut; one that shuts nothing else where there is none.
fn filter(common: &Path) -> Result<String, Fault> {
    let text = match fs::read_to_string(common) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::from(EMPTY_FILTER)),
        read => read.doing(format_args!("read `{}`", common.display())),
    }?;
    Ok(format!("{}\n{NO_KEYRINGS}", text.trim_end()))
}

/// Returns the configuration lines for the word after `net=`.
fn network(word: &str) -> Vec<String> {
    let line = |key: &str, value: &str| format!("lxc.net.0.{key} = {value}");
    let (kind, below) = match word {
        "host" => return vec![line("type", "none")],
        "veth" => ("veth", BRIDGE),
        "macvlan" => ("macvlan", BELOW),
        _ => return vec![line("type", "empty"), line("flags", "up")],
    };
    let mut lines = vec![line("type", kind), line("link", below), line("name", LINK)];
    if kind == "macvlan" {
        lines.push(line("macvlan.mode", "bridge"));
    }
    lines.push(line("ipv4.address", &format!("{WORKLOAD}/{PREFIX}")));
    lines.push(line("ipv4.gateway", &OUTSIDE.to_string()));
    lines.push(line("flags", "up"));
    lines
}

fn config(wanted: &ContainerRequest<'_>, has_common: bool, rootfs: &Path) -> Result<String, Fault> {
    let mut lines = Vec::new();
    if has_common {
        lines.push(format!("lxc.include = {COMMON}"));
    }
    if wanted.users == ContainerUsers::Own {
        if Path::new(USERNS).exists() {
            lines.push(format!("lxc.include = {USERNS}"));
        }
        lines.extend(["u", "g"].map(|kind| format!("lxc.idmap = {kind} 0 {FIRST} {COUNT}")));
    }
    // What is immutable would stay behind in a directory of this machine's.
    lines.push(String::from("lxc.cap.drop = linux_immutable"));
    lines.push(format!("lxc.uts.name = {}", wanted.host_name));
    lines.push(format!("lxc.rootfs.path = dir:{}", word(wanted.root)?));
    lines.push(format!("lxc.rootfs.mount = {}", word(rootfs)?));
    lines.extend(network(&wanted.network.word));
    // All of its groups below the one that it is started in, where the limits are: also those in
    // hierarchies that limit nothing, at the root of which it would leave them when it is killed.
    let group = word(wanted.group)?;
    for (key, name) in [("monitor", "monitor"), ("monitor.pivot", "end"), ("container", "payload")]
    {
        lines.push(format!("lxc.cgroup.dir.{key} = {group}/{name}"));
    }
    if let Some(disk) = &wanted.throttled_disk {
        for (key, rate) in wanted.limits.io.rates() {
            let (key, disk) = (key.replace('-', "_"), disk.number());
            lines.push(format!("lxc.cgroup.blkio.throttle.{key}_device = {disk} {rate}"));
        }
    }
    // Where AppArmor lacks what LXC expects of it, LXC starts nothing unless told so.
    lines.push(String::from("lxc.apparmor.allow_incomplete = 1"));
    if lacks_profile(Path::new("/sys")) {
        lines.push(String::from("lxc.apparmor.profile = unconfined"));
    }
    // The agent's channel is what it inherits; a console would be a terminal, and change the bytes.
    for key in ["lxc.console.path = none", "lxc.tty.max = 0", "lxc.pty.max = 1024"] {
        lines.push(key.to_owned());
    }
    // Every other runtime makes one; LXC leaves it to the distribution's own configuration.
    lines.push(String::from(
        "lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,create=dir,mode=1777 0 0",
    ));
    if wanted.has_own_run || wanted.init.is_some() {
        lines.push(String::from("lxc.mount.entry = tmpfs run tmpfs nosuid,nodev,mode=755 0 0"));
    }
    let (agent, place) = (word(wanted.agent)?, AGENT.trim_start_matches('/'));
    lines.push(format!("lxc.mount.entry = {agent} {place} none bind,ro,create=file 0 0"));
    let Some(prepared) = wanted.init else {
        lines.push(format!("lxc.init.cmd = {}", agent_words().join(" ")));
        return Ok(lines.join("\n") + "\n");
    };
    for (file, place) in &prepared.shown {
        let (file, place) = (word(file)?, place.trim_start_matches('/'));
        lines.push(format!("lxc.mount.entry = {file} {place} none bind,create=file 0 0"));
    }
    lines.push(format!("lxc.init.cmd = {}", prepared.argv.join(" ")));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_its_word_says() {
        assert_eq!(network("host"), ["lxc.net.0.type = none"]);
        assert_eq!(network("none"), ["lxc.net.0.type = empty", "lxc.net.0.flags = up"]);
        assert_eq!(
            network("macvlan").join("\n"),
            "lxc.net.0.type = macvlan\nlxc.net.0.link = below\nlxc.net.0.name = eth0\n\
             lxc.net.0.macvlan.mode = bridge\nlxc.net.0.ipv4.address = 198.18.0.2/24\n\
             lxc.net.0.ipv4.gateway = 198.18.0.1\nlxc.net.0.flags = up"
        );
        assert_eq!(network("veth")[1], "lxc.net.0.link = outside");
    }

    #[test]
    fn the_keyrings_are_shut_beside_what_is_shut_already() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("common.seccomp");
        assert_eq!(filter(&file).unwrap(), format!("2\ndenylist\n{NO_KEYRINGS}"));
        fs::write(&file, "2\ndenylist\n[all]\nkexec_load errno 1\n\n").unwrap();
        let text = filter(&file).unwrap();
        assert_eq!(
            text,
            "2\ndenylist\n[all]\nkexec_load errno 1\n[all]\nadd_key errno 38\nkeyctl errno 38\n\
             request_key errno 38\n"
        );
    }

    #[test]
    fn a_container_is_unconfined_where_apparmor_has_no_profile_for_it() {
        let sys = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = sys.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(!lacks_profile(sys.path()), "no AppArmor");
        write("module/apparmor/parameters/enabled", "Y\n");
        assert!(lacks_profile(sys.path()));
        write("kernel/security/apparmor/profiles", "lxc-container-default-cgns (enforce)\n");
        assert!(!lacks_profile(sys.path()));
    }
}
