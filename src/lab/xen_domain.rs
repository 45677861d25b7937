//! Takes a domain of Xen's away, by the tool that made it.
//!
//! The tool ends the domain, and the QEMU that served its devices. What that QEMU has written is a
//! file of the tool's own, which nobody else would ever remove; neither would anybody what we wrote
//! into the store of a channel that the tool does not know.

use super::ask;
use crate::fault::Fault;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// File by which Xen says whether this machine is a Dom0: nowhere else are there domains.
const CAPABILITIES: &str = "/proc/xen/capabilities";

/// Directory that the tool has QEMU write to.
const LOGS: &str = "/var/log/xen";

/// Time limit for a run of the tool; emulated it needs seconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Destroys a domain; one that is gone is no error, and neither is a machine without Xen.
pub(super) fn destroy(name: &str) -> Result<Vec<String>, Fault> {
    if !Path::new(CAPABILITIES).is_file() {
        return Ok(Vec::new());
    }
    let tool = |words: &[&str]| run(&[&["xl"], words].concat());
    let mut found = Vec::new();
    if let Ok(id) = tool(&["domid", name]) {
        // It may have ended in between, and is asked about once more then.
        match tool(&["destroy", name]) {
            Err(fault) if tool(&["domid", name]).is_ok() => {
                return Err(fault.during(format_args!("cannot destroy the domain `{name}`")));
            }
            _ => found.push(format!("domain `{name}` still existed")),
        }
        if let Ok(id) = id.trim().parse() {
            forget_consoles(id)?;
        }
    }
    remove_logs(name);
    Ok(found)
}

/// Takes away from the store what is in there of the consoles of a domain that was destroyed;
/// nothing is no error.
///
/// # Errors
/// The store cannot be written.
pub fn forget_consoles(id: u16) -> Result<(), Fault> {
    let place = format!("/local/domain/0/backend/console/{id}");
    match run(&["xenstore-exists", &place]) {
        Ok(_) => run(&["xenstore-rm", &place]).map(drop),
        Err(_) => Ok(()),
    }
}

fn run(words: &[&str]) -> Result<String, Fault> {
    ask(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), None, DEADLINE)
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
