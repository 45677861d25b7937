//! Groups: one path, made in every cgroup hierarchy that counts or limits something for us.
//!
//! A machine has cgroup v1 (a hierarchy per controller), v2, both at once, or none. A group is one
//! relative path, `surtax-<lab>/<room>[/<sub>[/<sub>]]`, below each hierarchy's mount point. What a
//! machine lacks is remembered as a gap with its reason: without groups processes can still be
//! started, and nothing can be limited. Where systemd is the first process and cgroup v2 alone, the
//! path begins with a scope of the lab's own: `system.slice/surtax-<lab>.scope/surtax-<lab>/…`.
//!
//! In cgroup v2 a group whose children have controllers cannot have processes itself, so a room's
//! own processes live in its child [`OWN`] there.

mod delegation;
mod end;
mod hugetlb;
pub(super) mod limit;
mod logged;
mod partition;

use crate::fault::{Doing, Fault};
use crate::lab::birth::Doors;
pub(super) use delegation::SLICE;
pub(super) use end::{Member, children};
pub use logged::{LoggedGroup, labs};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::{Hierarchies, Hierarchy, Version};

/// The controllers in whose cgroup v1 hierarchies we make groups.
const USED: [&str; 8] =
    ["cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", "freezer", "hugetlb"];

/// The controllers of the limits that every machine should have.
const LIMITING: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// The controller of limits on a disk, as cgroup v2 names it.
const LIMITING_DISKS: &str = "io";

/// The child of a cgroup v2 room in which the room's own processes live.
const OWN: &str = "own";

/// Group for the processes of a level of ours when its root must not have any (cgroup v2).
const ASIDE: &str = "surtax-starter";

/// The cgroup hierarchies of this machine, and how we use them.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// All of them: foreign tools make groups in those that we do not use.
    hierarchies: Hierarchies,
    /// The controllers that we enable for our groups in cgroup v2.
    enabled: Vec<String>,
    /// Reasons why something cannot be counted or limited here.
    gaps: Vec<String>,
}

impl Groups {
    pub(super) fn discover() -> Result<Self, Fault> {
        let hierarchies = Hierarchies::discover().doing("list the cgroup hierarchies")?;
        let enabled = LIMITING.into_iter().chain([LIMITING_DISKS]).map(String::from).collect();
        Ok(Self { hierarchies, enabled, gaps: Vec::new() })
    }

    pub(super) fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Tells whether a group of ours exists anywhere, so that all of its processes can be found.
    pub(super) fn any(&self) -> bool {
        self.used().next().is_some()
    }

    fn used(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.0.iter().filter(|hierarchy| {
            hierarchy.version == Version::Two
                || hierarchy.controllers.iter().any(|name| USED.contains(&name.as_str()))
        })
    }

    /// The unified hierarchy, and the controllers that we want for our groups there.
    fn enabling(&self) -> Option<(&Hierarchy, Vec<String>)> {
        let unified = self.hierarchies.unified()?;
        let wanted = |name: &&String| self.enabled.contains(name);
        let names: Vec<String> = unified.controllers.iter().filter(wanted).cloned().collect();
        (!names.is_empty()).then_some((unified, names))
    }

    /// The controllers that have to be enabled at the root of cgroup v2, and where that is.
    pub(super) fn to_enable(&self) -> Option<(PathBuf, Vec<String>)> {
        let (unified, names) = self.enabling()?;
        let missing = missing(&unified.mount_point, &names);
        (!missing.is_empty()).then(|| (unified.mount_point.clone(), missing))
    }

