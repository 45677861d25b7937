//! The lab: the one door to the host. Whatever surtax makes, it makes here, and takes away again.
//!
//! Before an object is made, its undo is in the journal; when the main process dies, the reaper
//! undoes the journal; what both leave behind, the next start or `surtax gc` undoes. A [`Room`] is
//! the lab of one trial: a directory, a cgroup, a private mount namespace, processes.

mod ask;
pub mod byte_lock;
pub mod census;
mod cgroup;
pub mod conceal;
mod confinement;
mod connection;
mod directory;
pub mod disk;
mod domain;
mod engine;
pub mod environment;
mod escaped;
pub mod exclusive;
mod base;
mod birth;
mod file_hash;
mod holder;
mod jail;
pub mod huge_pages;
mod journal;
pub mod kernel_part;
mod keyring;
mod limits;
mod listener;
mod memory;
mod mount;
pub mod network;
pub mod open_files;
pub mod others;
mod places;
mod patient;
mod ports;
mod process;
mod processes;
pub(crate) mod program_file;
mod reaper;
mod room;
mod same_place;
mod service;
mod session;
mod shaping;
pub mod state;
pub mod sudoer;
mod sweep;
mod tool_run;
pub mod tool_version;
pub mod turn;
mod undo;
mod unmount;
mod unprivileged;
pub(crate) mod us;
pub use us::hear as hear_where_we_are;
mod user_numbers;
pub mod users;
mod xen_domain;

use crate::fault::{Doing, Fault};
pub use ask::{ask, ask_as_themselves};
pub use cgroup::limit::{held, list, shares};
pub use cgroup::{LoggedGroup, labs};
pub use confinement::{CapabilitySet, Confinement};
pub use domain::{Domain, DomainState, PROGRAM as VIRSH};
pub use environment::{path_alone, path_and, with_temporary_directory};
pub use exclusive::{create, make_for, write};
pub use file_hash::sha256;
pub(crate) use jail::{Jail, everybody_may_read};
pub use journal::{living, read_untrusted as read_untrusted_journal};
pub use limits::{IoLimits, Limits, Partition};
pub use listener::listener;
pub use mount::{Mount, look_like, unlock_groups};
pub use network::RoomNetwork;
pub use patient::Patient;
pub use places::{AGENT_BINARY, DISK_DIRECTORY, cache_directory, cache_place, run_directory};
pub use ports::Protocol;
pub use process::{Process, Program, find, pipe, signal, this_program};
pub use processes::{HeldProcess, is_of_the_kernel, tasks, user};
pub use program_file::{require_world_executable, trusted_program};
pub use reaper::{ARGUMENT as REAPER_ARGUMENT, reaper_main};
pub use room::Room;
pub use service::Service;
pub use shaping::{Shape, Shaped, can_shape};
pub use sweep::{SweepReport, gc};
pub(crate) use tool_run::ToolRun;
pub use undo::{TAG, Undo};
pub use unprivileged::Unprivileged;
pub use users::Users;
pub use xen_domain::forget_consoles;

use base::{LabBase, Setup};
use cgroup::Groups;
use journal::{Header, Journal};
use places::{AGENT, MEMORY_DIRECTORY, PREFIX};
use reaper::Reaper;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use surtax_instrument::probe::cgroup::{Hierarchies, Version};
use surtax_instrument::probe::oom;
use surtax_instrument::probe::refusals::Refusals;

/// This binary, with the hidden argument.
#[cfg(not(test))]
fn reaper_command_line() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), REAPER_ARGUMENT.into()]
}

/// In unit tests this binary is the test harness, in which one test is the reaper.
#[cfg(test)]
fn reaper_command_line() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), "--exact".into(), "lab::tests::this_process_is_the_reaper".into()]
}

/// The lab of one main process: its journal, its reaper, its rooms. Rooms must be closed before it.
#[derive(Debug)]
pub struct Lab {
    base: Arc<LabBase>,
    reaper: Option<Reaper>,
    executable: Option<PathBuf>,
    is_in_level: bool,
    sweep_report: SweepReport,
    services: Mutex<Vec<service::Kept>>,
    /// Those of this level's network that no other surtax has; opened when first asked for.
    ports: Mutex<Option<ports::Ports>>,
    /// Places of the user's that its stacks were given.
    places: same_place::SeenPlaces,
}

