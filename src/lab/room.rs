//! A room: the lab of one trial.
//!
//! Its directories and its group lie below those of the lab, whose undo is in the journal since the
//! lab was opened; so a room needs no record of its own, and costs next to nothing.

use super::base::LabBase;
use super::birth::Doors;
use super::cgroup::Member;
use super::domain::Domain;
use super::escaped::{self, Are, Overlaid};
use super::holder::{self, Namespace};
use super::journal::Journal;
use super::mount::Mount;
use super::network::RoomNetwork;
use super::process::{self, Process, Program};
use super::undo::Undo;
use super::{directory, exclusive, session};
use crate::fault::{Doing, Fault};
use crate::lab::Limits;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The lab of one trial. Dropped or closed, nothing of it is left.
#[derive(Debug)]
pub struct Room {
    base: Arc<LabBase>,
    name: String,
    directory: PathBuf,
    memory_directory: OnceLock<PathBuf>,
    disk_directory: OnceLock<PathBuf>,
    group: PathBuf,
    /// The groups below it that we made, parents first.
    subgroups: Mutex<Vec<PathBuf>>,
    promised: Mutex<Vec<u64>>,
    /// The overlays that somebody may have as a root, and what holds them.
    roots: Mutex<Roots>,
    closed: bool,
}

/// Roots in a room.
#[derive(Debug, Default)]
struct Roots {
    overlays: Vec<Overlaid>,
    /// Numbers of their entries in the journal.
    ids: Vec<u64>,
    /// Descriptors that keep anybody else from getting the number of one of them.
    held: Vec<OwnedFd>,
}

impl Room {
    pub(super) fn open(base: Arc<LabBase>, name: &str) -> Result<Self, Fault> {
        require_name(name)?;
        let directory = base.directory.join(name);
        let group = base.group.join(name);
        exclusive::make(&directory, 0o700)
            .map_err(|fault| fault.during(format_args!("a room at `{}`", directory.display())))?;
        let room = Self {
            base,
            name: name.to_owned(),
            directory,
            memory_directory: OnceLock::new(),
            disk_directory: OnceLock::new(),
            group,
            subgroups: Mutex::default(),
            promised: Mutex::new(Vec::new()),
            roots: Mutex::default(),
            closed: false,
        };
        room.base.groups.make(&room.group)?;
        Ok(room)
    }

    /// A directory of its own, mode 0700, on the disk that holds `/run`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A directory of its own in the lab's memory, made when first asked for. Every mount namespace
    /// that was copied from the host's since the lab was opened sees it, an engine's daemon too.
    ///
    /// # Errors
    /// The machine's: it cannot be made.
    pub fn memory_directory(&self) -> Result<&Path, Fault> {
        self.made(&self.memory_directory, &self.base.memory_directory)
    }

    /// The directory in memory, if it was asked for.
    pub(super) fn made_in_memory(&self) -> Option<&Path> {
        self.memory_directory.get().map(PathBuf::as_path)
    }

    /// The directory on a disk, if it was asked for.
    pub(super) fn made_on_a_disk(&self) -> Option<&Path> {
        self.disk_directory.get().map(PathBuf::as_path)
    }

    /// Lets the users of a container pass through to what is in the directory in memory, and in the
    /// one on a disk if there is one, by names that they know.
    ///
    /// # Errors
    /// As [`Room::memory_directory`].
    pub fn let_users_pass(&self) -> Result<(), Fault> {
        let mut directories = vec![
            self.memory_directory()?,
            &self.base.memory_directory,
            // Most often the memory is mounted there; no room in it can be entered.
            &self.base.directory,
        ];
        // An earlier version made it so that nobody passes.
        directories.extend(self.base.directory.parent());
        if let Some(disk) = self.disk_directory.get() {
            directories.extend([disk.as_path(), &self.base.disk_directory]);
        }
        for path in directories {
            fs::set_permissions(path, fs::Permissions::from_mode(0o711))
                .doing(format_args!("let users pass through `{}`", path.display()))?;
        }
        Ok(())
    }

