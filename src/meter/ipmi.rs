//! A machine's management controller, asked by `ipmitool`: for the power that DCMI tells of, or for
//! a sensor in watts.
//!
//! Source: IPMI 2.0, DCMI 1.5 section 6.6.1; `ipmitool(1)`.

use super::source::{Source, microwatts};
use super::spec::MeterSpec;
use crate::fault::Fault;
use crate::lab::ask;
use std::time::Duration;

/// Time that an answer may take: some controllers take seconds to open a session.
const PATIENCE: Duration = Duration::from_secs(6);

/// A controller, and the line that asks it.
pub(super) struct Controller {
    argv: Vec<String>,
    /// The sensor that is asked for; DCMI where absent.
    sensor: Option<String>,
}

impl Controller {
    /// The one that is asked for; nothing is asked.
    pub(super) fn of(spec: &MeterSpec) -> Self {
        let mut argv = vec![String::from("ipmitool")];
        let mut add = |flag: &str, value: Option<&str>| {
            if let Some(value) = value {
                argv.extend([flag.to_owned(), value.to_owned()]);
            }
        };
        let host = spec.value("host");
        add("-I", Some(if host.is_some() { "lanplus" } else { "open" }));
        add("-H", host);
        // One that does not answer is given up within the patience.
        add("-N", host.map(|_| "1"));
        add("-R", host.map(|_| "3"));
        add("-p", spec.value("port"));
        add("-U", spec.value("user"));
        // A password on the line would be read by anybody.
        add("-f", spec.value("password-file"));
        add("-C", spec.value("cipher"));
        let sensor = spec.value("sensor").map(str::to_owned);
        let question: &[&str] =
            if sensor.is_some() { &["sensor", "reading"] } else { &["dcmi", "power", "reading"] };
        argv.extend(question.iter().map(|word| (*word).to_owned()));
        argv.extend(sensor.clone());
        Self { argv, sensor }
    }
}

impl Source for Controller {
    fn read(&mut self) -> Result<u64, Fault> {
        let said = ask(&self.argv, None, PATIENCE)?;
        let watts = match self.sensor {
            Some(_) => of_sensor(&said),
            None => of_dcmi(&said),
        };
        let watts = watts.ok_or_else(|| {
            Fault::machine("a management controller does not say its power: no number of watts")
                .hint(format!("see by hand what it answers: {}", self.argv.join(" ")))
        })?;
        microwatts(watts)
    }
}

/// Reads `Sys_power        | 184`.
fn of_sensor(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.split_once('|')?.1.trim().parse().ok())
}

/// Reads `    Instantaneous power reading:                   184 Watts`.
fn of_dcmi(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("Instantaneous power reading"))?;
    // One that is switched off says zero.
    line.split_once(':')?.1.split_whitespace().next()?.parse().ok().filter(|watts| *watts > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_are_read_from_a_sensors_line_and_from_dcmis() {
        assert_eq!(of_sensor("Sys_power        | 184\n"), Some(184.0));
        assert_eq!(of_sensor("Sys_power        | na\n"), None);
        let dcmi = "\n    Instantaneous power reading:                   184 Watts\n    Minimum \
                    during sampling period:                  7 Watts\n";
        assert_eq!(of_dcmi(dcmi), Some(184.0));
        assert_eq!(of_dcmi("DCMI request failed\n"), None);
        assert_eq!(of_dcmi("Instantaneous power reading:    0 Watts\n"), None);
    }

    #[test]
    fn a_controller_elsewhere_is_asked_over_the_network_and_its_password_stands_on_no_line() {
        let text = "ipmi:host=bmc,user=admin,password-file=/etc/secret,cipher=3,sensor=Sys_power";
        let controller = Controller::of(&MeterSpec::parse(text).unwrap());
        let expected = "ipmitool -I lanplus -H bmc -N 1 -R 3 -U admin -f /etc/secret -C 3 sensor \
                        reading Sys_power";
        assert_eq!(controller.argv.join(" "), expected);
        let own = Controller::of(&MeterSpec::parse("ipmi").unwrap());
        assert_eq!(own.argv.join(" "), "ipmitool -I open dcmi power reading");
    }
}
