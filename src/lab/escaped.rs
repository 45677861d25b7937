//! Processes that left their groups: found by the root that was made for them, and killed.
//!
//! A command that is root on this level may write itself into another group, begin a session, and kill
//! whoever started it. What it keeps is its root: an overlay whose upper directory lies in the room, which
//! the kernel tells of every process, also of one that has made a mount namespace of its own since. One that
//! enters the namespaces of a process outside has this machine's root, and cannot be told from anybody.
//!
//! Source: `proc_pid_mountinfo(5)`; `upperdir=` in Linux `fs/overlayfs/params.c`.

use super::process;
use crate::fault::{Doing, Fault};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the list of processes is read again: what is forked meanwhile is killed by the next pass.
const PASS_LIMIT: u32 = 200;

/// Between two passes.
const PAUSE: Duration = Duration::from_millis(10);

/// Kills every process whose root is written to below one of these directories. Says who they were.
///
/// # Errors
/// The machine's: they cannot be listed, or do not die.
pub(super) fn end(places: &[&Path]) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for _ in 0..PASS_LIMIT {
        let pids = rooted_in(places)?;
        if pids.is_empty() {
            return Ok(found);
        }
        for pid in pids {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let line = format!("process `{}` ({pid}) had left its groups", name.trim_end());
            if !found.contains(&line) {
                found.push(line);
            }
            process::signal(pid, Signal::KILL)?;
        }
        std::thread::sleep(PAUSE);
    }
    Err(Fault::machine(format!("{}, and does not die", found.join(", ")))
        .hint("look for processes in state D with `ps -eo pid,stat,wchan,comm`"))
}

/// The processes whose root is such an overlay. Those in this mount namespace have this machine's root.
fn rooted_in(places: &[&Path]) -> Result<Vec<u32>, Fault> {
    let ours = fs::read_link("/proc/self/ns/mnt").doing("look at our mount namespace")?;
    let processes = fs::read_dir("/proc").doing("list processes in `/proc`")?;
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let elsewhere = pids.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|namespace| namespace != ours)
    });
    let is_ours = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        upper_of_root(&table).any(|upper| places.iter().any(|place| upper.starts_with(place)))
    };
    Ok(elsewhere.filter(is_ours).collect())
}

/// Where what is written to a root goes, by the mount table of a process in it.
fn upper_of_root(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let is_root = mount.split(' ').nth(4) == Some("/");
        let options = system.strip_prefix("overlay ")?.split(' ').nth(1)?;
        let upper = options.split(',').find_map(|word| word.strip_prefix("upperdir="))?;
        is_root.then(|| PathBuf::from(upper))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_told_from_what_is_mounted_below_it_and_from_another_kind() {
        let table = "\
            22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            61 22 0:44 / / rw - overlay surtax rw,lowerdir=/,upperdir=/run/surtax/1/a/root/0/upper,workdir=/w\n\
            62 61 0:45 / /home rw - overlay surtax rw,lowerdir=/home,upperdir=/run/surtax/2/b/upper,workdir=/w\n";
        let found: Vec<PathBuf> = upper_of_root(table).collect();
        assert_eq!(found, [PathBuf::from("/run/surtax/1/a/root/0/upper")]);
        assert!(!found[0].starts_with("/run/surtax/1/aa"), "a name is compared as a whole");
    }

    #[test]
    fn nobody_has_a_root_in_a_directory_that_there_is_not() {
        assert_eq!(end(&[Path::new("/run/surtax/none")]).unwrap(), Vec::<String>::new());
    }
}
