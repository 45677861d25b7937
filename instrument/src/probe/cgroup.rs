//! CPU time and peak memory of a group, from whichever cgroup hierarchies this machine has.
//!
//! | ours | cgroup v2 | cgroup v1 |
//! |---|---|---|
//! | CPU time in all | `cpu.stat`: `usage_usec` | `cpuacct.usage` |
//! | its weight of user mode | `cpu.stat`: `user_usec` | `cpuacct.usage_user` |
//! | its weight of the kernel | `cpu.stat`: `system_usec` | `cpuacct.usage_sys` |
//! | `memory_peak` | `memory.peak` | `memory.max_usage_in_bytes` |
//! | memory at this moment | `memory.current` | `memory.usage_in_bytes` |
//! | memory now and page faults | `memory.stat`, as `memory_stat.rs` reads it | likewise |
//! | kernel memory now | of the same | `memory.kmem.usage_in_bytes` |
//! | read from and written to disks | as `disks.rs` reads it | likewise |
//! | held back by its own quota | `cpu.stat`: `throttled_usec` | `cpu.stat`: `throttled_time` |
//! | waited for a CPU, a disk, memory | `cpu.pressure`, `io.pressure`, `memory.pressure`: `total` | of the same group in a hierarchy of version 2, where there is one |
//!
//! - **Reads** the CPU time of everything that ever ran in the group or below it, also of what has
//!   ended, by the scheduler's clock: version 1 counts its two parts in ticks, which a sandbox that
//!   sleeps and wakes often falls between; the largest memory use since the group was made, page
//!   cache included. What it consists of no kernel says of the peak.
//! - **Costs** one `pread` and no allocation per counter and reading.
//! - **Cannot see** what a guest does inside a virtual CPU: to this host all of it is user time.
//!   Work that the kernel does in its own threads on the group's behalf is charged to nobody. With
//!   version 1, disks of which one that was used is not counted.
//! - **Reference** Linux `Documentation/admin-guide/cgroup-v2.rst` and
//!   `cgroup-v1/{cpuacct,memory}.rst`.

use super::cpu_time::CpuTime;
use super::disks::{self, Disks};
use super::host::Pressure;
use super::memory_stat::MemoryStat;
use super::throttling::{self, Stat};
use crate::amount::{
    Amounts, DISK_READ, DISK_WRITTEN, MEMORY_ANON, MEMORY_KERNEL, MEMORY_PEAK, MEMORY_USED,
    PRESSURE_CPU_FULL, PRESSURE_CPU_SOME, PRESSURE_IO_FULL, PRESSURE_IO_SOME, PRESSURE_MEMORY_FULL,
    PRESSURE_MEMORY_SOME, THROTTLED,
};
use crate::counters::{self, number, text, value};
use crate::mountinfo::{self, Mounted};
use crate::quantity::Nanoseconds;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the interface that a hierarchy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    One,
    /// The unified hierarchy.
    Two,
}

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Path at which it is mounted; a group's relative path starts here.
    pub mount_point: PathBuf,
    /// Group that it shows there: `/` where it is mounted whole.
    pub root: PathBuf,
    /// Version of the interface that its files speak.
    pub version: Version,
    /// The controllers that work in it, such as `memory`, or the name of a named hierarchy
    /// (`name=systemd`).
    pub controllers: Vec<String>,
}

/// Every cgroup hierarchy that this process can see, in the order in which they were mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies(pub Vec<Hierarchy>);

impl Hierarchies {
    /// Finds them in `/proc/self/mountinfo`. A machine without any has an empty list.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` cannot be read.
    pub fn discover() -> io::Result<Self> {
        Self::discover_below(Path::new("/"))
    }

    /// The same in a machine whose files are all below `root`.
    ///
    /// # Errors
    /// As [`Hierarchies::discover`].
    pub fn discover_below(root: &Path) -> io::Result<Self> {
        let mut all = Self::parse(&counters::bytes_of(root.join("proc/self/mountinfo"))?);
        for hierarchy in &mut all.0 {
            let inside = hierarchy.mount_point.strip_prefix("/").unwrap_or(&hierarchy.mount_point);
            hierarchy.mount_point = root.join(inside);
        }
        // What is mounted below another mount is listed and cannot be reached.
        all.0.retain(|hierarchy| hierarchy.mount_point.join("cgroup.procs").exists());
        for hierarchy in all.0.iter_mut().filter(|hierarchy| hierarchy.version == Version::Two) {
            let listed = counters::text_of(hierarchy.mount_point.join("cgroup.controllers"))?;
            hierarchy.controllers = listed.split_whitespace().map(String::from).collect();
        }
        Ok(all)
    }

