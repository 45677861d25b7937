//! Spells a meter: a kind, and options of it, as `snmp:host=pdu,preset=apc`.

use super::METERS_MAX;
use crate::fault::Fault;
use crate::layer::instead;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Kind of a meter.
pub struct Kind {
    /// The word for it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Options, each with a line for people.
    pub options: &'static [(&'static str, &'static str)],
    /// Those of them that must be there.
    pub required: &'static [&'static str],
    /// Time between two readings where nobody says another.
    pub every: Duration,
    /// True where it sees all that the machine takes.
    pub sees_all: bool,
}

/// Every kind, by name.
pub const KINDS: [Kind; 6] = [
    Kind {
        name: "battery",
        about: "what a battery gives, in /sys/class/power_supply",
        options: &[("name", "which, such as BAT0; by default the first"), EVERY],
        required: &[],
        every: Duration::from_secs(1),
        sees_all: true,
    },
    Kind {
        name: "hwmon",
        about: "a power sensor of this machine, in /sys/class/hwmon",
        options: &[
            ("chip", "its chip's name, as in its file `name`"),
            ("sensor", "power1, power2, …; by default the first that there is"),
            EVERY,
        ],
        required: &["chip"],
        every: Duration::from_millis(100),
        sees_all: false,
    },
    Kind {
        name: "ipmi",
        about: "a machine's management controller, by `ipmitool`",
        options: &[
            ("host", "its address; by default this machine's own, by /dev/ipmi0"),
            ("port", "its port; by default 623"),
            ("user", "whom to log in as"),
            ("password-file", "file with the password"),
            ("cipher", "cipher suite; by default the tool's"),
            ("sensor", "a sensor in watts; by default the reading of DCMI"),
            EVERY,
        ],
        required: &[],
        every: Duration::from_secs(2),
        sees_all: true,
    },
    Kind {
        name: "rapl",
        about: "counters of this machine's processors, in /sys/class/powercap",
        options: &[
            ("domain", "package-0, core, uncore, dram, psys; by default all packages and memory"),
            EVERY,
        ],
        required: &[],
        every: Duration::from_millis(200),
        sees_all: false,
    },
    Kind {
        name: "redfish",
        about: "a machine's management controller, by Redfish",
        options: &[
            ("url", "address of the resource with the power, such as …/Chassis/1/Power"),
            ("field", "pointer to the watts; by default /PowerControl/0/PowerConsumedWatts"),
            ("netrc", "file with user and password, as curl reads it"),
            ("certificate", "file of the certificate to trust"),
            EVERY,
        ],
        required: &["url"],
        every: Duration::from_secs(2),
        sees_all: true,
    },
    Kind {
        name: "snmp",
        about: "a power distribution unit, by SNMP version 2c",
        options: &[
            ("host", "its address, with a port where it is not 161"),
            ("preset", "apc or raritan, which have their own objects"),
            ("outlet", "of raritan: which outlet; by default its inlet"),
            ("oid", "the object with the power"),
            ("scale", "watts that a step of it is; by default 1"),
            ("community-file", "file with the community; by default it is `public`"),
            EVERY,
        ],
        required: &["host"],
        every: Duration::from_secs(1),
        sees_all: true,
    },
];

const EVERY: (&str, &str) = ("every", "time between two readings");

/// Shortest time between two readings.
const EVERY_LEAST: Duration = Duration::from_millis(20);

/// Longest time between two readings.
const EVERY_MOST: Duration = Duration::from_secs(60);

/// A meter to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MeterSpec {
    kind: String,
    options: BTreeMap<String, String>,
}

impl MeterSpec {
    /// Reads one.
    ///
    /// # Errors
    /// The user's: no such kind or option, one that is missing, or a time that is none.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let known = KINDS.iter().find(|it| it.name == kind).ok_or_else(|| {
            Fault::user(format!("there is no meter `{kind}`")).hint(instead(
                kind,
                "meters",
                KINDS.iter().map(|it| it.name),
            ))
        })?;
        let mut options = BTreeMap::new();
        for option in rest.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').ok_or_else(|| {
                Fault::user(format!("`{option}` of the meter `{kind}` has no value"))
                    .hint(format!("write `{option}=…`"))
            })?;
            if !known.options.iter().any(|(name, _)| *name == key) {
                let all = known.options.iter().map(|(name, _)| *name);
                return Err(Fault::user(format!("the meter `{kind}` has no option `{key}`"))
                    .hint(instead(key, &format!("options of `{kind}`"), all)));
            }
            // Tools would take it for a flag.
            if value.starts_with('-') || value.chars().any(char::is_control) {
                return Err(Fault::user(format!("`{key}={value}` of the meter `{kind}` is none"))
                    .hint("leave out what it begins with, or the control character in it"));
            }
            if options.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(Fault::user(format!("`{key}` stands twice in the meter `{text}`"))
                    .hint("leave one of them out"));
            }
        }
        let lacks = known.required.iter().find(|key| !options.contains_key(**key));
        if let Some(key) = lacks {
            return Err(Fault::user(format!("the meter `{kind}` needs its `{key}`"))
                .hint(format!("write `{kind}:{key}=…`")));
        }
        let spec = Self { kind: kind.to_owned(), options };
        spec.checked_every()?;
        Ok(spec)
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// True where it sees all that the machine takes.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        KINDS.iter().any(|it| it.name == self.kind && it.sees_all)
    }

    /// The value of an option.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// Time between two readings.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.checked_every().unwrap_or(EVERY_MOST)
    }

    fn checked_every(&self) -> Result<Duration, Fault> {
        let kind = KINDS.iter().find(|it| it.name == self.kind);
        let usual = kind.map_or(Duration::from_secs(1), |it| it.every);
        let Some(text) = self.value("every") else { return Ok(usual) };
        let every = seconds(text).filter(|every| (EVERY_LEAST..=EVERY_MOST).contains(every));
        every.ok_or_else(|| {
            Fault::user(format!("`every={text}` is no time between two readings of a meter"))
                .hint("write a time from `20ms` to `60s`")
        })
    }
}

