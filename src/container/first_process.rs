//! A container's first process, as this level's kernel sees it: its namespaces, group and limits.
//!
//! What a runtime says of itself is a label. What the kernel says of the process is evidence, and
//! costs a few reads instead of another start of the runtime.
//!
//! Source: `proc(5)`, `namespaces(7)`, `cgroups(7)`.

use crate::fault::{Doing, Fault};
use crate::lab::{IoLimits, Limits, held, us};
use crate::layer::{Payer, Source, value_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::counters;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Fact;

/// The namespaces that a container may have of its own.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// The controller of disks in cgroup v1, which holds the processes of a group and not those of the
/// groups below it. Source: Linux `Documentation/admin-guide/cgroup-v1/blkio-controller.rst`,
/// "Hierarchical Cgroups".
pub const THROTTLING: &str = "blkio";

/// Between two looks at a group that is about to be empty, where nothing tells when.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// After so many looks at those who have ended, their group is one that does not tell at once.
const SURE: u32 = 10;

/// The longest wait for one process: others may leave and come meanwhile.
const STEP: Duration = Duration::from_millis(100);

/// The first process of a container, on the level where the container was started.
pub struct FirstProcess {
    pid: u32,
    hierarchies: Hierarchies,
}

impl FirstProcess {
    /// The process that a runtime names in a file.
    ///
    /// # Errors
    /// The machine's, when there is no such file or it holds no number.
    pub fn read(pid_file: &Path, hierarchies: &Hierarchies) -> Result<Self, Fault> {
        let text = fs::read_to_string(pid_file)
            .doing(format_args!("read the container's process id in `{}`", pid_file.display()))?;
        let pid =
            text.trim().parse().doing(format_args!("take `{}` for a process id", text.trim()))?;
        Ok(Self::of(pid, hierarchies))
    }

    /// A process that is known by its id.
    pub fn of(pid: u32, hierarchies: &Hierarchies) -> Self {
        Self { pid, hierarchies: hierarchies.clone() }
    }

    /// The agent among the processes of a group and of those below it, by what it saw of itself.
    ///
    /// # Errors
    /// None of them is in the agent's namespaces: what answers is not what was started.
    pub fn among(group: &Path, hierarchies: &Hierarchies, inside: &[Fact]) -> Result<Self, Fault> {
        let (pid, mnt) = (value_of(inside, "namespace_pid")?, value_of(inside, "namespace_mnt")?);
        let number = value_of(inside, "process_id")?;
        let is_agent = |process: &Self| {
            let is_in = |kind, theirs| process.namespace(kind).is_ok_and(|ours| ours == theirs);
            process.innermost_pid().is_ok_and(|own| own == number)
                && is_in("pid", pid)
                && is_in("mnt", mnt)
        };
        Self::all_in(group, hierarchies).find(is_agent).ok_or_else(|| {
            Fault::machine(format!(
                "no process in the group `{}` is number {number} of the agent's `{pid}`, in its \
                 `{mnt}`",
                group.display()
            ))
        })
    }

    /// The agent, where it is a process of this level, among those who work for a layer.
    pub fn agent_of(payers: &[Payer], hierarchies: &Hierarchies, inside: &[Fact]) -> Option<Self> {
        let carrying = payers.iter().filter(|payer| payer.carries_workload);
        let mut found = carrying.filter_map(|payer| match &payer.source {
            Source::Group(group) => Self::among(group, hierarchies, inside).ok(),
            _ => None,
        });
        // Where it is in no group of ours, it is a process by itself.
        let alone = || {
            let mut processes = payers.iter().filter_map(|payer| match payer.source {
                Source::Process(pid) => Some(Self::of(pid, hierarchies)),
                _ => None,
            });
            processes.find(|process| process.is_the_agent(inside).is_ok())
        };
        found.next().or_else(alone)
    }

    /// The process that is number 1 in the process ids of this one: itself, or its init.
    ///
    /// # Errors
    /// The machine's, when there is none in the group.
    pub fn init(&self, group: &Path) -> Result<Self, Fault> {
        let pid = self.namespace("pid")?;
        let is_init = |process: &Self| {
            process.innermost_pid().is_ok_and(|number| number == "1")
                && process.namespace("pid").is_ok_and(|theirs| theirs == pid)
        };
        Self::all_in(group, &self.hierarchies).find(is_init).ok_or_else(|| {
            Fault::machine(format!("no process in the group `{}` is number 1", group.display()))
        })
    }

    /// All processes of a group; of one that could not be made, all that there are.
    fn all_in(group: &Path, hierarchies: &Hierarchies) -> impl Iterator<Item = Self> {
        let pids: Vec<u32> = match is_there(group, hierarchies) {
            true => {
                let directories = hierarchies.0.iter().map(|hierarchy| hierarchy.directory(group));
                directories.flat_map(|it| pids_below(&it)).collect()
            }
            false => {
                let names = fs::read_dir("/proc").into_iter().flatten().flatten();
                names.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
            }
        };
        pids.into_iter().map(|pid| Self::of(pid, hierarchies))
    }

    /// Returns its process id on this level.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The hierarchies in which its groups are.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    /// The text of one of its files in `/proc`.
    ///
    /// # Errors
    /// The machine's, when it has ended.
    pub fn text(&self, name: &str) -> Result<String, Fault> {
        let path = self.file(name);
        let bytes = counters::bytes_of(&path).doing(format_args!("read `{}`", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One of its namespaces, as the kernel names it: `net:[4026531840]`.
    ///
    /// # Errors
    /// The machine's, when it has ended or the kernel has no such kind.
    pub fn namespace(&self, kind: &str) -> Result<String, Fault> {
        let path = self.file("ns").join(kind);
        let link = fs::read_link(&path).doing(format_args!("read `{}`", path.display()))?;
        Ok(link.to_string_lossy().into_owned())
    }

    /// Tells whether its namespace of this kind is ours.
    pub fn shares(&self, kind: &str) -> bool {
        let ours = fs::read_link(Path::new("/proc/self/ns").join(kind));
        ours.is_ok_and(|ours| self.namespace(kind).is_ok_and(|its| ours.to_string_lossy() == its))
    }

    /// That the agent runs in the namespaces of this process.
    ///
    /// # Errors
    /// It does not: what answers is not in the container that was started.
    pub fn is_the_agent(&self, inside: &[Fact]) -> Result<Fact, Fault> {
        for kind in ["pid", "mnt"] {
            let ours = self.namespace(kind)?;
            let theirs = value_of(inside, &format!("namespace_{kind}"))?;
            if ours != theirs {
                return Err(Fault::machine(format!(
                    "the container's first process is in `{ours}`, and the agent says `{theirs}`"
                )));
            }
        }
        Ok(Fact::new("container_pid", self.pid.to_string(), "/proc/PID/ns/pid, outside and inside"))
    }

    /// Lists its namespaces that are not those of this process; only those in `shared` may be ours.
    ///
    /// # Errors
    /// One that was to be its own is ours: the isolation that is to be measured is not there.
    pub fn namespaces(&self, shared: &[&str]) -> Result<Fact, Fault> {
        let mut own = Vec::new();
        for kind in NAMESPACES {
            let path = format!("/proc/self/ns/{kind}");
            let ours = match fs::read_link(&path) {
                // gVisor's kernel does not have them all.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other.doing(format_args!("read our own `{path}`"))?,
            };
            let is_own = self.namespace(kind)? != ours.to_string_lossy();
            // A runtime without support for cgroup namespaces is an old one, not a broken one.
            if !is_own && kind != "cgroup" && !shared.contains(&kind) {
                return Err(Fault::machine(format!(
                    "the container shares this level's {kind} namespace"
                )));
            }
            if is_own {
                own.push(kind);
            }
        }
        Ok(Fact::new("own_namespaces", own.join(" "), "/proc/PID/ns"))
    }

    /// Reports whether it is filtered by seccomp, and its effective capabilities.
    ///
    /// # Errors
    /// The machine's, when it has ended.
    pub fn privileges(&self) -> Result<Vec<Fact>, Fault> {
        let status = self.text("status")?;
        let line = |key: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            found.map(|value| value.trim().to_owned())
        };
        let mode = match line("Seccomp").as_deref() {
            Some("0") => "none",
            Some("1") => "strict",
            Some("2") => "filter",
            _ => "unknown",
        };
        let capabilities = line("CapEff").unwrap_or_else(|| "unknown".to_owned());
        Ok(vec![
            Fact::new("seccomp", mode, "/proc/PID/status"),
            Fact::new("capabilities", capabilities, "/proc/PID/status"),
        ])
    }

    /// Returns its group, relative to each hierarchy's mount point.
    ///
    /// # Errors
    /// The machine's, when it has ended or no hierarchy has it.
    pub fn group(&self) -> Result<PathBuf, Fault> {
        self.group_of("cpuacct")
    }

    /// Finds its group in the hierarchy of cgroup v1 that has a controller, or else in cgroup v2.
    fn group_of(&self, controller: &str) -> Result<PathBuf, Fault> {
        let table = self.text("cgroup")?;
        let rows = || table.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let counted = |row: &Vec<&str>| {
            row.get(1).is_some_and(|names| names.split(',').any(|name| name == controller))
        };
        let unified = |row: &Vec<&str>| row.get(1) == Some(&"");
        let found = rows().find(counted).or_else(|| rows().find(unified));
        let path = found.and_then(|row| row.get(2).map(|path| path.trim_start_matches('/').into()));
        path.ok_or_else(|| Fault::machine(format!("process {} is in no group", self.pid)))
    }

    /// Reads its process id as it sees it itself, in the innermost of its namespaces.
    fn innermost_pid(&self) -> Result<String, Fault> {
        let status = self.text("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        Ok(line.split_whitespace().last().unwrap_or_default().to_owned())
    }

    /// Reads its parent's process id.
    ///
    /// # Errors
    /// The machine's, when it has ended.
    pub fn parent(&self) -> Result<u32, Fault> {
        let status = self.text("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line.unwrap_or_default().trim().parse().doing("read the parent of a process")
    }

    /// That it is in `group`, or in one below it.
    ///
    /// # Errors
    /// It is elsewhere: its usage would be counted for somebody else.
    pub fn group_is(&self, group: &Path) -> Result<Fact, Fault> {
        if !is_there(group, &self.hierarchies) {
            let none = "none of its own, since none can be made here";
            return Ok(Fact::new("cgroup", none, "/sys/fs/cgroup"));
        }
        self.is_in_group(group)
    }

    /// The same of a group that is known to be there.
    ///
    /// # Errors
    /// It is in another.
    pub fn is_in_group(&self, group: &Path) -> Result<Fact, Fault> {
        let table = self.text("cgroup")?;
        let mut paths = table.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        match paths.find(|path| is_in(path, group)) {
            Some(path) => Ok(Fact::new("cgroup", path, "/proc/PID/cgroup")),
            None => Err(Fault::machine(format!(
                "the container is not in the group `{}` but in {}",
                group.display(),
                table.trim().replace('\n', ", ")
            ))),
        }
    }

    /// The limits of a group, read back; each that was asked for must be there. Those on a disk
    /// must be there for the group of the process itself, where the kernel asks no group above it;
    /// that on huge pages for the one where the process is counted for them, which may be another
    /// than it was started in.
    ///
    /// # Errors
    /// One is not what was asked for.
    pub fn limits(&self, group: &Path, asked: &Limits) -> Result<Vec<Fact>, Fault> {
        let limits = Limits { io: IoLimits::default(), hugetlb: None, ..asked.clone() };
        let mut facts = held(&self.hierarchies, group, &limits)?;
        if asked.io != IoLimits::default() {
            let is_alone = self.hierarchies.of(THROTTLING).is_some();
            let group = if is_alone { self.group()? } else { group.to_owned() };
            let io = Limits { io: asked.io, ..Limits::default() };
            facts.extend(held(&self.hierarchies, &group, &io)?);
        }
        if asked.hugetlb.is_some() {
            let huge = Limits { hugetlb: asked.hugetlb, ..Limits::default() };
            facts.extend(held(&self.hierarchies, &self.group_of("hugetlb")?, &huge)?);
        }
        Ok(facts)
    }
}

/// Returns the fact of who shares the limits of a group with the command.
pub fn limited_together(who: &str) -> Fact {
    Fact::new("limited_together", who, "the group that they were started in")
}

/// Waits until nobody is in a group any more, or in one below it; says whether that came to be.
///
/// A tool may be gone a moment before the last process that it made.
pub fn empties(group: &Path, hierarchies: &Hierarchies, within: Duration) -> bool {
    let end = monotonic_raw() + within.into();
    let anybody = || {
        let mut all = hierarchies.0.iter().map(|hierarchy| hierarchy.directory(group));
        all.find_map(|directory| pids_below(&directory).first().copied())
    };
    for look in 0.. {
        let Some(pid) = anybody() else { break };
        let left = end.since(monotonic_raw());
        if left == Nanoseconds(0) {
            return false;
        }
        if !await_end(pid, left.into()) || look > SURE {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    true
}

/// Waits until a process has ended, at most so long, and says whether it has. One that cannot be
/// held on to has not: it is about to be gone.
fn await_end(pid: u32, within: Duration) -> bool {
    let held = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let held = held.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(held) = held else { return false };
    let within = within.min(STEP);
    let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&timeout)), Ok(1))
}

/// The processes of a group and of those below it; those that are gone meanwhile are left out.
pub(crate) fn pids_below(directory: &Path) -> Vec<u32> {
    let text = counters::text_of(directory.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    // A directory without others in it has two names: its own, and `.`.
    if fs::metadata(directory).is_ok_and(|group| group.nlink() == 2) {
        return pids;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(pids_below(&entry.path()));
        }
    }
    pids
}

/// Tells whether a group is there, or would be: who is root of a namespace of their own may often
/// make none.
fn is_there(group: &Path, hierarchies: &Hierarchies) -> bool {
    !us::is_in_a_namespace()
        || hierarchies.0.iter().any(|hierarchy| hierarchy.directory(group).is_dir())
}

/// Tells whether a path of `/proc/PID/cgroup` is that of a group or of one below it. In a nested
/// level the kernel may put the path of the level's own group in front.
fn is_in(path: &str, group: &Path) -> bool {
    let group = format!("/{}", group.display());
    path.ends_with(&group) || path.contains(&format!("{group}/"))
}

#[cfg(test)]
mod tests {
    use crate::container::first_process::*;

    #[test]
    fn a_group_is_found_below_the_group_of_its_level() {
        let group = Path::new("surtax-2/room/container");
        assert!(is_in("/surtax-2/room/container", group));
        assert!(is_in("/surtax-2/room/container/c0ffee", group));
        assert!(is_in("/surtax-1/room/container/surtax-2/room/container", group));
        assert!(!is_in("/surtax-2/room", group));
        assert!(!is_in("/surtax-2/room/container2", group));
    }
}
