//! Contents of a guest, whoever runs it: a kernel with the agent, and with files, this level's or
//! the command's own.
//!
//! Plain values go in, and nothing in here knows a monitor: guests of two monitors are then alike
//! in all but the monitor, and a comparison of the two tells nothing else. Texts of errors begin
//! without a name, which the driver that asked puts before them.

mod apt;
mod archive;
pub(crate) mod channel;
pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod initramfs;
pub(crate) mod kernel;
pub(crate) mod memory;
mod modules;
pub(crate) mod packed;
pub(crate) mod share;
pub(crate) mod unpack;
pub(crate) mod virtiofsd;

pub(crate) use apt::fetch_tree;
pub(crate) use files::GuestSpec;

use crate::fault::{Doing, Fault};
use crate::lab::Room;
use crate::layer::{Payer, Root, Site, medium, value_of};
use crate::rootfs::root::Lower;
use crate::rootfs::{root, scratch, secrets};
use files::{Contents, Files};
use kernel::Kernel;
use packed::{Packed, PackedRoot};
use share::{FileShare, Protocol, Served, Share};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::{Fact, SCRATCH};
use virtiofsd::Serving;

/// Time limit for virtiofsd to notice that its machine has ended.
const FILES_STOP_DEADLINE: Duration = Duration::from_secs(1);

/// A guest without its monitor.
pub(crate) struct Guest {
    /// Kernel of the guest.
    pub(crate) kernel: Kernel,
    /// Initramfs, or the directory that is the guest's first root.
    pub(crate) initramfs: PathBuf,
    /// Share by which this level's files come to it, where they do.
    pub(crate) offer: Option<FileShare>,
    /// The packed root with the number of modules beside it, where it is that.
    packed: Option<(PackedRoot, usize)>,
    /// Facts that were found on the way.
    pub(crate) facts: Vec<Fact>,
}

impl Guest {
    /// Makes everything ready; who serves files joins `group`.
    ///
    /// # Errors
    /// A module is missing, or the files cannot be served or packed.
    pub(crate) fn prepare(
        spec: &GuestSpec,
        kernel: Kernel,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let (release, writable) = (kernel.found.release.clone(), places(site)?);
        let files = Files { spec, release, writable, scratch: site.view.scratch };
        let way = (spec.transport, spec.channel);
        let write = |contents| initramfs::write(room, site.agent, &kernel, way, contents);
        if site.view.root == Root::Packed {
            let packed = Packed::of(site, spec.memory_mib)?;
            let written = write(Contents::Packed(&packed, &files))?;
            let packed = Some((packed.root(), written.module_count));
            return Ok(Self {
                kernel,
                initramfs: written.path,
                offer: None,
                packed,
                facts: Vec::new(),
            });
        }
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let mut offer = serve(spec, &kernel, &lowers, (site, room), group)?;
        let initramfs = match (&offer.share, spec.first_root) {
            (Share::Directory(export), Some(name)) => {
                initramfs::lay(export, (site.agent, name), spec.channel, &files)?;
                export.clone()
            }
            _ => write(Contents::Served(&files))?.path,
        };
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.append(&mut offer.facts);
        Ok(Self { kernel, initramfs, offer: Some(offer), packed: None, facts })
    }

    /// Lists the processes that serve its files.
    pub(crate) fn servers(&self) -> &[Serving] {
        self.offer.as_ref().map_or(&[], |offer| &offer.servers)
    }

    /// Lists who is to pay for that.
    pub(crate) fn payers_of_files(&self) -> impl Iterator<Item = Payer> {
        self.servers().iter().map(Serving::payer)
    }

    /// Quotes what the servers have said, for the end of a message; empty without one.
    pub(crate) fn words(&self) -> String {
        self.servers().iter().map(|server| server.words.quote()).collect()
    }

    /// That the guest has its files from where it was to have them.
    ///
    /// # Errors
    /// It has others, or by another way.
    pub(crate) fn prove_files(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        if let Some(offer) = &self.offer {
            facts.push(offer.share.protocol().prove(inside)?);
        }
        if let Some((packed, module_count)) = &self.packed {
            facts.extend(packed.prove(*module_count, inside)?);
        }
        Ok(facts)
    }

    /// Waits until who served files has ended after the machine, or ends it.
    ///
    /// # Errors
    /// The machine's, if it cannot be waited for.
    pub(crate) fn stop_servers(&mut self) -> Result<(), Fault> {
        for server in self.offer.iter_mut().flat_map(|offer| &mut offer.servers) {
            if server.process.wait(FILES_STOP_DEADLINE)?.is_none() {
                server.process.kill()?;
            }
        }
        Ok(())
    }
}

/// Makes ready what is served to a guest.
fn serve(
    spec: &GuestSpec,
    kernel: &Kernel,
    lowers: &[Lower],
    (site, room): (&Site<'_>, &Room),
    group: Option<&Path>,
) -> Result<FileShare, Fault> {
    let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
    let mut writable = site.view.writable.clone();
    writable.extend(scratch::bound(site.view, room)?);
    // A monitor that serves files itself announces every mount below, over which no guest can lay
    // an overlay.
    let merged = match spec.files {
        Protocol::FirstRoot => {
            let memory = room.memory_directory()?;
            let hidden = secrets::hidden(site.view);
            Some((root::merge((lowers, &hidden), memory, None)?, root::merged_at(memory)))
        }
        _ => None,
    };
    let served = Served {
        root: &base.source,
        merged,
        hidden: secrets::hidden(site.view),
        modules: &kernel.found.modules,
        xen: spec.dom0.as_ref().map(|dom0| dom0.tools.as_path()),
        writable: &writable,
    };
    spec.files.offer(&served, room, group)
}

/// Returns the directories that a guest may write to, as it sees them, in the order in which it
/// mounts them.
///
/// # Errors
/// The user's: one that a script cannot hold.
pub(crate) fn places(site: &Site<'_>) -> Result<Vec<PathBuf>, Fault> {
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

/// That a guest sees what it was to have: `what` was to be `asked`, and it says so under `key`.
///
/// # Errors
/// The machine's: it sees something else.
pub(crate) fn require_seen(
    inside: &[Fact],
    (what, asked, key): (&str, &str, &str),
) -> Result<(), Fault> {
    let seen = value_of(inside, key)?;
    if seen == asked {
        return Ok(());
    }
    Err(Fault::machine(format!("{what} was to be `{asked}`, and the guest sees `{seen}`")))
}