    /// Makes the lab's own group. A hierarchy that refuses becomes a gap and is used no more; in a
    /// level of ours what stands in the way of controllers is moved aside.
    pub(super) fn prepare(&mut self, group: &Path) -> Result<(), Fault> {
        if group.components().count() == 1
            && let Some((root, missing)) = self.to_enable()
            && let Err(error) = enable(&root, &missing, Occupied::MoveAside)
        {
            self.gaps.push(format!(
                "cgroup v2 cannot limit {} below `{}`: {error}; run surtax outside of a container",
                missing.join(", "),
                root.display(),
            ));
        }
        let mut refused = Vec::new();
        for hierarchy in self.used() {
            let directory = hierarchy.directory(group);
            let is_cpuset = hierarchy.controllers.iter().any(|name| name == "cpuset")
                && hierarchy.version == Version::One;
            let inherit = || if is_cpuset { inherit_cpuset(&directory) } else { Ok(()) };
            if let Err(fault) = make_in(hierarchy, group).and_then(|()| inherit()) {
                // gVisor has such a hierarchy without all of its files. What was made there is
                // empty.
                let _ = fs::remove_dir(&directory);
                refused.push((hierarchy.mount_point.clone(), fault.message));
            }
        }
        for (mount_point, message) in refused {
            self.hierarchies.0.retain(|hierarchy| hierarchy.mount_point != mount_point);
            self.gaps.push(message);
        }
        if !self.any() {
            self.gaps
                .push("there is no cgroup hierarchy: nothing can be counted or limited".to_owned());
            return Ok(());
        }
        for controller in LIMITING {
            if self.hierarchies.of(controller).is_none() {
                self.gaps.push(format!("no cgroup hierarchy has the controller `{controller}`"));
            }
        }
        Ok(())
    }

    /// Makes a group in every hierarchy that we use; its parent must exist.
    pub(super) fn make(&self, group: &Path) -> Result<(), Fault> {
        self.used().try_for_each(|hierarchy| {
            if hierarchy.version == Version::Two
                && let Some((_, names)) = self.enabling()
                && let Some(parent) = hierarchy.directory(group).parent()
            {
                // What the root could not give is a gap already, and cannot be given here either.
                let given = available(parent);
                let names: Vec<String> =
                    names.into_iter().filter(|name| given.contains(name)).collect();
                enable(parent, &missing(parent, &names), Occupied::Ask).doing(format_args!(
                    "enable {} in `{}`",
                    names.join(", "),
                    parent.display()
                ))?;
            }
            make_in(hierarchy, group)
        })
    }

    /// Makes a group that needs no controllers of its own: those of the one above count and limit
    /// for it. In cgroup v1 it has them all the same.
    pub(super) fn make_bare(&self, group: &Path) -> Result<(), Fault> {
        self.used().try_for_each(|hierarchy| make_in(hierarchy, group))
    }

    /// The groups of a process that is about to be started. `own` asks for the leaf of a room.
    pub(super) fn doors(&self, group: &Path, own: bool) -> Result<Doors, Fault> {
        let mut doors = Doors::default();
        for hierarchy in self.used() {
            let mut path = hierarchy.directory(group);
            let is_unified = hierarchy.version == Version::Two;
            if is_unified && own && self.enabling().is_some() {
                path.push(OWN);
                make_directory(&path)?;
            }
            if !is_unified {
                path.push("tasks");
            }
            let opened = OpenOptions::new().read(is_unified).write(!is_unified).open(&path);
            let door = opened.doing(format_args!("open `{}`", path.display()))?;
            match is_unified {
                true => doors.unified = Some(door.into()),
                false => doors.tasks.push(door),
            }
        }
        Ok(doors)
    }
}

impl Groups {
    /// Puts a process into a group that is there, in every hierarchy that we use.
    pub(super) fn admit(&self, pid: u32, group: &Path) -> Result<(), Fault> {
        self.used().try_for_each(|hierarchy| {
            write(&hierarchy.directory(group).join("cgroup.procs"), &pid.to_string())
        })
    }
}

