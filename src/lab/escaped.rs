//! Processes that left their groups: found by the root that was made for them, and killed.
//!
//! A command that is root on this level may write itself into another group, begin a session, and kill
//! whoever started it. What it keeps is its root: an overlay whose upper directory lies in the room, which
//! the kernel tells of every process, also of one that has made a mount namespace of its own since. One that
//! enters the namespaces of a process outside has this machine's root, and cannot be told from anybody.
//!
//! The path is only text: another user's mount namespace may have an overlay with the same, and its processes are not
//! ours to kill. So each overlay's device number is written down beside its upper directory when it is mounted.
//!
//! Source: `proc_pid_mountinfo(5)`; `upperdir=` in Linux `fs/overlayfs/params.c`.

use super::{process, processes};
use crate::fault::{Doing, Fault};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// How often the list of processes is read again: what is forked meanwhile is killed by the next pass.
const PASS_LIMIT: u32 = 200;

/// Between two passes.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes down which device an overlay is that was just mounted, for [`end`].
///
/// # Errors
/// The machine's: the mount cannot be looked at, or the file beside its upper directory cannot be written.
pub(super) fn remember(upper: &Path, mounted: &Path) -> Result<(), Fault> {
    let doing = || format!("write down which device `{}` is", mounted.display());
    let device = fs::metadata(mounted).doing(doing())?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    fs::write(record_of(upper), number).doing(doing())
}

/// Where the number of an overlay's device stands.
fn record_of(upper: &Path) -> PathBuf {
    let mut name = OsString::from(upper);
    name.push(".device");
    PathBuf::from(name)
}

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
    let is_ours = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        roots(&table).any(|root| places.iter().any(|place| root.is_ours(place)))
    };
    Ok(elsewhere.filter(is_ours).collect())
}

/// The overlay that a process has as its root, by its mount table.
#[derive(Debug, PartialEq, Eq)]
struct Root {
    /// The kernel's number of it.
    device: String,
    /// Where what is written to it goes, in the words of whoever mounted it.
    upper: PathBuf,
}

impl Root {
    fn is_ours(&self, place: &Path) -> bool {
        let is_plain = self.upper.components().all(|part| part != Component::ParentDir);
        is_plain
            && self.upper.starts_with(place)
            && fs::read_to_string(record_of(&self.upper)).is_ok_and(|number| number == self.device)
    }
}

fn roots(table: &str) -> impl Iterator<Item = Root> {
    table.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(2);
        let (device, _, target) = (words.next()?, words.next()?, words.next()?);
        let options = system.strip_prefix("overlay ")?.split(' ').nth(1)?;
        let upper = options.split(',').find_map(|word| word.strip_prefix("upperdir="))?;
        (target == "/").then(|| Root { device: device.into(), upper: PathBuf::from(upper) })
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
        let upper = PathBuf::from("/run/surtax/1/a/root/0/upper");
        assert_eq!(roots(table).collect::<Vec<_>>(), [Root { device: "0:44".into(), upper }]);
    }

    #[test]
    fn an_overlay_of_the_same_path_and_another_device_is_somebody_elses() {
        let place = tempfile::tempdir().unwrap();
        let root = |upper: PathBuf, device: &str| Root { device: device.into(), upper };
        let upper = place.path().join("upper");
        fs::create_dir(&upper).unwrap();
        assert!(!root(upper.clone(), "0:44").is_ours(place.path()), "nothing was written down");
        remember(&upper, Path::new("/proc")).unwrap();
        let number = fs::read_to_string(record_of(&upper)).unwrap();
        assert!(root(upper.clone(), &number).is_ours(place.path()), "{number}");
        assert!(!root(upper.clone(), "0:4444").is_ours(place.path()));
        assert!(!root(upper.clone(), &number).is_ours(&place.path().join("up")), "a whole name");
        let around = place.path().join("upper/../upper");
        assert!(!root(around, &number).is_ours(&place.path().join("upper")));
    }

    #[test]
    fn nobody_has_a_root_in_a_directory_that_there_is_not() {
        assert_eq!(end(&[Path::new("/run/surtax/none")]).unwrap(), Vec::<String>::new());
    }
}