    /// A directory of its own on a disk (below `/var/tmp`), made when first asked for.
    ///
    /// # Errors
    /// The machine's: there is no `/var/tmp`, or it cannot be written.
    pub fn disk_directory(&self) -> Result<&Path, Fault> {
        if let Some(path) = self.disk_directory.get() {
            return Ok(path);
        }
        self.made(&self.disk_directory, self.base.on_a_disk()?)
    }

    /// The room's part of one of the lab's directories, made the first time.
    fn made<'a>(&self, known: &'a OnceLock<PathBuf>, parent: &Path) -> Result<&'a Path, Fault> {
        if let Some(path) = known.get() {
            return Ok(path);
        }
        let path = parent.join(&self.name);
        exclusive::make(&path, 0o700)?;
        Ok(known.get_or_init(|| path))
    }

    /// A text with placeholders for the paths that only this room has: `ROOM`, `ROOM_IN_MEMORY`,
    /// `ROOM_ON_DISK` and `ROOM_GROUP`.
    #[must_use]
    pub fn redact_paths(&self, text: &str) -> String {
        let memory = self.base.memory_directory.join(&self.name);
        let disk = self.base.disk_directory.join(&self.name);
        let own = [
            (&*memory, "ROOM_IN_MEMORY"),
            (&*disk, "ROOM_ON_DISK"),
            (&self.directory, "ROOM"),
            (&self.group, "ROOM_GROUP"),
        ];
        own.iter().fold(text.to_owned(), |text, (path, placeholder)| {
            text.replace(&*path.to_string_lossy(), placeholder)
        })
    }

    /// The room's group, as a path relative to each hierarchy's mount point: what OCI calls
    /// `cgroupsPath`.
    #[must_use]
    pub fn group(&self) -> &Path {
        &self.group
    }

    /// A group inside the room's, with limits; made if absent. Relative like [`Room::group`].
    ///
    /// # Errors
    /// A limit cannot be set as asked.
    pub fn subgroup(&self, name: &str, limits: &Limits) -> Result<PathBuf, Fault> {
        self.group_in(&self.group, name, limits)
    }

    /// The same inside of a group of this room's, whose limits hold both.
    ///
    /// # Errors
    /// As [`Room::subgroup`].
    pub fn group_in(&self, above: &Path, name: &str, limits: &Limits) -> Result<PathBuf, Fault> {
        require_name(name)?;
        let group = above.join(name);
        self.subgroups.lock().unwrap_or_else(PoisonError::into_inner).push(group.clone());
        match above == self.group || *limits != Limits::default() {
            true => self.base.groups.make(&group)?,
            false => self.base.groups.make_bare(&group)?,
        }
        self.base
            .groups
            .limit(&group, limits)
            .map_err(|fault| fault.during(format_args!("group `{}`", group.display())))?;
        Ok(group)
    }

    /// Limits the huge pages of everybody in this room, before anybody is.
    ///
    /// # Errors
    /// The machine's: no controller, or a pool that has fewer pages.
    pub fn limit_huge_pages(&self, limits: &Limits) -> Result<(), Fault> {
        let groups = &self.base.groups;
        let Some(most) = limits.hugetlb else { return Ok(()) };
        groups.can_limit_huge_pages(limits)?;
        if let Some((path, names)) = groups.to_enable_for_huge_pages()
            && let Some(journal) = self.base.journal().as_mut()
        {
            // The lab's and not this room's: another room may be limited as well.
            journal.will(vec![Undo::Controllers { path, names }])?;
        }
        groups.limit_huge_pages(&self.group, most)
    }

    /// Puts a process that an engine started where such a limit of this room holds it.
    ///
    /// # Errors
    /// The machine's: it has ended, or may not be moved.
    pub fn admit_to_huge_pages(&self, pid: u32) -> Result<(), Fault> {
        self.base.groups.admit_to_huge_pages(pid, &self.group)
    }

    /// Puts a process that somebody else started into a group of this room.
    ///
    /// # Errors
    /// The machine's: it has ended, or may not be moved.
    pub fn admit(&self, pid: u32, group: &Path) -> Result<(), Fault> {
        self.base.groups.admit(pid, group)
    }

    /// Lets go on what a command froze in this room: its own group, with its agent, for one.
    pub fn thaw(&self) {
        self.base.groups.thaw(&self.group);
    }

    /// Lists the processes in a group of this room or below it: process id and name.
    #[must_use]
    pub fn members(&self, group: &Path) -> Vec<(u32, String)> {
        let members = self.base.groups.members(group);
        members.into_iter().map(|Member { pid, name }| (pid, name)).collect()
    }

    /// A private mount namespace, held by the descriptor and by whoever runs in it. `mounts` are
    /// made in order; a target is made if absent and below the room or an earlier one of these
    /// mounts.
    ///
    /// # Errors
    /// The mount that failed.
    pub fn mount_namespace(&self, mounts: &[Mount]) -> Result<OwnedFd, Fault> {
        self.mount_namespace_in(None, mounts)
    }

    /// The same, of a network namespace: a fresh `sysfs` shows the links of that one.
    ///
    /// # Errors
    /// The mount that failed.
    pub fn mount_namespace_in(
        &self,
        network: Option<&RoomNetwork>,
        mounts: &[Mount],
    ) -> Result<OwnedFd, Fault> {
        let ours = self.places().into_iter().map(Path::to_path_buf).collect();
        let network = network.map(RoomNetwork::namespace).transpose()?;
        let made = holder::mount_namespace(mounts, ours, &self.base.directory, network)?;
        let Namespace { descriptor, overlays, held } = made;
        if !overlays.is_empty() {
            self.remember_roots(overlays, held)?;
        }
        Ok(descriptor)
    }

    /// Writes down which roots a namespace has, before anybody is in it.
    fn remember_roots(&self, overlays: Vec<Overlaid>, held: Vec<OwnedFd>) -> Result<(), Fault> {
        let id = self.write_down(Undo::Roots { overlays: overlays.clone() })?;
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.overlays.extend(overlays);
        roots.ids.extend(id);
        roots.held.extend(held);
        Ok(())
    }

    /// Lists its directories, as far as they were made.
    fn places(&self) -> Vec<&Path> {
        let made = [Some(&self.directory), self.memory_directory.get(), self.disk_directory.get()];
        made.into_iter().flatten().map(PathBuf::as_path).collect()
    }

    /// Starts a program in this room. See [`Program`]. It dies with the calling thread.
    ///
    /// # Errors
    /// There is no such program, or the step that its process could not do.
    pub fn spawn(&self, mut program: Program) -> Result<Process, Fault> {
        let group = program.group.take();
        let own = group.as_ref().is_none_or(|group| *group == self.group);
        let group = group.unwrap_or_else(|| self.group.clone());
        if !group.starts_with(&self.group) {
            return Err(Fault::bug(format!("the group `{}` is not of this room", group.display())));
        }
        let is_grouped = self.base.groups.any() && !program.is_ungrouped;
        let doors = match is_grouped {
            true => self.base.groups.doors(&group, own)?,
            false => Doors::default(),
        };
        let process = process::spawn(program, doors)?;
        if !is_grouped {
            self.remember_session(process.pid())?;
        }
        Ok(process)
    }

    /// Without groups, a process's session is the only thing by which its children can be found.
    fn remember_session(&self, pid: u32) -> Result<(), Fault> {
        let started_ticks = session::started_ticks(pid).unwrap_or(0);
        self.promise(Undo::Session { pid, started_ticks })
    }

    /// Writes into the journal how to undo something that is about to be made by someone else (an
    /// engine's daemon). The undo runs when the room is closed; running it for what is gone is no
    /// error.
    ///
    /// # Errors
    /// The journal cannot be written, or the object's name does not carry our tag.
    pub fn promise(&self, undo: Undo) -> Result<(), Fault> {
        let ids = self.write_down(undo)?;
        self.promised.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        Ok(())
    }

    fn write_down(&self, undo: Undo) -> Result<Vec<u64>, Fault> {
        undo.require_tag()?;
        match self.base.journal().as_mut() {
            Some(journal) => journal.will(vec![undo]),
            None => Err(Fault::bug("a room was used after its lab was closed")),
        }
    }

    /// Borrows a domain of libvirt until the room is closed: it gets a channel of this name, which
    /// must be free of what XML would misread, and is started if it was shut off.
    ///
    /// # Errors
    /// libvirt's.
    pub fn borrow_domain(
        &self,
        domain: &Domain,
        channel: &str,
        was_off: bool,
    ) -> Result<(), Fault> {
        require_name(channel)?;
        let (alias, file) = (Domain::alias(channel), self.directory.join("channel.xml"));
        let text = format!(
            "<channel type='unix'><source mode='bind'/><target type='virtio' name='{channel}'/>\
             <alias name='{alias}'/></channel>\n"
        );
        exclusive::write(&file, text)?;
        let (domain, channel) = (domain.clone(), channel.to_owned());
        self.promise(Undo::Domain { domain: domain.clone(), channel, was_started: was_off })?;
        if was_off {
            domain.start_halted()?;
        }
        domain.attach(&file.to_string_lossy())?;
        if was_off { domain.resume() } else { Ok(()) }
    }

    /// Gives a borrowed domain back: takes the channel off it, or shuts it down where it was shut
    /// off.
    ///
    /// # Errors
    /// libvirt's; or it did not shut down in time and runs on.
    pub fn give_back(domain: &Domain, channel: &str, was_off: bool) -> Result<(), Fault> {
        if was_off { domain.shut_down() } else { domain.detach(channel) }
    }

    /// Ends every process, removes everything, and says what was still alive or there.
    ///
    /// # Errors
    /// What could not be removed; it stays in the journal, and the next start tries again.
    pub fn close(mut self) -> Result<Vec<String>, Fault> {
        self.end()
    }

    /// Everything is tried; the first fault is returned.
    fn end(&mut self) -> Result<Vec<String>, Fault> {
        self.closed = true;
        let mut found = Vec::new();
        let mut first_fault = None;
        let mut note = |result: Result<Vec<String>, Fault>| match result {
            Ok(more) => {
                found.extend(more);
                true
            }
            Err(fault) => {
                first_fault.get_or_insert(fault);
                false
            }
        };
        let promised =
            std::mem::take(self.promised.get_mut().unwrap_or_else(PoisonError::into_inner));
        // The journal is not kept from other rooms while an engine takes its time.
        let pending = self.base.journal().as_ref().map(Journal::pending).unwrap_or_default();
        let mut undone = Vec::new();
        for (id, undo) in pending {
            if promised.contains(&id) && note(undo.perform()) {
                undone.push(id);
            }
        }
        if let (Some(journal), false) = (self.base.journal().as_mut(), undone.is_empty()) {
            note(journal.undone(&undone).map(|()| Vec::new()));
        }
        let subgroups = self.subgroups.get_mut().unwrap_or_else(PoisonError::into_inner);
        note(self.base.groups.end(&self.group, subgroups));
        self.base.groups.rejoin(&self.base.group);
        let Roots { overlays, ids, held } =
            std::mem::take(self.roots.get_mut().unwrap_or_else(PoisonError::into_inner));
        let are = if held.len() == overlays.len() { Are::Held } else { Are::Left };
        let is_ended = note(escaped::end(&overlays, are));
        // From now on their numbers may be others'.
        drop(held);
        for elsewhere in [&self.memory_directory, &self.disk_directory] {
            if let Some(path) = elsewhere.get() {
                note(directory::remove(path));
            }
        }
        note(directory::remove(&self.directory));
        // Last, and in vain where a disk is full: nobody has a root that is not there.
        if let (Some(journal), true, false) =
            (self.base.journal().as_mut(), is_ended, ids.is_empty())
        {
            let _ = journal.undone(&ids);
        }
        first_fault.map_or(Ok(found), Err)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.closed {
            // What could not be removed is still below the lab's directories and group.
            let _ = self.end();
        }
    }
}

fn require_name(name: &str) -> Result<(), Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Fault::bug(format!("`{name}` is not a name for a room or a group")))
}
