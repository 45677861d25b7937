//! Bytes that a group has read from disks and written to them.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | read | `io.stat`: `rbytes` | `Read` of `blkio.throttle.io_service_bytes_recursive` |
//! | written | `io.stat`: `wbytes` | `Write` of the same |
//!
//! - **Reads** what was sent to disks for processes of the group and of those below it. Where one
//!   lies on another (a volume, an encrypted one, a file as a disk), the kernel counts the same
//!   bytes at each: they count once, as those at the height at which there are the most. Of a
//!   mirror those of every copy count.
//! - **Costs** one `pread`; where several disks were used, once a look at `/sys/dev/block` of each.
//! - **Cannot see** with version 1, what the kernel wrote later, in a thread of its own: of writes
//!   through the page cache only those that a process waited for (`fsync`); and what a group below
//!   had when it ended meanwhile. With version 2, of what the kernel writes later when it was
//!   written to a file. With either, what still waits in memory; and a part of what went to disks
//!   at several heights, where the kernel did not count the lower one.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst`,
//!   `cgroup-v1/blkio-controller.rst`, `Documentation/ABI/testing/sysfs-block`.

use super::cgroup::Hierarchy;
use crate::counters;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file of version 1 with the bytes of each disk.
pub(super) const VERSION_1: &str = "blkio.throttle.io_service_bytes_recursive";

/// The most disks that lie one on the other.
const HEIGHT_LIMIT: usize = 8;

/// Tells whether this hierarchy, of version 1, counts every disk that was used since the machine
/// booted. Linux 6.10 and later count a disk only from the first limit of its speed on, whatever
/// group that was for; until then what every group says of it is nothing.
pub(super) fn are_counted(blkio: &Hierarchy) -> bool {
    let counted = counters::text_of(blkio.mount_point.join(VERSION_1));
    let used = counters::text_of("/proc/diskstats");
    // One of no size is none any more, such as a loop device without a file: nothing goes there.
    let is_disk = |name: &str| {
        let size = counters::text_of(Path::new("/sys/block").join(name).join("size"));
        size.is_ok_and(|size| size.trim() != "0")
    };
    counted.ok().zip(used.ok()).is_some_and(|(counted, used)| counts(&counted, &used, is_disk))
}

/// Tells whether a list of counted disks has bytes of all that a list of used ones names: Linux
/// 5.16 to 6.4 list also those of which they count nothing.
fn counts(counted: &str, used: &str, is_disk: impl Fn(&str) -> bool) -> bool {
    used.lines().all(|line| {
        // Major and minor number, name, reads, reads merged, sectors, time, writes, …
        let words: Vec<&str> = line.split_whitespace().collect();
        let [major, minor, name, reads, _, _, _, writes, ..] = words.as_slice() else {
            return false;
        };
        let number = format!("{major}:{minor} ");
        let is_unused = *reads == "0" && *writes == "0";
        let has_bytes = |line: &str| line.starts_with(&number) && !line.ends_with(" 0");
        is_unused || counted.lines().any(has_bytes) || !is_disk(name)
    })
}

/// Returns on how many others, one above the other, a disk lies, by its numbers such as `253:0`.
pub(super) fn height(disk: &str) -> usize {
    height_of(&Path::new("/sys/dev/block").join(disk), HEIGHT_LIMIT)
}

fn height_of(disk: &Path, limit: usize) -> usize {
    if limit == 0 || disk.join("loop/backing_file").exists() {
        return 1;
    }
    let below: Vec<PathBuf> = fs::read_dir(disk.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|it| it.path())
        .collect();
    below.iter().map(|disk| 1 + height_of(disk, limit - 1)).max().unwrap_or(0)
}

/// Bytes read from each disk and written to it, by its numbers.
type Bytes = BTreeMap<String, (u64, u64)>;

/// The list of a group's disks, held open.
#[derive(Debug)]
pub(super) struct Disks {
    list: File,
    /// As it was first read.
    first: OnceLock<Bytes>,
    /// Number of others that each disk lies on, as far as that was asked.
    heights: RefCell<BTreeMap<String, usize>>,
}

