//! Docker: programs that its daemon starts as root, by its configuration.
//!
//! Source: `dockerd(8)`, "Daemon configuration file"; moby 27, `daemon/config` and
//! `docs/alternative-runtimes.md`.

use super::places::{Place, Reason};
use super::{configuration, programs};
use crate::fault::Fault;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The daemon's configuration, and the most bytes of it that are read.
const CONFIGURATION: &str = "/etc/docker/daemon.json";
const BYTES_MOST: u64 = 1 << 20;

/// Settings whose values name programs, or have such values in them: a runtime has its own and its
/// shim's, and files that configure it.
const PROGRAMS: [&str; 3] = ["init-path", "runtimes", "userland-proxy-path"];

const STARTED: Reason = Reason::started("part of what the Docker daemon starts or obeys");

/// Lists what the daemon's configuration has it start, and what that is started by.
///
/// # Errors
/// The machine's: the configuration cannot be read.
pub(super) fn places() -> Result<Vec<Place>, Fault> {
    named_by(Path::new(CONFIGURATION))
}

fn named_by(file: &Path) -> Result<Vec<Place>, Fault> {
    let text = configuration::read(file, BYTES_MOST)?;
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let settings: Value =
        serde_json::from_slice(text).map_err(|error| configuration::unknown(file, &error))?;
    let mut paths = Vec::new();
    for setting in PROGRAMS.iter().filter_map(|name| settings.get(name)) {
        add_paths(setting, &mut paths);
    }
    let remedy = format!(", or change `{}`", file.display());
    Ok(programs::started(paths, STARTED).map(|place| place.or(&remedy)).collect())
}

/// Adds the absolute paths in a value, at any depth: the parser lets it be no deeper than 128.
fn add_paths(value: &Value, paths: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) if text.starts_with('/') => paths.push(PathBuf::from(text)),
        Value::Array(values) => values.iter().for_each(|value| add_paths(value, paths)),
        Value::Object(values) => values.values().for_each(|value| add_paths(value, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_and_other_programs_of_the_daemon_are_places() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, told) in [
            (
                r#"{"runtimes": {
                    "a": {"path": "/srv/a", "runtimeArgs": ["--debug", "/srv/arg"]},
                    "b": {"path": "crun"},
                    "c": {"runtimeType": "/srv/shim", "options": {"BinaryName": "/srv/c/bin/runc"}}
                }, "init-path": "/srv/init", "data-root": "/srv/data"}"#,
                &["/srv/a", "/srv/arg", "/srv/c/bin/runc", "/srv/c/lib", "/srv/init", "/srv/shim"]
                    [..],
            ),
            ("\u{feff}{\"userland-proxy-path\": \"/srv/proxy\"}", &["/srv/proxy"]),
            (r#"{"runtimes": 7, "init-path": null}"#, &[]),
            ("[]", &[]),
            (" \n", &[]),
            ("", &[]),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let found = named_by(file.path()).unwrap().into_iter().map(|place| place.path);
            let told: Vec<PathBuf> = told.iter().map(PathBuf::from).collect();
            assert_eq!(found.collect::<Vec<_>>(), told, "{text}");
        }
        assert_eq!(named_by(Path::new("/not-there/daemon.json")), Ok(Vec::new()));
    }

    #[test]
    fn a_configuration_that_cannot_be_read_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let deep = "[".repeat(1000);
        for text in [&b"{"[..], b"{\"runtimes\": {\"a\": \xff}}", b"\0", deep.as_bytes()] {
            std::fs::write(file.path(), text).unwrap();
            let fault = named_by(file.path()).unwrap_err();
            assert!(fault.message.contains("says what root's programs load"), "{fault}");
        }
        file.as_file().set_len(BYTES_MOST + 1).unwrap();
        assert!(named_by(file.path()).unwrap_err().message.contains("it is longer than"));
    }
}
