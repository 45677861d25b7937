//! Services: what several rooms use, one after another, and what ends with the lab.
//!
//! An engine's daemon is started once and not for every trial, whose cost it would be. A service
//! has a room of its own, which is closed when the lab is.

use super::{Lab, Process, Room};
use crate::fault::Fault;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Time limit for a service to end when it is asked to.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Places by which a service is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Directory of the service's room.
    pub directory: PathBuf,
    /// Group of the service's room.
    pub group: PathBuf,
    /// Directory in memory of the service's room, if it has one.
    pub memory_directory: Option<PathBuf>,
    /// Directory on a disk of the service's room, if it has one.
    pub disk_directory: Option<PathBuf>,
    /// Process id of the service, if it has a process.
    pub pid: Option<u32>,
}

/// A service while it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    name: String,
    room: Room,
    process: Option<Process>,
}

impl Lab {
    /// The service of this name; started in a room of that name if there is none, or none any more.
    /// One without a process is kept for what its room has promised to undo.
    ///
    /// # Errors
    /// What `start` says; nothing of it is left then.
    pub fn service(
        &self,
        name: &str,
        start: impl FnOnce(&Room) -> Result<Option<Process>, Fault>,
    ) -> Result<Service, Fault> {
        let mut services = self.services();
        if let Some(index) = services.iter().position(|kept| kept.name == name) {
            if services[index].is_alive()? {
                return Ok(services[index].place());
            }
            services.remove(index).room.close()?;
        }
        let room = self.room(name)?;
        let process = start(&room)?;
        let kept = Kept { name: name.to_owned(), room, process };
        let place = kept.place();
        services.push(kept);
        Ok(place)
    }

    /// Ends all services, the latest first. What had to be forced.
    pub(super) fn end_services(&self) -> Result<Vec<String>, Fault> {
        let mut forced = Vec::new();
        let mut first_fault = None;
        while let Some(kept) = self.services().pop() {
            match kept.end() {
                Ok(more) => forced.extend(more),
                Err(fault) => {
                    first_fault.get_or_insert(fault);
                }
            }
        }
        first_fault.map_or(Ok(forced), Err)
    }

    fn services(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_alive(&mut self) -> Result<bool, Fault> {
        match &mut self.process {
            Some(process) => Ok(process.wait(Duration::ZERO)?.is_none()),
            None => Ok(true),
        }
    }

    fn place(&self) -> Service {
        Service {
            directory: self.room.directory().to_path_buf(),
            group: self.room.group().to_path_buf(),
            memory_directory: self.room.made_in_memory().map(Path::to_path_buf),
            disk_directory: self.room.made_on_a_disk().map(Path::to_path_buf),
            pid: self.process.as_ref().map(Process::pid),
        }
    }

    fn end(mut self) -> Result<Vec<String>, Fault> {
        let mut forced = Vec::new();
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            if process.wait(STOP_DEADLINE)?.is_none() {
                forced.push(format!("`{}` did not end when it was asked to", self.name));
            }
        }
        forced.extend(self.room.close()?);
        Ok(forced)
    }
}