    /// Reads the text of a `mountinfo` file; of hierarchies mounted twice the first counts.
    fn parse(table: &[u8]) -> Self {
        let mut all: Vec<Hierarchy> = Vec::new();
        for hierarchy in mountinfo::parse(table).into_iter().filter_map(Hierarchy::of) {
            let known = all.iter().any(|other| {
                other.version == hierarchy.version && other.controllers == hierarchy.controllers
            });
            if !known {
                all.push(hierarchy);
            }
        }
        Self(all)
    }

    /// Those in which all of these groups are apart. Beside hierarchies of version 1, a runtime
    /// such as crun makes a container's group in these alone, or uses one that is there in these
    /// alone: in the unified one it is still in the group of who started it, and would be counted
    /// twice.
    #[must_use]
    pub fn of_all<'g>(mut self, groups: impl IntoIterator<Item = &'g Path>) -> Self {
        let is_in = |hierarchy: Option<&Hierarchy>, group: &Path| {
            hierarchy.is_some_and(|hierarchy| hierarchy.directory(group).is_dir())
        };
        let is_one = |it: &&Hierarchy| it.version == Version::One;
        let cpuacct = self.of("cpuacct").filter(is_one);
        let has_nobody = |hierarchy: Option<&Hierarchy>, group: &Path| {
            let file = hierarchy.map(|it| it.directory(group).join("cgroup.events"));
            let text = file.and_then(|file| counters::text_of(file).ok()).unwrap_or_default();
            text.lines().any(|line| line == "populated 0")
        };
        let is_mixed = |group: &Path| {
            let unified = self.unified();
            is_in(cpuacct, group) && (!is_in(unified, group) || has_nobody(unified, group))
        };
        if groups.into_iter().any(is_mixed) {
            self.0.retain(|hierarchy| hierarchy.version == Version::One);
        }
        self
    }

    /// The hierarchy in which a controller works.
    #[must_use]
    pub fn of(&self, controller: &str) -> Option<&Hierarchy> {
        self.0.iter().find(|hierarchy| hierarchy.controllers.iter().any(|name| name == controller))
    }

    /// The unified hierarchy.
    #[must_use]
    pub fn unified(&self) -> Option<&Hierarchy> {
        self.0.iter().find(|hierarchy| hierarchy.version == Version::Two)
    }
}

impl Hierarchy {
    fn of(mounted: Mounted) -> Option<Self> {
        let version = match mounted.kind.as_str() {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        let not_controllers =
            ["rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"];
        let controllers = match version {
            Version::Two => Vec::new(),
            Version::One => String::from_utf8_lossy(&mounted.system_options)
                .split(',')
                .filter(|word| {
                    !not_controllers.contains(word) && !word.starts_with("release_agent")
                })
                .map(String::from)
                .collect(),
        };
        Some(Self { mount_point: mounted.point, root: mounted.root, version, controllers })
    }

    /// The directory of a group, given its path relative to the mount point.
    #[must_use]
    pub fn directory(&self, group: &Path) -> PathBuf {
        self.mount_point.join(group.strip_prefix("/").unwrap_or(group))
    }

    /// This process's group in the hierarchy of a controller, relative to the mount point, in the
    /// machine whose `/proc` is below `root`; `None` where it lies outside.
    #[must_use]
    pub fn own_group(&self, root: &Path, controller: &str) -> Option<PathBuf> {
        self.group_in(&root.join("proc/self/cgroup"), controller)
    }

    /// The group that such a file of a process names, likewise.
    pub(super) fn group_in(&self, file: &Path, controller: &str) -> Option<PathBuf> {
        let text = counters::text_of(file).ok()?;
        let path = text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match self.version {
                Version::Two => controllers.is_empty(),
                Version::One => controllers.split(',').any(|name| name == controller),
            };
            is_it.then(|| PathBuf::from(path))
        })?;
        // A path that begins with `/..`, or that is not there, is outside of what is mounted here.
        self.directory(&path).is_dir().then_some(path)
    }

    /// The directories of a group and of all above it, the root last.
    #[must_use]
    pub fn way_up(&self, group: &Path) -> Vec<PathBuf> {
        let relative = group.strip_prefix("/").unwrap_or(group);
        let below = relative.ancestors().filter(|path| !path.as_os_str().is_empty());
        let mut all: Vec<PathBuf> = below.map(|path| self.directory(path)).collect();
        all.push(self.mount_point.clone());
        all
    }
}