/// `CGROUP2_SUPER_MAGIC` of `linux/magic.h`.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// Tells whether a directory lies in a hierarchy of version 2; also where it is gone.
pub(super) fn may_be_unified(directory: &Path) -> bool {
    match rustix::fs::statfs(directory) {
        Ok(found) => found.f_type == CGROUP2_MAGIC,
        Err(error) => error == rustix::io::Errno::NOENT,
    }
}

/// Disables controllers again that we enabled, as far as nobody else uses them.
pub(super) fn disable(directory: &Path, names: &[String]) -> Result<Vec<String>, Fault> {
    let file = directory.join("cgroup.subtree_control");
    let mut found = Vec::new();
    for name in names {
        match fs::write(&file, format!("-{name}")) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                found.push(format!(
                    "`{name}` stays enabled in `{}`: others use it",
                    directory.display()
                ));
            }
            Err(error) => {
                return Err(error)
                    .doing(format_args!("disable `{name}` in `{}`", directory.display()));
            }
        }
    }
    Ok(found)
}

fn make_in(hierarchy: &Hierarchy, group: &Path) -> Result<(), Fault> {
    make_directory(&hierarchy.directory(group))
}

/// A new cgroup v1 group has no CPU and no memory node, and takes no process. This one gets those
/// of its parent, and groups made below it get them by themselves.
fn inherit_cpuset(directory: &Path) -> Result<(), Fault> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let from = directory.parent().unwrap_or(directory).join(name);
        write(&directory.join(name), &read(&from)?)?;
    }
    write(&directory.join("cgroup.clone_children"), "1")
}

fn make_directory(directory: &Path) -> Result<(), Fault> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).doing(format_args!("make the group `{}`", directory.display()))
        }
        _ => Ok(()),
    }
}

/// The controllers of a cgroup v2 group that its children could have.
fn available(directory: &Path) -> Vec<String> {
    words(&directory.join("cgroup.controllers"))
}

/// Returns those of `names` that the children of a cgroup v2 group do not have yet.
fn missing(directory: &Path, names: &[String]) -> Vec<String> {
    let has = words(&directory.join("cgroup.subtree_control"));
    names.iter().filter(|name| !has.contains(name)).cloned().collect()
}

fn words(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(String::from).collect()
}

/// Action for processes that stand in the way of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occupied {
    /// Nothing: it is an error.
    Ask,
    /// In a level of ours, move them into a child of their own.
    MoveAside,
}

/// Tells whether the first process of this level is our agent: then everything in it was made by
/// us, and goes away with it.
fn is_level_ours() -> bool {
    fs::read("/proc/1/exe").is_ok_and(|program| program == super::places::AGENT_BINARY)
}

/// Gives controllers to the children of a cgroup v2 group.
fn enable(directory: &Path, names: &[String], manner: Occupied) -> std::io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let file = directory.join("cgroup.subtree_control");
    let wanted: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
    let wanted = wanted.join(" ");
    match fs::write(&file, &wanted) {
        Err(error)
            if error.kind() == ErrorKind::ResourceBusy
                && manner == Occupied::MoveAside
                && is_level_ours() => {}
        other => return other,
    }
    let aside = directory.join(ASIDE);
    if !aside.is_dir() {
        fs::create_dir(&aside)?;
    }
    for pid in words(&directory.join("cgroup.procs")) {
        // A process that has ended meanwhile is not in the way either.
        let _ = fs::write(aside.join("cgroup.procs"), pid);
    }
    fs::write(&file, &wanted)
}

fn read(file: &Path) -> Result<String, Fault> {
    let text = fs::read_to_string(file).doing(format_args!("read `{}`", file.display()))?;
    Ok(text.trim_end().to_owned())
}

/// Place of a version among what both have.
fn index(version: Version) -> usize {
    usize::from(version == Version::Two)
}

fn write(file: &Path, value: &str) -> Result<(), Fault> {
    fs::write(file, value).doing(format_args!("write `{value}` to `{}`", file.display()))
}

#[cfg(test)]
mod tests;
