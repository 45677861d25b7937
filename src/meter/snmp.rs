//! A power distribution unit, asked by SNMP version 2c.
//!
//! Source: RFC 3416; APC's PowerNet-MIB, `rPDU2DeviceStatusPower`; Raritan's PDU2-MIB,
//! `measurementsInletSensorValue` and `measurementsOutletSensorValue`.

use super::source::{Source, microwatts};
use super::spec::MeterSpec;
use crate::fault::{Doing, Fault};
use crate::regular_file;
use snmp2::{Oid, SyncSession, Value};
use std::path::Path;
use std::time::Duration;

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest community, in bytes.
const COMMUNITY_MAX: u64 = 255;

/// Port at which a unit is asked where nobody says another.
const PORT: u16 = 161;

/// Objects of a maker, and how many watts a step is.
struct Preset {
    name: &'static str,
    object: &'static [u64],
    scale: f64,
}

const PRESETS: [Preset; 2] = [
    // In hundredths of a kilowatt.
    Preset { name: "apc", object: &[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 4, 3, 1, 5, 1], scale: 10.0 },
    // The active power of the inlet.
    Preset {
        name: "raritan",
        object: &[1, 3, 6, 1, 4, 1, 13742, 6, 5, 2, 3, 1, 4, 1, 1, 5],
        scale: 1.0,
    },
];

/// Active power of an outlet of Raritan's, but for its number and what is measured.
const OUTLET: &[u64] = &[1, 3, 6, 1, 4, 1, 13742, 6, 5, 4, 3, 1, 4, 1];

/// Number of the active power among what is measured of an outlet.
const ACTIVE_POWER: u64 = 5;

/// A unit that is asked for one object.
pub(super) struct Unit {
    address: String,
    community: String,
    /// None after a failure: an answer that comes late would be taken for the next one.
    session: Option<SyncSession>,
    object: Vec<u64>,
    scale: f64,
}

impl Unit {
    /// Opens a way to a unit; nothing is asked.
    ///
    /// # Errors
    /// The user's: no object is named, or a number is none. The machine's: the address leads
    /// nowhere.
    pub(super) fn open(spec: &MeterSpec) -> Result<Self, Fault> {
        let (object, scale) = object(spec)?;
        let host = spec.value("host").unwrap_or_default();
        let address = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:{PORT}"),
        };
        let community = spec.value("community-file").map_or_else(|| Ok("public".into()), secret)?;
        let mut unit = Self { address, community, session: None, object, scale };
        unit.session = Some(unit.connect()?);
        Ok(unit)
    }

    fn connect(&self) -> Result<SyncSession, Fault> {
        let community = self.community.as_bytes();
        SyncSession::new_v2c(self.address.as_str(), community, Some(PATIENCE), 0)
            .doing(format_args!("reach a power distribution unit at `{}`", self.address))
    }

    /// Asks for the power, in steps.
    fn ask(&self, session: &mut SyncSession) -> Result<f64, Fault> {
        let failed = |what: &dyn std::fmt::Display| {
            Fault::machine(format!("a power distribution unit does not say its power: {what}"))
        };
        let object = Oid::from(&self.object).map_err(|_| failed(&"its object has no name"))?;
        let mut answer = session.get(&object).map_err(|error| failed(&error))?;
        if answer.error_status != 0 {
            return Err(failed(&format_args!("error {} of SNMP", answer.error_status)));
        }
        let (about, value) = answer.varbinds.next().ok_or_else(|| failed(&"an empty answer"))?;
        if about != object {
            return Err(failed(&"its answer is about something else"));
        }
        Ok(match value {
            Value::Integer(steps) => steps as f64,
            Value::Counter32(steps) | Value::Unsigned32(steps) => f64::from(steps),
            Value::Counter64(steps) => steps as f64,
            Value::OctetString(text) => {
                let text = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
                text.ok_or_else(|| failed(&"its answer is no number"))?
            }
            // Whoever answers may nest values deeper than they can be printed.
            _ => return Err(failed(&"its answer is no number")),
        })
    }
}

/// Reads a word that is to stand on no line.
fn secret(path: &str) -> Result<String, Fault> {
    let text = regular_file::text_given(Path::new(path), COMMUNITY_MAX);
    Ok(text.doing(format_args!("read the community in `{path}`"))?.trim().to_owned())
}

/// The object that is asked for, and how many watts a step of it is.
fn object(spec: &MeterSpec) -> Result<(Vec<u64>, f64), Fault> {
    let wrong = |key: &str| {
        let value = spec.value(key).unwrap_or_default();
        Fault::user(format!("`{key}={value}` of the meter `snmp` is none"))
    };
    let scale = spec.value("scale").map(|it| it.parse::<f64>().ok().filter(|it| *it > 0.0));
    let scale = scale.map(|it| it.ok_or_else(|| wrong("scale"))).transpose()?;
    if let Some(text) = spec.value("oid") {
        let parts = text.trim_start_matches('.').split('.');
        let parts: Option<Vec<u64>> = parts.map(|it| it.parse().ok()).collect();
        let parts = parts.filter(|it| it.len() > 1).ok_or_else(|| {
            wrong("oid").hint("write the numbers, as in `oid=1.3.6.1.4.1.318.1.1.26.4.3.1.5.1`")
        })?;
        return Ok((parts, scale.unwrap_or(1.0)));
    }
    let named = spec.value("preset").unwrap_or_default();
    let preset = PRESETS.iter().find(|it| it.name == named).ok_or_else(|| {
        Fault::user("the meter `snmp` needs the object with the power")
            .hint("write `preset=apc`, `preset=raritan`, or `oid=…` with its `scale=…`")
    })?;
    let mut object = preset.object.to_vec();
    if spec.value("outlet").is_some() {
        let outlet = spec.value("outlet").and_then(|it| it.parse().ok());
        let outlet = outlet.filter(|_| named == "raritan").ok_or_else(|| wrong("outlet"))?;
        object = [OUTLET, &[outlet, ACTIVE_POWER]].concat();
    }
    Ok((object, scale.unwrap_or(preset.scale)))
}

impl Source for Unit {
    fn read(&mut self) -> Result<u64, Fault> {
        let mut session = self.session.take().map_or_else(|| self.connect(), Ok)?;
        let steps = self.ask(&mut session)?;
        self.session = Some(session);
        microwatts(steps * self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &str) -> Result<(Vec<u64>, f64), String> {
        let spec = MeterSpec::parse(&format!("snmp:host=pdu,{options}")).unwrap();
        object(&spec).map_err(|fault| fault.message)
    }

    #[test]
    fn an_object_is_a_makers_or_ones_own_with_its_scale() {
        let (apc, scale) = of("preset=apc").unwrap();
        assert_eq!((apc.last(), scale), (Some(&1), 10.0));
        let outlet = of("preset=raritan,outlet=7").unwrap();
        assert_eq!(outlet, ([OUTLET, &[7, 5]].concat(), 1.0));
        assert_eq!(of("oid=.1.3.6.9,scale=0.1"), Ok((vec![1, 3, 6, 9], 0.1)));
        for wrong in
            ["", "preset=acp", "oid=1", "oid=1.x", "preset=apc,outlet=1", "oid=1.3,scale=0"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