/// Number of CPUs that Linux ever has. Source: `MAXSMP` and `NR_CPUS` in `arch/x86/Kconfig`.
pub const CPUS_MAX: u32 = 8192;

/// Reads a list of CPUs as the kernel writes it, `0-2,4`, sorted; `None` when it is no such
/// list, or has CPUs that no machine has, by [`CPUS_MAX`], or more of them.
#[must_use]
pub fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX);
    let mut cpus: Vec<u32> = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(number(first)?..=number(last)?);
        if cpus.len() > CPUS_MAX as usize {
            return None;
        }
    }
    cpus.sort_unstable();
    Some(cpus)
}

/// The counters of one group, held open.
#[derive(Debug, Default)]
pub struct Group {
    cpu: Option<Cpu>,
    memory_peak: Option<File>,
    memory_used: Option<File>,
    memory_stat: Option<MemoryStat>,
    /// Version 1 counts the kernel's memory apart.
    memory_kernel: Option<File>,
    disks: Option<Disks>,
    /// Counters of its own quota.
    throttled: Option<Stat>,
    /// True where it had one when it was opened.
    has_quota: bool,
    /// Times in which it waited for a CPU, a disk and memory.
    pressure: [Option<File>; 3],
}

#[derive(Debug)]
enum Cpu {
    Stat(File),
    Accounts { total: File, user: File, system: File },
}

impl Cpu {
    fn open(hierarchy: &Hierarchy, group: &Path) -> Option<Self> {
        let file = |name: &str| File::open(hierarchy.directory(group).join(name)).ok();
        if hierarchy.version == Version::Two {
            return file("cpu.stat").map(Self::Stat);
        }
        let (total, user) = (file("cpuacct.usage")?, file("cpuacct.usage_user")?);
        Some(Self::Accounts { total, user, system: file("cpuacct.usage_sys")? })
    }
}

impl Group {
    /// Opens the counters of CPU time of a group in one hierarchy.
    pub(super) fn of_cpu(hierarchy: &Hierarchy, group: &Path) -> Option<Self> {
        Some(Self { cpu: Some(Cpu::open(hierarchy, group)?), ..Self::default() })
    }

