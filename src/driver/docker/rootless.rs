//! The daemon of a user without privileges: rootlesskit makes its namespaces, slirp4netns its
//! network.
//!
//! surtax (host) ── rootlesskit ── dockerd ── containerd ── shim ── runc ── agent (PID 1) ── command
//!
//! It is always a private one, and starts as its users start it, by `dockerd-rootless.sh`. What
//! such a user may not do is done for it before: the files of this level are shown to it with their
//! owners mapped and read-only, so that root's are those of root in its containers, and what is
//! kept is shown so that it can be written. Without the right to make groups it can limit nothing;
//! so the container's first process is put into a group of its room, with the limits, before it is
//! told of any command.
//!
//! Source: Docker's "Rootless mode", `dockerd-rootless.sh` of 20.10.24, rootlesskit 1.1.0.

use crate::container::users::over_etc;
use crate::container::{group, rootless};
use crate::fault::Fault;
use crate::lab::{self, Limits, Mount, Room};
use crate::layer::{LayerSpec, Site};
use crate::rootfs::root;
use std::path::{Path, PathBuf};

/// The script, where Debian keeps it.
const SCRIPT: &str = "/usr/share/docker.io/contrib/dockerd-rootless.sh";

/// Beginnings of the paths of a lab's directories, which the daemon sees as they are: in memory,
/// and on a disk.
const OURS: [&str; 3] = ["/run/surtax/", "/dev/shm", "/var/tmp/surtax-"];

/// Programs that are needed beside docker's own.
const PROGRAMS: [(&str, &str); 2] =
    [("rootlesskit", "rootlesskit"), ("slirp4netns", "slirp4netns")];

/// Refuses what a user without privileges cannot have, or what would not be a daemon of that
/// user's.
///
/// # Errors
/// The user's: what, and what to write instead.
pub fn refuse(spec: &LayerSpec, holds_a_layer: bool) -> Result<(), Fault> {
    if !rootless::is_asked(spec) {
        return Ok(());
    }
    let other_runtime = spec.option("runtime").filter(|name| *name != "runc");
    let (what, why, hint) = if spec.options.contains_key("socket") {
        ("`socket`", "would be a daemon of somebody else's", "leave `socket` out")
    } else if spec.says("net", "host") {
        ("`net=host`", "is the daemon's own network and not this level's", "use `net=bridge`")
    } else if spec.says("net", "macvlan") {
        ("`net=macvlan`", "needs a link of this level", "use `net=bridge` or `net=user`")
    } else if spec.options.contains_key("publish") {
        ("`publish`", "goes through another process, which is not measured yet", "leave it out")
    } else if spec.says("storage", "btrfs") {
        ("`storage=btrfs`", "needs a mount of root's", "use `storage=overlay2` or `storage=vfs`")
    } else if spec.says("privileged", "true") || holds_a_layer {
        ("a layer inside", "gets no privileges to give", "nest in `docker` without `rootless=on`")
    } else if other_runtime.is_some() {
        ("another runtime than runc", "is not set up for such a user", "leave `runtime` out")
    } else {
        return Ok(());
    };
    Err(Fault::user(format!("docker: with `rootless=on`, {what} {why}")).hint(hint))
}

/// That this machine has what the daemon takes.
///
/// # Errors
/// The machine's: what is missing.
pub fn require() -> Result<(), Fault> {
    rootless::require("docker", &PROGRAMS).map_err(crate::layer::Unavailable::fault)?;
    script().map(drop)
}

fn script() -> Result<PathBuf, Fault> {
    let installed = lab::find("dockerd-rootless.sh");
    let script = installed.or_else(|| Some(PathBuf::from(SCRIPT)).filter(|path| path.exists()));
    script.ok_or_else(|| {
        Fault::machine("docker: there is no `dockerd-rootless.sh`, which starts a rootless daemon")
            .hint(
                "apt-get install docker.io, or docker-ce-rootless-extras of Docker's own packages",
            )
    })
}

/// The words before those for `dockerd`.
///
/// # Errors
/// The machine's: there is no script.
pub fn words() -> Result<Vec<String>, Fault> {
    Ok(vec![String::from("/bin/sh"), script()?.to_string_lossy().into_owned()])
}

/// The mounts of the daemon's namespace, of a room whose users may pass through its directory in
/// memory.
///
/// # Errors
/// The machine's: a directory or a file cannot be made.
pub fn mounts(site: &Site<'_>, room: &Room, users: &Path) -> Result<Vec<Mount>, Fault> {
    let memory = room.memory_directory()?;
    let (home, session) = (memory.join("home"), session_in(memory));
    for path in [&home, &session] {
        rootless::directory(path)?;
    }
    let mut mounts = vec![over_etc(memory, &rootless::lines(&home))?];
    let map = |source: &Path, target: PathBuf, read_only| Mount::Mapped {
        source: source.to_path_buf(),
        target,
        users: users.to_path_buf(),
        read_only,
    };
    let shown = Shown::of(memory, site)?;
    let parts = shown.parts.iter().enumerate();
    mounts.extend(parts.map(|(index, part)| map(part, shown.part(index), true)));
    let writable = site.view.writable.iter();
    mounts.extend(writable.map(|path| map(path, kept(memory, path), false)));
    mounts.push(Mount::bind_read_only(site.agent, agent_in(memory)));
    Ok(mounts)
}

