//! The group of a machine: what holds those who run it to the limits that are not the machine's
//! own.

use crate::container::first_process::{FirstProcess, limited_together};
use crate::fault::Fault;
use crate::lab::{Limits, Room};
use crate::layer::Site;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// A group, where anything is asked for that takes one.
pub(super) struct MachineGroup {
    path: Option<PathBuf>,
    limits: Limits,
}

impl MachineGroup {
    /// Makes it.
    ///
    /// # Errors
    /// The machine's: it cannot be limited so.
    pub(super) fn make(site: &Site<'_>, room: &Room) -> Result<Self, Fault> {
        let limits = site.limits.of_a_machines_group();
        let is_limited = limits != Limits::default();
        let path = is_limited.then(|| room.subgroup("machine", &limits)).transpose()?;
        Ok(Self { path, limits })
    }

    /// Path of the group, for those who join it; `None` where there is no group.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// That a process is in it, and what it and the others, all of whom are `who`, are held to;
    /// nothing where there is no group.
    ///
    /// # Errors
    /// The machine's: it is in another, or held to something else.
    pub(super) fn prove(&self, pid: u32, who: &str, site: &Site<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        let process = FirstProcess::of(pid, site.lab.hierarchies());
        let mut facts = vec![process.group_is(path)?];
        facts.extend(process.limits(path, &self.limits)?);
        facts.push(limited_together(who));
        Ok(facts)
    }
}
