//! Counts how often CPU quotas held somebody back, in the groups above those that work for us.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | `count` | `cpu.stat`: `nr_throttled` | the same |
//! | `time` | `cpu.stat`: `throttled_usec` | `cpu.stat`: `throttled_time`, in ns |
//! | `cpus` | `cpu.max`: quota by period | `cpu.cfs_quota_us` by `cpu.cfs_period_us` |
//!
//! A quota binds whoever is anywhere below it, so the whole way from a group up to the root is
//! read, each group once. In a container the root that can be seen is the container's own group.
//!
//! - **Reads** both counters summed over these groups; the tightest quota when it is opened.
//! - **Costs** one `pread` per group and reading.
//! - **Cannot see** groups above the root of a cgroup namespace, nor who was held back.
//! - **Reference** Linux `Documentation/scheduler/sched-bwc.rst`, `admin-guide/cgroup-v2.rst`.

use super::cgroup::{Hierarchies, Hierarchy, Version};
use crate::counters::{self, text, value};
use crate::quantity::Nanoseconds;
use std::fs::File;
use std::path::{Path, PathBuf};

/// More groups than these, one inside the other, are not walked.
const GROUPS_MAX: usize = 64;

/// The groups above those that work for us, their counters held open.
#[derive(Debug, Default)]
pub struct Chain {
    directories: Vec<PathBuf>,
    stats: Vec<Stat>,
    quotas: Option<Quotas>,
}

/// The counters of one group.
#[derive(Debug)]
pub(super) struct Stat {
    version: Version,
    file: File,
    /// Counts of before the group was added to others that had been read.
    before: Throttling,
}

/// Effect of the quotas since the groups were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// In how many periods a group was held back.
    pub count: u64,
    /// For how long, summed over its CPUs.
    pub time: Nanoseconds,
}

/// The quotas on the way up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quotas {
    /// Number of groups that have one.
    pub group_count: u64,
    /// Number of CPUs that the tightest one allows.
    pub cpus: Option<f64>,
}

impl Chain {
    /// Opens the counters of this process's own group and of the groups above it, in the machine
    /// whose `/proc` is below `root`.
    #[must_use]
    pub fn open(root: &Path, hierarchies: &Hierarchies) -> Self {
        let mut chain = Self::default();
        if let Some(hierarchy) = hierarchies.of("cpu") {
            let own = hierarchy.own_group(root, "cpu").unwrap_or_default();
            chain.add(hierarchy, &own, false);
        }
        chain
    }

    /// Adds those of the groups above these; what they did before is not counted. The limits of
    /// `groups` themselves are those that somebody asked for, and are left out.
    pub fn widen(&mut self, hierarchies: &Hierarchies, groups: &[PathBuf]) {
        let Some(hierarchy) = hierarchies.of("cpu") else { return };
        for above in groups.iter().filter_map(|group| group.parent()) {
            self.add(hierarchy, above, true);
        }
    }

    fn add(&mut self, hierarchy: &Hierarchy, group: &Path, is_later: bool) {
        for directory in hierarchy.way_up(group) {
            if self.directories.len() >= GROUPS_MAX || self.directories.contains(&directory) {
                continue;
            }
            if let Some(quota) = quota(hierarchy, &directory) {
                let all = self.quotas.get_or_insert(Quotas::default());
                all.group_count += u64::from(quota.is_some());
                all.cpus = [all.cpus, quota].into_iter().flatten().reduce(f64::min);
            }
            self.stats.extend(Stat::open(hierarchy, &directory).map(|mut stat| {
                if is_later {
                    stat.before = stat.read().unwrap_or_default();
                }
                stat
            }));
            self.directories.push(directory);
        }
    }

    /// The quotas as they were when it was opened; `None` where no group says.
    #[must_use]
    pub fn quotas(&self) -> Option<Quotas> {
        self.quotas
    }

    /// Reads what they did; `None` where no group counts it, or one that was added began anew.
    #[must_use]
    pub fn read(&self) -> Option<Throttling> {
        let mut sum = None;
        for stat in &self.stats {
            let Some(now) = stat.read() else { continue };
            // A group loses its counts when its parent takes the controller from it.
            let count = now.count.checked_sub(stat.before.count)?;
            let time = now.time.0.checked_sub(stat.before.time.0)?;
            let all = sum.get_or_insert(Throttling::default());
            all.count += count;
            all.time += Nanoseconds(time);
        }
        sum
    }
}

impl Stat {
    /// Opens those of a group, given its directory.
    pub(super) fn open(hierarchy: &Hierarchy, directory: &Path) -> Option<Self> {
        let file = File::open(directory.join("cpu.stat")).ok()?;
        Some(Self { version: hierarchy.version, file, before: Throttling::default() })
    }

    /// Reads what its own quota did since it was made.
    pub(super) fn read(&self) -> Option<Throttling> {
        let mut buffer = [0; 2048];
        parse(self.version, text(Some(&self.file), &mut buffer)?)
    }
}

