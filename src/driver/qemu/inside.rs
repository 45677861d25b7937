//! What is inside of a guest: a kernel with the agent and with files, this level's or the command's own; or
//! a whole system.

use super::command_line::Boots;
use super::image::Image;
use super::initramfs::{self, Contents, Files};
use super::kernel::{self, Kernel};
use super::packed::Packed;
use super::request::Asked;
use super::share::{Offer, Protocol, Served, Share};
use super::virtiofsd::Serving;
use super::xen::Xen;
use crate::fault::{Doing, Fault};
use crate::lab::Room;
use crate::layer::{Root, Site, medium};
use crate::rootfs::{root, scratch, secrets};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::{Fact, SCRATCH};

/// The inside of a guest, ready before the machine is.
pub(super) struct Inside {
    /// What the machine boots.
    pub(super) boots: Boots,
    /// The kernel, where it is ours to choose.
    pub(super) kernel: Option<Kernel>,
    /// How this level's files come to it, where they do.
    pub(super) offer: Option<Offer>,
    /// The packed root with the number of modules beside it, where it is that.
    packed: Option<(Packed, usize)>,
    /// What was found on the way.
    pub(super) facts: Vec<Fact>,
}

impl Inside {
    /// The kernel that a machine needs, unless it boots a disk of its own.
    ///
    /// # Errors
    /// There is none, and none can be fetched.
    pub(super) fn kernel(
        asked: &Asked,
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
    /// A module is missing, the files cannot be served or packed, or the image is none.
    pub(super) fn prepare(
        asked: &Asked,
        kernel: Option<Kernel>,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        match (kernel, &site.view.root) {
            (None, Root::Image(source)) => {
                let image = Image::make(source, asked, site.view, site.agent, room)?;
                let boots = Boots::Disk(image);
                Ok(Self { boots, kernel: None, offer: None, packed: None, facts: Vec::new() })
            }
            (None, _) => Err(Fault::bug("a machine has neither a kernel nor an image")),
            (Some(kernel), _) => Self::with_kernel(asked, kernel, site, room, group),
        }
    }

    fn with_kernel(
        asked: &Asked,
        kernel: Kernel,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let files = Files {
            release: kernel.found.release.clone(),
            protocol: asked.files,
            writable: places(site)?,
            scratch: site.view.scratch,
            modules: asked.drivers(),
            network: asked.addresses(),
            balloon_pages: asked.memory.balloon_pages(),
            dom0: asked.dom0.map(|_| Xen::programs()),
        };
        let xen = asked.dom0.map(|dom0| Xen::acquire(dom0, site.cache, room)).transpose()?;
        let way = (asked.board, asked.channel);
        let write = |contents| initramfs::write(room, site.agent, &kernel, way, contents);
        let image = kernel.image.clone();
        if site.view.root == Root::Packed {
            let packed = Packed::of(site, asked.memory.mib, room)?;
            let written = write(Contents::Packed(&packed, &files))?;
            let boots = Boots::Kernel { image, initramfs: written.path, xen: None };
            let packed = Some((packed, written.module_count));
            let kernel = Some(kernel);
            return Ok(Self { boots, kernel, offer: None, packed, facts: Vec::new() });
        }
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
        let mut writable = site.view.writable.clone();
        writable.extend(scratch::bound(site.view, room)?);
        // A monitor that serves files itself announces every mount below, over which no guest can lay an overlay.
        let merged = match asked.files {
            Protocol::FirstRoot => {
                let memory = room.memory_directory()?;
                let hidden = secrets::hidden(site.view);
                Some((root::merge((&lowers, &hidden), memory, None)?, root::merged_at(memory)))
            }
            _ => None,
        };
        let served = Served {
            root: &base.source,
            merged,
            hidden: secrets::hidden(site.view),
            modules: &kernel.found.modules,
            xen: xen.as_ref().map(|xen| xen.tools.as_path()),
            writable: &writable,
        };
        let mut offer = asked.files.offer(&served, room, group)?;
        let initramfs = match (&offer.share, asked.first_root) {
            (Share::Directory(export), Some(name)) => {
                initramfs::lay(export, (site.agent, name), asked.channel, &files)?;
                export.clone()
            }
            _ => write(Contents::Served(&files))?.path,
        };
        let boots = Boots::Kernel { image, initramfs, xen };
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.append(&mut offer.facts);
        Ok(Self { boots, kernel: Some(kernel), offer: Some(offer), packed: None, facts })
    }

    /// Who serves files, if anybody does.
    pub(super) fn server(&self) -> Option<&Serving> {
        self.offer.as_ref().and_then(|offer| offer.server.as_ref())
    }

    /// That the guest has its files from where it was to have them.
    ///
    /// # Errors
    /// It has others, or by another way.
    pub(super) fn prove(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        if let Some(offer) = &self.offer {
            facts.push(offer.share.protocol().prove(inside)?);
        }
        if let Some((packed, module_count)) = &self.packed {
            facts.extend(packed.prove(*module_count, inside)?);
        }
        Ok(facts)
    }

    /// What it has said.
    pub(super) fn words(&self) -> String {
        self.server().map(|server| server.words.quote()).unwrap_or_default()
    }
}

/// Where the guest sees the directories that it may write to, in the order in which it mounts them.
fn places(site: &Site<'_>) -> Result<Vec<PathBuf>, Fault> {
    let mut places = Vec::new();
    for path in &site.view.writable {
        let real = fs::canonicalize(path).doing(format_args!("find `{}`", path.display()))?;
        initramfs::check_writable(&real)?;
        places.push(real);
    }
    if site.view.scratch == Some(medium::Medium::Bind) {
        places.push(PathBuf::from(SCRATCH));
    }
    Ok(places)
}
