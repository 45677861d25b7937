//! Parts of a group's memory at this moment, and its page faults.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | memory of processes now | `anon` | `rss` |
//! | page cache now | `file` without `shmem` | `cache` without `shmem` |
//! | files in memory now | `shmem` | `shmem` |
//! | kernel memory now | `kernel` and `sock` | – |
//! | page faults | `pgfault` | `pgfault` |
//!
//! - **Reads** `memory.stat` of the group and of those directly below it, and adds up what these
//!   say of all below them (`total_…` in version 1). The larger of the kernel's sum and ours
//!   counts. The kernel's may stand still for two seconds: it is brought up to date once enough has
//!   changed, and the groups above are told of no change while one below them waits for that
//!   already. And it alone has what groups are charged with that are gone.
//! - **Costs** an `open` and a read per file and reading.
//! - **Cannot see** what has changed since where the sums of the groups below stand still as well,
//!   or these are too many to be read. Memory that was given back since the kernel made its sum is
//!   still in it: parts of different moments may together be more than there was at any.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`;
//!   `mm/memcontrol.c`, `memcg_rstat_updated`.

use super::cgroup::Hierarchy;
use crate::amount::{
    Amounts, MAJOR_FAULTS, MEMORY_ANON, MEMORY_KERNEL, MEMORY_PAGE_CACHE, MEMORY_SHMEM, PAGE_FAULTS,
};
use crate::counters::{self, value};
use std::fs;
use std::path::{Path, PathBuf};

const FILE: &str = "memory.stat";

/// The most groups that are asked: a layer's tool makes two or three, a command any number.
const BELOW_LIMIT: usize = 100;

/// The directory of one group, which counts memory.
#[derive(Debug)]
pub(super) struct MemoryStat(PathBuf);

impl MemoryStat {
    /// Finds that of a group; `None` where it has no such file.
    pub(super) fn of(hierarchy: &Hierarchy, group: &Path) -> Option<Self> {
        let directory = hierarchy.directory(group);
        directory.join(FILE).is_file().then_some(Self(directory))
    }

    /// Reads what is known now. Where a part that every kernel counts is not told, none is known.
    pub(super) fn amounts(&self) -> Amounts {
        let Ok(own) = counters::text_of(self.0.join(FILE)) else { return Amounts::default() };
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        // Of some fifty files that every group has, each would be tried.
        let entries = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
        // One that is gone meanwhile has none, and one that counts no memory.
        let texts = entries.filter_map(|it| counters::text_of(it.path().join(FILE)).ok());
        let below = texts.take(BELOW_LIMIT).map(|text| of_all(&text));
        let add = |sum: Amounts, more: Amounts| together(&sum, &more, u64::saturating_add);
        of_group(&own, below.reduce(add))
    }
}

/// Returns what a group has, given its text and what those below it have together.
fn of_group(own: &str, below: Option<Amounts>) -> Amounts {
    let told = of_all(own);
    let Some(below) = below else { return told };
    let sum = match is_version_1(own) {
        true => together(&below, &parts(own, ""), u64::saturating_add),
        false => below,
    };
    together(&told, &sum, u64::max)
}

/// Puts together what two have; what is not known of one is not known of both.
fn together(one: &Amounts, other: &Amounts, put: fn(u64, u64) -> u64) -> Amounts {
    one.iter().fold(Amounts::default(), |sum, (key, amount)| {
        sum.with(key, other.get(key).map(|more| put(amount, more)))
    })
}

/// Returns what a group and all below it have, as its text says it.
fn of_all(stat: &str) -> Amounts {
    parts(stat, if is_version_1(stat) { "total_" } else { "" })
}

fn is_version_1(stat: &str) -> bool {
    value(stat, "total_cache").is_some()
}

