//! Limits: set on a group, and read back.
//!
//! | ours | cgroup v1 | cgroup v2 |
//! |---|---|---|
//! | `cpu_millis` | `cpu.cfs_quota_us` per `cpu.cfs_period_us` | `cpu.max` |
//! | `cpuset` | `cpuset.cpus` | `cpuset.cpus` |
//! | `memory` | `memory.limit_in_bytes`, `memory.memsw.limit_in_bytes` | `memory.max`, `memory.swap.max` = 0 |
//! | `pids` | `pids.max` | `pids.max` |

use super::{Groups, Version, write};
use crate::fault::{Doing, Fault};
use crate::stack::Limits;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::parse_cpus;
use surtax_instrument::wire::Fact;

/// The period in which a CPU quota is counted, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// The smallest quota that the kernel takes, in microseconds per period.
const QUOTA_US_MIN: u64 = 1_000;

/// The kernel rounds a memory limit down to whole pages, which are at most this big.
const PAGE_BYTES_MAX: u64 = 64 << 10;

impl Groups {
    /// Sets limits on a group. One that does not hold what was asked is a fault.
    pub(in crate::lab) fn limit(&self, group: &Path, limits: &Limits) -> Result<(), Fault> {
        if let Some(millis) = limits.cpu_millis {
            self.limit_cpu(group, millis)?;
        }
        if let Some(cpus) = &limits.cpuset {
            let (_, file) = self.file(group, "cpuset", "cpuset.cpus", "cpuset.cpus")?;
            let text: Vec<String> = cpus.iter().map(u32::to_string).collect();
            write(&file, &text.join(","))?;
            let mut asked = cpus.clone();
            asked.sort_unstable();
            asked.dedup();
            let holds = read(&file)?;
            require(&file, &text.join(","), &holds, parse_cpus(&holds) == Some(asked))?;
        }
        if let Some(memory) = limits.memory {
            self.limit_memory(group, memory.0)?;
        }
        if let Some(pids) = limits.pids {
            let (_, file) = self.file(group, "pids", "pids.max", "pids.max")?;
            write(&file, &pids.to_string())?;
            let holds = read(&file)?;
            require(&file, &pids.to_string(), &holds, holds == pids.to_string())?;
        }
        Ok(())
    }

    fn limit_cpu(&self, group: &Path, millis: u32) -> Result<(), Fault> {
        let quota_us = u64::from(millis) * PERIOD_US / 1000;
        if quota_us < QUOTA_US_MIN {
            return Err(Fault::user(format!(
                "`cpus` of {millis} thousandths is less than the least, 0.01"
            )));
        }
        let (version, file) = self.file(group, "cpu", "cpu.cfs_quota_us", "cpu.max")?;
        let text = match version {
            Version::Two => format!("{quota_us} {PERIOD_US}"),
            Version::One => {
                write(&file.with_file_name("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                quota_us.to_string()
            }
        };
        write(&file, &text)?;
        let holds = read(&file)?;
        require(&file, &text, &holds, holds == text)
    }

    fn limit_memory(&self, group: &Path, bytes: u64) -> Result<(), Fault> {
        let (version, file) = self.file(group, "memory", "memory.limit_in_bytes", "memory.max")?;
        write(&file, &bytes.to_string())?;
        let holds = read(&file)?;
        let fits =
            holds.parse().is_ok_and(|held: u64| held <= bytes && bytes - held < PAGE_BYTES_MAX);
        require(&file, &bytes.to_string(), &holds, fits)?;
        // A machine without swap accounting has no such file, and the limit holds without it.
        let (name, value) = match version {
            Version::One => ("memory.memsw.limit_in_bytes", holds),
            Version::Two => ("memory.swap.max", String::from("0")),
        };
        let swap = file.with_file_name(name);
        if swap.exists() {
            write(&swap, &value)?;
            let holds = read(&swap)?;
            require(&swap, &value, &holds, holds == value)?;
        }
        Ok(())
    }

    /// The limits that a group holds now, as read back; one that is not set is not listed.
    pub(in crate::lab) fn facts(&self, group: &Path) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut found = |key: &str, value: String, file: &Path| {
            let source = file.display().to_string();
            facts.push(Fact { key: key.to_owned(), value, source });
        };
        if let Some((file, text)) = self.held(group, "cpu", "cpu.cfs_quota_us", "cpu.max")
            && let Some(quota_us) = text.split(' ').next().and_then(|word| word.parse::<u64>().ok())
        {
            found("limit_cpu_millis", (quota_us * 1000 / PERIOD_US).to_string(), &file);
        }
        if let Some((file, text)) = self.held(group, "cpuset", "cpuset.cpus", "cpuset.cpus")
            && !text.is_empty()
        {
            found("limit_cpuset", text, &file);
        }
        if let Some((file, text)) =
            self.held(group, "memory", "memory.limit_in_bytes", "memory.max")
            && text.parse::<u64>().is_ok_and(|bytes| bytes < UNLIMITED_BYTES)
        {
            found("limit_memory_bytes", text, &file);
        }
        if let Some((file, text)) = self.held(group, "pids", "pids.max", "pids.max")
            && text != "max"
        {
            found("limit_pids", text, &file);
        }
        facts
    }

    fn held(
        &self,
        group: &Path,
        controller: &str,
        one: &str,
        two: &str,
    ) -> Option<(PathBuf, String)> {
        let (_, file) = self.file(group, controller, one, two).ok()?;
        let text = read(&file).ok()?;
        Some((file, text))
    }

    /// The file of a limit, and which interface it speaks.
    fn file(
        &self,
        group: &Path,
        controller: &str,
        one: &str,
        two: &str,
    ) -> Result<(Version, PathBuf), Fault> {
        let absent = || {
            let gaps = self.gaps.join("; ");
            Fault::machine(format!(
                "there is no cgroup controller `{controller}` to limit with: {gaps}"
            ))
            .hint("leave the limit out, or mount the controller's hierarchy")
        };
        let hierarchy = self.hierarchies.of(controller).ok_or_else(absent)?;
        let directory = hierarchy.directory(group);
        let file = directory.join(if hierarchy.version == Version::One { one } else { two });
        if file.exists() { Ok((hierarchy.version, file)) } else { Err(absent()) }
    }
}

/// What cgroup v1 shows where memory is not limited is a little less than 2^63.
const UNLIMITED_BYTES: u64 = 1 << 62;

fn read(file: &Path) -> Result<String, Fault> {
    let text = fs::read_to_string(file).doing(format_args!("read `{}` back", file.display()))?;
    Ok(text.trim_end().to_owned())
}

fn require(file: &Path, asked: &str, holds: &str, same: bool) -> Result<(), Fault> {
    if same {
        return Ok(());
    }
    let text = format!("`{}` holds `{holds}` after `{asked}` was written", file.display());
    Err(Fault::machine(text).hint("ask for no more than the group above has"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse_cpus("0-2,4"), Some(vec![0, 1, 2, 4]));
        assert_eq!(parse_cpus("1"), Some(vec![1]));
        assert_eq!(parse_cpus(""), None);
    }
}
