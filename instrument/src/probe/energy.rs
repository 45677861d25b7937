//! Counts the energy that this machine's processors and their memory took, by RAPL.
//!
//! | ours | the kernel's, below `/sys/class/powercap` |
//! |---|---|
//! | a package | `intel-rapl:N` whose `name` is `package-N`, on AMD too |
//! | its memory | `intel-rapl:N:M` whose `name` is `dram`, which is in no package's count |
//! | a domain that is asked for | those of that `name`: `core`, `uncore`, `dram`, `psys`, `package-N` |
//! | what one of them took | `energy_uj`, which begins anew after `max_energy_range_uj` |
//!
//! - **Reads** the sum of all packages and their memory. Cores are within their package, `psys` is
//!   the same energy seen at the socket, and `intel-rapl-mmio` is `intel-rapl` by another way: none
//!   of them is added.
//! - **Costs** one `pread` per package and memory, which asks a CPU of that package.
//! - **Cannot see** disks, fans, cards and what a power supply loses, nor who took it; the counters
//!   move about once a millisecond, so that nothing is said of less than [`SHORTEST`]. A virtual
//!   machine mostly sees none at all.
//! - **Reference** Linux `Documentation/power/powercap/powercap.rst`; Intel's manual, volume 3B,
//!   section "Platform Specific Power Management Support".
//!
//! Not yet run on hardware: tried on trees of files that are as the kernel's.

use crate::clock::monotonic_raw;
use crate::counters::{number, text_of};
use crate::quantity::Nanoseconds;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Of less than this nothing is said: a counter that moves once a millisecond is a tenth wrong at
/// most.
pub const SHORTEST: Duration = Duration::from_millis(20);

/// No package or memory takes more, in watts: as long as it can be read before it could have gone
/// around once, how often it did is known.
const WATTS_MAX: u64 = 2_000;

/// A machine with more packages and memories than these has no meter.
const ZONES_MAX: usize = 64;

/// A counter that goes around sooner than this is no such counter.
const SHORTEST_ROUND: Duration = Duration::from_secs(10);

/// Counters of one machine, held open, with what they rose by.
#[derive(Debug)]
pub struct Meter {
    zones: Vec<Zone>,
    /// Time of the last reading.
    at: Nanoseconds,
    /// Time over which it was counted.
    counted: Nanoseconds,
    /// False before it begins and in a pause: what is used then is nobody's.
    is_counting: bool,
}

/// Counter of one package or memory.
#[derive(Debug)]
struct Zone {
    file: File,
    /// Most that it can say, in microjoules.
    range: u64,
    last: Option<u64>,
    /// Microjoules that it rose by; `None` once that is not known.
    used: Option<u64>,
}

impl Meter {
    /// Opens the counters of the machine whose `/sys` is below `root`; `None` where it has none, or
    /// shows them to nobody.
    #[must_use]
    pub fn open(root: &Path) -> Option<Self> {
        Self::of(root, |domain| domain.starts_with("package-") || domain == "dram")
    }

    /// Opens the counters of one domain, those of all packages together; `None` as [`Self::open`].
    #[must_use]
    pub fn of_domain(root: &Path, domain: &str) -> Option<Self> {
        Self::of(root, |it| it == domain)
    }

    /// Lists the domains of the machine whose `/sys` is below `root`, by name.
    #[must_use]
    pub fn domains(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = zones_of(root).map(|(domain, _)| domain).collect();
        names.sort();
        names.dedup();
        names
    }

    fn of(root: &Path, is_counted: impl Fn(&str) -> bool) -> Option<Self> {
        let mut zones = Vec::new();
        for (_, path) in zones_of(root).filter(|(domain, _)| is_counted(domain)) {
            // One of them that is left out or cannot be read makes a sum that is none.
            zones.push(Zone::open(&path).filter(|_| zones.len() < ZONES_MAX)?);
        }
        let now = monotonic_raw();
        let is_counting = false;
        (!zones.is_empty()).then_some(Self { zones, at: now, counted: Nanoseconds(0), is_counting })
    }

    /// Begins to count, or goes on after a pause: what was used until now is nobody's.
    pub fn go_on(&mut self) {
        self.zones.iter_mut().for_each(Zone::go_on);
        self.at = monotonic_raw();
        self.is_counting = true;
    }

    /// Counts to the end, or to a pause.
    pub fn pause(&mut self) {
        self.count();
        self.is_counting = false;
    }

    /// Counts what was used since the last reading, unless it pauses. To be called again within
    /// [`Self::patience`].
    pub fn count(&mut self) {
        if !self.is_counting {
            return;
        }
        let now = monotonic_raw();
        let passed = now.since(self.at);
        self.zones.iter_mut().for_each(|zone| zone.count(passed));
        self.counted += passed;
        self.at = now;
    }

