//! Power that a sensor of this machine measures, or its battery gives.
//!
//! | ours | the kernel's |
//! |---|---|
//! | a sensor | `/sys/class/hwmon/hwmonN/powerM_average`, else `powerM_input`, in microwatts |
//! | a battery | `/sys/class/power_supply/NAME/power_now` in microwatts, else current times voltage |
//!
//! - **Reads** the power of the moment, or of the sensor's own interval.
//! - **Costs** one or two `pread`s, which some chips answer slowly.
//! - **Cannot see** what the sensor does not measure; of a battery that is charged it says nothing,
//!   because what it takes then is not what the machine takes.
//! - **Reference** Linux `Documentation/hwmon/sysfs-interface.rst`,
//!   `Documentation/ABI/testing/sysfs-class-power`.
//!
//! Not yet run on hardware: tried on trees of files that are as the kernel's.

use crate::counters::{number, text_of};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A sensor of power, held open.
#[derive(Debug)]
pub struct Sensor(File);

/// Most sensors that a chip has.
const SENSORS_MAX: u32 = 64;

impl Sensor {
    /// Opens a sensor of the chip of that name, in the machine whose `/sys` is below `root`: the
    /// first where none is named.
    #[must_use]
    pub fn open(root: &Path, chip: &str, sensor: Option<&str>) -> Option<Self> {
        let is_it = |(name, _): &(String, PathBuf)| name == chip;
        chips(root).filter(is_it).find_map(|(_, path)| match sensor {
            Some(sensor) => opened(&path, sensor),
            None => (1..=SENSORS_MAX).find_map(|place| opened(&path, &format!("power{place}"))),
        })
    }

    /// Lists the chips that have a sensor of power.
    #[must_use]
    pub fn chips(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = chips(root)
            .map(|(name, _)| name)
            .filter(|name| Self::open(root, name, None).is_some())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads it, in microwatts.
    #[must_use]
    pub fn microwatts(&self) -> Option<u64> {
        number(&self.0)
    }
}

/// The chips of a machine, each with its name.
fn chips(root: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let all = fs::read_dir(root.join("sys/class/hwmon")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = all.map(|chip| chip.path()).collect();
    // Of two with one name the first is always the same.
    paths.sort();
    paths.into_iter().filter_map(|chip| {
        let name = text_of(chip.join("name")).ok()?;
        Some((name.trim().to_owned(), chip))
    })
}

fn opened(chip: &Path, sensor: &str) -> Option<Sensor> {
    // A temperature is no power, and a name that leads elsewhere is none.
    let number = sensor.strip_prefix("power")?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let open = |kind: &str| File::open(chip.join(format!("{sensor}_{kind}"))).ok().map(Sensor);
    open("average").or_else(|| open("input"))
}

/// A battery, its counters held open.
#[derive(Debug)]
pub struct Battery {
    status: File,
    power: Option<File>,
    current: Option<File>,
    voltage: Option<File>,
}

impl Battery {
    /// Opens the battery of that name, in the machine whose `/sys` is below `root`: the first where
    /// none is named.
    #[must_use]
    pub fn open(root: &Path, name: Option<&str>) -> Option<Self> {
        let all = fs::read_dir(root.join("sys/class/power_supply")).ok()?.flatten();
        let mut paths: Vec<PathBuf> = all.map(|it| it.path()).collect();
        paths.sort();
        paths.into_iter().find_map(|path| {
            let is_named = name.is_none_or(|name| path.file_name().is_some_and(|it| it == name));
            let kind = text_of(path.join("type")).ok()?;
            (is_named && kind.trim() == "Battery").then(|| Self::of(&path)).flatten()
        })
    }

    fn of(path: &Path) -> Option<Self> {
        let open = |name: &str| File::open(path.join(name)).ok();
        let (power, current, voltage) =
            (open("power_now"), open("current_now"), open("voltage_now"));
        let is_told = power.is_some() || (current.is_some() && voltage.is_some());
        is_told.then_some(Self { status: open("status")?, power, current, voltage })
    }

    /// Reads what it gives, in microwatts; `None` where it is charged, or does not say.
    #[must_use]
    pub fn microwatts(&self) -> Option<u64> {
        let mut buffer = [0; 32];
        let status = crate::counters::text(Some(&self.status), &mut buffer)?;
        if status.trim() != "Discharging" {
            return None;
        }
        let product = || {
            let (current, voltage) =
                (number(self.current.as_ref()?)?, number(self.voltage.as_ref()?)?);
            u64::try_from(u128::from(current) * u128::from(voltage) / 1_000_000).ok()
        };
        self.power.as_ref().and_then(number).or_else(product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::tree;

    #[test]
    fn a_sensor_is_found_by_its_chip_and_its_average_comes_first() {
        let root = tree(&[
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon1/name", "amdgpu\n"),
            ("sys/class/hwmon/hwmon1/power1_average", "12500000\n"),
            ("sys/class/hwmon/hwmon1/power1_input", "1\n"),
            ("sys/class/hwmon/hwmon1/power2_input", "37500000\n"),
            ("sys/class/hwmon/hwmon1/temp1_input", "45000\n"),
        ]);
        let read = |chip, sensor| Sensor::open(root.path(), chip, sensor)?.microwatts();
        assert_eq!(read("amdgpu", None), Some(12_500_000));
        assert_eq!(read("amdgpu", Some("power2")), Some(37_500_000));
        for (chip, sensor) in [
            ("amdgpu", Some("power3")),
            ("amdgpu", Some("temp1")),
            ("coretemp", None),
            ("amdgpu", Some("../hwmon1/power1")),
        ] {
            assert_eq!(read(chip, sensor), None, "{chip} {sensor:?}");
        }
        assert_eq!(Sensor::chips(root.path()), ["amdgpu"]);
    }

    #[test]
    fn a_battery_says_what_it_gives_and_nothing_while_it_is_charged() {
        let root = tree(&[
            ("sys/class/power_supply/AC/type", "Mains\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
            ("sys/class/power_supply/BAT0/current_now", "2500000\n"),
            ("sys/class/power_supply/BAT0/voltage_now", "12000000\n"),
            ("sys/class/power_supply/BAT1/type", "Battery\n"),
            ("sys/class/power_supply/BAT1/status", "Charging\n"),
            ("sys/class/power_supply/BAT1/power_now", "9\n"),
        ]);
        let read = |name| Battery::open(root.path(), name)?.microwatts();
        assert_eq!(read(None), Some(30_000_000));
        assert_eq!((read(Some("BAT1")), read(Some("AC"))), (None, None));
    }
}