/// Returns the path at which the daemon finds the agent.
pub fn agent_in(memory: &Path) -> PathBuf {
    memory.join("agent")
}

fn session_in(memory: &Path) -> PathBuf {
    memory.join("session")
}

fn kept(memory: &Path, path: &Path) -> PathBuf {
    memory.join("kept").join(path.strip_prefix("/").unwrap_or(path))
}

/// The environment in which it is started.
pub fn environment(memory: &Path) -> Vec<(String, String)> {
    // Left to itself rootlesskit takes a directory of `/tmp`, which stays when it is killed.
    let state = format!("--state-dir={}", session_in(memory).join("rootlesskit").display());
    let flags = (String::from("DOCKERD_ROOTLESS_ROOTLESSKIT_FLAGS"), state);
    let own = rootless::environment(&memory.join("home"), &session_in(memory));
    // A containerd that ends too late is told to write its stacks down into a temporary file.
    let own = std::iter::once(flags).chain(own).collect();
    lab::with_temporary_directory(lab::path_and(own), &session_in(memory))
}

/// The files of this level as the daemon sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Directory of the daemon in memory.
    pub memory: PathBuf,
    /// The file systems of this level, parents first. Each is shown in a directory of its own: with
    /// another mounted below it, the kernel would let such a user make no overlay over it.
    parts: Vec<PathBuf>,
}

impl Shown {
    /// Returns the files that are shown in this directory of a daemon's room.
    ///
    /// # Errors
    /// The machine's: its mounts cannot be read.
    pub fn of(memory: &Path, site: &Site<'_>) -> Result<Self, Fault> {
        let lowers = root::lowers(&crate::layer::Root::Overlay, site.cache)?;
        let parts = lowers.into_iter().map(|lower| lower.source).collect();
        Ok(Self { memory: memory.to_path_buf(), parts })
    }

    fn part(&self, index: usize) -> PathBuf {
        self.memory.join(format!("mapped-{index}"))
    }

    /// Returns the path at which a file is found that is only read.
    fn mapped(&self, path: &Path) -> PathBuf {
        let parts = self.parts.iter().enumerate().rev();
        let below = parts.filter_map(|(index, part)| Some((index, path.strip_prefix(part).ok()?)));
        let found = below.min_by_key(|(_, relative)| relative.components().count());
        match found {
            // Joined with nothing it would end with a slash.
            Some((index, relative)) if relative.as_os_str().is_empty() => self.part(index),
            Some((index, relative)) => self.part(index).join(relative),
            None => path.to_path_buf(),
        }
    }
}

/// Returns the path at which the daemon finds a file of this level: one that is only read, or one
/// of a kept directory.
pub fn source(shown: &Shown, path: &Path, is_kept: bool) -> PathBuf {
    let is_ours =
        OURS.iter().any(|place| path.as_os_str().as_encoded_bytes().starts_with(place.as_bytes()));
    match (is_ours, is_kept) {
        (true, _) => path.to_path_buf(),
        (false, true) => kept(&shown.memory, path),
        (false, false) => shown.mapped(path),
    }
}

/// Puts a container's first process into a group of its room, with the limits that its daemon could
/// not set.
///
/// # Errors
/// The machine's: a limit cannot be set, or the process cannot be moved.
pub fn confine(room: &Room, pid: u32, limits: &Limits) -> Result<(), Fault> {
    let group = room.subgroup(group::LIMITED, limits)?;
    room.admit(pid, &group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_where_it_is_shown() {
        let parts = ["/", "/home"].map(PathBuf::from).to_vec();
        let shown = Shown { memory: "/dev/shm/surtax-1/docker".into(), parts };
        let told =
            |path: &str, is_kept| source(&shown, Path::new(path), is_kept).display().to_string();
        assert_eq!(told("/", false), "/dev/shm/surtax-1/docker/mapped-0");
        assert_eq!(told("/usr", false), "/dev/shm/surtax-1/docker/mapped-0/usr");
        assert_eq!(told("/home", false), "/dev/shm/surtax-1/docker/mapped-1");
        assert_eq!(told("/home/me", false), "/dev/shm/surtax-1/docker/mapped-1/me");
        assert_eq!(told("/srv", true), "/dev/shm/surtax-1/docker/kept/srv");
        assert_eq!(told("/var/tmp/surtax-1/a/scratch", false), "/var/tmp/surtax-1/a/scratch");
        assert_eq!(told("/run/surtax/1/.memory/a/0", false), "/run/surtax/1/.memory/a/0");
    }

    #[test]
    fn what_needs_privileges_is_refused_by_its_name() {
        let refused = |key: &str, value: &str| {
            let options = [("rootless", "on"), (key, value)];
            let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            refuse(&LayerSpec { kind: "docker".into(), options }, false)
                .map_err(|fault| fault.message)
        };
        assert_eq!(refused("net", "bridge"), Ok(()));
        assert_eq!(refused("runtime", "runc"), Ok(()));
        for (key, value) in [("net", "host"), ("net", "macvlan"), ("storage", "btrfs")] {
            assert!(refused(key, value).unwrap_err().contains(&format!("`{key}={value}`")));
        }
        assert!(refused("runtime", "runsc").unwrap_err().contains("another runtime"));
        assert!(refused("socket", "/run/docker.sock").unwrap_err().contains("`socket`"));
    }
}
