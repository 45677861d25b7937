//! What is inside of a guest beside its kernel: the agent, and this level's files.

use super::initramfs::{self, Files};
use super::kernel::Kernel;
use super::nic::Nic;
use super::request::Asked;
use super::share::{Offer, Served};
use crate::fault::{Doing, Fault};
use crate::lab::Room;
use crate::layer::{Site, scratch};
use crate::stack::root;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::{Fact, SCRATCH};

/// The inside of a guest, ready before the machine is.
pub(super) struct Inside {
    /// Where the kernel finds the agent.
    pub(super) initramfs: PathBuf,
    /// How this level's files come to it.
    pub(super) offer: Offer,
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
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
        let mut writable = site.view.writable.clone();
        writable.extend(scratch::bound(site.view, room)?);
        let served =
            Served { root: &base.source, modules: &kernel.found.modules, writable: &writable };
        let mut offer = asked.files.offer(&served, room, group)?;
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
        let initramfs = initramfs::write(room, site.agent, kernel, way, Some(&files))?;
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.append(&mut offer.facts);
        Ok(Self { initramfs, offer, facts })
    }

    /// What the server of the files has said.
    pub(super) fn words(&self) -> String {
        self.offer.server.as_ref().map(|server| server.words.quote()).unwrap_or_default()
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
