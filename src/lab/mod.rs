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
mod directory;
pub mod disk;
mod domain;
mod engine;
mod escaped;
pub mod exclusive;
mod holder;
pub mod huge_pages;
mod journal;
pub mod kernel_part;
pub mod last_words;
mod limits;
mod listener;
mod memory;
mod mount;
pub mod network;
pub mod open_files;
mod ports;
mod process;
pub mod others;
mod processes;
mod reaper;
mod room;
mod service;
mod session;
mod settings;
mod shaping;
pub mod state;
mod sweep;
mod undo;
mod unprivileged;
pub mod users;
mod xen_domain;

use crate::fault::{Doing, Fault};
pub use ask::ask;
pub use cgroup::limit::{held, list, shares};
pub use cgroup::{LoggedGroup, labs};
pub use domain::{Domain, DomainState, PROGRAM as VIRSH};
pub use exclusive::{create, make_for, write};
pub use journal::{living, read_untrusted as read_untrusted_journal};
pub use limits::{IoLimits, Limits, Partition};
pub use listener::listener;
pub use mount::{Mount, look_like, unlock_groups};
pub use network::Network;
pub use ports::Protocol;
pub use process::{Process, Program, find, path_alone, path_and, pipe, signal, this_program};
pub use reaper::{ARGUMENT as REAPER_ARGUMENT, reaper_main};
pub use room::Room;
pub use service::Service;
pub use shaping::Shape;
pub use sweep::{Swept, gc};
pub use undo::{TAG, Undo};
pub use unprivileged::{CapabilitySet, Confinement, Unprivileged};
pub use users::Users;
pub use xen_domain::forget_consoles;

use cgroup::Groups;
use journal::{Header, Journal};
use reaper::Reaper;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surtax_instrument::probe::cgroup::{Hierarchies, Version};
use surtax_instrument::probe::oom;

/// Where directories in memory are made where this process may mount nothing.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Where directories on a disk are made, also on machines whose `/run` and `/tmp` are in memory.
pub const DISK_DIRECTORY: &str = "/var/tmp";

/// The static agent itself; `build.rs` made it.
pub const AGENT_BINARY: &[u8] = include_bytes!(env!("SURTAX_AGENT"));

/// The agent's file in a lab's directory; no room has such a name.
const AGENT: &str = ".surtax-agent";

/// What the lab's id follows in names of groups and directories.
const PREFIX: &str = "surtax-";

/// How a lab is opened.
#[derive(Clone, Debug)]
struct Setup {
    /// Where the journals are.
    state_directory: PathBuf,
    /// The command line of the reaper, to which the path of the journal is appended.
    reaper: Vec<OsString>,
    /// What starters are made of, where that is not this process's own file.
    executable: Option<PathBuf>,
    /// The cgroup hierarchies to use.
    groups: Groups,
}

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
    ground: Arc<Ground>,
    reaper: Option<Reaper>,
    executable: Option<PathBuf>,
    swept: Swept,
    services: Mutex<Vec<service::Kept>>,
    /// Those of this level's network that no other surtax has; opened when first asked for.
    ports: Mutex<Option<ports::Ports>>,
}

/// What a lab shares with its rooms.
#[derive(Debug)]
struct Ground {
    id: String,
    directory: PathBuf,
    memory_directory: PathBuf,
    /// Where the memory is where this process may mount nothing.
    memory_elsewhere: PathBuf,
    disk_directory: PathBuf,
    /// Whether the directory on a disk is there.
    disk_made: Mutex<bool>,
    group: PathBuf,
    groups: Groups,
    /// Where systemd has given the groups their place, if it was asked.
    scope: Option<PathBuf>,
    /// `None` once the lab is closed.
    journal: Mutex<Option<Journal>>,
}

