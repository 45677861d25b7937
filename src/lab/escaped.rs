//! Processes that left their groups: found by the root that was made for them, and killed.
//!
//! A command that is root on this level may write itself into another group, begin a session, and
//! kill whoever started it. What it keeps is its root: an overlay whose upper directory lies in the
//! room. The kernel gives every overlay a device number, which all directories in it have, whatever
//! the mount table of a process says and whoever it has become since. One that enters the
//! namespaces of a process outside, or moves to a root of its own making, cannot be told from
//! anybody.
//!
//! While a room is open its overlays are held, so no other has their numbers. After a kill of this
//! process a number may be another overlay's by now: then the upper directory must be the same,
//! too. That is only text, but who has both has mounted it.
//!
//! Source: `proc_pid_root(5)`, `proc_pid_mountinfo(5)`; `upperdir=` in Linux
//! `fs/overlayfs/params.c`.

use super::processes;
use crate::fault::Fault;
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use surtax_instrument::{counters, mountinfo};

/// An overlay that somebody may have as a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlaid {
    /// Directory that its writes go to.
    pub upper: PathBuf,
    /// Device number of the overlay.
    pub device: u64,
}

/// State of overlays: still held or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Are {
    /// Their device numbers are nobody else's.
    Held,
    /// They may be gone, and their numbers somebody else's.
    Left,
}

/// Kills every process whose root is in one of these overlays. Says who they were.
///
/// # Errors
/// The machine's: they cannot be listed, or do not die.
pub(super) fn end(overlays: &[Overlaid], are: Are) -> Result<Vec<String>, Fault> {
    if overlays.is_empty() {
        return Ok(Vec::new());
    }
    let directory = processes::directory()?;
    processes::end_all("had left its groups", |pid| {
        is_rooted_in(directory.as_fd(), pid, overlays, are)
    })
}

fn is_rooted_in(all: BorrowedFd<'_>, pid: u32, overlays: &[Overlaid], are: Are) -> bool {
    let Some(device) = device_of_root(all, pid) else { return false };
    let mut of_number = overlays.iter().filter(|it| it.device == device);
    match are {
        Are::Held => of_number.next().is_some(),
        Are::Left => of_number.any(|it| {
            let table = counters::bytes_of(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            has_root(&table, &it.upper)
        }),
    }
}

/// The device number of a process's root, without a question to whoever serves that file system.
/// `all` is the directory of all processes.
fn device_of_root(all: BorrowedFd<'_>, pid: u32) -> Option<u64> {
    let path = format!("{pid}/root");
    let found = statx(all, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    Some(rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// Tells whether the mount table of a process says that its root is an overlay over this directory,
/// or is named after it.
fn has_root(table: &[u8], upper: &Path) -> bool {
    mountinfo::parse(table).iter().any(|it| {
        let is_named = it.upper().as_deref() == Some(upper) || Path::new(&it.source) == upper;
        it.point == Path::new("/") && is_named
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_told_from_what_is_mounted_below_it_and_from_another_one() {
        let table = "22 1 254:0 / / rw - ext4 /dev/vda rw\n61 22 0:44 / / rw - overlay surtax \
                     rw,lowerdir=/usr,upperdir=/run/surtax/1/a/root/0/upper,workdir=/w\n62 61 0:45 \
                     / /home rw - overlay surtax \
                     rw,lowerdir=/home,upperdir=/run/surtax/2/b/upper,workdir=/w\n";
        assert!(has_root(table.as_bytes(), Path::new("/run/surtax/1/a/root/0/upper")));
        assert!(
            !has_root(table.as_bytes(), Path::new("/run/surtax/1/a/root/0")),
            "a name is compared as a whole"
        );
        assert!(!has_root(table.as_bytes(), Path::new("/run/surtax/2/b/upper")), "it is no root");
        // One that was put together of parts lies in memory.
        let table = "61 22 0:44 / / rw - tmpfs /run/surtax/1/a/root/0/upper rw\n";
        assert!(has_root(table.as_bytes(), Path::new("/run/surtax/1/a/root/0/upper")));
    }

    /// Somebody in namespaces of their own, whose root is an overlay over this directory; `None`
    /// where users may make no such things.
    #[expect(clippy::disallowed_methods, reason = "somebody else's process, which the test ends")]
    fn another_user_rooted_in(place: &Path) -> Option<(std::process::Child, Overlaid)> {
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
        let table = format!("/proc/{}/mountinfo", other.id());
        let upper = place.join("upper");
        while other.try_wait().ok()?.is_none() {
            if has_root(&counters::bytes_of(&table).unwrap_or_default(), &upper) {
                let all = processes::directory().ok()?;
                let device = device_of_root(all.as_fd(), other.id())?;
                return Some((other, Overlaid { upper, device }));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        None
    }

    #[test]
    fn a_root_of_ours_is_known_by_its_number_and_by_its_name_where_the_number_may_be_anothers() {
        let place = Path::new("/run/surtax/of-a-test");
        let Some((mut other, overlaid)) = another_user_rooted_in(place) else {
            println!("SKIPPED: users may make no such namespaces here");
            return;
        };
        let of_another_number = [Overlaid { device: overlaid.device + 1, ..overlaid.clone() }];
        let of_another_name = Overlaid { upper: place.join("else"), ..overlaid.clone() };
        let mut spared = end(&of_another_number, Are::Left).unwrap();
        spared.extend(end(&of_another_number, Are::Held).unwrap());
        spared.extend(end(&[of_another_name], Are::Left).unwrap());
        let lives = other.try_wait().unwrap().is_none();
        let found = end(&[overlaid], Are::Left).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((spared, lives), (Vec::<String>::new(), true));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
