//! The group in which a command and its agent are, and nobody else who works for their layer.
//!
//! - **Reads** who is in the groups around the agent, by `cgroup.procs`, who started it, by
//!   `/proc/PID/status`, and the PID namespace of each; later the group's CPU time.
//! - **Costs** a look at each group below the layer's and each process in them, once; then one
//!   `pread` per reading.
//! - **Cannot see** who joins or leaves the group later. With cgroup v1, root inside may set back
//!   the counter of the outermost group that it sees: where that is the one around it, as in a
//!   container whose tool has its helpers in groups beside, what is read may be less than was used.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/cpuacct.rst`,
//!   `man 7 cgroup_namespaces`.

use super::cgroup::{Group, Hierarchies, Hierarchy};
use crate::counters;
use crate::group_tree::{self, GROUPS_LIMIT};
use std::fs;
use std::path::{Path, PathBuf};

/// A group that is a command's alone, in the hierarchy that counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandGroup {
    hierarchy: Hierarchy,
    group: PathBuf,
}

impl CommandGroup {
    /// Finds that of the agent with this number, below a layer's group or that itself; `None` where
    /// others are in its own group.
    ///
    /// It is the outermost around its own that has nobody else in it but who started it from
    /// outside: what root inside writes to the files of the group that it sees as the outermost is
    /// not in that. To be called before any command runs, which may move whoever it likes.
    #[must_use]
    pub fn of(hierarchies: &Hierarchies, layers: &Path, agent: u32) -> Option<Self> {
        let members = Members::around(agent);
        // A container in a container has groups of its own in hierarchies of version 1 alone.
        let counting = [hierarchies.unified(), hierarchies.of("cpuacct")].into_iter().flatten();
        { counting }.find_map(|hierarchy| {
            let file = PathBuf::from(format!("/proc/{agent}/cgroup"));
            let own = hierarchy.group_in(&file, "cpuacct")?;
            let (own, layers) = (relative(&own), relative(layers));
            let is_alone = |around: &&Path| {
                members.are_alone_in(&hierarchy.directory(around), &hierarchy.directory(own))
            };
            let is_ours = |around: &&Path| *around == own || around.starts_with(layers);
            let outermost = own.ancestors().take_while(is_ours).take_while(is_alone).last()?;
            Some(Self { hierarchy: hierarchy.clone(), group: outermost.to_owned() })
        })
    }

    /// Opens its counters of CPU time, and no others.
    #[must_use]
    pub fn open(&self) -> Option<Group> {
        Group::of_cpu(&self.hierarchy, &self.group)
    }
}

/// Processes that an agent's group may hold.
struct Members {
    agent: u32,
    forebears: Vec<u32>,
    /// PID namespace of the agent, where that is not ours.
    namespace: Option<PathBuf>,
}

impl Members {
    fn around(agent: u32) -> Self {
        let ours = pid_namespace(std::process::id());
        let namespace = pid_namespace(agent).filter(|own| Some(own) != ours.as_ref());
        Self { agent, forebears: forebears(agent), namespace }
    }

    /// Tells whether none but they are in a group, and in those below it but for those below `own`.
    fn are_alone_in(&self, group: &Path, own: &Path) -> bool {
        let (mut are_alone, mut count) = (true, 0);
        group_tree::visit(group, &mut |group, way| {
            count += 1;
            are_alone &= count <= GROUPS_LIMIT;
            let path = way.path();
            let below_own = path.strip_prefix(own).ok();
            if !are_alone || below_own.is_some_and(|below| below != Path::new("")) {
                return;
            }
            let may_be = |pid: u32| match below_own {
                Some(_) => self.may_be_in_own(pid),
                None => self.started_it(pid),
            };
            // One that cannot be read may have anybody.
            let text = group_tree::try_read(group, c"cgroup.procs");
            let has_only = |text: String| text.lines().all(|line| line.parse().is_ok_and(may_be));
            are_alone = text.is_some_and(has_only);
        });
        are_alone
    }

    fn may_be_in_own(&self, pid: u32) -> bool {
        pid == self.agent || self.forebears.contains(&pid) || self.is_inside(pid)
    }

    fn started_it(&self, pid: u32) -> bool {
        self.forebears.contains(&pid) && !self.is_inside(pid)
    }

    fn is_inside(&self, pid: u32) -> bool {
        self.namespace.is_some() && pid_namespace(pid) == self.namespace
    }
}

fn relative(group: &Path) -> &Path {
    group.strip_prefix("/").unwrap_or(group)
}

/// Lists who started a process, who started that, and so on up to this process: who started that
/// is in no group of a layer's.
fn forebears(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| {
        let text = counters::text_of(format!("/proc/{pid}/status")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    };
    let ours = std::process::id();
    let before = |pid: &u32| if *pid == ours { None } else { parent(pid) };
    std::iter::successors(before(&pid), before).take_while(|pid| *pid != 0).collect()
}

fn pid_namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}