impl Ground {
    fn journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down how to undo the lab, starts the reaper, and only then makes anything.
    fn prepare(&mut self, setup: &Setup) -> Result<Option<Reaper>, Fault> {
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
    fn make(&mut self) -> Result<(), Fault> {
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
    fn on_a_disk(&self) -> Result<&Path, Fault> {
        let mut made = self.disk_made.lock().unwrap_or_else(PoisonError::into_inner);
        if !*made {
            exclusive::make(&self.disk_directory, 0o700)?;
            *made = true;
        }
        Ok(&self.disk_directory)
    }

    /// The one of the lab's directories whose programs may be started: many a `/run` forbids that.
    fn executable_directory(&self) -> Result<&Path, Fault> {
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
    fn end(&self) -> Result<Swept, Fault> {
        let journal = self.journal().take();
        journal.map_or_else(|| Ok(Swept::default()), sweep::undo)
    }
}

impl Lab {
    /// Opens the lab of this process: undoes what earlier ones left, starts a journal and a reaper.
    ///
    /// # Errors
    /// The machine's: a directory or a group of ours cannot be made.
    pub fn open() -> Result<Self, Fault> {
        Self::set_up(&Setup {
            state_directory: journal::state_directory()?,
            reaper: reaper_command_line(),
            executable: None,
            groups: Groups::discover()?,
        })
    }

    /// Opens the lab of a starter in a level of ours. Its journal is its own, and it undoes nobody else's: journals
    /// that can be seen from there are of labs outside.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn open_in_level() -> Result<Self, Fault> {
        Self::set_up(&Setup {
            state_directory: journal::private_directory()?,
            reaper: reaper_command_line(),
            executable: None,
            groups: Groups::discover()?,
        })
    }

    /// Opens a lab whose reaper and starters are another binary than this process's: for tests of the built one.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn open_with(executable: &Path) -> Result<Self, Fault> {
        Self::set_up(&Setup {
            state_directory: journal::state_directory()?,
            reaper: vec![executable.into(), REAPER_ARGUMENT.into()],
            executable: Some(executable.to_owned()),
            groups: Groups::discover()?,
        })
    }

    fn set_up(setup: &Setup) -> Result<Self, Fault> {
        let state = &setup.state_directory;
        let swept = sweep::orphans(state)?;
        let header = Header::of_this_process()?;
        let id = header.lab.clone();
        let (scope, group) = (setup.groups.scope(&id), format!("{PREFIX}{id}"));
        let directory = run_directory().join(&id);
        let own_name = |place: &str| {
            let name = format!("{PREFIX}{id}-{}", exclusive::unguessable()?);
            Ok::<_, Fault>(Path::new(place).join(name))
        };
        let mut ground = Ground {
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
        match ground.prepare(setup) {
            Ok(reaper) => {
                let (services, ports) = (Mutex::default(), Mutex::default());
                let executable = setup.executable.clone();
                Ok(Self { ground: Arc::new(ground), reaper, executable, swept, services, ports })
            }
            Err(fault) => {
                // What could not be undone either stays in the journal, for the next start.
                let _ = ground.end();
                Err(fault)
            }
        }
    }

    /// The lab's id: what follows `surtax-` in the names of all that it makes.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.ground.id
    }

    /// The program that a starter of this lab's is, where that is not this process's own.
    #[must_use]
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }

    /// What earlier main processes had left behind when this lab was opened.
    #[must_use]
    pub fn swept(&self) -> &Swept {
        &self.swept
    }

    /// The machine's cgroup hierarchies that the rooms' groups are in: for the probes.
    #[must_use]
    pub fn hierarchies(&self) -> &Hierarchies {
        self.ground.groups.hierarchies()
    }

    /// Which cgroups share out CPUs on this machine.
    #[must_use]
    pub fn cpu_groups(&self) -> Version {
        self.hierarchies().of("cpu").map_or(Version::Two, |hierarchy| hierarchy.version)
    }