impl Disks {
    /// Holds a list open.
    pub(super) fn of(list: File) -> Self {
        Self { list, first: OnceLock::new(), heights: RefCell::default() }
    }

    /// Reads what was read and written since the first time that this was asked, which is nothing
    /// then; `None` where that is not known.
    pub(super) fn since_first(&self) -> Option<(u64, u64)> {
        let now = of_each(counters::text(Some(&self.list), &mut [0; 1024])?)
            .or_else(|| of_each(counters::text(Some(&self.list), &mut [0; 16384])?))?;
        let first = self.first.get_or_init(|| now.clone());
        between(first, &now, |disk| {
            let mut known = self.heights.borrow_mut();
            *known.entry(String::from(disk)).or_insert_with(|| height(disk))
        })
    }
}

/// Bytes between two readings of a list: which height has the most is asked of these, and not of
/// all that a group ever had. `None` where a disk has fewer than before.
fn between(first: &Bytes, now: &Bytes, height: impl Fn(&str) -> usize) -> Option<(u64, u64)> {
    let mut of_used: Vec<(&str, (u64, u64))> = Vec::new();
    for (disk, (read, written)) in now {
        let before = first.get(disk).copied().unwrap_or_default();
        let used = (read.checked_sub(before.0)?, written.checked_sub(before.1)?);
        if used != (0, 0) {
            of_used.push((disk, used));
        }
    }
    // One that is alone lies on no other that counts.
    if let [] | [_] = of_used.as_slice() {
        return Some(of_used.first().map_or((0, 0), |(_, used)| *used));
    }
    let mut by_height: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for (disk, used) in of_used {
        let sum = by_height.entry(height(disk)).or_default();
        *sum = (sum.0.saturating_add(used.0), sum.1.saturating_add(used.1));
    }
    let most = |(read, written): (u64, u64), sum: (u64, u64)| (read.max(sum.0), written.max(sum.1));
    Some(by_height.into_values().fold((0, 0), most))
}

