//! Asks a meter what it says now, by kind.

use super::spec::MeterSpec;
use super::{ipmi, redfish, snmp};
use crate::fault::Fault;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::probe::energy::{Meter as Rapl, SHORTEST};
use surtax_instrument::probe::power::{Battery, Sensor};
use surtax_instrument::quantity::Nanoseconds;

/// Somebody who says how much power a machine takes.
pub(super) trait Source: Send {
    /// Reads it, in microwatts.
    ///
    /// # Errors
    /// The machine's: it does not answer, or what it answers is no power.
    fn read(&mut self) -> Result<u64, Fault>;
}

/// More than any machine takes, in microwatts: what is beyond is no power.
const MOST_UW: u64 = 1_000_000_000_000;

/// A power in watts as microwatts.
///
/// # Errors
/// The machine's: it is no number of watts that a machine takes.
pub(super) fn microwatts(watts: f64) -> Result<u64, Fault> {
    let uw = watts * 1e6;
    if !uw.is_finite() || uw < 0.0 || uw > MOST_UW as f64 {
        return Err(Fault::machine(format!("a meter says {watts} W, which no machine takes")));
    }
    Ok(surtax_instrument::quantity::whole(uw.round()))
}

/// Finds the meter that is asked for.
///
/// # Errors
/// The user's or the machine's: there is none, or it cannot be asked.
pub(super) fn open(spec: &MeterSpec) -> Result<Box<dyn Source>, Fault> {
    let root = Path::new("/");
    let none = |what: String| Fault::machine(format!("the meter `{spec}` is not there: {what}"));
    Ok(match spec.kind() {
        "battery" => {
            let name = spec.value("name");
            let found = Battery::open(root, name);
            Box::new(Local(found.ok_or_else(|| {
                none(String::from("no battery of this machine says what it gives"))
                    .hint("look in /sys/class/power_supply")
            })?))
        }
        "hwmon" => {
            let chip = spec.value("chip").unwrap_or_default();
            let found = Sensor::open(root, chip, spec.value("sensor"));
            Box::new(Local(found.ok_or_else(|| {
                let chips = Sensor::chips(root).join("`, `");
                let hint = match chips.is_empty() {
                    true => String::from("no chip of this machine has a sensor of power"),
                    false => format!("those of this machine with a sensor of power are `{chips}`"),
                };
                none(format!("no chip `{chip}` has such a sensor")).hint(hint)
            })?))
        }
        "ipmi" => Box::new(ipmi::Controller::of(spec)),
        "rapl" => {
            let domain = spec.value("domain");
            let found = domain.map_or_else(|| Rapl::open(root), |it| Rapl::of_domain(root, it));
            let mut meter = found.ok_or_else(|| {
                let hint = match Rapl::domains(root).join("`, `") {
                    none if none.is_empty() => String::from("a virtual machine mostly has none"),
                    domains => format!("those of this machine are `{domains}`"),
                };
                none(String::from("no processor of this machine counts that")).hint(hint)
            })?;
            meter.go_on();
            Box::new(Counters { meter, read: clock::monotonic_raw() })
        }
        "redfish" => Box::new(redfish::Resource::of(spec)?),
        "snmp" => Box::new(snmp::Unit::open(spec)?),
        kind => return Err(Fault::bug(format!("nobody reads a meter `{kind}`"))),
    })
}

/// A sensor of this machine.
struct Local<T>(T);

impl Source for Local<Battery> {
    fn read(&mut self) -> Result<u64, Fault> {
        self.0.microwatts().ok_or_else(|| {
            Fault::machine("the battery does not say what it gives, or is being charged")
        })
    }
}

impl Source for Local<Sensor> {
    fn read(&mut self) -> Result<u64, Fault> {
        self.0.microwatts().ok_or_else(|| Fault::machine("the sensor of power says nothing"))
    }
}

/// Counters of energy, which tell the power since they were last read.
struct Counters {
    meter: Rapl,
    read: Nanoseconds,
}

impl Source for Counters {
    fn read(&mut self) -> Result<u64, Fault> {
        let since = Duration::from(clock::monotonic_raw().since(self.read));
        std::thread::sleep((SHORTEST * 2).saturating_sub(since));
        let microwatts = self.meter.microwatts();
        self.read = clock::monotonic_raw();
        microwatts.ok_or_else(|| {
            Fault::machine("the processors' counters of energy do not move, or were read too late")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_takes_is_no_power() {
        assert_eq!(microwatts(37.5), Ok(37_500_000));
        for watts in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(microwatts(watts).unwrap_err().message.contains("no machine takes"), "{watts}");
        }
    }
}