impl Setup {
    /// A lab whose journal is in `state_directory`, and whose reaper is this program.
    fn of_this_program(state_directory: PathBuf) -> Result<Self, Fault> {
        let (reaper, groups) = (reaper_command_line(), Groups::discover()?);
        Ok(Self { state_directory, reaper, executable: None, groups })
    }
}

impl Lab {
    /// Opens the lab of this process: undoes what earlier ones left, starts a journal and a reaper.
    ///
    /// # Errors
    /// The machine's: a directory or a group of ours cannot be made.
    pub fn open() -> Result<Self, Fault> {
        Self::set_up(&Setup::of_this_program(journal::state_directory()?)?)
    }

    /// Opens the lab of a starter in a level of ours. Its journal is its own, and it undoes nobody
    /// else's: journals that can be seen from there are of labs outside.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn open_in_level() -> Result<Self, Fault> {
        let mut lab = Self::set_up(&Setup::of_this_program(journal::private_directory()?)?)?;
        lab.is_in_level = true;
        Ok(lab)
    }

    /// Opens a lab whose reaper and starters are another binary than this process's: for tests of
    /// the built one.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn open_with(executable: &Path) -> Result<Self, Fault> {
        let reaper = vec![executable.into(), REAPER_ARGUMENT.into()];
        let ours = Setup::of_this_program(journal::state_directory()?)?;
        Self::set_up(&Setup { reaper, executable: Some(executable.to_owned()), ..ours })
    }

    fn set_up(setup: &Setup) -> Result<Self, Fault> {
        let state = &setup.state_directory;
        let sweep_report = sweep::orphans(state)?;
        let header = Header::of_this_process()?;
        let id = header.lab.clone();
        let (scope, group) = (setup.groups.scope(&id), format!("{PREFIX}{id}"));
        let directory = run_directory().join(&id);
        let own_name = |place: &str| {
            let name = format!("{PREFIX}{id}-{}", exclusive::unguessable()?);
            Ok::<_, Fault>(Path::new(place).join(name))
        };
        let mut base = LabBase {
            memory_directory: directory.join(memory::NAME),
            directory,
            memory_elsewhere: own_name(MEMORY_DIRECTORY)?,
            disk_directory: own_name(DISK_DIRECTORY)?,
            disk_made: Mutex::new(false),
            group: scope.as_ref().map_or_else(|| PathBuf::from(&group), |it| it.join(&group)),
            groups: setup.groups.clone(),
            scope,
            journal: Mutex::new(Some(Journal::create(state, header)?)),
            id,
        };
        // What could not be undone either stays in the journal, for the next start.
        let reaper = base.prepare(setup).inspect_err(|_| drop(base.end()))?;
        Ok(Self {
            base: Arc::new(base),
            reaper,
            executable: setup.executable.clone(),
            is_in_level: false,
            sweep_report,
            services: Mutex::default(),
            ports: Mutex::default(),
            places: same_place::SeenPlaces::default(),
        })
    }

    /// The lab's id: what follows `surtax-` in the names of all that it makes.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.base.id
    }

    /// The program that a starter of this lab's is, where that is not this process's own.
    #[must_use]
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }

    /// Tells whether this level is one of ours, whose files are gone with it. Another machine is
    /// none, however deep in a stack it is.
    #[must_use]
    pub fn is_in_level(&self) -> bool {
        self.is_in_level
    }

    /// Returns what earlier main processes had left behind when this lab was opened.
    #[must_use]
    pub fn sweep_report(&self) -> &SweepReport {
        &self.sweep_report
    }

    /// The machine's cgroup hierarchies that the rooms' groups are in: for the probes.
    #[must_use]
    pub fn hierarchies(&self) -> &Hierarchies {
        self.base.groups.hierarchies()
    }

    /// Returns the version of the cgroups that share out CPUs on this machine.
    #[must_use]
    pub fn cpu_groups(&self) -> Version {
        self.hierarchies().of("cpu").map_or(Version::Two, |hierarchy| hierarchy.version)
    }

    /// A room's group as the kernel's log names it, also before there is one.
    #[must_use]
    pub fn logged_group(&self, room: &str) -> LoggedGroup {
        LoggedGroup::of(&self.base.group.join(room), self.hierarchies())
    }

    /// The innermost group of a room in which the kernel killed anybody because memory had run out,
    /// by what the groups count, and how many there.
    #[must_use]
    pub fn killed_in(&self, room: &str) -> Option<(PathBuf, u64)> {
        oom::innermost(self.hierarchies(), &self.base.group.join(room))
    }

    /// Number of a room's groups in which a process could not be made, by what they count.
    #[must_use]
    pub fn refusing_groups(&self, room: &str) -> usize {
        let refusals = Refusals::of_group(self.hierarchies(), &self.base.group.join(room));
        refusals.map_or(0, |refusals| refusals.group_count())
    }

    /// Lists the processes in a room right now, each with its group, by the numbers of the kernel's
    /// log.
    #[must_use]
    pub fn members(&self, room: &str) -> BTreeMap<u32, PathBuf> {
        oom::members(self.hierarchies(), &self.base.group.join(room))
    }

    /// That this machine can hold somebody to these limits; looks, and sets nothing.
    ///
    /// # Errors
    /// A controller that no hierarchy has, or no partitions of CPUs.
    pub fn require_limits(&self, limits: &Limits) -> Result<(), Fault> {
        self.base.groups.can_limit(&self.base.group, limits)
    }

    /// The static agent as a file, for whoever shows it to a layer. Made when first asked for.
    ///
    /// # Errors
    /// The machine's: it cannot be written, or nothing that lies there may be executed.
    pub fn agent(&self) -> Result<PathBuf, Fault> {
        let directory = self.base.executable_directory()?;
        let path = directory.join(AGENT);
        if path.exists() {
            return Ok(path);
        }
        // It gets its name when it is whole, so that nobody starts a part of it.
        let part = directory.join(format!("{AGENT}.part"));
        let mut file = exclusive::create(&part, 0o755)?;
        file.write_all(AGENT_BINARY).doing(format_args!("write `{}`", part.display()))?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o755))
            .doing(format_args!("make `{}` executable", part.display()))?;
        drop(file);
        fs::rename(&part, &path).doing(format_args!("name `{}`", path.display()))?;
        Ok(path)
    }

    /// Kills every process of every room, as if the machine had: for tests.
    pub fn kill_everything(&self) {
        self.base.groups.kill_members(&self.base.group);
    }

    /// Makes a room: `/run/surtax/<lab>/<name>`, and a group of that name in every hierarchy.
    ///
    /// # Errors
    /// The machine's; ours, if there is a room of that name or it is not a plain name.
    pub fn room(&self, name: &str) -> Result<Room, Fault> {
        Room::open(Arc::clone(&self.base), name)
    }

    /// Takes everything away, ends the reaper, removes the journal. Says what had to be forced.
    ///
    /// # Errors
    /// What could not be removed; it stays in the journal, and the next start tries again.
    pub fn close(mut self) -> Result<Vec<String>, Fault> {
        let services = self.end_services();
        let outlived = us::kin::end(self.reaper.as_ref().map(Reaper::pid));
        let swept = self.base.end()?;
        if swept.kept.is_empty() {
            let mut forced = services?;
            forced.extend(outlived?);
            forced.extend(swept.undone);
            return Ok(forced);
        }
        // It would only fail at the same things again.
        if let Some(reaper) = self.reaper.as_mut() {
            reaper.kill();
        }
        Err(Fault::machine(swept.kept.join("; ")).hint("run `surtax gc` later"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // What cannot be undone stays in the journal, and the reaper tries once more.
        let _ = self.end_services();
        let _ = us::kin::end(self.reaper.as_ref().map(Reaper::pid));
        let _ = self.base.end();
    }
}

#[cfg(test)]
pub(crate) mod tests;
