//! Limits: set on a group, and read back.
//!
//! | ours | cgroup v1 | cgroup v2 |
//! |---|---|---|
//! | `cpu_millis` | `cpu.cfs_quota_us` per `cpu.cfs_period_us` | `cpu.max` |
//! | `weight` | `cpu.shares`, 1024 for 100 | `cpu.weight` |
//! | `cpuset` | `cpuset.cpus` | `cpuset.cpus` |
//! | `partition` | none | `cpuset.cpus.partition` |
//! | `numa` | `cpuset.mems` | `cpuset.mems` |
//! | `memory` | `memory.limit_in_bytes`, `memory.memsw.limit_in_bytes` | `memory.max`, `memory.swap.max` = 0 |
//! | `pids` | `pids.max` | `pids.max` |
//! | `io` | `blkio.throttle.*_device` | `io.max` |
//! | `hugetlb` | `hugetlb.2MB.limit_in_bytes` of the room | `hugetlb.2MB.max` of the room |
//!
//! Source: Linux `Documentation/admin-guide/cgroup-v1/` and `cgroup-v2.rst`.

use super::{Groups, Version, hugetlb, index, partition, read, write};
use crate::fault::Fault;
use crate::lab::{Limits, disk};
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::{Hierarchies, parse_cpus};
use surtax_instrument::wire::Fact;

/// The period in which a CPU quota is counted, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// The smallest quota that the kernel takes, in microseconds per period.
const QUOTA_US_MIN: u64 = 1_000;

