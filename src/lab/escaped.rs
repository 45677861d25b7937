//! Processes that left their groups: found by the root that was made for them, and killed.
//!
//! A command that is root on this level may write itself into another group, begin a session, and kill
//! whoever started it. What it keeps is its root: an overlay whose upper directory lies in the room, which
//! the kernel tells of every process, also of one that has made a mount namespace of its own since. One that
//! enters the namespaces of a process outside has this machine's root, and cannot be told from anybody.
//!
//! The path is only text, and another user's mount namespace may have an overlay with the same. So a lab's overlays
//! also carry its mark, which nobody can guess and only those see who are in one of its roots.
//!
//! Source: `proc_pid_mountinfo(5)`; `upperdir=` in Linux `fs/overlayfs/params.c`.

use super::{process, processes};
use crate::fault::{Doing, Fault};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How often the list of processes is read again: what is forked meanwhile is killed by the next pass.
const PASS_LIMIT: u32 = 200;

/// Between two passes.
const PAUSE: Duration = Duration::from_millis(10);

/// Kills every process whose root is an overlay of this mark, written to below one of these directories if some are
/// named. Says who they were.
///
/// # Errors
/// The machine's: they cannot be listed, or do not die.
pub(super) fn end(mark: &str, places: Option<&[&Path]>) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for _ in 0..PASS_LIMIT {
        let pids = rooted_in(mark, places)?;
        if pids.is_empty() {
            return Ok(found);
        }
        for pid in pids {
            let line = format!("process `{}` ({pid}) had left its groups", processes::name(pid));
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
fn rooted_in(mark: &str, places: Option<&[&Path]>) -> Result<Vec<u32>, Fault> {
    let ours = fs::read_link("/proc/self/ns/mnt").doing("look at our mount namespace")?;
    let elsewhere = processes::ids()?.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|namespace| namespace != ours)
    });
    let is_rooted = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        has_root(&table, mark, places)
    };
    Ok(elsewhere.filter(is_rooted).collect())
}

/// Whether the mount table of a process says that its root is such an overlay.
fn has_root(table: &str, mark: &str, places: Option<&[&Path]>) -> bool {
    table.lines().any(|line| {
        let Some((mount, system)) = line.split_once(" - overlay ") else { return false };
        let Some((source, options)) = system.split_once(' ') else { return false };
        let upper = options.split(',').find_map(|word| word.strip_prefix("upperdir="));
        let is_there = |places: &[&Path]| {
            upper
                .is_some_and(|upper| places.iter().any(|place| Path::new(upper).starts_with(place)))
        };
        mount.split(' ').nth(4) == Some("/") && source == mark && places.is_none_or(is_there)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_told_from_what_is_mounted_below_it_and_from_one_of_another_mark() {
        let table = "\
            22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            61 22 0:44 / / rw - overlay surtax-1a rw,lowerdir=/usr,upperdir=/run/surtax/1/a/root/0/upper,workdir=/w\n\
            62 61 0:45 / /home rw - overlay surtax-2b rw,lowerdir=/home,upperdir=/run/surtax/2/b/upper,workdir=/w\n";
        let is_below = |mark, place| has_root(table, mark, Some(&[Path::new(place)]));
        assert!(is_below("surtax-1a", "/run/surtax/1/a"));
        assert!(!is_below("surtax-1a", "/run/surtax/1/aa"), "a name is compared as a whole");
        assert!(!is_below("surtax-2b", "/run/surtax/2/b"), "it is no root");
        assert!(has_root(table, "surtax-1a", None));
        assert!(!has_root(table, "surtax-1", None));
    }

    /// Somebody in namespaces of their own, whose root is an overlay below this directory, with this mark; `None` where
    /// users may make no such things.
    #[expect(clippy::disallowed_methods, reason = "somebody else's process, which the test ends")]
    fn another_user_rooted_in(place: &Path, mark: &str) -> Option<std::process::Child> {
        let script = r#"mount -t tmpfs t /run && mkdir -p "$1/upper" "$1/work" /run/root &&
            mount -t overlay "$2" -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work,userxattr" /run/root &&
            exec chroot /run/root /bin/sleep 60"#;
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
        let mut other = std::process::Command::new("setpriv")
            .args(user)
            .args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .args([place.as_os_str(), mark.as_ref()])
            .spawn()
            .ok()?;
        let path = format!("/proc/{}/mountinfo", other.id());
        while other.try_wait().ok()?.is_none() {
            let table = fs::read_to_string(&path).unwrap_or_default();
            if has_root(&table, mark, Some(&[place])) {
                return Some(other);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    #[test]
    fn whoever_it_is_has_a_root_of_ours_by_its_mark_alone() {
        let place = Path::new("/run/surtax/of-a-test");
        let (ours, theirs) = ("surtax-of-a-test-1", "surtax-of-a-test-2");
        let Some(mut other) = another_user_rooted_in(place, theirs) else {
            println!("SKIPPED: users may make no such namespaces here");
            return;
        };
        let spared = end(ours, Some(&[place])).unwrap();
        let lives = other.try_wait().unwrap().is_none();
        let found = end(theirs, None).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((spared, lives), (Vec::<String>::new(), true));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
