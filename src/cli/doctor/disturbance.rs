//! Conditions of this host that disturb measurement, read from `/proc` and `/sys`.
//!
//! Each finding has a state: `disturbs`, `fine`, or `unknown` where the host does not say. What is
//! unknown is never called fine.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::energy::Meter;
use surtax_instrument::words;

/// A process that uses more than this share of one CPU is named.
const BUSY_SHARE: f64 = 0.05;

/// `USER_HZ`, which Linux has fixed for all that it tells user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// The most processes that are named.
const NAMED: usize = 5;

/// One finding about the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(super) struct Disturbance {
    /// Stable name: `load`, `steal`, `governor`, …
    pub(super) code: &'static str,
    pub(super) state: State,
    /// Observation, in words.
    pub(super) finding: String,
    /// Advice on what to do about it.
    pub(super) advice: Option<String>,
}

/// Meaning of a finding for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Disturbs,
    Fine,
    Unknown,
}

words!(State { Disturbs: "disturbs", Fine: "fine", Unknown: "unknown" });

/// Looks at the host whose `/proc` and `/sys` are below `root`, and watches it for a while.
pub(super) fn look(root: &Path, watch: Duration) -> Vec<Disturbance> {
    let host = Host { root };
    let mut meter = Meter::open(root);
    let before = (host.cpu_ticks(), host.process_ticks());
    meter.iter_mut().for_each(Meter::go_on);
    std::thread::sleep(watch);
    meter.iter_mut().for_each(Meter::count);
    let after = (host.cpu_ticks(), host.process_ticks());
    let mut found = vec![
        host.load(),
        background(&before.1, &after.1, watch),
        steal(before.0.as_ref(), after.0.as_ref()),
        host.virtualised(),
        host.governor(),
        host.boost(),
        host.smt(),
        host.swap(),
        host.huge_pages(),
    ];
    found.extend(meter.as_ref().and_then(energy));
    found
}

/// Tells that trials have their energy; nothing where the counters stand still.
fn energy(meter: &Meter) -> Option<Disturbance> {
    let said = "processors and memory count their energy (RAPL; not yet run on hardware)";
    meter.used_uj().map(|_| fine("energy", said))
}

fn disturbs(code: &'static str, finding: impl Into<String>, advice: &str) -> Disturbance {
    let advice = Some(advice.to_owned());
    Disturbance { code, state: State::Disturbs, finding: finding.into(), advice }
}

fn fine(code: &'static str, finding: impl Into<String>) -> Disturbance {
    Disturbance { code, state: State::Fine, finding: finding.into(), advice: None }
}

fn unknown(code: &'static str, finding: impl Into<String>, advice: Option<&str>) -> Disturbance {
    let advice = advice.map(str::to_owned);
    Disturbance { code, state: State::Unknown, finding: finding.into(), advice }
}

/// CPU time of the whole host, in ticks.
struct CpuTicks {
    steal: u64,
    all: u64,
}

/// CPU time of each process by its number, in ticks, with its name.
type ProcessTicks = BTreeMap<u32, (String, u64)>;

struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    fn load(&self) -> Disturbance {
        let load =
            self.read("proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        match load {
            Some(load) if load > 0.25 * cpus as f64 => disturbs(
                "load",
                format!("load average {load} on {cpus} CPUs"),
                "stop what else runs, or ask for more `--runs`",
            ),
            Some(load) => fine("load", format!("load average {load} on {cpus} CPUs")),
            None => unknown("load", "`/proc/loadavg` cannot be read", None),
        }
    }

    fn cpu_ticks(&self) -> Option<CpuTicks> {
        let text = self.read("proc/stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guest time is already in user.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        Some(CpuTicks { steal: *ticks.get(7)?, all: ticks.iter().sum() })
    }

    fn process_ticks(&self) -> ProcessTicks {
        let entries = std::fs::read_dir(self.path("proc")).into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            (pid != std::process::id()).then_some((pid, ticks_of(&stat)?))
        });
        processes.collect()
    }

    fn virtualised(&self) -> Disturbance {
        let Some(cpuinfo) = self.read("proc/cpuinfo") else {
            return unknown("virtualised", "`/proc/cpuinfo` cannot be read", None);
        };
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let product = self
            .read("sys/class/dmi/id/product_name")
            .map_or_else(String::new, |name| format!(" ({name})"));
        match flags {
            Some(flags) if flags.split(' ').any(|flag| flag == "hypervisor") => disturbs(
                "virtualised",
                format!("this host is itself a virtual machine{product}"),
                "expect neighbours; ask for more `--runs`, and mind that nested layers cost more \
                 here",
            ),
            Some(_) => fine("virtualised", format!("no hypervisor announces itself{product}")),
            None => unknown("virtualised", "the CPU's flags are not shown", None),
        }
    }

    fn governor(&self) -> Disturbance {
        match self.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
            Some(governor) if governor == "performance" => fine("governor", "`performance`"),
            Some(governor) => disturbs(
                "governor",
                format!("`{governor}` changes the frequency with the load"),
                "cpupower frequency-set --governor performance",
            ),
            None => unknown(
                "governor",
                "this kernel neither shows nor sets the CPU frequency",
                Some("frequency changes go unseen here; trust intervals, not single trials"),
            ),
        }
    }

    fn boost(&self) -> Disturbance {
        let no_turbo = self.read("sys/devices/system/cpu/intel_pstate/no_turbo");
        let boost = self.read("sys/devices/system/cpu/cpufreq/boost");
        match (no_turbo.as_deref(), boost.as_deref()) {
            (Some("0"), _) => disturbs(
                "boost",
                "turbo is on: speed depends on temperature",
                "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
            ),
            (_, Some("1")) => disturbs(
                "boost",
                "boost is on: speed depends on temperature",
                "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
            ),
            (None, None) => unknown("boost", "this kernel does not say whether CPUs boost", None),
            _ => fine("boost", "off"),
        }
    }

    fn smt(&self) -> Disturbance {
        match self.read("sys/devices/system/cpu/smt/active").as_deref() {
            Some("1") => disturbs(
                "smt",
                "two threads share a core: they slow each other down",
                "give every stack the same `cpuset`, with one thread of each core",
            ),
            Some(_) => fine("smt", "one thread per core"),
            None => unknown("smt", "this kernel does not say whether threads share cores", None),
        }
    }

    fn swap(&self) -> Disturbance {
        let Some(swaps) = self.read("proc/swaps") else {
            return unknown("swap", "`/proc/swaps` cannot be read", None);
        };
        let used = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        let used_kib: u64 = swaps.lines().skip(1).filter_map(used).sum();
        match (swaps.lines().count(), used_kib) {
            (0 | 1, _) => fine("swap", "none"),
            (_, 0) => fine("swap", "there is some, and none of it is used"),
            (_, used) => disturbs(
                "swap",
                format!("{} MiB are swapped out", used.div_ceil(1024)),
                "free memory, then `swapoff -a && swapon -a`",
            ),
        }
    }

    fn huge_pages(&self) -> Disturbance {
        let Some(modes) = self.read("sys/kernel/mm/transparent_hugepage/enabled") else {
            return unknown(
                "huge-pages",
                "this kernel has no transparent huge pages, or hides them",
                None,
            );
        };
        let mode = modes.split(['[', ']']).nth(1).unwrap_or(&modes);
        match mode {
            "always" => disturbs(
                "huge-pages",
                "transparent huge pages are `always` on: luck decides which trial gets them",
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            ),
            mode => fine("huge-pages", format!("`{mode}`")),
        }
    }
}

/// Name and CPU time of a process, from `/proc/PID/stat`; the name may hold spaces and brackets.
fn ticks_of(stat: &str) -> Option<(String, u64)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((name.to_owned(), ticks(11)? + ticks(12)?))
}

fn background(before: &ProcessTicks, after: &ProcessTicks, watch: Duration) -> Disturbance {
    if after.is_empty() {
        return unknown("background", "`/proc` cannot be read", None);
    }
    let mut busy: Vec<(f64, &str, u32)> = after
        .iter()
        .filter_map(|(pid, (name, ticks))| {
            let used = ticks.saturating_sub(before.get(pid)?.1);
            let used = f64::from(u32::try_from(used).unwrap_or(u32::MAX)) / TICKS_PER_SECOND;
            let share = used / watch.as_secs_f64().max(0.001);
            (share > BUSY_SHARE).then_some((share, name.as_str(), *pid))
        })
        .collect();
    busy.sort_by(|one, other| other.0.total_cmp(&one.0));
    if busy.is_empty() {
        return fine("background", "no other process used more than 5 % of a CPU");
    }
    let named: Vec<String> = busy
        .iter()
        .take(NAMED)
        .map(|(share, name, pid)| format!("`{name}` ({pid}) {:.0} %", share * 100.0))
        .collect();
    let more = match busy.len().saturating_sub(NAMED) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    disturbs(
        "background",
        format!("using a CPU right now: {}{more}", named.join(", ")),
        "stop them while measuring",
    )
}

fn steal(before: Option<&CpuTicks>, after: Option<&CpuTicks>) -> Disturbance {
    let (Some(before), Some(after)) = (before, after) else {
        return unknown("steal", "`/proc/stat` does not say how much time is stolen", None);
    };
    let all = after.all.saturating_sub(before.all);
    let stolen = after.steal.saturating_sub(before.steal);
    let share = stolen as f64 / all.max(1) as f64;
    if share > 0.001 {
        let advice = "move to a host of your own, or ask for more `--runs`";
        return disturbs(
            "steal",
            format!("neighbours took {:.1} % of the CPU time", share * 100.0),
            advice,
        );
    }
    match after.steal {
        0 => fine("steal", "none since boot"),
        _ => fine("steal", "none just now, but some since boot"),
    }
}

#[cfg(test)]
mod tests;