fn parse(version: Version, stat: &str) -> Option<Throttling> {
    let time = match version {
        Version::One => value(stat, "throttled_time")?,
        Version::Two => value(stat, "throttled_usec")?.saturating_mul(1_000),
    };
    Some(Throttling { count: value(stat, "nr_throttled")?, time: Nanoseconds(time) })
}

/// Reads what a group allows, in CPUs: `Some(None)` without a quota, `None` where it does not say.
#[expect(clippy::option_option, reason = "unknown is not the same as no quota")]
pub(super) fn quota(hierarchy: &Hierarchy, directory: &Path) -> Option<Option<f64>> {
    let read = |name: &str| counters::text_of(directory.join(name)).ok();
    let (quota, period) = match hierarchy.version {
        Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        Version::Two => {
            let text = read("cpu.max")?;
            let (quota, period) = text.split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
    };
    let period: f64 = period.trim().parse().ok()?;
    match quota.trim() {
        "max" | "-1" => Some(None),
        quota => Some(Some(quota.parse::<f64>().ok()? / period)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::tree;

    const CALM: &str = "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n";

    fn hierarchies(root: &Path) -> Hierarchies {
        Hierarchies::discover_below(root).unwrap()
    }

    #[test]
    fn a_quota_on_a_group_far_above_is_found_in_cgroup_v1() {
        let root = tree(&[
            ("proc/self/mountinfo", "1 1 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"),
            ("proc/self/cgroup", "2:memory:/elsewhere\n1:cpu,cpuacct:/a/b/c\n0::/\n"),
            ("cg/cpu/cgroup.procs", ""),
            ("cg/cpu/cpu.stat", CALM),
            ("cg/cpu/a/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 700\n"),
            ("cg/cpu/a/cpu.cfs_quota_us", "25000\n"),
            ("cg/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("cg/cpu/a/b/c/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 50\n"),
            ("cg/cpu/a/b/c/cpu.cfs_quota_us", "-1\n"),
            ("cg/cpu/a/b/c/cpu.cfs_period_us", "100000\n"),
        ]);
        let chain = Chain::open(root.path(), &hierarchies(root.path()));
        assert_eq!(chain.read(), Some(Throttling { count: 5, time: Nanoseconds(750) }));
        assert_eq!(chain.quotas(), Some(Quotas { group_count: 1, cpus: Some(0.25) }));
    }

    #[test]
    fn a_quota_above_a_payers_group_is_found_in_cgroup_v2_and_its_own_limit_is_not() {
        let stat = |count: u64| format!("usage_usec 1\nnr_throttled {count}\nthrottled_usec 3\n");
        let root = tree(&[
            ("proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/user\n"),
            ("cg/cgroup.procs", ""),
            ("cg/cgroup.controllers", "cpu memory\n"),
            ("cg/cpu.stat", "usage_usec 1\n"),
            ("cg/user/cpu.stat", &stat(0)),
            ("cg/user/cpu.max", "max 100000\n"),
            ("cg/slice/cpu.stat", &stat(2)),
            ("cg/slice/cpu.max", "150000 100000\n"),
            ("cg/slice/box/cpu.stat", &stat(40)),
        ]);
        let groups = [PathBuf::from("/slice/box")];
        let mut chain = Chain::open(root.path(), &hierarchies(root.path()));
        let own = Some(Throttling { count: 0, time: Nanoseconds(3_000) });
        assert_eq!(chain.read(), own);
        chain.widen(&hierarchies(root.path()), &groups);
        assert_eq!(chain.read(), own, "what another group did before counts");
        let later = ("cg/slice/cpu.stat", stat(4).replace("usec 3", "usec 6"));
        std::fs::write(root.path().join(later.0), later.1).unwrap();
        assert_eq!(chain.read(), Some(Throttling { count: 2, time: Nanoseconds(6_000) }));
        assert_eq!(chain.quotas(), Some(Quotas { group_count: 1, cpus: Some(1.5) }));
        std::fs::write(root.path().join(later.0), stat(1)).unwrap();
        assert_eq!(chain.read(), None, "a counter that fell says nothing");
    }

    #[test]
    fn without_groups_or_quotas_nothing_is_known_and_nothing_is_zero() {
        let root = tree(&[("proc/self/mountinfo", "")]);
        let chain = Chain::open(root.path(), &hierarchies(root.path()));
        assert_eq!((chain.read(), chain.quotas()), (None, None));
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_leaves_the_root_that_is_seen() {
        let root = tree(&[
            ("proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup cgroup rw,cpu\n"),
            ("proc/self/cgroup", "1:cpu:/docker/0123\n"),
            ("cg/cgroup.procs", ""),
            ("cg/cpu.stat", "nr_throttled 3\nthrottled_time 5\n"),
        ]);
        let chain = Chain::open(root.path(), &hierarchies(root.path()));
        assert_eq!(chain.read().map(|it| it.count), Some(3));
    }
}