    /// Opens the counters of a group, given its path relative to the mount points.
    ///
    /// # Errors
    /// The group exists in no hierarchy.
    pub fn open(hierarchies: &Hierarchies, group: &Path) -> io::Result<Self> {
        let exists = hierarchies.0.iter().any(|hierarchy| hierarchy.directory(group).is_dir());
        if !exists {
            let text = format!("no cgroup hierarchy has a group `{}`", group.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let file = |hierarchy: Option<&Hierarchy>, name: &str| {
            File::open(hierarchy?.directory(group).join(name)).ok()
        };
        let unified = hierarchies.unified();
        let cpuacct = hierarchies.of("cpuacct");
        let cpu = [unified, cpuacct].into_iter().flatten().find_map(|it| Cpu::open(it, group));
        let memory_peak = file(hierarchies.of("memory"), "memory.peak")
            .or_else(|| file(hierarchies.of("memory"), "memory.max_usage_in_bytes"));
        let memory_used = file(hierarchies.of("memory"), "memory.current")
            .or_else(|| file(hierarchies.of("memory"), "memory.usage_in_bytes"));
        let memory_stat = hierarchies.of("memory").and_then(|it| MemoryStat::of(it, group));
        let memory_kernel = file(hierarchies.of("memory"), "memory.kmem.usage_in_bytes");
        let disks = file(unified, "io.stat").or_else(|| {
            let blkio = hierarchies.of("blkio").filter(|blkio| disks::are_counted(blkio));
            file(blkio, disks::VERSION_1)
        });
        let disks = disks.map(Disks::of);
        let cpu_limits = hierarchies.of("cpu").map(|it| (it, it.directory(group)));
        let throttled = cpu_limits.as_ref().and_then(|(it, group)| Stat::open(it, group));
        let quota = cpu_limits.as_ref().and_then(|(it, group)| throttling::quota(it, group));
        let pressure = ["cpu", "io", "memory"].map(|of| file(unified, &format!("{of}.pressure")));
        Ok(Self {
            cpu,
            memory_peak,
            memory_used,
            memory_stat,
            memory_kernel,
            disks,
            throttled,
            has_quota: quota.flatten().is_some(),
            pressure,
        })
    }

    /// Reads the CPU time of the group until now; `None` where this machine does not count it.
    #[must_use]
    pub fn cpu(&self) -> Option<CpuTime> {
        self.cpu.as_ref().and_then(|cpu| match cpu {
            Cpu::Accounts { total, user, system } => {
                let (user, system) = (number(user)?, number(system)?);
                Some(CpuTime { total: Nanoseconds(number(total)?), user, system })
            }
            Cpu::Stat(stat) => {
                let mut buffer = [0; 2048];
                let text = text(Some(stat), &mut buffer)?;
                let time = |key| microseconds(text, key);
                let (user, system) = (time("user_usec")?.0, time("system_usec")?.0);
                Some(CpuTime { total: time("usage_usec")?, user, system })
            }
        })
    }

    /// Reads all else that is counted of the group and all below it.
    #[must_use]
    pub fn amounts(&self) -> Amounts {
        let now = self.memory_stat.as_ref().map(MemoryStat::amounts).unwrap_or_default();
        let kernel = now.get(MEMORY_KERNEL).or_else(|| {
            self.memory_kernel.as_ref().filter(|_| now.get(MEMORY_ANON).is_some()).and_then(number)
        });
        self.disks(now)
            .with(THROTTLED, held_back(self.throttled.as_ref()))
            .with(MEMORY_PEAK, self.memory_peak.as_ref().and_then(number))
            .with(MEMORY_KERNEL, kernel)
            .with_all(self.pressures())
    }

    /// Reads for how long it waited. All of a group may wait for a CPU, as all of a machine cannot.
    fn pressures(&self) -> Amounts {
        let places = [
            (PRESSURE_CPU_SOME, PRESSURE_CPU_FULL),
            (PRESSURE_IO_SOME, PRESSURE_IO_FULL),
            (PRESSURE_MEMORY_SOME, PRESSURE_MEMORY_FULL),
        ];
        let mut all = Amounts::default();
        for (file, (some, full)) in self.pressure.iter().zip(places) {
            let mut buffer = [0; 256];
            let Some(text) = text(file.as_ref(), &mut buffer) else { continue };
            // Linux before 5.13 says `full` of no group's CPU.
            let Some(read) = Pressure::parse(text, false).or_else(|| Pressure::parse(text, true))
            else {
                continue;
            };
            all = all.with(some, read.some.0).with(full, read.full.map(|it| it.0));
        }
        all
    }

    /// Reads what is worth a look again and again, beside CPU time: memory at this moment, disks,
    /// and what its quota held back, where it has one.
    #[must_use]
    pub fn moment(&self) -> Amounts {
        let used = self.memory_used.as_ref().and_then(number);
        let throttled = self.throttled.as_ref().filter(|_| self.has_quota);
        self.disks(Amounts::default()).with(MEMORY_USED, used).with(THROTTLED, held_back(throttled))
    }

    fn disks(&self, amounts: Amounts) -> Amounts {
        let (read, written) = self.disks.as_ref().and_then(Disks::since_first).unzip();
        amounts.with(DISK_READ, read).with(DISK_WRITTEN, written)
    }
}

fn held_back(throttled: Option<&Stat>) -> Option<u64> {
    throttled.and_then(Stat::read).map(|it| it.time.0)
}

fn microseconds(stat: &str, key: &str) -> Option<Nanoseconds> {
    Some(Nanoseconds(value(stat, key)?.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;
    use std::fs;

    #[test]
    fn hybrid_and_named_hierarchies_are_told_apart() {
        let mountinfo = b"23 1 0:22 / /sys rw - sysfs sysfs rw\n33 31 0:30 / \
                          /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:4 - cgroup cgroup \
                          rw,cpu,cpuacct\n40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup \
                          rw,xattr,name=systemd\n41 31 0:38 / /mnt/two\\040words rw,relatime - \
                          cgroup2 cgroup2 rw,nsdelegate\n";
        let all = Hierarchies::parse(mountinfo);
        assert_eq!(all.of("cpuacct").unwrap().mount_point, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(all.of("name=systemd").unwrap().version, Version::One);
        assert_eq!(all.unified().unwrap().mount_point, Path::new("/mnt/two words"));
        assert_eq!(all.unified().unwrap().root, Path::new("/"));
        assert_eq!(all.of("memory"), None);
        assert_eq!(all.0.len(), 3);
    }

    #[test]
    fn a_list_of_more_cpus_than_a_machine_can_have_is_none() {
        assert_eq!(parse_cpus("4,0-2"), Some(vec![0, 1, 2, 4]));
        let all = parse_cpus("0-8191").unwrap();
        assert_eq!((all.len(), all.last()), (8192, Some(&8191)));
        for text in ["8192", "0-8192", "0-4294967295", "0-8191,0", "0-4294967296", "", "0-", "-1"] {
            assert_eq!(parse_cpus(text), None, "{text}");
        }
    }

    #[test]
    fn a_group_that_does_not_exist_is_an_error_and_not_a_zero() {
        let hierarchies = Hierarchies::discover().unwrap();
        assert!(Group::open(&hierarchies, Path::new("surtax-nobody/made-this")).is_err());
    }

    #[test]
    fn a_container_that_only_version_1_knows_is_not_counted_with_its_engine_too() {
        let tree = tree(&[
            ("cpuacct/engine/cpuacct.usage", "2000000\n"),
            ("cpuacct/engine/cpuacct.usage_user", "0\n"),
            ("cpuacct/engine/cpuacct.usage_sys", "4000000\n"),
            ("unified/engine/cpu.stat", "usage_usec 167000\nuser_usec 100\nsystem_usec 300\n"),
            ("cpuacct/box/cpuacct.usage", "165000000\n"),
        ]);
        let hierarchy = |name: &str, version, controllers: &[&str]| Hierarchy {
            mount_point: tree.path().join(name),
            root: PathBuf::from("/"),
            version,
            controllers: controllers.iter().map(|it| String::from(*it)).collect(),
        };
        let both = Hierarchies(vec![
            hierarchy("cpuacct", Version::One, &["cpuacct"]),
            hierarchy("unified", Version::Two, &[]),
        ]);
        let of_engine = |groups: &[&str]| {
            let all = both.clone().of_all(groups.iter().map(Path::new));
            Group::open(&all, Path::new("engine")).unwrap().cpu().unwrap().total
        };
        assert_eq!(of_engine(&["engine"]), Nanoseconds(167_000_000));
        assert_eq!(of_engine(&["engine", "box"]), Nanoseconds(2_000_000));
        // The same where the group is there and nobody came into it.
        let made = tree.path().join("unified/box");
        fs::create_dir(&made).unwrap();
        assert_eq!(of_engine(&["engine", "box"]), Nanoseconds(167_000_000));
        fs::write(made.join("cgroup.events"), "populated 0\nfrozen 0\n").unwrap();
        assert_eq!(of_engine(&["engine", "box"]), Nanoseconds(2_000_000));
    }

    #[test]
    fn what_a_quota_held_back_is_read_where_the_kernel_counts_it() {
        let root = tree(&[
            ("g/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 70\n"),
            ("old/g/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 55\n"),
            ("none/g/cpu.stat", "usage_usec 9\nuser_usec 4\nsystem_usec 5\n"),
        ]);
        let throttled = |below: &str, version| {
            let hierarchy = Hierarchy {
                mount_point: root.path().join(below),
                root: PathBuf::from("/"),
                version,
                controllers: vec![String::from("cpu")],
            };
            let group = Group::open(&Hierarchies(vec![hierarchy]), Path::new("g")).unwrap();
            group.amounts().get(THROTTLED)
        };
        assert_eq!(throttled("", Version::Two), Some(70_000));
        assert_eq!(throttled("old", Version::One), Some(55));
        assert_eq!(throttled("none", Version::Two), None);
    }

    #[test]
    fn microseconds_become_nanoseconds_and_an_absent_line_is_none() {
        let stat = "usage_usec 30\nuser_usec 10\nsystem_usec 20\n";
        assert_eq!(microseconds(stat, "user_usec"), Some(Nanoseconds(10_000)));
        assert_eq!(microseconds(stat, "system_usec"), Some(Nanoseconds(20_000)));
        assert_eq!(microseconds(stat, "nice_usec"), None);
    }

    #[test]
    fn a_group_path_is_always_below_the_mount_point() {
        let hierarchy = Hierarchy {
            mount_point: PathBuf::from("/sys/fs/cgroup"),
            root: PathBuf::from("/"),
            version: Version::Two,
            controllers: Vec::new(),
        };
        assert_eq!(hierarchy.directory(Path::new("/a/b")), Path::new("/sys/fs/cgroup/a/b"));
        assert_eq!(hierarchy.directory(Path::new("a/b")).as_os_str().len(), 18);
    }
}