/// Returns what the lines with this prefix say. The kernel's memory has been one number since Linux
/// 5.18; where it is not, it is unknown.
fn parts(stat: &str, prefix: &str) -> Amounts {
    let value = |key: &str| value(stat, &format!("{prefix}{key}"));
    let (anon, file) = if is_version_1(stat) { ("rss", "cache") } else { ("anon", "file") };
    let faults = Amounts::default()
        .with(PAGE_FAULTS, value("pgfault"))
        .with(MAJOR_FAULTS, value("pgmajfault"));
    let (Some(anon), Some(cached), Some(shmem)) = (value(anon), value(file), value("shmem")) else {
        return faults;
    };
    let kernel = value("kernel").map(|kernel| kernel.saturating_add(value("sock").unwrap_or(0)));
    faults
        .with(MEMORY_ANON, anon)
        // They are counted one after the other, and on many CPUs.
        .with(MEMORY_PAGE_CACHE, cached.saturating_sub(shmem))
        .with(MEMORY_SHMEM, shmem)
        .with(MEMORY_KERNEL, kernel)
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::Version;
    use super::super::tests::tree;
    use super::*;

    const VERSION_1: &str = "cache 4096\nrss 8192\nshmem 0\npgfault 3\ntotal_cache \
                             1876951040\ntotal_rss 24576\ntotal_shmem 40960\ntotal_pgfault 70\n";
    const VERSION_2: &str = "anon 8192\nfile 40960\nkernel 100\nkernel_stack 16\nsock 20\nshmem \
                             4096\nfile_mapped 4\npgfault 50\n";

    fn of(anon: u64, page_cache: u64, shmem: u64, faults: u64) -> Amounts {
        Amounts::default()
            .with(MEMORY_ANON, anon)
            .with(MEMORY_PAGE_CACHE, page_cache)
            .with(MEMORY_SHMEM, shmem)
            .with(PAGE_FAULTS, faults)
    }

    #[test]
    fn parts_are_those_of_the_group_and_all_below_with_files_in_memory_apart() {
        assert_eq!(of_all(VERSION_1), of(24_576, 1_876_910_080, 40_960, 70));
        assert_eq!(of_all(VERSION_2), of(8192, 36_864, 4096, 50).with(MEMORY_KERNEL, 120));
        let before_5_18 = "anon 8192\nfile 40960\nkernel_stack 16\nshmem 0\npgfault 1\n";
        assert_eq!(of_all(before_5_18), of(8192, 40_960, 0, 1));
    }

    /// Either sum may be of before, or lack something.
    #[test]
    fn a_group_that_others_are_below_has_what_they_have_or_more() {
        // In version 1 who is in the group itself is told apart.
        let below = || Some(of(100_000, 200, 50_000, 1000));
        assert_eq!(of_group(VERSION_1, below()), of(108_192, 1_876_910_080, 50_000, 1003));
        assert_eq!(of_group(VERSION_2, below()), of(100_000, 36_864, 50_000, 1000));
        assert_eq!(of_group(VERSION_2, None), of_all(VERSION_2));
        // What a group has left that is gone is in the sum of all alone.
        let rest = of(0, 0, 0, 46).with(MEMORY_KERNEL, 7);
        assert_eq!(of_group(VERSION_2, Some(rest)), of_all(VERSION_2));
    }

    #[test]
    fn two_groups_have_together_what_is_known_of_both() {
        let add = |one: &Amounts, other: &Amounts| together(one, other, u64::saturating_add);
        let one = of(1, 2, 3, 4);
        assert_eq!(add(&one, &one), of(2, 4, 6, 8));
        let with_kernel = one.clone().with(MEMORY_KERNEL, 5);
        assert_eq!(add(&with_kernel, &one), of(2, 4, 6, 8));
        assert_eq!(add(&one, &with_kernel), of(2, 4, 6, 8));
    }

    /// Also of those that were made or removed since it was found.
    #[test]
    fn groups_are_added_up_that_are_there_now() {
        let root = tree(&[]);
        let put = |group: &str, text: &str| {
            let directory = root.path().join("layer").join(group);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("memory.stat"), text).unwrap();
        };
        let told = |version: Version| {
            let (mount_point, controllers) = (root.path().to_path_buf(), Vec::new());
            let root = PathBuf::from("/");
            let hierarchy = Hierarchy { mount_point, root, version, controllers };
            MemoryStat::of(&hierarchy, Path::new("layer")).map(|it| it.amounts())
        };
        assert_eq!(told(Version::One), None);
        put("", VERSION_1);
        assert_eq!(told(Version::One), Some(of_all(VERSION_1)));
        // Its own sum stands still: what the one below it says counts, and what is in the group.
        put("a", &VERSION_1.replace("total_pgfault 70", "total_pgfault 1000"));
        put("a/b", &VERSION_1.replace("total_pgfault 70", "total_pgfault 5000"));
        std::fs::create_dir_all(root.path().join("layer/other")).unwrap();
        let grown = of(24_576 + 8192, 1_876_910_080 + 4096, 40_960, 1003);
        assert_eq!(told(Version::One), Some(grown));
        put("", VERSION_2);
        put("a", &VERSION_2.replace("pgfault 50", "pgfault 500"));
        assert_eq!(told(Version::Two).unwrap().get(PAGE_FAULTS), Some(500));
        std::fs::remove_dir_all(root.path().join("layer/a")).unwrap();
        assert_eq!(told(Version::Two), Some(of_all(VERSION_2)));
    }

    #[test]
    fn faults_that_read_a_disk_are_told_apart() {
        let majors = |stat: &str| of_all(stat).get(MAJOR_FAULTS);
        assert_eq!(majors("anon 1\npgfault 50\npgmajfault 4\n"), Some(4));
        assert_eq!(majors("total_cache 1\npgmajfault 1\ntotal_pgmajfault 9\n"), Some(9));
        assert_eq!(majors(VERSION_2), None);
    }

    #[test]
    fn memory_of_which_a_part_is_not_told_has_no_parts() {
        let nothing = Amounts::default();
        assert_eq!(of_all("anon 8192\nshmem 0\n"), nothing);
        assert_eq!(of_all("anon 8192\nfile 4096\n"), nothing);
        assert_eq!(of_all("total_cache 4096\ntotal_rss 1\n"), nothing);
        assert_eq!(of_all("anon 8192\npgfault 7\n"), nothing.clone().with(PAGE_FAULTS, 7));
        assert_eq!(of_all(""), nothing);
    }
}
