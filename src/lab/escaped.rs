//! Processes that left their groups: found by the root that was made for them, and killed.
//!
//! A command that is root on this level may write itself into another group, begin a session, and kill
//! whoever started it. What it keeps is its root: an overlay whose upper directory lies in the room, which
//! the kernel tells of every process, also of one that has made a mount namespace of its own since. One that
//! enters the namespaces of a process outside has this machine's root, and cannot be told from anybody.
//!
//! The path is only text: another user's mount namespace may have an overlay with the same, and its processes are not
//! ours to kill. So only those count that see mounts of this user's.
//!
//! Source: `proc_pid_mountinfo(5)`; `NS_GET_USERNS` in `ioctl_ns(2)`; `upperdir=` in Linux `fs/overlayfs/params.c`.

use super::{process, processes};
use crate::fault::{Doing, Fault};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the list of processes is read again: what is forked meanwhile is killed by the next pass.
const PASS_LIMIT: u32 = 200;

/// Which user namespace another one belongs to. Source: Linux `include/uapi/linux/nsfs.h`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// Whose user namespace it is. Source: the same.
const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;

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
fn rooted_in(places: &[&Path]) -> Result<Vec<u32>, Fault> {
    let ours = fs::read_link("/proc/self/ns/mnt").doing("look at our mount namespace")?;
    let elsewhere = processes::ids()?.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|namespace| namespace != ours)
    });
    let is_rooted = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        upper_of_root(&table).any(|upper| places.iter().any(|place| upper.starts_with(place)))
    };
    Ok(elsewhere.filter(is_rooted).filter(|pid| is_of_this_user(*pid)).collect())
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

/// Whether the mounts that a process sees were made with the rights of this process's user, or of one that it has made
/// itself. A kernel that does not say so has them made by this one.
fn is_of_this_user(pid: u32) -> bool {
    let Ok(mounts) = File::open(format!("/proc/{pid}/ns/mnt")) else { return false };
    let (Ok(owner), Ok(ours)) = (owner_of(&mounts), fs::metadata("/proc/self/ns/user")) else {
        return true;
    };
    let is_our_own =
        owner.metadata().is_ok_and(|owner| (owner.dev(), owner.ino()) == (ours.dev(), ours.ino()));
    is_our_own || user_of(&owner).is_none_or(|user| user == rustix::process::geteuid().as_raw())
}

/// The user namespace that another namespace belongs to.
fn owner_of(namespace: &File) -> std::io::Result<File> {
    // SAFETY: the request takes no argument, and gives a new descriptor.
    match unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) } {
        -1 => Err(std::io::Error::last_os_error()),
        // SAFETY: it was made for us just now, and nobody else knows its number.
        owner => Ok(unsafe { File::from_raw_fd(owner) }),
    }
}

/// Who made a user namespace.
fn user_of(namespace: &File) -> Option<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the pointer is to a value of ours, of the kind that the request writes.
    let asked = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID, &raw mut user) };
    (asked == 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_told_from_what_is_mounted_below_it_and_from_another_kind() {
        let table = "\
            22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            61 22 0:44 / / rw - overlay surtax rw,lowerdir=/usr,upperdir=/run/surtax/1/a/root/0/upper,workdir=/w\n\
            62 61 0:45 / /home rw - overlay surtax rw,lowerdir=/home,upperdir=/run/surtax/2/b/upper,workdir=/w\n";
        let found: Vec<PathBuf> = upper_of_root(table).collect();
        assert_eq!(found, [PathBuf::from("/run/surtax/1/a/root/0/upper")]);
        assert!(!found[0].starts_with("/run/surtax/1/aa"), "a name is compared as a whole");
    }

    /// Another user, in namespaces of their own, whose root is an overlay below this directory; `None` where users may
    /// make no such things.
    #[expect(clippy::disallowed_methods, reason = "somebody else's process, which the test ends")]
    fn another_user_rooted_in(place: &Path) -> Option<std::process::Child> {
        let script = r#"mount -t tmpfs t /run && mkdir -p "$1/upper" "$1/work" /run/root &&
            mount -t overlay o -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work,userxattr" /run/root &&
            exec chroot /run/root /bin/sleep 60"#;
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
        let mut other = std::process::Command::new("setpriv")
            .args(user)
            .args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(place)
            .spawn()
            .ok()?;
        let path = format!("/proc/{}/mountinfo", other.id());
        while other.try_wait().ok()?.is_none() {
            let table = fs::read_to_string(&path).unwrap_or_default();
            if upper_of_root(&table).any(|upper| upper.starts_with(place)) {
                return Some(other);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    #[test]
    fn an_overlay_of_our_name_in_a_namespace_of_another_users_is_left_alone() {
        let place = Path::new("/run/surtax/of-a-test");
        let Some(mut other) = another_user_rooted_in(place) else {
            println!("SKIPPED: users may make no such namespaces here");
            return;
        };
        let found = end(&[place]).unwrap();
        let lives = other.try_wait().unwrap().is_none();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((found, lives), (Vec::<String>::new(), true));
    }

    #[test]
    fn nobody_has_a_root_in_a_directory_that_there_is_not() {
        assert_eq!(end(&[Path::new("/run/surtax/none")]).unwrap(), Vec::<String>::new());
    }
}
