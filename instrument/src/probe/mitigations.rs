//! Measures of a kernel against its processor's weaknesses: a cost that another kernel may not
//! have.
//!
//! - **Reads** `/sys/devices/system/cpu/vulnerabilities`.
//! - **Costs** some twenty small files, read once per run and once per start of another kernel.
//! - **Cannot see** what the machine below does, where this kernel is itself a guest's.
//! - **Reference** Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`.

use std::fs;
use std::path::Path;

/// Directory in which the kernel tells of its processor's weaknesses.
pub const PLACE: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Separator of one weakness from the next.
const SEPARATOR: &str = " | ";

/// Every weakness that this processor has, with what is done about it:
/// `spectre_v1: Mitigation: usercopy barriers | …`. `None` where the kernel does not tell.
#[must_use]
pub fn read_below(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join(PLACE.trim_start_matches('/'))).ok()?;
    let mut found: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path()).ok()?;
            Some(format!("{}: {}", entry.file_name().to_string_lossy(), state.trim()))
        })
        .filter(|line| !line.ends_with(": Not affected"))
        .collect();
    found.sort();
    Some(if found.is_empty() { "none needed".into() } else { found.join(SEPARATOR) })
}

/// The names of the weaknesses about which such a text says that something is done.
pub fn mitigated(text: &str) -> impl Iterator<Item = &str> {
    text.split(SEPARATOR).filter_map(|weakness| {
        let (name, state) = weakness.split_once(": ")?;
        state.starts_with("Mitigation").then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_about_a_weakness_is_told_from_what_is_not() {
        let text = "retbleed: Vulnerable | spectre_v1: Mitigation: usercopy/swapgs barriers";
        assert_eq!(mitigated(text).collect::<Vec<_>>(), ["spectre_v1"]);
        assert_eq!(mitigated("none needed").count(), 0);
    }
}
