//! Takes a domain of Xen's away, by the tool that made it.
//!
//! The tool ends the domain, and the QEMU that served its devices. What that QEMU has written is a file of
//! the tool's own, which nobody else would ever remove.

use super::ask;
use crate::fault::Fault;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Where Xen says whether this machine is a Dom0: nowhere else are there domains.
const CAPABILITIES: &str = "/proc/xen/capabilities";

/// Where the tool has QEMU write to.
const LOGS: &str = "/var/log/xen";

/// How long the tool may take; emulated it needs seconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Destroys a domain; one that is gone is no error, and neither is a machine without Xen.
pub(super) fn destroy(name: &str) -> Result<Vec<String>, Fault> {
    if !Path::new(CAPABILITIES).is_file() {
        return Ok(Vec::new());
    }
    let tool = |words: &[&str]| {
        let argv: Vec<String> = ["xl"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        ask(&argv, None, DEADLINE)
    };
    let mut found = Vec::new();
    if tool(&["domid", name]).is_ok() {
        // It may have ended in between, and is asked about once more then.
        match tool(&["destroy", name]) {
            Err(fault) if tool(&["domid", name]).is_ok() => {
                return Err(fault.during(format_args!("cannot destroy the domain `{name}`")));
            }
            _ => found.push(format!("domain `{name}` still existed")),
        }
    }
    remove_logs(name);
    Ok(found)
}

/// Removes what was written about a domain: a file, and older ones behind it.
fn remove_logs(name: &str) {
    let begins = format!("qemu-dm-{name}.log");
    for entry in fs::read_dir(LOGS).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&begins) {
            // Should this fail, a file of words is left, as by every other domain.
            let _ = fs::remove_file(entry.path());
        }
    }
}
