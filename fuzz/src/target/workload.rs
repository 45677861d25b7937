//! Workload files: TOML that somebody else wrote, and what it would read of an output.

use super::{Target, text};
use surtax::workload::{Definition, Workload};

pub const TARGET: Target = Target {
    name: "workload",
    run,
    seeds: super::none,
    folders: &["workloads"],
    longest: 16 << 10,
};

/// Output that the rules of a definition are tried on.
const OUTPUT: &str = "total: 12.5 s\n{\"a\": [1, 2, {\"b\": null}], \"count\": 3}\nmax 1e9 ns\n";

fn run(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(definition) = Definition::parse(text, "untrusted.toml") {
        let _reading = definition.read(OUTPUT);
        let _lines = definition.account(OUTPUT);
    }
    if let Ok(workload) = Workload::of("untrusted", text.to_owned(), Vec::new()) {
        assert!(workload.resolve().is_ok(), "what was accepted once is refused the second time");
        let _instances = workload.instances(3);
    }
}