    /// Returns the mean power since the last such question, in microwatts, and counts anew; `None`
    /// as [`Self::used_uj`].
    pub fn microwatts(&mut self) -> Option<u64> {
        self.count();
        let (used, counted) = (self.used_uj(), std::mem::take(&mut self.counted));
        self.zones.iter_mut().for_each(|zone| zone.used = Some(0));
        u64::try_from(u128::from(used?) * 1_000_000_000 / u128::from(counted.0)).ok()
    }

    /// Time within which it is to be read again, lest a counter goes around unseen.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let shortest = self.zones.iter().map(|zone| zone.longest()).min();
        Duration::from(shortest.unwrap_or_default()) / 2
    }

    /// Time over which was counted.
    #[must_use]
    pub fn counted(&self) -> Nanoseconds {
        self.counted
    }

    /// Energy that was counted, in microjoules; `None` where one of the counters was not read in
    /// time, none of them moved, or it was too short a time.
    #[must_use]
    pub fn used_uj(&self) -> Option<u64> {
        let sum = self.zones.iter().try_fold(0_u64, |sum, zone| sum.checked_add(zone.used?))?;
        (sum > 0 && Duration::from(self.counted) >= SHORTEST).then_some(sum)
    }
}

/// Packages and their parts, each with the name of its domain.
fn zones_of(root: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let all = fs::read_dir(root.join("sys/class/powercap")).into_iter().flatten().flatten();
    all.filter_map(|folder| {
        let name = folder.file_name();
        let is_rapl = name.to_str().is_some_and(|name| name.starts_with("intel-rapl:"));
        let domain = text_of(folder.path().join("name")).ok().filter(|_| is_rapl)?;
        Some((domain.trim().to_owned(), folder.path()))
    })
}

impl Zone {
    fn open(path: &Path) -> Option<Self> {
        let range = text_of(path.join("max_energy_range_uj")).ok()?.trim().parse().ok()?;
        let file = File::open(path.join("energy_uj")).ok()?;
        let zone = Self { file, range, last: None, used: Some(0) };
        (Duration::from(zone.longest()) >= SHORTEST_ROUND).then_some(zone)
    }

    /// Time in which it can go around no more than once.
    fn longest(&self) -> Nanoseconds {
        Nanoseconds(self.range.saturating_mul(1_000) / WATTS_MAX)
    }

    fn go_on(&mut self) {
        self.last = number(&self.file);
    }

