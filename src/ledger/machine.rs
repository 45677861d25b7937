//! Facts of this host: kernel, processor, memory, and what may disturb a measurement.
//!
//! - **Reads** `/proc` and `/sys`, once per run; changes nothing.
//! - **Cannot see** what the machine below does, where this host is itself a guest.
//! - **Reference** Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`, `proc(5)`.
//!
//! What cannot be read says `unknown`; it is never zero.

use crate::layer::Rights;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::clock::BOOT_ID;
use surtax_instrument::hex;
use surtax_instrument::probe::mitigations;
use surtax_instrument::wire::Fact;

/// Kernel parameters that change what a trial costs: by their name, or by that of their module.
///
/// Source: Linux `Documentation/admin-guide/kernel-parameters.txt`.
const MATTERING: &str = "\
    amd_iommu amd_pstate cgroup_disable cgroup_no_v1 clocksource cpuidle default_hugepagesz \
    gather_data_sampling hugepages hugepagesz idle init_on_alloc init_on_free intel_idle \
    intel_iommu intel_pstate iommu irqaffinity isolcpus kpti kvm kvm_amd kvm_intel l1tf maxcpus \
    mds mem mitigations nohz nohz_full nopti nosmt nospectre_v1 nospectre_v2 nr_cpus \
    numa_balancing page_poison preempt processor psi pti rcu_nocb_poll rcu_nocbs retbleed \
    skew_tick slab_nomerge slub_debug spec_store_bypass_disable spectre_v2 srbds swiotlb \
    threadirqs transparent_hugepage tsc tsx vsyscall workqueue zswap";

/// Fact by which a machine is known again.
pub const MACHINE_HASH: &str = "machine_hash";

/// Fact by which a boot of it is.
pub const BOOT_HASH: &str = "boot_hash";

/// Bytes of such a hash: enough to know a machine again, and none that leads back to its id.
const HASH_BYTES: usize = 8;

/// The value of what could not be read.
pub const UNKNOWN: &str = "unknown";

/// The facts about this host in order of interest, then what the caller knows: tool versions.
#[must_use]
pub fn facts(tools: &[Fact]) -> Vec<Fact> {
    let mut facts = facts_below(Path::new("/"));
    facts.push(fact("surtax_version", Some(env!("CARGO_PKG_VERSION").into()), "this binary"));
    facts.push(fact("privileges", Some(String::from(privileges())), "/proc/self/uid_map"));
    facts.extend_from_slice(tools);
    facts
}

/// Says whose rights layers are started with.
fn privileges() -> &'static str {
    match Rights::here() {
        Rights::Root => "root",
        Rights::Namespace => "root of a user namespace, and the user's own on the machine",
        Rights::User => "the user's own",
    }
}

/// The facts that the files below `root` tell.
fn facts_below(root: &Path) -> Vec<Fact> {
    let host = Host { root };
    let line = |key, path: &str| fact(key, host.line(path), path);
    let field = |key, path: &str, name| fact(key, host.field(path, name), path);
    let size = |key, name| fact(key, host.memory_bytes(name), "/proc/meminfo");
    let cpu = "/sys/devices/system/cpu";
    vec![
        field("cpu_model", "/proc/cpuinfo", "model name"),
        fact("cpus_online", host.cpus_online(), &format!("{cpu}/online")),
        size("memory_total_bytes", "MemTotal"),
        line("kernel_release", "/proc/sys/kernel/osrelease"),
        fact("operating_system", host.operating_system(), "/etc/os-release"),
        fact("virtualised", host.virtualised(), "/proc/cpuinfo"),
        fact("machine_model", host.machine_model(), "/sys/class/dmi/id"),
        line("cpu_governor", &format!("{cpu}/cpu0/cpufreq/scaling_governor")),
        line("smt", &format!("{cpu}/smt/control")),
        fact("cpu_boost", host.boost(), &format!("{cpu}/cpufreq/boost")),
        fact("mitigations", mitigations::read_below(root), mitigations::PLACE),
        fact("cgroup_version", host.cgroup_version(), "/proc/self/mountinfo"),
        size("memory_available_bytes", "MemAvailable"),
        size("swap_total_bytes", "SwapTotal"),
        size("swap_free_bytes", "SwapFree"),
        fact("load_1min", host.first_word("/proc/loadavg"), "/proc/loadavg"),
        line("clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        fact(
            "huge_pages",
            host.chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ),
        fact("kernel_parameters", host.kernel_parameters(), "/proc/cmdline"),
        field("microcode", "/proc/cpuinfo", "microcode"),
        fact(MACHINE_HASH, host.hash_of("/etc/machine-id"), "/etc/machine-id"),
        fact(BOOT_HASH, host.hash_of(BOOT_ID), BOOT_ID),
    ]
}

fn fact(key: &str, value: Option<String>, source: &str) -> Fact {
    let value = value.filter(|value| !value.is_empty());
    Fact::new(key, value.unwrap_or_else(|| UNKNOWN.into()), source)
}

struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read(self.at(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn line(&self, path: &str) -> Option<String> {
        Some(self.text(path)?.lines().next()?.trim().into())
    }

    /// Hashes an id that must not be shown as it is, with a word of ours: a run may be passed on.
    ///
    /// Source: machine-id(5).
    fn hash_of(&self, path: &str) -> Option<String> {
        let is_one = |id: &String| {
            id.len() >= 32 && id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-')
        };
        let id = self.line(path).filter(is_one)?;
        let digest = Sha256::digest(format!("surtax {id}").as_bytes());
        Some(hex::of(&digest[..HASH_BYTES]))
    }

    fn first_word(&self, path: &str) -> Option<String> {
        Some(self.text(path)?.split_whitespace().next()?.into())
    }

    /// The word in brackets: `always [madvise] never`.
    fn chosen(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.into())
    }

    /// The first `name : value` of a file.
    fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.text(path)?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().into())
    }

    fn memory_bytes(&self, name: &str) -> Option<String> {
        let value = self.field("/proc/meminfo", name)?;
        let kibibytes: u64 = value.strip_suffix(" kB")?.trim().parse().ok()?;
        Some((kibibytes.checked_mul(1024)?).to_string())
    }

    /// Counts a list such as `0-3,8`.
    fn cpus_online(&self) -> Option<String> {
        let list = self.line("/sys/devices/system/cpu/online")?;
        let mut count = 0u64;
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            count += last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)? + 1;
        }
        Some(count.to_string())
    }

    fn operating_system(&self) -> Option<String> {
        let text = self.text("/etc/os-release")?;
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim_matches('"').into())
    }

    /// The `hypervisor` flag is set by every hypervisor that does not hide; x86 only.
    fn virtualised(&self) -> Option<String> {
        let flags = self.field("/proc/cpuinfo", "flags")?;
        let below = flags.split_whitespace().any(|flag| flag == "hypervisor");
        Some(if below { "yes" } else { "no" }.into())
    }

    fn machine_model(&self) -> Option<String> {
        let vendor = self.line("/sys/class/dmi/id/sys_vendor")?;
        Some(format!("{vendor} {}", self.line("/sys/class/dmi/id/product_name")?))
    }

    fn boost(&self) -> Option<String> {
        let boost = self.line("/sys/devices/system/cpu/cpufreq/boost");
        let no_turbo = || self.line("/sys/devices/system/cpu/intel_pstate/no_turbo");
        match (boost.as_deref(), no_turbo().as_deref()) {
            (Some("1"), _) | (None, Some("0")) => Some("on".into()),
            (Some("0"), _) | (None, Some("1")) => Some("off".into()),
            _ => None,
        }
    }

    /// Those parameters of the kernel that change what a trial costs. Others are left out: a
    /// command line may hold what is nobody else's business, and a run file is made to be passed
    /// on.
    fn kernel_parameters(&self) -> Option<String> {
        let text = self.text("/proc/cmdline")?;
        let matters = |word: &&str| {
            let name = word.split(['=', '.']).next().unwrap_or_default().replace('-', "_");
            MATTERING.split(' ').any(|mattering| mattering == name)
        };
        // What comes after `--` is for the first process, not for the kernel.
        let words = text.split_whitespace().take_while(|word| *word != "--");
        let found: Vec<&str> = words.filter(matters).collect();
        Some(if found.is_empty() { "none that matters".into() } else { found.join(" ") })
    }

    /// Returns what is mounted: version 2, version 1, or both; `None` where neither is seen.
    fn cgroup_version(&self) -> Option<String> {
        let mounts = self.text("/proc/self/mountinfo")?;
        let has = |kind: &str| mounts.lines().any(|line| line.contains(&format!(" - {kind} ")));
        let word = match (has("cgroup2"), has("cgroup")) {
            (true, true) => "hybrid",
            (true, false) => "2",
            (false, true) => "1",
            (false, false) => return None,
        };
        Some(word.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(facts: &'a [Fact], key: &str) -> &'a str {
        &facts.iter().find(|fact| fact.key == key).unwrap().value
    }

    #[test]
    fn on_a_machine_without_files_everything_is_unknown_and_nothing_is_zero() {
        let empty = tempfile::tempdir().unwrap();
        let facts = facts_below(empty.path());
        assert!(facts.len() >= 20);
        assert!(facts.iter().all(|fact| fact.value == UNKNOWN), "{facts:?}");
    }

    #[test]
    fn what_the_files_say_becomes_facts_with_units() {
        let host = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/cpuinfo", "model name\t: AMD EPYC\nflags\t: fpu hypervisor lm\n"),
            ("proc/meminfo", "MemTotal:       24641536 kB\nSwapTotal: 0 kB\n"),
            ("proc/loadavg", "0.52 0.58 0.59 1/467 12345\n"),
            ("proc/cmdline", "root=/dev/sda password=x psi=1 kvm-intel.nested=1 nosmt -- mem=1\n"),
            ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
            ("sys/devices/system/cpu/vulnerabilities/spectre_v1", "Mitigation; barriers\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ] {
            let path = host.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let facts = facts_below(host.path());
        for (key, expected) in [
            ("cpu_model", "AMD EPYC"),
            ("virtualised", "yes"),
            ("memory_total_bytes", "25232932864"),
            ("swap_total_bytes", "0"),
            ("load_1min", "0.52"),
            ("cgroup_version", "2"),
            ("kernel_parameters", "psi=1 kvm-intel.nested=1 nosmt"),
            ("cpus_online", "5"),
            ("mitigations", "spectre_v1: Mitigation; barriers"),
            ("huge_pages", "madvise"),
            ("smt", "unknown"),
        ] {
            assert_eq!(value(&facts, key), expected, "{key}");
        }
    }
}
