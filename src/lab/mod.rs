//! The lab: the one door to the host. Whatever surtax makes, it makes here, and takes away again.
//!
//! Before an object is made, its undo is in the journal; when the main process dies, the reaper
//! undoes the journal; what both leave behind, the next start or `surtax gc` undoes. A [`Room`] is
//! the lab of one trial: a directory, a cgroup, a private mount namespace, processes.

mod process;

use crate::fault::Fault;
use crate::stack::Limits;
pub use process::{Process, Program};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The lab of one main process: its journal, its reaper, its rooms.
pub struct Lab {
    /* private */
}

/// How to take one object away again. Written to the journal before the object is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Undo {
    /// A group in every cgroup hierarchy: kill what is in it (limits lifted first), then remove it.
    Group { path: PathBuf },
    /// A directory of ours and everything in it; mounts below it are taken off first.
    Directory { path: PathBuf },
    /// A container of a Docker-compatible engine, by the name that we gave it, with its volumes.
    EngineContainer { socket: PathBuf, name: String },
    /// A setting: written back only if it still holds what we wrote.
    Setting { path: PathBuf, ours: String, before: String },
}

impl Lab {
    /// Opens the lab of this process: undoes what earlier ones left, starts a journal and a reaper.
    pub fn open() -> Result<Self, Fault> { todo!() }

    /// Makes a room: `/run/surtax/<lab>/<name>`, and a group of that name in every hierarchy.
    pub fn room(&self, name: &str) -> Result<Room, Fault> { todo!() }

    /// Takes everything away, ends the reaper, removes the journal. Says what had to be forced.
    pub fn close(self) -> Result<Vec<String>, Fault> { todo!() }
}

/// The lab of one trial. Dropped or closed, nothing of it is left.
pub struct Room {
    /* private */
}

impl Room {
    /// A directory of its own, mode 0700, on the disk that holds `/run`.
    pub fn directory(&self) -> &Path { todo!() }

    /// A directory of its own in memory (below `/dev/shm`), made when first asked for. Every mount
    /// namespace of the host sees it, an engine's daemon too.
    pub fn memory_directory(&self) -> Result<&Path, Fault> { todo!() }

    /// The room's group, as a path relative to each hierarchy's mount point: what OCI calls `cgroupsPath`.
    pub fn group(&self) -> &Path { todo!() }

    /// A group inside the room's, with limits; made if absent. Relative like [`Room::group`].
    /// Errors when a limit cannot be set as asked; the values read back are [`Room::group_facts`].
    pub fn subgroup(&self, name: &str, limits: &Limits) -> Result<PathBuf, Fault> { todo!() }

    /// A private mount namespace, held by the descriptor and by whoever runs in it. `mounts` are made in order.
    pub fn mount_namespace(&self, mounts: &[Mount]) -> Result<OwnedFd, Fault> { todo!() }

    /// Starts a program in this room. See [`Program`].
    pub fn spawn(&self, program: Program) -> Result<Process, Fault> { todo!() }

    /// Writes into the journal how to undo something that is about to be made by someone else (an
    /// engine's daemon). The undo runs when the room is closed; running it for what is gone is no error.
    pub fn promise(&self, undo: Undo) -> Result<(), Fault> { todo!() }

    /// Ends every process, removes everything, and says what was still alive or there.
    pub fn close(self) -> Result<Vec<String>, Fault> { todo!() }
}

/// One mount of a private namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A tmpfs of at most this share of memory.
    Tmpfs { target: PathBuf },
    /// `lower` with a throw-away `upper` and `work` (made if absent, on tmpfs) above it.
    Overlay { lower: PathBuf, upper: PathBuf, work: PathBuf, target: PathBuf },
    /// `source` seen at `target`; with everything mounted below it if `recursive`.
    Bind { source: PathBuf, target: PathBuf, recursive: bool, read_only: bool },
    /// A fresh `proc`, `sysfs`, `devpts`, …: `mount -t kind kind target`.
    Fresh { kind: String, target: PathBuf, options: String },
}
