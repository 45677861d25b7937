//! Ends a group: kills what is in it, then removes it, in every hierarchy of the machine.
//!
//! The usual group is empty by now and is simply removed. Else CPU limits are lifted first (a
//! throttled process dies as slowly as it runs), frozen ones are thawed, forking is forbidden so
//! that nothing outruns the killing, and what is listed is killed until nothing is listed any more.

use super::{Groups, Version};
use crate::fault::{Doing, Fault};
use crate::lab::processes::{HeldProcess, name};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::group_tree;
use surtax_instrument::quantity::Nanoseconds;

/// Time limit for a group to become empty.
const DEADLINE: Duration = Duration::from_secs(10);

/// Number of passes that kill: a process forked during one is killed by the next.
const KILL_PASSES: usize = 3;

/// The most processes that are held at a time.
const HELD_MOST: usize = 256;

/// A process that is in a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lab) struct Member {
    pub pid: u32,
    /// `/proc/PID/comm`; empty when it has ended meanwhile.
    pub name: String,
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process `{}` ({})", self.name, self.pid)
    }
}

impl Groups {
    /// Kills everything in a group and below it, and removes it. Says what was still alive. Those
    /// below it that are known, parents first, need not be looked for.
    pub(in crate::lab) fn end(
        &self,
        group: &Path,
        known: &[PathBuf],
    ) -> Result<Vec<String>, Fault> {
        for below in known.iter().rev() {
            for hierarchy in &self.hierarchies.0 {
                // What refuses is found again with the group itself.
                let _ = fs::remove_dir(hierarchy.directory(below));
            }
        }
        if self.remove(group)? {
            return Ok(Vec::new());
        }
        let alive = self.members(group);
        self.lift(group);
        let begin = monotonic_raw();
        let mut pause = Duration::from_micros(200);
        while monotonic_raw().since(begin) < Nanoseconds::from(DEADLINE) {
            self.kill_for_good(group);
            if self.remove(group)? {
                return Ok(alive
                    .iter()
                    .map(|member| format!("{member} was still alive"))
                    .collect());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        let left: Vec<String> = self.members(group).iter().map(ToString::to_string).collect();
        Err(Fault::machine(format!(
            "the group `{}` is not empty {} s after SIGKILL: {}",
            group.display(),
            DEADLINE.as_secs(),
            left.join(", ")
        ))
        .hint(
            "look for processes in state D with `ps -eo pid,stat,wchan,comm`, then run `surtax gc`",
        ))
    }

    /// Lists the processes in a group or below it, in any hierarchy.
    pub(in crate::lab) fn members(&self, group: &Path) -> Vec<Member> {
        self.listed(group).into_iter().map(|pid| Member { pid, name: name(pid) }).collect()
    }

    fn listed(&self, group: &Path) -> BTreeSet<u32> {
        let mut listed = BTreeSet::new();
        self.visit(group, &mut |directory| listed.extend(processes(directory)));
        listed
    }

    /// Lifts what would slow down dying. Failures are ignored: not lifted, it only takes longer.
    pub(in crate::lab) fn lift(&self, group: &Path) {
        self.visit(group, &mut |directory| {
            group_tree::write(directory, c"cpu.cfs_quota_us", "-1");
            group_tree::write(directory, c"cpu.max", "max");
        });
        self.thaw(group);
    }

    /// Lets go on what somebody froze in a group or below it.
    pub(in crate::lab) fn thaw(&self, group: &Path) {
        self.visit(group, &mut |directory| {
            group_tree::write(directory, c"freezer.state", "THAWED");
            group_tree::write(directory, c"cgroup.freeze", "0");
        });
    }

    /// Kills everything in a group, which can be used again.
    pub(in crate::lab) fn kill_members(&self, group: &Path) {
        self.lift(group);
        for _ in 0..KILL_PASSES {
            self.kill(group);
        }
    }

    /// Kills everything in a group that is about to be removed: nothing is forked in it any more.
    fn kill_for_good(&self, group: &Path) {
        let pids = self.hierarchies.of("pids").map(|pids| pids.directory(group).join("pids.max"));
        if let Some(file) = pids.filter(|file| file.exists()) {
            // A fork bomb that cannot be stopped so is killed all the same, only not at once.
            let _ = fs::write(file, "0");
        }
        self.kill(group);
    }

    fn kill(&self, group: &Path) {
        let ours = std::process::id();
        for hierarchy in &self.hierarchies.0 {
            let directory = hierarchy.directory(group);
            if hierarchy.version == Version::Two && directory.is_dir() {
                let _ = fs::write(directory.join("cgroup.kill"), "1");
            }
        }
        let mut listed = self.listed(group);
        listed.remove(&ours);
        self.kill_held(group, &Vec::from_iter(listed));
    }

    /// Kills those of these that are in a group when they are held: the number of one that has
    /// ended may be somebody else's.
    fn kill_held(&self, group: &Path, listed: &[u32]) {
        for some in listed.chunks(HELD_MOST) {
            let held: Vec<HeldProcess> =
                some.iter().filter_map(|pid| HeldProcess::of(*pid)).collect();
            let still = self.listed(group);
            for one in held.iter().filter(|one| still.contains(&one.pid())) {
                one.signal(Signal::KILL);
            }
        }
    }

    /// Removes a group, with those that foreign tools made below it; false if somebody is in it.
    fn remove(&self, group: &Path) -> Result<bool, Fault> {
        let mut all_gone = true;
        for hierarchy in &self.hierarchies.0 {
            all_gone &= remove_directory(&hierarchy.directory(group))?;
        }
        Ok(all_gone)
    }

    /// Visits a group and all groups below it, in every hierarchy.
    fn visit(&self, group: &Path, arrive: &mut dyn FnMut(BorrowedFd<'_>)) {
        for hierarchy in &self.hierarchies.0 {
            group_tree::visit(&hierarchy.directory(group), &mut |group, _| arrive(group));
        }
    }
}

/// Removes a group's directory, children first; false if somebody is in it.
fn remove_directory(directory: &Path) -> Result<bool, Fault> {
    match fs::remove_dir(directory) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        // The kernel says "busy" for processes and for children alike.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
        Err(error) => {
            return Err(error).doing(format_args!("remove the group `{}`", directory.display()));
        }
    }
    let all_gone = group_tree::remove_below(directory)
        .doing(format_args!("remove the groups below `{}`", directory.display()))?;
    if !all_gone {
        return Ok(false);
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(false),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).doing(format_args!("remove the emptied group `{}`", directory.display()))
        }
        _ => Ok(true),
    }
}

/// The groups that are directly below one.
pub(in crate::lab) fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Lists the processes in one group; one that this pid namespace cannot name is listed as 0 and
/// left out.
fn processes(directory: BorrowedFd<'_>) -> Vec<u32> {
    let text = group_tree::read(directory, c"cgroup.procs");
    text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that is in no group of ours")]
    fn whoever_has_the_number_of_one_that_was_listed_and_is_not_there_lives_on() {
        let mut other = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let groups = Groups::discover().unwrap();
        groups.kill_held(Path::new("surtax-1a2b3c4d/room"), &[other.id(), other.id()]);
        std::thread::sleep(Duration::from_millis(20));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
