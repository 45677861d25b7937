//! Plan files: from TOML to a plan that is complete, and to a plan file again.

use super::{Target, text};
use surtax::driver::registered;
use surtax::plan::{Defaults, file};

pub const TARGET: Target =
    Target { name: "plan", run, seeds: super::none, folders: &["plans"], longest: 16 << 10 };

fn run(bytes: &[u8]) {
    let descriptors = registered();
    let Ok(draft) = file::parse(text(bytes), "untrusted.toml", &descriptors) else { return };
    let around = Defaults {
        fresh_seed: 1,
        cpus: Some(vec![0, 1]),
        numa_nodes: Some(vec![0]),
        ..Defaults::of_no_machine(&descriptors)
    };
    if let Ok(decided) = draft.complete(&around) {
        let written = file::write(&decided.plan);
        let again = file::parse(&written, "written.toml", &descriptors);
        let again = again.unwrap_or_else(|fault| panic!("{fault}, of its own plan:\n{written}"));
        let again = again.complete(&around).unwrap_or_else(|fault| panic!("{fault}:\n{written}"));
        assert_eq!(again.plan, decided.plan, "a plan that was written is read otherwise");
    }
}
