//! Medium that really holds the scratch directory: on which file system its data finally lies, and
//! on which disk that is.
//!
//! A layer's own root tells nothing of it: an overlay is as fast as what holds its upper directory,
//! and that may be memory or a disk. So the kernel is asked of every process that works for the
//! layer, from outside. What only a guest or a sandbox can tell is said to be its own.

use crate::container::first_process::{FirstProcess, pids_below};
use crate::lab::{DISK_DIRECTORY, disk};
use crate::layer::medium::Medium;
use crate::layer::{Payer, Running, Source, value_of};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::backing::{self, Backing, MEMORY};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, SCRATCH};

/// Facts about what holds the scratch directory, where that is known.
struct Told {
    /// In words that end at the disk: `ext4 on vda`, `tmpfs (memory)`.
    words: String,
    /// Kind of place in which its data finally lie.
    lies_in: String,
}

/// Word for what nobody can tell.
const UNKNOWN: &str = "unknown";

/// Name that gVisor gives the process that serves files to its sandbox.
const GOFER: &str = "runsc-gofer\0";

/// The word by which a sandbox keeps what is written to its root in its own memory.
const KEPT_BY_THE_SANDBOX: &str = "--overlay2=root:memory\0";

/// Proves what holds the scratch directory, and whether that is memory or a disk.
pub(super) fn facts(
    medium: Medium,
    running: &dyn Running,
    hierarchies: &Hierarchies,
    inside: &[Fact],
) -> [Fact; 2] {
    let payers = running.payers();
    let pids = payers.iter().flat_map(|payer| pids(payer, hierarchies));
    let processes: Vec<PathBuf> =
        std::iter::once(PathBuf::from("/proc/self")).chain(pids.map(directory)).collect();
    let (told, source) = match FirstProcess::agent_of(&payers, hierarchies, inside) {
        Some(agent) => {
            let held = as_seen_by(&directory(agent.pid()), processes);
            (held.as_ref().map(told), "/proc/PID/mountinfo of the agent and of who works for it")
        }
        None => elsewhere(medium, &processes, inside),
    };
    let (words, lies_in) = told.map_or_else(
        || (UNKNOWN.to_owned(), UNKNOWN.to_owned()),
        |told| (told.words, told.lies_in),
    );
    [Fact::new("scratch_held_by", words, source), Fact::new("scratch_lies_in", lies_in, source)]
}

/// Returns what holds the directory of a process. In a container, places of this level may be seen
/// through an overlay of the container's own: so upper directories are looked for with others
/// first.
fn as_seen_by(process: &Path, others: Vec<PathBuf>) -> Option<Backing> {
    let mounts = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let own = mounts(process);
    let (within, outside): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|other| mounts(other) == own);
    let others: Vec<PathBuf> = outside.into_iter().chain(within).collect();
    backing::by(process, Path::new(SCRATCH), &others)
}

/// Returns what holds the scratch directory of a kernel which is not ours.
fn elsewhere(
    medium: Medium,
    processes: &[PathBuf],
    inside: &[Fact],
) -> (Option<Told>, &'static str) {
    let by_the_inside = |held: &str, lies_in: &str| {
        Some(Told { words: format!("{held}, by the kernel inside"), lies_in: lies_in.to_owned() })
    };
    let gofer = processes.iter().find(|process| command_line(process).starts_with(GOFER));
    if let (Some(gofer), Medium::Layer | Medium::Volume) = (gofer, medium) {
        let keeps = |process: &PathBuf| command_line(process).contains(KEPT_BY_THE_SANDBOX);
        if medium == Medium::Layer && processes.iter().any(keeps) {
            return (by_the_inside("tmpfs (memory)", MEMORY), "/proc/PID/cmdline of the sandbox");
        }
        // What it keeps in a file lies in the root that its gofer serves.
        let held = as_seen_by(gofer, processes.to_vec());
        return (
            held.as_ref().map(told),
            "/proc/PID/mountinfo of the gofer and of who works for it",
        );
    }
    match medium {
        Medium::Tmpfs => (by_the_inside("tmpfs (memory)", MEMORY), "its kind"),
        Medium::Bind | Medium::Disk => {
            let held = backing::by(Path::new("/proc/self"), Path::new(DISK_DIRECTORY), &[]);
            (held.as_ref().map(told), "/proc/self/mountinfo: what the directory or disk lies on")
        }
        Medium::Layer | Medium::Volume => {
            let of_root = |key| value_of(inside, key).ok();
            let told = of_root("root_held_by").zip(of_root("root_lies_in"));
            let told = told.and_then(|(held, lies_in)| by_the_inside(held, lies_in));
            (told, "/proc/self/mountinfo inside")
        }
    }
}

