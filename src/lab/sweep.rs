//! Sweeping: undoes the journals of main processes that are gone.
//!
//! What cannot be undone stays in its journal and is tried again at the next start. Things that
//! carry our tag but have no journal are reported and never touched.

use super::journal::{self, Journal, Orphans, Taken};
use super::undo::Undo;
use super::{directory, places};
use crate::fault::{Doing, Fault};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use surtax_instrument::clock::{BOOT_ID, monotonic_raw};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::quantity::Nanoseconds;

/// Outcome of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Objects of labs whose owner was gone that were still alive or there, a line each.
    pub undone: Vec<String>,
    /// Labs whose owner was gone and of which nothing was alive any more, a line each.
    pub over: Vec<String>,
    /// Objects that could not be undone and why; their journal is kept.
    pub kept: Vec<String>,
    /// Objects that carry our tag and belong to no journal; they were not touched.
    pub strays: Vec<String>,
    /// Journals that may belong to somebody alive on another kernel, a line each with the reason.
    pub elsewhere: Vec<String>,
}

/// Undoes what earlier main processes left behind: `surtax gc`.
///
/// # Errors
/// The directory of the journals cannot be used.
pub fn gc() -> Result<SweepReport, Fault> {
    let state = journal::state_directory()?;
    let mut swept = orphans(&state)?;
    swept.strays = strays(&state)?;
    Ok(swept)
}

/// Undoes every journal of a directory whose owner is gone, one after the other: of all the others
/// the lock stays free, and whoever sweeps beside us waits for one.
pub(super) fn orphans(state: &Path) -> Result<SweepReport, Fault> {
    let Orphans { found, elsewhere } = Journal::orphans(state)?;
    let mut all = SweepReport { elsewhere, ..SweepReport::default() };
    let held = all.undo_each(found, Nanoseconds(0));
    let held = all.undo_each(held, monotonic_raw() + journal::LOCK_LIMIT);
    all.kept.extend(held.iter().map(|path| {
        format!("`{}`: its owner is gone, and another process still holds it", path.display())
    }));
    Ok(all)
}

impl SweepReport {
    /// Undoes those of the journals whose lock becomes free before this time; gives the rest back.
    fn undo_each(&mut self, paths: Vec<PathBuf>, deadline: Nanoseconds) -> Vec<PathBuf> {
        let mut held = Vec::new();
        for path in paths {
            let undone = match Journal::take_before(deadline, &path) {
                Ok(Taken::Over(journal)) => undo(journal),
                Ok(Taken::Undone) => Ok(Self::default()),
                Ok(Taken::Held) => {
                    held.push(path);
                    continue;
                }
                Err(fault) => Err(fault),
            };
            match undone {
                Ok(one) => {
                    self.undone.extend(one.undone);
                    self.over.extend(one.over);
                    self.kept.extend(one.kept);
                }
                // It keeps nobody from undoing the others.
                Err(fault) => self.kept.push(fault.to_string()),
            }
        }
        held
    }
}

/// Undoes one journal whose lock we hold, in the order of its turns, and latest first; removes it
/// if nothing is left in it.
pub(super) fn undo(mut journal: Journal) -> Result<SweepReport, Fault> {
    let header = journal.header().clone();
    let same_boot = header.boot == boot_id()?;
    let mut found = Vec::new();
    let mut kept: Vec<String> = journal.damage().to_vec();
    let mut pending = journal.pending();
    pending.sort_by_key(|(_, undo)| undo.turn());
    let had_some = !pending.is_empty();
    for (id, undo) in pending {
        let forgotten = !same_boot
            && matches!(
                undo,
                Undo::Roots { .. }
                    | Undo::Session { .. }
                    | Undo::Controllers { .. }
                    | Undo::Domain { .. }
            );
        match if forgotten { Ok(Vec::new()) } else { undo.perform() } {
            Ok(more) => {
                found.extend(more);
                kept.extend(journal.undone(&[id]).err().map(|fault| fault.to_string()));
            }
            Err(fault) => kept.push(fault.to_string()),
        }
    }
    let of_lab = |what: &str| format!("lab `{}` of process {}: {what}", header.lab, header.pid);
    let undone: Vec<String> = found.iter().map(|what| of_lab(what)).collect();
    let is_over = same_boot && had_some && undone.is_empty() && kept.is_empty();
    let over = is_over.then(|| of_lab("its groups and directories, in which nobody was"));
    if kept.is_empty() {
        let state = journal.path().parent().map(Path::to_path_buf);
        journal.remove()?;
        if let Some(state) = state.filter(|state| journal::is_private(state)) {
            // It had this journal alone.
            let _ = fs::remove_dir(state);
        }
    }
    // Fails while other labs live there, as it should.
    let _ = fs::remove_dir(places::run_directory());
    Ok(SweepReport { undone, over: over.into_iter().collect(), kept, ..SweepReport::default() })
}

/// The machine's current boot.
pub(super) fn boot_id() -> Result<String, Fault> {
    let text = fs::read_to_string(BOOT_ID).doing(format_args!("read `{BOOT_ID}`"))?;
    Ok(text.trim_end().to_owned())
}

/// Lists what carries our tag and belongs to no journal. Whoever may not read another user's
/// journals is told of nothing of theirs.
fn strays(state: &Path) -> Result<Vec<String>, Fault> {
    let known: BTreeSet<String> = directory::entries(state)
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    let elsewhere = [places::MEMORY_DIRECTORY, places::DISK_DIRECTORY];
    let mut places = vec![(places::run_directory(), "")];
    places.extend(elsewhere.map(|place| (PathBuf::from(place), places::PREFIX)));
    let hierarchies = Hierarchies::discover().doing("list the cgroup hierarchies")?;
    places
        .extend(hierarchies.0.into_iter().map(|hierarchy| (hierarchy.mount_point, places::PREFIX)));
    let mut strays = Vec::new();
    for (place, prefix) in places {
        for path in directory::entries(&place) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Where everybody may make names, the lab's id is followed by what nobody can guess.
            let Some(lab) = name.strip_prefix(prefix).and_then(|name| name.split('-').next())
            else {
                continue;
            };
            if path.is_dir() && !known.contains(lab) && directory::exists(&path) && is_ours(&path) {
                strays.push(path.display().to_string());
            }
        }
    }
    Ok(strays)
}

fn is_ours(path: &Path) -> bool {
    let us = rustix::process::geteuid();
    us.is_root() || fs::symlink_metadata(path).is_ok_and(|it| it.uid() == us.as_raw())
}
