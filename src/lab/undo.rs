//! Undoing: one way for each kind of object, and always the same, whoever does it.
//!
//! The main process, its reaper and a later start all come here. Undoing what is already gone is no
//! error. Nothing is touched whose name does not carry our tag.

use super::domain::Domain;
use super::escaped::{Are, Overlaid};
use super::{cgroup, directory, engine, escaped, memory, session, xen_domain};
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The beginning of the name of everything that surtax makes.
pub const TAG: &str = "surtax";

/// Number of hexadecimal digits of a lab's number.
pub(super) const LAB_DIGITS: usize = 8;

/// Way to take one object away again. Written to the journal before the object is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Undo {
    /// A group in every cgroup hierarchy: kill what is in it (limits lifted first), then remove it.
    Group {
        /// Relative to each hierarchy's mount point.
        path: PathBuf,
    },
    /// Processes that left their groups, and whose root is in one of these overlays: killed.
    Roots {
        /// Those of one mount namespace.
        overlays: Vec<Overlaid>,
    },
    /// A directory of ours and everything in it; mounts below it are taken off first.
    Directory {
        /// Absolute.
        path: PathBuf,
    },
    /// Memory of ours, mounted in a lab's directory: emptied, then taken off.
    Memory {
        /// Absolute.
        path: PathBuf,
    },
    /// A container of a Docker-compatible engine, by the name that we gave it, with its volumes.
    EngineContainer {
        /// The engine's unix socket.
        socket: PathBuf,
        /// Begins with our tag.
        name: String,
    },
    /// An image of a Docker-compatible engine, by the name that we gave it.
    EngineImage {
        /// The engine's unix socket.
        socket: PathBuf,
        /// Begins with our tag.
        name: String,
    },
    /// A network of a Docker-compatible engine, by the name that we gave it.
    EngineNetwork {
        /// The engine's unix socket.
        socket: PathBuf,
        /// Begins with our tag.
        name: String,
    },
    /// Changes to a domain of libvirt: our channel is taken off, and one that we started is shut
    /// down.
    Domain {
        /// Whose it is.
        domain: Domain,
        /// Our channel's name; begins with our tag.
        channel: String,
        /// True if it was shut off before.
        was_started: bool,
    },
    /// A domain of Xen's, by the name that we gave it.
    XenDomain {
        /// Begins with our tag.
        name: String,
    },
    /// Controllers that we enabled for the children of a cgroup v2 group; left on where somebody
    /// else uses them by now.
    Controllers {
        /// Absolute, the group's directory.
        path: PathBuf,
        /// Such as `cpuset`.
        names: Vec<String>,
    },
    /// Processes of one session, on machines without cgroups.
    Session {
        /// The process that began the session.
        pid: u32,
        /// Start time of that process, in clock ticks since boot.
        started_ticks: u64,
    },
}

impl Undo {
    /// Tells whether the object would still be there after a reboot, so that its record must be,
    /// too.
    pub(super) fn survives_reboot(&self) -> bool {
        match self {
            Self::Directory { path } => !directory::is_in_memory(path),
            Self::EngineContainer { .. }
            | Self::EngineImage { .. }
            | Self::EngineNetwork { .. } => true,
            Self::Group { .. }
            | Self::Roots { .. }
            | Self::Memory { .. }
            | Self::Domain { .. }
            | Self::XenDomain { .. }
            | Self::Controllers { .. }
            | Self::Session { .. } => false,
        }
    }

    /// Refuses what does not carry our tag.
    pub(super) fn require_tag(&self) -> Result<(), Fault> {
        let tagged = match self {
            Self::Group { path } => {
                let within = path.strip_prefix(cgroup::SLICE).unwrap_or(path);
                is_plain(path) && starts_with_tag(within.iter().next())
            }
            Self::Directory { path } => is_our_directory(path),
            Self::Memory { path } => {
                path.file_name() == Some(OsStr::new(memory::NAME))
                    && path.parent().is_some_and(is_our_directory)
            }
            Self::Roots { overlays } => overlays.iter().all(|it| is_below_a_tag(&it.upper)),
            Self::EngineContainer { name, .. }
            | Self::EngineImage { name, .. }
            | Self::EngineNetwork { name, .. }
            | Self::XenDomain { name }
            | Self::Domain { channel: name, .. } => name.starts_with(TAG),
            Self::Controllers { path, .. } => is_plain(path) && cgroup::may_be_unified(path),
            Self::Session { .. } => true,
        };
        if tagged { Ok(()) } else { Err(Fault::bug(format!("{self:?} does not carry our tag"))) }
    }

    /// Returns its turn among all that one lab made, 0 being first: whoever left a group is known
    /// only once the groups are empty, has a root as long as that is there, and nobody needs a
    /// controller when all is gone.
    pub(super) fn turn(&self) -> u8 {
        match self {
            Self::Roots { .. } => 1,
            Self::Directory { .. } | Self::Memory { .. } => 2,
            Self::Controllers { .. } => 3,
            _ => 0,
        }
    }

    /// Takes the object away. Says what was still alive or there that a tidy stop would have
    /// removed.
    pub(super) fn perform(&self) -> Result<Vec<String>, Fault> {
        self.require_tag()?;
        match self {
            Self::Group { path } => cgroup::Groups::discover()?.end(path, &[]),
            Self::Roots { overlays } => escaped::end(overlays, Are::Left),
            Self::Directory { path } => directory::remove_ours(path),
            Self::Memory { path } => memory::unmount(path),
            Self::EngineContainer { socket, name } => engine::remove_container(socket, name),
            Self::EngineImage { socket, name } => engine::remove_image(socket, name),
            Self::EngineNetwork { socket, name } => engine::remove_network(socket, name),
            Self::Domain { domain, channel, was_started } => {
                domain.give_back(channel, *was_started)
            }
            Self::XenDomain { name } => xen_domain::destroy(name),
            Self::Controllers { path, names } => cgroup::disable(path, names),
            Self::Session { pid, started_ticks } => session::end(*pid, *started_ticks),
        }
    }
}

/// Tells whether a name is the id of a lab.
pub(super) fn is_lab(name: &[u8]) -> bool {
    name.len() == LAB_DIGITS && name.iter().all(u8::is_ascii_hexdigit)
}

/// Tells whether a directory is one that a lab makes: a name with our tag, or a lab's number in
/// a directory with our tag, as `/run/surtax/0000beef`.
fn is_our_directory(path: &Path) -> bool {
    let is_number = |name: &OsStr| is_lab(name.as_encoded_bytes());
    let is_within = || starts_with_tag(path.parent().and_then(Path::file_name));
    path.is_absolute()
        && is_plain(path)
        && (starts_with_tag(path.file_name()) && path.file_name() != Some(OsStr::new(TAG))
            || path.file_name().is_some_and(is_number) && is_within())
}

fn is_below_a_tag(path: &Path) -> bool {
    path.is_absolute() && is_plain(path) && path.iter().any(|part| starts_with_tag(Some(part)))
}

fn starts_with_tag(part: Option<&OsStr>) -> bool {
    let text = part.map(|part| part.to_string_lossy()).unwrap_or_default();
    text == TAG || text.strip_prefix(TAG).is_some_and(|rest| rest.starts_with('-'))
}

/// Tells whether a path has no `..` in it.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| part != Component::ParentDir)
}
