//! Sites: where a layer is started, and what is to be seen inside.

use super::medium;
use crate::lab::{Lab, Limits, Room};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Command;

/// Directories where a level keeps its kernel's file systems and its sockets: never part of a
/// merged root.
pub const OWN_PLACES: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Place where a layer is started: the level, what is at hand there, and what the command must see.
pub struct Site<'a> {
    /// The one door to the level's objects.
    pub lab: &'a Lab,
    /// 0 is the host.
    pub level: u8,
    /// The static agent, as a file of this level.
    pub agent: &'a Path,
    /// Kernels, unpacked images and verdicts that outlive a run.
    pub cache: &'a Path,
    /// View that the command must have.
    pub view: &'a View,
    /// The command that will run, where that is known: for a layer that is made for it alone.
    pub command: Option<&'a Command>,
    /// The layer's share of the common limits.
    pub limits: &'a Limits,
    /// True if another layer will be started inside: then it gets the privileges that takes, as
    /// with `docker run --privileged`, and its evidence says so.
    pub carries_layers: bool,
    /// The network namespace of a process of this level that is to stand in another than the
    /// level's own: of `native` alone, with which the outside of another stack is made.
    pub network: Option<&'a Path>,
    /// Time that the layer may take to start.
    pub start_deadline: Duration,
}

impl Site<'_> {
    /// A name for the container of this room: ours, and nobody else's on this machine.
    pub fn container_name(&self, room: &Room) -> String {
        let room = room.directory().file_name().unwrap_or_default().to_string_lossy();
        format!("surtax-{}-{room}", self.lab.id())
    }
}

/// View of a command: the same files in every stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Source of its root.
    pub root: Root,
    /// Directories whose writes are kept.
    pub writable: Vec<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Medium of its scratch directory, if it has one.
    pub scratch: Option<medium::Medium>,
    /// True if it sees what this level keeps secret.
    pub shows_secrets: bool,
}

impl View {
    /// Lists the places of the user's that a stack is given: what it may write to, and its root.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.writable.iter().map(PathBuf::as_path).chain(self.root.path())
    }
}

impl Root {
    /// Returns the path that it is made from, if it is made from one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) | Self::Oci(path) | Self::Image(path) => Some(path),
            Self::Overlay | Self::Host | Self::Packed | Self::Registry(_) => None,
        }
    }
}

/// Word for images of registries, as `containers-transports(5)` has it.
pub const TRANSPORT: &str = "docker";

/// Source of a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The level's own root under a throw-away upper layer: `root=overlay`, the default.
    Overlay,
    /// The level's own root as it is, writes and all: `root=host`, for `native`, and the only one
    /// of another machine.
    Host,
    /// A directory under a throw-away upper layer: `root=dir:/path`.
    Directory(PathBuf),
    /// An OCI image layout, a directory or an archive: `root=oci:/path`.
    Oci(PathBuf),
    /// An image of a registry, by its name: `root=docker://alpine:3`, or `image=alpine:3`.
    Registry(String),
    /// The image of a disk with a whole system, for virtual machines: `root=image:/path`.
    Image(PathBuf),
    /// The command's own file and its libraries, and nothing else: `root=packed`, for a machine of
    /// its own.
    Packed,
}
