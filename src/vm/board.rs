//! The boards of QEMU.

use crate::guest::channel::Transport;

/// The board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Board {
    /// A PC with PCI Express.
    Q35,
    /// A PC of the nineties, with PCI: `i440fx`.
    Pc,
    /// No PCI and no BIOS tables to speak of: virtio over memory-mapped registers.
    Microvm,
}

impl Board {
    /// The board of this name, which was checked; the first where none was named.
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name {
            Some("microvm") => Self::Microvm,
            Some("pc") => Self::Pc,
            _ => Self::Q35,
        }
    }

    /// The word after `-machine`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::Pc => "pc",
            Self::Microvm => "microvm",
        }
    }

    /// Returns a word in the type name of the board that QEMU made.
    pub(crate) fn type_word(self) -> &'static str {
        match self {
            Self::Pc => "i440fx",
            Self::Q35 | Self::Microvm => self.name(),
        }
    }

    /// Returns the transport of the board's virtio devices.
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Q35 | Self::Pc => Transport::Pci,
            Self::Microvm => Transport::Mmio,
        }
    }

    /// The end of the names of its virtio devices.
    pub(crate) fn bus(self) -> &'static str {
        match self {
            Self::Q35 | Self::Pc => "pci",
            Self::Microvm => "device",
        }
    }
}
