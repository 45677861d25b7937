//! Scratch: a directory for a command's data, on the medium that its stack names.
//!
//! Where data lies is a part of what a stack costs. So `scratch=` names the medium, the directory is at
//! the same place in every stack ([`SCRATCH`]), it is empty at the start of a trial, and after the start
//! the agent says what is mounted there. What each medium is:
//!
//! | medium | what it is |
//! |---|---|
//! | `layer` | a directory of the root: what is written goes where the layer's other writes go, on this level's disk |
//! | `bind` | a directory of this level's disk, below `/var/tmp`, shown inside |
//! | `tmpfs` | memory, mounted on the inside |
//! | `volume` | a volume of the engine, in the engine's own directory |
//! | `virtio-blk`, … | a disk of the virtual machine, with an empty ext4 |

mod held;

use super::{Choice, Running, View, value_of};
use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Room, disk};
use crate::layer::LayerSpec;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, SCRATCH};

/// The key of the option.
pub const KEY: &str = "scratch";

/// Everybody may write there, as in `/tmp`.
const MODE: u32 = 0o1777;

/// Where a scratch directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A directory of the root.
    Layer,
    /// A directory of this level's disk.
    Bind,
    /// Memory.
    Tmpfs,
    /// A volume of an engine.
    Volume,
    /// A disk of a virtual machine.
    Disk,
}

impl Medium {
    const ALL: [Self; 4] = [Self::Layer, Self::Bind, Self::Tmpfs, Self::Volume];

    /// The words that name a disk, by its controller.
    const DISKS: [&str; 5] = ["virtio-blk", "virtio-scsi", "ide", "nvme", "blkfront"];

    /// The word after `scratch=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer => "layer",
            Self::Bind => "bind",
            Self::Tmpfs => "tmpfs",
            Self::Volume => "volume",
            Self::Disk => "disk",
        }
    }
}

/// The option of a layer that has these media.
pub const fn choice(values: &'static [&'static str]) -> Choice {
    Choice {
        key: KEY,
        values,
        help: "an empty directory `/scratch` for data: in the layer's own root, in a directory of this \
               level's disk, or in memory (default: none)",
    }
}

/// What layers have that know no volumes.
pub const CHOICE: Choice = choice(&["layer", "bind", "tmpfs"]);

/// The medium that a layer names.
#[must_use]
pub fn medium(spec: &LayerSpec) -> Option<Medium> {
    let word = spec.options.get(KEY)?;
    if Medium::DISKS.contains(&word.as_str()) {
        return Some(Medium::Disk);
    }
    Medium::ALL.into_iter().find(|medium| medium.name() == word)
}

/// The directory on this level's disk, made for this room.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn directory(room: &Room) -> Result<PathBuf, Fault> {
    let path = room.disk_directory()?.join("scratch");
    fs::create_dir_all(&path).doing(format_args!("make `{}`", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(MODE))
        .doing(format_args!("let everybody write to `{}`", path.display()))?;
    Ok(path)
}

/// Where the layers above a root lie that has the directory as one of its own: on this level's disk, as those of an
/// engine's containers do. In memory (`None`) where no layer is to be measured, and where that disk holds none.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn above(view: &View, room: &Room) -> Result<Option<PathBuf>, Fault> {
    if view.scratch != Some(Medium::Layer) || !disk::holds_layers() {
        return Ok(None);
    }
    let path = room.disk_directory()?.join("layer");
    fs::create_dir_all(&path).doing(format_args!("make `{}`", path.display()))?;
    Ok(Some(path))
}

/// The directory on this level's disk, where the view's is shown from there.
///
/// # Errors
/// As [`directory`].
pub fn bound(view: &View, room: &Room) -> Result<Option<PathBuf>, Fault> {
    let is_bound = view.scratch == Some(Medium::Bind);
    is_bound.then(|| directory(room)).transpose()
}

/// The mounts that put the directory into a merged root; nothing where the layer does it itself.
///
/// # Errors
/// As [`directory`].
pub fn mounts(view: &View, merged: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let target = merged.join(SCRATCH.trim_start_matches('/'));
    Ok(match view.scratch {
        None | Some(Medium::Volume | Medium::Disk) => Vec::new(),
        Some(Medium::Layer) => vec![Mount::Directory { target, mode: MODE }],
        Some(Medium::Tmpfs) => vec![Mount::Fresh {
            kind: String::from("tmpfs"),
            target,
            options: String::from("mode=1777"),
        }],
        Some(Medium::Bind) => vec![Mount::Bind {
            source: directory(room)?,
            target,
            recursive: false,
            read_only: false,
        }],
    })
}

/// That the directory is there and on what was asked for, and what holds it.
///
/// # Errors
/// The agent sees none, or another medium.
pub fn prove(
    view: &View,
    running: &dyn Running,
    hierarchies: &Hierarchies,
    inside: &[Fact],
) -> Result<Vec<Fact>, Fault> {
    let Some(medium) = view.scratch else { return Ok(Vec::new()) };
    let mut facts = vec![mounted(medium, inside)?];
    // What a disk of a machine is written to lies there, too.
    if matches!(medium, Medium::Bind | Medium::Disk) {
        let below = disk::below_scratch()?;
        let below = if below.is_empty() { String::from("no disk of this level") } else { below };
        facts.push(Fact::new("scratch_below", below, "/sys/dev/block and dmsetup(8)"));
    }
    facts.push(held::fact(medium, running, hierarchies, inside));
    Ok(facts)
}

fn mounted(medium: Medium, inside: &[Fact]) -> Result<Fact, Fault> {
    let mounted = value_of(inside, "scratch_mount")?;
    let kind = mounted.split(' ').next().unwrap_or_default();
    let fits = match medium {
        Medium::Layer => mounted == "none",
        Medium::Tmpfs => kind == "tmpfs",
        Medium::Disk => kind == "ext4",
        // Of what kind it is, is a matter of this level's disk, or of how a sandbox shows it.
        Medium::Bind | Medium::Volume => mounted != "none",
    };
    let name = medium.name();
    if fits {
        return Ok(Fact::new(KEY, name, "mountinfo inside"));
    }
    Err(Fault::machine(format!(
        "`{SCRATCH}` was to be on `{name}`, and what is mounted there is `{mounted}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mounted: &str) -> Vec<Fact> {
        vec![Fact::new("scratch_mount", mounted, "/proc/self/mountinfo")]
    }

    #[test]
    fn a_medium_that_was_not_asked_for_is_named() {
        assert!(mounted(Medium::Tmpfs, &seen("tmpfs tmpfs rw")).is_ok());
        assert!(mounted(Medium::Layer, &seen("none")).is_ok());
        assert!(mounted(Medium::Volume, &seen("ext4 /dev/vda rw")).is_ok());
        let fault = mounted(Medium::Bind, &seen("none")).unwrap_err();
        assert!(fault.message.contains("was to be on `bind`"), "{fault}");
        assert!(mounted(Medium::Layer, &seen("ext4 /dev/vda rw")).is_err());
        assert!(mounted(Medium::Tmpfs, &seen("ext4 /dev/vda rw")).is_err());
        assert!(mounted(Medium::Tmpfs, &[]).is_err(), "an agent that sees nothing proves nothing");
    }

    #[test]
    fn a_stack_names_its_medium_by_a_word() {
        let mut spec = LayerSpec { kind: "docker".into(), options: [].into() };
        assert_eq!(medium(&spec), None);
        for wanted in Medium::ALL {
            spec.options.insert(KEY.into(), wanted.name().into());
            assert_eq!(medium(&spec), Some(wanted));
        }
    }
}
