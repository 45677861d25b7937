//! Checks whether something holds an adversary: the limits of its own cgroup and of all above it.
//!
//! | what | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | processes | `pids.max` | `pids.max` |
//! | memory | `memory.max` | `memory.limit_in_bytes` |
//!
//! A virtual machine that our agent has booted holds whatever is in it, and needs no such limit.
//!
//! Source: Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/{pids,memory}.rst`.

use super::super::Refused;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surtax_instrument::counters;
use surtax_instrument::probe::cgroup::{Hierarchies, Version};

/// The most processes that count as a limit: what a distribution allows all in all is none.
const PROCESSES_MOST: u64 = 8192;

/// Resource that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Processes,
    Memory,
}

/// Limit that holds an adversary, for the answer.
pub(super) struct Holder {
    /// The limit; absent in a guest, which is one itself.
    pub limit: Option<u64>,
    /// In words.
    pub by: String,
}

/// Finds what holds it.
///
/// # Errors
/// Nothing does.
pub(super) fn require(what: What) -> Result<Holder, Refused> {
    find(Path::new("/"), what).ok_or_else(|| {
        let (word, example) = match what {
            What::Processes => ("processes", "pids=100"),
            What::Memory => ("memory", "memory=256M"),
        };
        Refused::user(format!("no limit on {word} holds this adversary, so it is not let go"))
            .hint(format!("give its stack one, as in `runc:{example}`"))
    })
}

fn find(root: &Path, what: What) -> Option<Holder> {
    let most = match what {
        What::Processes => PROCESSES_MOST,
        What::Memory => total_memory(root)? / 10 * 9,
    };
    let limit = limits(root, what).into_iter().min().filter(|limit| *limit <= most);
    match limit {
        Some(_) => Some(Holder { limit, by: String::from("a limit of its cgroup") }),
        None if is_own_guest(root) => {
            Some(Holder { limit, by: String::from("a virtual machine that the agent has booted") })
        }
        None => None,
    }
}

/// Every limit on the way from the own group to the top.
fn limits(root: &Path, what: What) -> Vec<u64> {
    let Ok(hierarchies) = Hierarchies::discover_below(root) else { return Vec::new() };
    let controller = match what {
        What::Processes => "pids",
        What::Memory => "memory",
    };
    let Some(hierarchy) = hierarchies.of(controller) else { return Vec::new() };
    let file = match (what, hierarchy.version) {
        (What::Processes, _) => "pids.max",
        (What::Memory, Version::Two) => "memory.max",
        (What::Memory, Version::One) => "memory.limit_in_bytes",
    };
    // In a container, what is mounted is often the own group itself, and no path leads to it.
    let own = hierarchy.own_group(root, controller).unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
    hierarchy.way_up(&own).iter().filter_map(|place| read(&place.join(file))).collect()
}

fn total_memory(root: &Path) -> Option<u64> {
    counters::bytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemTotal")
}

/// Tells whether the first process is this very program, and the second the kernel's own: no
/// container has both.
fn is_own_guest(root: &Path) -> bool {
    let file = |process: &str| {
        let found = fs::metadata(root.join("proc").join(process).join("exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    let second = fs::read_to_string(root.join("proc/2/comm")).unwrap_or_default();
    second.trim() == "kthreadd" && file("1").is_some() && file("1") == file("self")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Files that stand for `/proc` and the hierarchies of some machine.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// A machine of files, with one group below `/a`, in which these limits are set.
    fn machine(pids: &str, pids_above: &str, memory: &str) -> TempDir {
        let mounts =
            "1 1 0:1 / /p rw - cgroup cgroup rw,pids\n2 1 0:2 / /m rw - cgroup cgroup rw,memory\n";
        tree(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "2:pids:/a/b\n1:memory:/a/b\n"),
            ("proc/meminfo", "MemTotal: 1000 kB\n"),
            ("p/cgroup.procs", ""),
            ("m/cgroup.procs", ""),
            ("p/a/pids.max", pids_above),
            ("p/a/b/pids.max", pids),
            ("m/a/b/memory.limit_in_bytes", memory),
        ])
    }

    fn limit(root: &TempDir, what: What) -> Option<u64> {
        find(root.path(), what).and_then(|holder| holder.limit)
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_holds() {
        let held = machine("max\n", "64\n", "4096\n");
        assert_eq!(limit(&held, What::Processes), Some(64));
        assert_eq!(limit(&held, What::Memory), Some(4096));
        let held = machine("32\n", "64\n", "1000000\n");
        assert_eq!(limit(&held, What::Processes), Some(32));
        assert_eq!(limit(&held, What::Memory), None, "nearly all of the memory is no limit");
    }

    #[test]
    fn nothing_holds_where_nothing_is_limited() {
        let free = machine("max\n", "30000\n", "9223372036854771712\n");
        assert!(find(free.path(), What::Processes).is_none());
        assert!(find(free.path(), What::Memory).is_none());
        assert!(find(tree(&[]).path(), What::Processes).is_none());
    }
}