    /// A room's group as the kernel's log names it, also before there is one.
    #[must_use]
    pub fn logged_group(&self, room: &str) -> LoggedGroup {
        LoggedGroup::of(&self.ground.group.join(room), self.hierarchies())
    }

    /// The innermost group of a room in which the kernel killed anybody because memory had run out, by what the groups
    /// count, and how many there.
    #[must_use]
    pub fn killed_in(&self, room: &str) -> Option<(PathBuf, u64)> {
        oom::innermost(self.hierarchies(), &self.ground.group.join(room))
    }

    /// Who is in a room right now, each with its group, by the numbers of the kernel's log.
    #[must_use]
    pub fn members(&self, room: &str) -> BTreeMap<u32, PathBuf> {
        oom::members(self.hierarchies(), &self.ground.group.join(room))
    }

    /// What cannot be counted or limited by groups on this machine, and why.
    #[must_use]
    pub fn group_gaps(&self) -> &[String] {
        self.ground.groups.gaps()
    }

    /// That this machine can hold somebody to these limits; looks, and sets nothing.
    ///
    /// # Errors
    /// A controller that no hierarchy has, or no partitions of CPUs.
    pub fn require_limits(&self, limits: &Limits) -> Result<(), Fault> {
        self.ground.groups.can_limit(&self.ground.group, limits)
    }

    /// The reaper's process id.
    #[must_use]
    pub fn reaper_pid(&self) -> Option<u32> {
        self.reaper.as_ref().map(Reaper::pid)
    }

    /// The static agent as a file, for whoever shows it to a layer. Made when first asked for.
    ///
    /// # Errors
    /// The machine's: it cannot be written, or nothing that lies there may be executed.
    pub fn agent(&self) -> Result<PathBuf, Fault> {
        let directory = self.ground.executable_directory()?;
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
        self.ground.groups.kill_members(&self.ground.group);
    }

    /// Makes a room: `/run/surtax/<lab>/<name>`, and a group of that name in every hierarchy.
    ///
    /// # Errors
    /// The machine's; ours, if there is a room of that name or it is not a plain name.
    pub fn room(&self, name: &str) -> Result<Room, Fault> {
        Room::open(Arc::clone(&self.ground), name)
    }

    /// Takes everything away, ends the reaper, removes the journal. Says what had to be forced.
    ///
    /// # Errors
    /// What could not be removed; it stays in the journal, and the next start tries again.
    pub fn close(mut self) -> Result<Vec<String>, Fault> {
        let services = self.end_services();
        let swept = self.ground.end()?;
        if swept.kept.is_empty() {
            let mut forced = services?;
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
        let _ = self.ground.end();
    }
}

/// Where kernels, unpacked images and verdicts are kept between runs; made if absent.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn cache_directory() -> Result<PathBuf, Fault> {
    let home = |below: &str| std::env::var_os("HOME").map(|home| Path::new(&home).join(below));
    let path = if let Some(named) = std::env::var_os("SURTAX_CACHE_DIR") {
        PathBuf::from(named)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/cache/surtax")
    } else if let Some(cache) = std::env::var_os("XDG_CACHE_HOME") {
        PathBuf::from(cache).join("surtax")
    } else {
        home(".cache/surtax")
            .ok_or_else(|| Fault::machine("there is no `XDG_CACHE_HOME` and no `HOME`"))?
    };
    exclusive::ensure(&path, 0o755).map_err(|fault| {
        let hint = fault.hint.clone().map_or_else(String::new, |hint| format!("{hint}; or "));
        fault
            .during("the cache of kernels and images")
            .hint(format!("{hint}name a directory of your own in `SURTAX_CACHE_DIR`"))
    })
}

/// Where the labs' directories are.
#[must_use]
pub fn run_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/surtax");
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.map_or_else(
        || PathBuf::from(format!("/tmp/surtax-{}", rustix::process::geteuid().as_raw())),
        |runtime| runtime.join("surtax"),
    )
}

#[cfg(test)]
pub(crate) mod tests;
