//! Inside of a machine of QEMU's: a guest of ours, or a whole system on a disk of its own.

use super::command_line::Boots;
use super::image::{Given, Image};
use super::request::QemuOptions;
use super::xen::Xen;
use crate::fault::Fault;
use crate::guest::kernel::{self, Kernel};
use crate::guest::share::FileShare;
use crate::guest::{self, Guest};
use crate::lab::Room;
use crate::layer::{Root, Site};
use std::path::Path;
use surtax_instrument::wire::Fact;

/// The inside of a machine, ready before the machine is.
pub(super) struct GuestRoot {
    /// Kernel or disk that the machine boots.
    pub(super) boots: Boots,
    /// The guest, where it is ours.
    pub(super) guest: Option<Guest>,
    /// Facts found on the way.
    pub(super) facts: Vec<Fact>,
}

impl GuestRoot {
    /// The kernel that a machine needs, unless it boots a disk of its own.
    ///
    /// # Errors
    /// There is none, and none can be fetched.
    pub(super) fn kernel(
        asked: &QemuOptions,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Option<Kernel>, Fault> {
        match site.view.root {
            Root::Image(_) => Ok(None),
            _ => kernel::acquire(&asked.need(), site.cache, room).map(Some),
        }
    }

    /// Makes everything ready; who serves files joins `group`.
    ///
    /// # Errors
    /// The guest cannot be made, or the image is none.
    pub(super) fn prepare(
        asked: &QemuOptions,
        kernel: Option<Kernel>,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let kernel = match (kernel, &site.view.root) {
            (Some(kernel), _) => kernel,
            (None, Root::Image(source)) => {
                let given =
                    Given { has_disk: asked.vm.disk.is_some(), network: asked.vm.addresses() };
                let image = Image::make(source, given, site.view, site.agent, room)?;
                let boots = Boots::Disk(image);
                return Ok(Self { boots, guest: None, facts: Vec::new() });
            }
            (None, _) => return Err(Fault::bug("a machine has neither a kernel nor an image")),
        };
        if asked.dom0.is_some() {
            // Before anything is fetched for a guest that cannot be.
            guest::places(site)?;
        }
        let xen = asked.dom0.map(|dom0| Xen::acquire(dom0, site.cache, room)).transpose()?;
        let mut guest = Guest::prepare(&asked.guest(xen.as_ref()), kernel, site, room, group)?;
        let (image, initramfs) = (guest.kernel.image.clone(), guest.initramfs.clone());
        let boots = Boots::Kernel { image, initramfs, xen };
        let facts = std::mem::take(&mut guest.facts);
        Ok(Self { boots, guest: Some(guest), facts })
    }

    /// The kernel, where it is ours to choose.
    pub(super) fn chosen_kernel(&self) -> Option<&Kernel> {
        self.guest.as_ref().map(|guest| &guest.kernel)
    }

    /// Returns the share by which this level's files come to the guest; `None` where they do not.
    pub(super) fn offer(&mut self) -> Option<&mut FileShare> {
        self.guest.as_mut().and_then(|guest| guest.offer.as_mut())
    }

    /// Returns what the server of the files has said; empty where there is no guest of ours.
    pub(super) fn words(&self) -> String {
        self.guest.as_ref().map(Guest::words).unwrap_or_default()
    }
}