/// Refuses meters that are one, or more than are read.
///
/// # Errors
/// The user's.
pub fn check_all(all: &[MeterSpec]) -> Result<(), Fault> {
    let twice = all.iter().enumerate().find(|(place, meter)| all[..*place].contains(meter));
    if let Some((_, meter)) = twice {
        return Err(Fault::user(format!("the meter `{meter}` is named twice"))
            .hint("leave one of them out"));
    }
    if all.len() > METERS_MAX {
        return Err(Fault::user(format!(
            "a run reads {METERS_MAX} meters at most, and these are {}",
            all.len()
        ))
        .hint("leave some of them out"));
    }
    Ok(())
}

/// Reads a time such as `500ms` or `2s`.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit_s) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit_s).ok()
}

impl fmt::Display for MeterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<String> =
            self.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match options.is_empty() {
            true => f.write_str(&self.kind),
            false => write!(f, "{}:{}", self.kind, options.join(",")),
        }
    }
}

impl TryFrom<String> for MeterSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|fault| fault.message)
    }
}

impl From<MeterSpec> for String {
    fn from(spec: MeterSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_a_kind_and_its_options_and_is_written_as_it_is_read() {
        let spec = MeterSpec::parse("snmp:host=pdu:1161,preset=apc,every=500ms").unwrap();
        assert_eq!((spec.kind(), spec.value("host")), ("snmp", Some("pdu:1161")));
        assert_eq!(spec.every(), Duration::from_millis(500));
        assert_eq!(MeterSpec::parse(&spec.to_string()).unwrap(), spec);
        assert_eq!(MeterSpec::parse("battery").unwrap().to_string(), "battery");
    }

    #[test]
    fn what_is_no_meter_is_refused_with_what_would_be_one() {
        let refused = [
            ("snpm:host=pdu", "there is no meter `snpm`"),
            ("snmp", "the meter `snmp` needs its `host`"),
            ("snmp:hots=pdu", "the meter `snmp` has no option `hots`"),
            ("snmp:host", "`host` of the meter `snmp` has no value"),
            ("snmp:host=a,host=b", "`host` stands twice"),
            ("ipmi:sensor=-v", "`sensor=-v` of the meter `ipmi` is none"),
            ("ipmi:host=a\nb", "of the meter `ipmi` is none"),
            ("battery:every=0s", "`every=0s` is no time"),
            ("battery:every=soon", "`every=soon` is no time"),
        ];
        for (text, message) in refused {
            let fault = MeterSpec::parse(text).unwrap_err();
            assert!(fault.message.contains(message) && fault.hint.is_some(), "{text}: {fault}");
        }
    }

    #[test]
    fn a_meter_is_named_once() {
        let all = ["rapl", "battery", "rapl"].map(|it| MeterSpec::parse(it).unwrap());
        assert!(check_all(&all[..2]).is_ok());
        assert!(check_all(&all).unwrap_err().message.contains("`rapl` is named twice"));
        let many: Vec<_> =
            (0..17).map(|it| MeterSpec::parse(&format!("battery:name=BAT{it}")).unwrap()).collect();
        assert!(check_all(&many).unwrap_err().message.contains("16 meters at most"));
    }

    #[test]
    fn the_book_has_every_kind_with_its_options() {
        let book = include_str!("../../docs/energy.md");
        for kind in &KINDS {
            let row = book.lines().find(|line| line.starts_with(&format!("| `{}` |", kind.name)));
            let row = row.unwrap_or_else(|| panic!("{}", kind.name));
            let has = |key: &str| key == "every" || row.contains(&format!("`{key}`"));
            let lacks = kind.options.iter().find(|(key, _)| !has(key));
            assert_eq!(lacks, None, "{}", kind.name);
        }
    }

    #[test]
    fn kinds_stand_in_order_and_what_they_need_is_an_option() {
        assert!(KINDS.is_sorted_by_key(|kind| kind.name));
        for kind in &KINDS {
            let has = |key: &&&str| kind.options.iter().any(|(name, _)| name == *key);
            assert!(kind.required.iter().all(|key| has(&key)), "{}", kind.name);
        }
    }
}
