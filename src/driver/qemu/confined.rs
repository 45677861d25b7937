//! QEMU in a jail: each file, socket and device of a machine becomes what its process sees of it
//! there.
//!
//! What needs root is opened by us and handed down as a descriptor (taps, `/dev/vhost-net`, the
//! image of a whole system), or made again for QEMU's user alone (`/dev/kvm`). What QEMU writes to
//! are the disks made for this start.

use super::command_line::{Boots, Machine};
use super::xen::Xen;
use crate::fault::Fault;
use crate::guest::share::{MACHINE, Share};
use crate::guest::virtiofsd;
use crate::lab::{CapabilitySet, Jail, Mount, Room};
use crate::vm::accelerator::Accelerator;
use std::path::{Path, PathBuf};

/// The device that QEMU opens by itself.
const KVM: &str = "/dev/kvm";

/// Capability that lets 9p show every file as root sees it, and those that also let the guest's
/// root write as root.
const READS: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;
const WRITES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

impl Machine {
    /// The same machine as its process sees it in a jail, where it finds what is mounted by
    /// `served`; and that jail.
    ///
    /// # Errors
    /// The machine's: there is no user for it, or a file cannot be shown to that.
    pub(super) fn within(mut self, served: Vec<Mount>, room: &Room) -> Result<(Self, Jail), Fault> {
        let mut jail = Jail::make(MACHINE, room)?;
        if self.accelerator == Accelerator::Kvm {
            jail.device(Path::new(KVM));
        }
        if self.overcommit.mem_lock {
            jail.keep(CapabilitySet::IPC_LOCK);
        }
        self.boots = match self.boots {
            Boots::Kernel { image, initramfs, xen } => Boots::Kernel {
                image: jail.show("kernel", &image)?,
                initramfs: jail.show("initramfs", &initramfs)?,
                xen: xen
                    .map(|xen| Ok::<_, Fault>(Xen { image: jail.show("xen", &xen.image)?, ..xen }))
                    .transpose()?,
            },
            Boots::Disk(image) => Boots::Disk(image.within(&mut jail)?),
        };
        self.files = match self.files {
            Some(Share::Virtiofs(sockets)) => {
                let lend = |(tag, socket): (_, PathBuf)| {
                    Ok((tag, jail.lend(&virtiofsd::socket_name(tag), &socket)?))
                };
                let lent = sockets.into_iter().map(lend).collect::<Result<_, Fault>>();
                Some(Share::Virtiofs(lent?))
            }
            Some(Share::Ninep { export, is_writable }) => {
                jail.keep(if is_writable { READS | WRITES } else { READS });
                Some(Share::Ninep { export, is_writable })
            }
            other => other,
        };
        jail.add(served);
        self.disk = self.disk.map(|disk| disk.within(&mut jail)).transpose()?;
        self.nic = self.nic.map(|nic| nic.within(&mut jail)).transpose()?;
        Ok((self, jail))
    }
}