/// Reads a list; `None` of a text that is cut off or no such list. A group that has touched no disk
/// has an empty one.
///
/// Version 2 has a line per disk, `8:0 rbytes=4096 wbytes=0 rios=1 …`, version 1 one per disk and
/// kind, `8:0 Read 4096`.
fn of_each(list: &str) -> Option<Bytes> {
    if !list.is_empty() && !list.ends_with('\n') {
        return None;
    }
    let mut all = Bytes::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (disk, (read, written)) = match words.as_slice() {
            [disk, "Read", bytes] => (disk, (bytes.parse().ok()?, 0)),
            [disk, "Write", bytes] => (disk, (0, bytes.parse().ok()?)),
            [disk, fields @ ..] => {
                let field = |key: &str| {
                    fields.iter().find_map(|it| it.strip_prefix(key)?.parse::<u64>().ok())
                };
                (disk, (field("rbytes=").unwrap_or(0), field("wbytes=").unwrap_or(0)))
            }
            [] => continue,
        };
        if (read, written) != (0, 0) {
            let sum = all.entry(String::from(*disk)).or_default();
            *sum = (sum.0.saturating_add(read), sum.1.saturating_add(written));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    fn bytes(list: &str, height: impl Fn(&str) -> usize) -> Option<(u64, u64)> {
        between(&Bytes::new(), &of_each(list)?, height)
    }

    fn of_plain(list: &str) -> Option<(u64, u64)> {
        bytes(list, |_| 0)
    }

    #[test]
    fn what_counts_is_the_height_at_which_there_was_the_most_meanwhile() {
        let list =
            |plain: u64, file: u64| format!("8:0 rbytes={plain}\n7:0 wbytes=0 rbytes={file}\n");
        let height = |disk: &str| usize::from(disk == "7:0");
        let since = |before: &str, now: &str| {
            between(&of_each(before).unwrap(), &of_each(now).unwrap(), height)
        };
        let before = list(100, 0);
        assert_eq!(since(&before, &list(101, 80)), Some((80, 0)), "not one, as the totals say");
        assert_eq!(since(&before, &before), Some((0, 0)));
        assert_eq!(since(&before, &list(99, 80)), None, "one has gone back");
        let group = tree(&[("io.stat", &list(100, 0))]);
        let path = group.path().join("io.stat");
        let disks = Disks::of(File::open(&path).unwrap());
        assert_eq!(disks.since_first(), Some((0, 0)));
        fs::write(&path, list(180, 0)).unwrap();
        assert_eq!(disks.since_first(), Some((80, 0)));
    }

    #[test]
    fn bytes_of_all_disks_are_added_in_either_version_and_of_no_disk_are_none_but_known() {
        let one =
            "8:0 Read 4096\n8:0 Write 100\n8:0 Sync 7\n8:0 Total 4196\n8:16 Read 1\nTotal 4197\n";
        assert_eq!(of_plain(one), Some((4097, 100)));
        let two = "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=9 dios=1\n253:0 rbytes=1 wbytes=2 \
                   rios=1\n7:0 \n";
        assert_eq!(of_plain(two), Some((4097, 2)));
        assert_eq!(of_plain(""), Some((0, 0)));
        assert_eq!(of_plain("Total 0\n"), Some((0, 0)));
        assert_eq!(of_plain("8:0 rbytes=40"), None, "cut off");
        assert_eq!(of_plain("8:0 Read x\n"), None);
    }

    #[test]
    fn disks_that_were_used_and_are_not_listed_are_not_counted() {
        let used = "7 0 loop0 0 0 0 0 0 0\n254 0 vda 9 0 8 0 7 0\n254 1 vda1 9 0 8 0 7 0\n";
        let is_disk = |name: &str| name != "vda1";
        assert!(counts("254:0 Read 4608\n254:0 Write 3584\nTotal 8192\n", used, is_disk));
        assert!(!counts("Total 0\n", used, is_disk), "no disk has had a limit");
        let both = used.replace("loop0 0", "loop0 1");
        assert!(!counts("254:0 Read 4608\n", &both, is_disk), "one of two");
        let named = "254:0 Read 0\n254:0 Write 0\n254:0 Total 0\nTotal 0\n";
        assert!(!counts(named, used, is_disk), "listed, and nothing of it counted");
        assert!(!counts("254:0 Read 4608\n", "not a list\n", is_disk));
    }

    #[test]
    fn bytes_that_pass_a_disk_on_another_count_once() {
        let height = |disk: &str| usize::from(disk != "8:0");
        // By way of a file as a disk 38 MB went to the one below, and 2 went there alone.
        let list = "7:0 Read 1\n7:0 Write 38\n8:0 Read 5\n8:0 Write 40\n";
        assert_eq!(bytes(list, height), Some((5, 40)));
        // The kernel writes the lower one's later, for nobody.
        assert_eq!(bytes("7:0 Write 38\n8:0 Write 1\n", height), Some((0, 38)));
        assert_eq!(bytes("7:0 rbytes=9 wbytes=38 rios=1\n8:0 wbytes=38\n", height), Some((9, 38)));
    }

    #[test]
    fn the_height_of_a_disk_is_that_of_those_below_it() {
        let sys = tree(&[("vda/size", "9\n"), ("loop0/loop/backing_file", "/file\n")]);
        let disk = |name: &str| sys.path().join(name);
        let lies_on = |upper: &str, lower: &str| {
            let slaves = disk(upper).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            std::os::unix::fs::symlink(disk(lower), slaves.join(lower)).unwrap();
        };
        lies_on("dm-0", "vda");
        lies_on("dm-1", "dm-0");
        lies_on("dm-1", "vda");
        let height = |name: &str| height_of(&disk(name), HEIGHT_LIMIT);
        assert_eq!(["vda", "loop0", "dm-0", "dm-1", "gone"].map(height), [0, 1, 1, 2, 0]);
        lies_on("vda", "dm-1");
        assert!(height("vda") <= 2 * HEIGHT_LIMIT, "those in a circle have an end");
    }
}
