//! A machine's management controller, asked by Redfish with `curl`.
//!
//! Source: DMTF DSP0266; `Power` and `EnvironmentMetrics` of DSP0268.

use super::source::{Source, microwatts};
use super::spec::MeterSpec;
use crate::fault::Fault;
use crate::lab::ask;
use serde_json::Value;
use std::time::Duration;

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(6);

/// Fields in which the watts stand where nobody says one.
const USUAL: [&str; 2] = ["/PowerControl/0/PowerConsumedWatts", "/PowerWatts/Reading"];

/// A resource, and where its watts stand.
pub(super) struct Resource {
    argv: Vec<String>,
    fields: Vec<String>,
}

impl Resource {
    /// The one that is asked for; nothing is asked.
    ///
    /// # Errors
    /// The user's: its address is none of the web.
    pub(super) fn of(spec: &MeterSpec) -> Result<Self, Fault> {
        let url = spec.value("url").unwrap_or_default();
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(Fault::user(format!("`url={url}` of the meter `redfish` is no address"))
                .hint("write `url=https://HOST/redfish/v1/Chassis/1/Power`"));
        }
        if url.contains('@') {
            return Err(Fault::user("a password in an address would stand in the run file")
                .hint("write user and password into a file, and `netrc=FILE`"));
        }
        let first =
            ["curl", "-q", "--globoff", "--silent", "--show-error", "--fail", "--max-time", "5"];
        let mut argv: Vec<String> = first.map(String::from).into();
        for (flag, key) in [("--netrc-file", "netrc"), ("--cacert", "certificate")] {
            if let Some(value) = spec.value(key) {
                argv.extend([flag.to_owned(), value.to_owned()]);
            }
        }
        argv.extend([String::from("--"), url.to_owned()]);
        let said = spec.value("field").map(|field| vec![field.to_owned()]);
        Ok(Self { argv, fields: said.unwrap_or_else(|| USUAL.map(String::from).into()) })
    }
}

impl Source for Resource {
    fn read(&mut self) -> Result<u64, Fault> {
        let said = ask(&self.argv, None, PATIENCE)?;
        let answer: Value = serde_json::from_str(&said).map_err(|error| {
            Fault::machine(format!("a Redfish controller does not answer in JSON: {error}"))
        })?;
        let watts = self.fields.iter().find_map(|field| answer.pointer(field)?.as_f64());
        let watts = watts.ok_or_else(|| {
            let fields = self.fields.join("` nor `");
            Fault::machine(format!("a Redfish controller's answer has no watts in `{fields}`"))
                .hint("say where they are: `field=…`")
        })?;
        microwatts(watts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_are_found_by_their_way_and_nothing_else_is() {
        let answer = serde_json::json!({
            "PowerControl": [{ "PowerConsumedWatts": 37.5, "Name": "all" }],
            "PowerWatts": { "Reading": 12 },
        });
        let of = |field: &str| answer.pointer(field).and_then(Value::as_f64);
        assert_eq!((of(USUAL[0]), of(USUAL[1])), (Some(37.5), Some(12.0)));
        for wrong in ["/PowerControl/1/PowerConsumedWatts", "/PowerControl/0/Name", "", "a"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_is_one_of_the_web_and_its_password_stands_on_no_line() {
        let of = |text: &str| Resource::of(&MeterSpec::parse(text).unwrap());
        let asked = of("redfish:url=https://bmc/redfish/v1/Chassis/1/Power,netrc=/etc/n").unwrap();
        let line = asked.argv.join(" ");
        assert!(line.ends_with("--netrc-file /etc/n -- https://bmc/redfish/v1/Chassis/1/Power"));
        for wrong in ["file:///etc/shadow", "https://admin:secret@bmc/"] {
            assert!(of(&format!("redfish:url={wrong}")).is_err(), "{wrong}");
        }
    }
}