/// The words of a process's command line, each with a zero byte behind it.
fn command_line(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns what a file system is and lies in, with what lies below its device.
fn told(held: &Backing) -> Told {
    let below = disk::under(held);
    if below.is_empty() {
        return Told { words: held.to_string(), lies_in: held.lies_in().to_owned() };
    }
    let file = disk::file_of_a_loop(&below).and_then(|file| {
        let directory = file.parent()?;
        backing::by(Path::new("/proc/self"), directory, &[]).filter(|lower| lower != held)
    });
    let (kind, names) = (&held.kind, below.join(" "));
    match file {
        Some(lower) => {
            let Told { words, lies_in } = told(&lower);
            Told { words: format!("{kind} on {names}, a file of {words}"), lies_in }
        }
        None => Told { words: format!("{kind} on {names}"), lies_in: held.lies_in().to_owned() },
    }
}

fn pids(payer: &Payer, hierarchies: &Hierarchies) -> Vec<u32> {
    match &payer.source {
        Source::Process(pid) | Source::Threads { pid, .. } | Source::OtherThreads { pid, .. } => {
            vec![*pid]
        }
        Source::Group(group) => {
            let all = hierarchies.0.iter().map(|hierarchy| hierarchy.directory(group));
            let mut pids: Vec<u32> = all.flat_map(|directory| pids_below(&directory)).collect();
            pids.sort_unstable();
            pids.dedup();
            pids
        }
        Source::Domain(_) | Source::Machine | Source::Link(_) => Vec::new(),
    }
}

fn directory(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::backing::DISK;

    fn held(kind: &str, source: &str, device: (u32, u32)) -> Backing {
        Backing { kind: kind.into(), source: source.into(), device }
    }

    #[test]
    fn memory_and_files_of_a_host_are_on_no_disk_of_this_level() {
        for (held, words, lies_in) in [
            (held("tmpfs", "surtax", (0, 43)), "tmpfs (memory)", MEMORY),
            (held("virtiofs", "hostroot", (0, 44)), "virtiofs from `hostroot`", DISK),
            (held("ext4", "/dev/surtax-none", (0, 0)), "ext4 from `/dev/surtax-none`", DISK),
        ] {
            let found = told(&held);
            assert_eq!((found.words.as_str(), found.lies_in.as_str()), (words, lies_in));
        }
    }

    #[test]
    fn what_only_the_inside_can_tell_is_said_to_be_its_own() {
        let none: &[PathBuf] = &[];
        let facts = [
            Fact::new("root_held_by", "tmpfs (memory)", "test"),
            Fact::new("root_lies_in", MEMORY, "test"),
        ];
        let told = elsewhere(Medium::Layer, none, &facts).0.unwrap();
        assert_eq!(told.words, "tmpfs (memory), by the kernel inside");
        assert_eq!(told.lies_in, MEMORY);
        assert_eq!(elsewhere(Medium::Tmpfs, none, &[]).0.unwrap().lies_in, MEMORY);
        assert!(elsewhere(Medium::Layer, none, &[]).0.is_none(), "nobody can tell");
    }
}