    fn count(&mut self, passed: Nanoseconds) {
        let now = number(&self.file).filter(|now| *now <= self.range);
        let rose = now.zip(self.last).filter(|_| passed < self.longest());
        let rose = rose.map(|(now, last)| match now >= last {
            true => now - last,
            false => self.range - last + now,
        });
        self.used = self.used.zip(rose).and_then(|(used, rose)| used.checked_add(rose));
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::{Tree, tree};

    const RANGE: u64 = 262_143_328_850;

    /// A machine of two packages, one of which has memory, as Intel's and AMD's are.
    fn machine() -> Tree {
        let zone = |name: &str, kind: &str, count: u64| {
            let folder = format!("sys/class/powercap/{name}");
            [
                (format!("{folder}/name"), format!("{kind}\n")),
                (format!("{folder}/energy_uj"), format!("{count}\n")),
                (format!("{folder}/max_energy_range_uj"), format!("{RANGE}\n")),
            ]
        };
        let files: Vec<(String, String)> = [
            zone("intel-rapl:0", "package-0", 1_000),
            zone("intel-rapl:0:0", "core", 500),
            zone("intel-rapl:0:1", "dram", 2_000),
            zone("intel-rapl:1", "package-1", RANGE - 9),
            zone("intel-rapl:2", "psys", 7_000),
            zone("intel-rapl-mmio:0", "package-0", 1_000),
        ]
        .into_iter()
        .flatten()
        .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
        tree(&files)
    }

    fn counter(root: &Path, zone: &str) -> PathBuf {
        root.join(format!("sys/class/powercap/{zone}/energy_uj"))
    }

    fn begun(root: &Path) -> Meter {
        let mut meter = Meter::open(root).unwrap();
        meter.go_on();
        meter.at = Nanoseconds(meter.at.0 - 50_000_000);
        meter
    }

    #[test]
    fn a_domain_is_read_alone_as_power_since_it_was_last_asked_for() {
        let machine = machine();
        let all = ["core", "dram", "package-0", "package-1", "psys"];
        assert_eq!(Meter::domains(machine.path()), all);
        assert!(Meter::of_domain(machine.path(), "uncore").is_none());
        let mut meter = Meter::of_domain(machine.path(), "core").unwrap();
        meter.go_on();
        for count in [1_000_500, 2_000_500] {
            meter.at = Nanoseconds(meter.at.0 - 100_000_000);
            fs::write(counter(machine.path(), "intel-rapl:0:0"), format!("{count}\n")).unwrap();
            let microwatts = meter.microwatts().unwrap();
            assert!((5_000_000..=10_000_000).contains(&microwatts), "{microwatts}");
        }
        assert_eq!(meter.microwatts(), None, "asked again at once");
    }

    #[test]
    fn packages_and_their_memory_are_added_and_nothing_twice() {
        let machine = machine();
        let mut meter = begun(machine.path());
        for (zone, now) in
            [("intel-rapl:0", 4_000), ("intel-rapl:0:0", 3_000), ("intel-rapl:0:1", 2_500)]
        {
            fs::write(counter(machine.path(), zone), format!("{now}\n")).unwrap();
        }
        // This one goes around.
        fs::write(counter(machine.path(), "intel-rapl:1"), "91\n").unwrap();
        meter.count();
        assert_eq!(meter.used_uj(), Some(3_000 + 500 + 100));
    }

    #[test]
    fn what_is_used_in_a_pause_is_not_counted() {
        let machine = machine();
        let mut meter = begun(machine.path());
        let write = |now: u64| {
            fs::write(counter(machine.path(), "intel-rapl:0"), format!("{now}\n")).unwrap();
        };
        write(1_010);
        meter.pause();
        write(5_000);
        meter.count();
        write(9_000);
        meter.go_on();
        write(9_007);
        meter.count();
        assert_eq!(meter.used_uj(), Some(17));
    }

    #[test]
    fn what_is_used_before_it_begins_is_not_counted_however_long_that_takes() {
        let machine = machine();
        let mut meter = Meter::open(machine.path()).unwrap();
        meter.at = Nanoseconds(meter.at.0 - 500_000_000_000);
        meter.count();
        meter.go_on();
        meter.at = Nanoseconds(meter.at.0 - 50_000_000);
        fs::write(counter(machine.path(), "intel-rapl:0"), "1005\n").unwrap();
        meter.pause();
        assert_eq!(meter.used_uj(), Some(5));
        assert!(meter.counted() < Nanoseconds(1_000_000_000), "{:?}", meter.counted());
    }

    #[test]
    fn a_counter_that_goes_around_at_once_and_more_of_them_than_are_read_are_no_meter() {
        let machine = machine();
        let range = machine.path().join("sys/class/powercap/intel-rapl:0/max_energy_range_uj");
        fs::write(range, "1000\n").unwrap();
        assert!(Meter::open(machine.path()).is_none());
        let zone =
            |number: usize, file: &str| format!("sys/class/powercap/intel-rapl:{number}/{file}");
        let files: Vec<(String, String)> = (0..=ZONES_MAX)
            .flat_map(|number| {
                let of = |file: &str, text: &str| (zone(number, file), text.to_owned());
                let range = RANGE.to_string();
                [of("name", "package-0"), of("energy_uj", "5"), of("max_energy_range_uj", &range)]
            })
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert!(Meter::open(tree(&files).path()).is_none());
    }

    #[test]
    fn a_counter_that_may_have_gone_around_unseen_says_nothing_any_more() {
        let machine = machine();
        let mut meter = begun(machine.path());
        let longest = meter.zones[0].longest();
        assert_eq!(longest.0 / 1_000_000_000, 131, "of 262 kJ at 2 kW, in seconds");
        assert_eq!(meter.patience().as_secs(), 65);
        fs::write(counter(machine.path(), "intel-rapl:0"), "4000\n").unwrap();
        meter.at = Nanoseconds(meter.at.0 - longest.0);
        meter.count();
        assert_eq!(meter.used_uj(), None);
        meter.count();
        assert_eq!(meter.used_uj(), None, "the part that is not known is missing for ever");
    }

    #[test]
    fn counters_that_stand_still_and_too_short_a_time_say_nothing() {
        let machine = machine();
        let mut meter = begun(machine.path());
        meter.count();
        assert_eq!(meter.used_uj(), None, "as those of a virtual machine do");
        fs::write(counter(machine.path(), "intel-rapl:0"), "4000\n").unwrap();
        let mut short = Meter::open(machine.path()).unwrap();
        short.go_on();
        fs::write(counter(machine.path(), "intel-rapl:0"), "5000\n").unwrap();
        short.count();
        assert_eq!(short.used_uj(), None);
    }

    #[test]
    fn a_machine_without_counters_and_one_that_hides_a_part_have_no_meter() {
        let none = tree(&[("sys/class/powercap/dtpm/name", "pkg\n")]);
        assert!(Meter::open(none.path()).is_none());
        assert!(Meter::open(&none.path().join("nowhere")).is_none());
        let machine = machine();
        fs::remove_file(counter(machine.path(), "intel-rapl:0:1")).unwrap();
        assert!(Meter::open(machine.path()).is_none(), "a sum without a part of it is none");
    }

    #[test]
    fn a_counter_that_lies_beyond_its_range_is_not_believed() {
        let machine = machine();
        let mut meter = begun(machine.path());
        fs::write(counter(machine.path(), "intel-rapl:0"), format!("{}\n", RANGE + 1)).unwrap();
        meter.count();
        assert_eq!(meter.used_uj(), None);
    }
}
