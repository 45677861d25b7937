//! Part of a lab that its rooms use too: its directories, its groups and its journal.

use super::cgroup::Groups;
use super::journal::Journal;
use super::places::run_directory;
use super::reaper::Reaper;
use super::sweep::{self, SweepReport};
use super::undo::Undo;
use super::{directory, exclusive, memory};
use crate::fault::Fault;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Settings with which a lab is opened.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Directory of the journals.
    pub(super) state_directory: PathBuf,
    /// The command line of the reaper, to which the path of the journal is appended.
    pub(super) reaper: Vec<OsString>,
    /// File that starters are made of; `None` for this process's own file.
    pub(super) executable: Option<PathBuf>,
    /// The cgroup hierarchies to use.
    pub(super) groups: Groups,
}

/// Part of a lab that its rooms use too.
#[derive(Debug)]
pub(super) struct LabBase {
    pub(super) id: String,
    pub(super) directory: PathBuf,
    pub(super) memory_directory: PathBuf,
    /// Directory for the memory where this process may mount nothing.
    pub(super) memory_elsewhere: PathBuf,
    pub(super) disk_directory: PathBuf,
    /// True once the directory on a disk was made.
    pub(super) disk_made: Mutex<bool>,
    pub(super) group: PathBuf,
    pub(super) groups: Groups,
    /// Place that systemd has given the groups; `None` where it was not asked.
    pub(super) scope: Option<PathBuf>,
    /// `None` once the lab is closed.
    pub(super) journal: Mutex<Option<Journal>>,
}

impl LabBase {
    pub(super) fn journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down how to undo the lab, starts the reaper, and only then makes anything.
    pub(super) fn prepare(&mut self, setup: &Setup) -> Result<Option<Reaper>, Fault> {
        let mut undos = vec![
            Undo::Directory { path: self.directory.clone() },
            Undo::Memory { path: self.memory_directory.clone() },
            Undo::Directory { path: self.memory_elsewhere.clone() },
            Undo::Directory { path: self.disk_directory.clone() },
        ];
        if self.scope.is_none()
            && let Some((path, names)) = self.groups.to_enable()
        {
            undos.push(Undo::Controllers { path, names });
        }
        undos.push(Undo::Group { path: self.group.clone() });
        let mut reaper = None;
        if let Some(journal) = self.journal().as_mut() {
            journal.will(undos)?;
            reaper = Some(Reaper::start(&setup.reaper, journal.path())?);
        }
        let placed = match (&self.scope, &reaper) {
            (Some(scope), Some(reaper)) => self.groups.move_in(scope, &self.id, reaper.pid()),
            _ => Ok(()),
        };
        match placed.and_then(|()| self.make()) {
            Ok(()) => Ok(reaper),
            Err(fault) => {
                // It waits for the journal, which we still hold, and we would wait for it.
                reaper.iter_mut().for_each(Reaper::kill);
                Err(fault)
            }
        }
    }

    /// Makes what every lab has: its directory, memory and its group.
    pub(super) fn make(&mut self) -> Result<(), Fault> {
        let make = || {
            exclusive::ensure(&run_directory(), 0o711)?;
            exclusive::make(&self.directory, 0o700)
        };
        // Another lab that ends takes the parent away if it is empty.
        make().or_else(|_| make()).or_else(|_| make()).map_err(|fault| {
            fault.during(format_args!("a lab at `{}`", self.directory.display()))
        })?;
        if memory::mount(&self.memory_directory)?.is_none() {
            self.memory_directory = match memory::elsewhere(&self.directory) {
                true => self.memory_elsewhere.clone(),
                false => self.memory_directory.clone(),
            };
            exclusive::make(&self.memory_directory, 0o700)?;
        }
        self.groups.prepare(&self.group)
    }

    /// The lab's directory on a disk, made the first time. Its name is one that nobody can guess.
    pub(super) fn on_a_disk(&self) -> Result<&Path, Fault> {
        let mut made = self.disk_made.lock().unwrap_or_else(PoisonError::into_inner);
        if !*made {
            exclusive::make(&self.disk_directory, 0o700)?;
            *made = true;
        }
        Ok(&self.disk_directory)
    }

    /// The one of the lab's directories whose programs may be started: many a `/run` forbids that.
    pub(super) fn executable_directory(&self) -> Result<&Path, Fault> {
        let memory = &self.memory_directory;
        if let Some(found) =
            [&self.directory, memory].into_iter().find(|path| directory::may_execute(path))
        {
            return Ok(found);
        }
        let place = directory::mount_point(memory);
        Err(Fault::machine(format!(
            "both `{}` and `{}` are mounted `noexec`: the agent cannot be started from either",
            self.directory.display(),
            memory.display()
        ))
        .hint(format!("mount -o remount,exec {}", place.display())))
    }

    /// Undoes everything that is still in the journal; nothing the second time.
    pub(super) fn end(&self) -> Result<SweepReport, Fault> {
        let journal = self.journal().take();
        journal.map_or_else(|| Ok(SweepReport::default()), sweep::undo)
    }
}
