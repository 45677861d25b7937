//! Media: where a directory for a command's data lies, by the word that its stack names.
//!
//! Where data lies is a part of what a stack costs. So `scratch=` names the medium, the directory
//! is at the same place in every stack (`/scratch`), it is empty at the start of a trial, and after
//! the start the agent says what is mounted there. What each medium is:
//!
//! | medium | what it is |
//! |---|---|
//! | `layer` | a directory of the root: what is written goes where the layer's other writes go, on this level's disk |
//! | `bind` | a directory of this level's disk, below `/var/tmp`, shown inside |
//! | `tmpfs` | memory, mounted on the inside |
//! | `volume` | a volume of the engine, in the engine's own directory |
//! | `virtio-blk`, … | a disk of the virtual machine, with an empty ext4 |

use crate::layer::{LayerSpec, OptionSpec, option};

/// The key of the option.
pub const KEY: &str = "scratch";

/// Place of a scratch directory.
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
pub const fn choice(values: &'static [&'static str]) -> OptionSpec {
    option(KEY, values).help(
        "an empty directory `/scratch` for data: in the layer's own root, in a directory of this \
         level's disk, or in memory (default: none)",
    )
}

/// Option of layers that know no volumes.
pub const CHOICE: OptionSpec = choice(&["layer", "bind", "tmpfs"]);

/// The medium that a layer names.
#[must_use]
pub fn of(spec: &LayerSpec) -> Option<Medium> {
    let word = spec.option(KEY)?;
    if Medium::DISKS.contains(&word) {
        return Some(Medium::Disk);
    }
    Medium::ALL.into_iter().find(|medium| medium.name() == word)
}

#[cfg(test)]
mod tests {
    use crate::layer::medium::*;

    #[test]
    fn a_stack_names_its_medium_by_a_word() {
        let mut spec = LayerSpec { kind: "docker".into(), options: [].into() };
        assert_eq!(of(&spec), None);
        for wanted in Medium::ALL {
            spec.options.insert(KEY.into(), wanted.name().into());
            assert_eq!(of(&spec), Some(wanted));
        }
    }
}
