//! What is inside of a guest beside its kernel: the agent, and the files of this level or the command's own.

use super::initramfs::{self, Contents, Files, Written};
use super::kernel::Kernel;
use super::no_virtiofsd;
use super::packed::Packed;
use super::request::Asked;
use super::virtiofsd::{Served, Serving, Virtiofsd};
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
    /// Who serves this level's files; nobody where the root is packed.
    pub(super) files: Option<Serving>,
    /// The packed root, where it is that.
    pub(super) packed: Option<Packed>,
    /// What was found on the way.
    pub(super) facts: Vec<Fact>,
}

impl Inside {
    /// Writes the initramfs, and lets virtiofsd serve what is not in it.
    ///
    /// # Errors
    /// The command cannot be packed, or virtiofsd cannot be started.
    pub(super) fn prepare(
        asked: &Asked,
        kernel: &Kernel,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let modules = asked.disk.as_ref().map(|disk| disk.modules(asked.board)).unwrap_or_default();
        if site.view.root == Root::Packed {
            let packed = Packed::of(site, asked.memory_mib, room)?;
            let contents = Contents::Packed(&packed, &modules);
            let initramfs = initramfs::write(room, site.agent, kernel, asked.board, &contents)?;
            return Ok(Self { initramfs, files: None, packed: Some(packed), facts: Vec::new() });
        }
        let virtiofsd = Virtiofsd::find(room)?.ok_or_else(|| {
            let missing = no_virtiofsd();
            let fault = Fault::machine(format!("qemu: {}", missing.why));
            fault.hint(missing.remedy.unwrap_or_default())
        })?;
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
        let mut writable = site.view.writable.clone();
        writable.extend(scratch::bound(site.view, room)?);
        let served =
            Served { root: &base.source, modules: &kernel.found.modules, writable: &writable };
        let serving = virtiofsd.serve(&served, room, group)?;
        let files = Files {
            release: kernel.found.release.clone(),
            writable: places(site)?,
            scratch: site.view.scratch,
            modules,
        };
        let contents = Contents::Served(&files);
        let initramfs = initramfs::write(room, site.agent, kernel, asked.board, &contents)?;
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.push(Fact::new("virtiofsd_version", virtiofsd.version, "virtiofsd --version"));
        Ok(Self { initramfs, files: Some(serving), packed: None, facts })
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
