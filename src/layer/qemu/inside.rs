//! What is inside of a guest beside its kernel: the agent, and this level's files or the command's own.

use super::initramfs::{self, Contents, Files, Written};
use super::kernel::Kernel;
use super::nic::Nic;
use super::packed::Packed;
use super::request::Asked;
use super::share::{Offer, Served};
use super::virtiofsd::Serving;
use crate::fault::{Doing, Fault};
use crate::lab::Room;
use crate::layer::{Root, Site, scratch};
use crate::stack::root;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::{Fact, SCRATCH};

/// The inside of a guest, ready before the machine is.
pub(super) struct Inside {
    /// Where the kernel finds the agent.
    pub(super) initramfs: Written,
    /// How this level's files come to it, unless its root is packed.
    pub(super) offer: Option<Offer>,
    /// The packed root, where it is that.
    pub(super) packed: Option<Packed>,
    /// What was found on the way.
    pub(super) facts: Vec<Fact>,
}

impl Inside {
    /// Writes the initramfs, and makes this level's files ready; who serves them joins `group`.
    ///
    /// # Errors
    /// A module is missing, or the files cannot be served.
    pub(super) fn prepare(
        asked: &Asked,
        kernel: &Kernel,
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
            network: asked.nic.as_ref().map(Nic::addresses),
            balloon_pages: asked.memory.balloon_pages(),
        };
        let way = (asked.board, asked.channel);
        let write = |contents| initramfs::write(room, site.agent, kernel, way, contents);
        if site.view.root == Root::Packed {
            let packed = Packed::of(site, asked.memory.mib, room)?;
            let initramfs = write(Contents::Packed(&packed, &files))?;
            return Ok(Self { initramfs, offer: None, packed: Some(packed), facts: Vec::new() });
        }
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
        let mut writable = site.view.writable.clone();
        writable.extend(scratch::bound(site.view, room)?);
        let served =
            Served { root: &base.source, modules: &kernel.found.modules, writable: &writable };
        let mut offer = asked.files.offer(&served, room, group)?;
        let initramfs = write(Contents::Served(&files))?;
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.append(&mut offer.facts);
        Ok(Self { initramfs, offer: Some(offer), packed: None, facts })
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
        if let Some(packed) = &self.packed {
            facts.extend(packed.prove(self.initramfs.module_count, inside)?);
        }
        Ok(facts)
    }

    /// What the server of the files has said.
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
    if site.view.scratch == Some(scratch::Medium::Bind) {
        places.push(PathBuf::from(SCRATCH));
    }
    Ok(places)
}