/// The kernel rounds a memory limit down to whole pages, which are at most this big.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// One limit as the kernel has it.
struct Setting {
    /// The key of its fact.
    key: &'static str,
    /// The controllers that may have it: the name in cgroup v1, and in v2.
    controllers: [&'static str; 2],
    /// Names of its file in v1 and in v2.
    files: [&'static str; 2],
    /// Texts that are written into that file, in v1 and in v2.
    texts: [String; 2],
    /// Tells whether the file holds what was written; takes what was written, and what it holds.
    same: fn(&str, &str) -> bool,
}

impl Groups {
    /// Sets limits on a group. One that does not hold what was asked is a fault.
    pub(in crate::lab) fn limit(&self, group: &Path, limits: &Limits) -> Result<(), Fault> {
        for setting in settings(limits)? {
            let (version, file) = self.file(group, &setting)?;
            if version == Version::One && setting.key == "limit_cpu_quota_us" {
                write(&file.with_file_name("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
            }
            write(&file, setting.text(version))?;
            setting.require(version, &file)?;
            if setting.key == "limit_memory_bytes" {
                limit_swap(version, &file)?;
            }
        }
        self.part(group, limits)
    }

    /// That these limits can be set on groups below one that is there; looks, and sets nothing.
    pub(in crate::lab) fn can_limit(&self, group: &Path, limits: &Limits) -> Result<(), Fault> {
        for setting in settings(limits)? {
            self.file(group, &setting)?;
        }
        self.can_limit_huge_pages(limits)?;
        self.can_part(group, limits)
    }

    /// The file of a limit, and which interface it speaks.
    fn file(&self, group: &Path, setting: &Setting) -> Result<(Version, PathBuf), Fault> {
        let absent = || {
            let name = setting.controllers[0];
            let gaps = self.gaps.join("; ");
            let colon = if gaps.is_empty() { "" } else { ": " };
            let why = format!("there is no cgroup controller `{name}` to limit with{colon}{gaps}");
            Fault::machine(why).hint("leave the limit out, or mount the controller's hierarchy")
        };
        let found = setting.file(&self.hierarchies, group).ok_or_else(absent)?;
        if found.1.exists() { Ok(found) } else { Err(absent()) }
    }
}

/// The limits of a group, read back; each that was asked for must be there.
///
/// # Errors
/// One is not what was asked for, or no hierarchy has it.
pub fn held(hierarchies: &Hierarchies, group: &Path, limits: &Limits) -> Result<Vec<Fact>, Fault> {
    let read = |setting: Setting| {
        let name = setting.controllers[0];
        let (version, file) = setting.file(hierarchies, group).ok_or_else(|| {
            Fault::machine(format!("no cgroup hierarchy has `{name}` to limit by"))
        })?;
        let holds = setting.require(version, &file)?;
        Ok(Fact::new(setting.key, holds, file.display().to_string()))
    };
    let mut facts = settings(limits)?.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    facts.extend(partition::held(hierarchies, group, limits)?);
    facts.extend(hugetlb::held(hierarchies, group, limits)?);
    Ok(facts)
}

impl Setting {
    fn text(&self, version: Version) -> &str {
        &self.texts[index(version)]
    }

    fn file(&self, hierarchies: &Hierarchies, group: &Path) -> Option<(Version, PathBuf)> {
        let hierarchy = self.controllers.iter().find_map(|name| hierarchies.of(name))?;
        let name = self.files[index(hierarchy.version)];
        Some((hierarchy.version, hierarchy.directory(group).join(name)))
    }

    /// Returns what the file holds, which must be what was asked for.
    fn require(&self, version: Version, file: &Path) -> Result<String, Fault> {
        let holds = read(file)?;
        let asked = self.text(version);
        if (self.same)(asked, &holds) {
            return Ok(holds);
        }
        let text = format!("`{}` holds `{holds}`, and `{asked}` was asked for", file.display());
        Err(Fault::machine(text).hint("ask for no more than the group above has"))
    }
}

/// Every limit that was asked for. The disk is looked for only where it has one.
fn settings(limits: &Limits) -> Result<Vec<Setting>, Fault> {
    let mut all = Vec::new();
    let mut add = |key, controllers, files, texts, same| {
        all.push(Setting { key, controllers, files, texts, same });
    };
    let exactly: fn(&str, &str) -> bool = |asked, holds| asked == holds;
    let both = |text: String| [text.clone(), text];
    if let Some(millis) = limits.cpu_millis {
        let quota_us = u64::from(millis) * PERIOD_US / 1000;
        if quota_us < QUOTA_US_MIN {
            return Err(Fault::user(format!(
                "`cpus` of {millis} thousandths is less than the least, 0.01"
            )));
        }
        let texts = [quota_us.to_string(), format!("{quota_us} {PERIOD_US}")];
        add("limit_cpu_quota_us", ["cpu"; 2], ["cpu.cfs_quota_us", "cpu.max"], texts, exactly);
    }
    if let Some(weight) = limits.weight {
        let texts = [shares(weight).to_string(), weight.to_string()];
        add("limit_cpu_weight", ["cpu"; 2], ["cpu.shares", "cpu.weight"], texts, exactly);
    }
    for (key, file, numbers) in [
        ("limit_cpuset", "cpuset.cpus", &limits.cpuset),
        ("limit_numa_nodes", "cpuset.mems", &limits.numa),
    ] {
        if let Some(numbers) = numbers {
            add(key, ["cpuset"; 2], [file; 2], both(list(numbers)), same_numbers);
        }
    }
    if let Some(memory) = limits.memory {
        let files = ["memory.limit_in_bytes", "memory.max"];
        add("limit_memory_bytes", ["memory"; 2], files, both(memory.0.to_string()), fits);
    }
    if let Some(pids) = limits.pids {
        add("limit_pids", ["pids"; 2], ["pids.max"; 2], both(pids.to_string()), exactly);
    }
    let disk = limits.io.disk()?;
    for (key, rate) in limits.io.rates() {
        let (fact, file, word) = match key {
            "read-bps" => ("limit_read_bps", "blkio.throttle.read_bps_device", "rbps"),
            "write-bps" => ("limit_write_bps", "blkio.throttle.write_bps_device", "wbps"),
            "read-iops" => ("limit_read_iops", "blkio.throttle.read_iops_device", "riops"),
            _ => ("limit_write_iops", "blkio.throttle.write_iops_device", "wiops"),
        };
        let disk = disk.as_ref().map(disk::Disk::number).unwrap_or_default();
        let texts = [format!("{disk} {rate}"), format!("{disk} {word}={rate}")];
        add(fact, ["blkio", "io"], [file, "io.max"], texts, is_among);
    }
    Ok(all)
}

/// `cpu.shares` for a weight: what they are by default stands for the same.
#[must_use]
pub fn shares(weight: u32) -> u64 {
    (u64::from(weight) * 1024 / 100).max(2)
}

/// `0,1,3`
#[must_use]
pub fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn same_numbers(asked: &str, holds: &str) -> bool {
    let sorted = |text| {
        let mut numbers = parse_cpus(text)?;
        numbers.sort_unstable();
        numbers.dedup();
        Some(numbers)
    };
    sorted(asked).is_some() && sorted(asked) == sorted(holds)
}

fn fits(asked: &str, holds: &str) -> bool {
    let (Ok(asked), Ok(held)) = (asked.parse::<u64>(), holds.parse::<u64>()) else { return false };
    held <= asked && asked - held < PAGE_BYTES_MAX
}

/// Tells whether a table with a line per device has this device's words.
fn is_among(asked: &str, holds: &str) -> bool {
    holds.lines().any(|line| asked.split(' ').all(|word| line.split(' ').any(|own| own == word)))
}

/// Limits swap too: where memory is limited, swap is no way out. A machine without swap accounting
/// has no such file, and the limit holds without it.
fn limit_swap(version: Version, file: &Path) -> Result<(), Fault> {
    let (name, value) = match version {
        Version::One => ("memory.memsw.limit_in_bytes", read(file)?),
        Version::Two => ("memory.swap.max", String::from("0")),
    };
    let swap = file.with_file_name(name);
    if !swap.exists() {
        return Ok(());
    }
    write(&swap, &value)?;
    let holds = read(&swap)?;
    if holds == value {
        return Ok(());
    }
    Err(Fault::machine(format!("`{}` holds `{holds}` after `{value}`", swap.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use surtax_instrument::probe::cgroup::Hierarchy;
    use surtax_instrument::quantity::Bytes;

    /// A machine of which one controller has one group, `room`, with one file.
    fn machine(
        version: Version,
        controller: &str,
        file: &str,
        text: &str,
    ) -> (tempfile::TempDir, Hierarchies) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("room")).unwrap();
        fs::write(directory.path().join("room").join(file), text).unwrap();
        let hierarchy = Hierarchy {
            mount_point: directory.path().into(),
            root: "/".into(),
            version,
            controllers: vec![controller.into()],
        };
        (directory, Hierarchies(vec![hierarchy]))
    }

    #[test]
    fn a_limit_that_reads_back_differently_is_named_with_both_values() {
        let (_directory, all) = machine(Version::One, "memory", "memory.limit_in_bytes", "8192\n");
        let asked = |bytes| Limits { memory: Some(Bytes(bytes)), ..Limits::default() };
        let group = Path::new("room");

        let facts = held(&all, group, &asked(8200)).unwrap();
        assert_eq!(
            (facts[0].key.as_str(), facts[0].value.as_str()),
            ("limit_memory_bytes", "8192")
        );

        let fault = held(&all, group, &asked(1 << 20)).unwrap_err();
        assert!(fault.message.ends_with("holds `8192`, and `1048576` was asked for"), "{fault}");

        let pids = Limits { pids: Some(5), ..Limits::default() };
        let fault = held(&all, group, &pids).unwrap_err();
        assert!(fault.message.contains("no cgroup hierarchy has `pids`"), "{fault}");
    }

    #[test]
    fn a_weight_is_what_is_written_in_v2_and_shares_of_1024_in_v1() {
        let limits = Limits { weight: Some(200), ..Limits::default() };
        let (_one, all) = machine(Version::One, "cpu", "cpu.shares", "2048\n");
        assert_eq!(held(&all, Path::new("room"), &limits).unwrap()[0].value, "2048");
        let (_two, all) = machine(Version::Two, "cpu", "cpu.weight", "200\n");
        assert_eq!(held(&all, Path::new("room"), &limits).unwrap()[0].value, "200");
        let (_two, all) = machine(Version::Two, "cpu", "cpu.weight", "100\n");
        assert!(held(&all, Path::new("room"), &limits).is_err());
    }

    #[test]
    fn a_devices_rate_is_found_in_the_table_of_either_version() {
        assert!(is_among("254:0 4096", "8:0 100\n254:0 4096"));
        assert!(!is_among("254:0 4096", "254:0 40960\n8:0 4096"));
        assert!(is_among("254:0 wbps=4096", "254:0 rbps=max wbps=4096 riops=max wiops=max"));
        assert!(!is_among("254:0 wbps=4096", "254:0 rbps=4096 wbps=max riops=max wiops=max"));
    }

    #[test]
    fn a_list_of_numbers_is_the_same_however_the_kernel_writes_it() {
        assert!(same_numbers("0,1,2,4", "0-2,4"));
        assert!(!same_numbers("0", ""));
        assert_eq!(list(&[0, 3]), "0,3");
    }
}
