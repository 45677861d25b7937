//! Speed of the CPUs, who decides it, and how often heat slowed them down.
//!
//! | ours | the kernel's, below `/sys/devices/system/cpu/cpuN` |
//! |---|---|
//! | `lowest_hz` | `cpufreq/scaling_cur_freq`, in kHz |
//! | `fixed_ratio` | `cpufreq/scaling_governor`: the share that says `performance` |
//! | `heat_count` | `thermal_throttle/{core,package}_throttle_count` |
//!
//! - **Reads** the lowest frequency of the CPUs; the governors when it is opened; the sum of all
//!   counters of heat, where a package's counter is there once per CPU.
//! - **Costs** one `pread` per file, of at most [`CPUS_MAX`] CPUs.
//! - **Cannot see** the frequency between two readings; a virtual machine mostly sees nothing at
//!   all.
//! - **Reference** Linux `Documentation/admin-guide/pm/cpufreq.rst`,
//!   `Documentation/ABI/testing/sysfs-devices-system-cpu`.

use crate::counters::number;
use std::fs::{self, File};
use std::path::Path;

/// Of so many CPUs the files are read.
pub const CPUS_MAX: usize = 64;

/// The files of the CPUs, held open.
#[derive(Debug, Default)]
pub struct Cpus {
    frequencies: Vec<File>,
    heat: Vec<File>,
    fixed_ratio: Option<f64>,
}

/// Values of the files at one moment; `None` where this machine does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// The frequency of the slowest CPU, in hertz.
    pub lowest_hz: Option<f64>,
    /// Number of times that heat slowed a core or a package down since boot.
    pub heat_count: Option<u64>,
}

impl Cpus {
    /// Opens the files of the machine whose `/sys` is below `root`.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let mut cpus = Self::default();
        let mut fixed = Vec::new();
        for number in 0..CPUS_MAX {
            let folder = root.join(format!("sys/devices/system/cpu/cpu{number}"));
            if !folder.is_dir() {
                break;
            }
            let open = |path: &str| File::open(folder.join(path)).ok();
            cpus.frequencies.extend(open("cpufreq/scaling_cur_freq"));
            cpus.heat.extend(open("thermal_throttle/core_throttle_count"));
            cpus.heat.extend(open("thermal_throttle/package_throttle_count"));
            if let Ok(governor) = fs::read_to_string(folder.join("cpufreq/scaling_governor")) {
                fixed.push(f64::from(governor.trim() == "performance"));
            }
        }
        let count = u32::try_from(fixed.len()).map_or(f64::INFINITY, f64::from);
        cpus.fixed_ratio = (!fixed.is_empty()).then(|| fixed.iter().sum::<f64>() / count);
        cpus
    }

    /// The share of CPUs whose frequency is meant to stay as high as it can be.
    #[must_use]
    pub fn fixed_ratio(&self) -> Option<f64> {
        self.fixed_ratio
    }

    /// Reads them now.
    #[must_use]
    pub fn read(&self) -> Speed {
        let heat: Vec<u64> = self.heat.iter().filter_map(number).collect();
        let khz = self.frequencies.iter().filter_map(number).min();
        Speed {
            lowest_hz: khz.and_then(|khz| u32::try_from(khz).ok()).map(|khz| f64::from(khz) * 1e3),
            heat_count: (!heat.is_empty()).then(|| heat.iter().sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::tree;

    #[test]
    fn the_slowest_cpu_counts_and_all_heat_does() {
        let cpu = "sys/devices/system/cpu";
        let root = tree(&[
            (&format!("{cpu}/cpu0/cpufreq/scaling_cur_freq"), "3000000\n"),
            (&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance\n"),
            (&format!("{cpu}/cpu0/thermal_throttle/core_throttle_count"), "2\n"),
            (&format!("{cpu}/cpu0/thermal_throttle/package_throttle_count"), "5\n"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_cur_freq"), "1200000\n"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "schedutil\n"),
            (&format!("{cpu}/cpuidle/current_driver"), "none\n"),
        ]);
        let cpus = Cpus::open(root.path());
        assert_eq!(cpus.read(), Speed { lowest_hz: Some(1.2e9), heat_count: Some(7) });
        assert_eq!(cpus.fixed_ratio(), Some(0.5));
    }

    #[test]
    fn a_machine_that_hides_its_frequency_has_none() {
        let root = tree(&[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        let cpus = Cpus::open(root.path());
        assert_eq!((cpus.read(), cpus.fixed_ratio()), (Speed::default(), None));
    }
}
