//! Output of workloads: every built-in definition reads it, and says numbers or one sentence.

use super::Target;
use std::sync::OnceLock;
use surtax::workload::{Definition, Workload, shelf};

pub const TARGET: Target = Target {
    name: "output",
    run,
    seeds: super::none,
    folders: &["tests/workloads"],
    longest: 64 << 10,
};

fn run(bytes: &[u8]) {
    let stdout = String::from_utf8_lossy(bytes);
    for definition in definitions() {
        match definition.read(&stdout) {
            Ok(reading) => {
                for metric in &reading.metrics {
                    assert!(metric.value.is_finite(), "`{}` is {}", metric.name, metric.value);
                }
                let _lines = definition.account(&stdout);
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}

/// Every definition that comes with surtax.
fn definitions() -> &'static [Definition] {
    static DEFINITIONS: OnceLock<Vec<Definition>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let listed = shelf::all().expect("the shelf is there");
        let of = |name: &str| Workload::find(name).and_then(|found| found.resolve());
        let resolved = listed.iter().filter(|it| it.path.is_none()).map(|it| of(&it.name));
        resolved.map(|it| it.expect("what is built in is right")).collect()
    })
}
