//! The runner with coverage: libFuzzer, on the target that `SURTAX_FUZZ_TARGET` names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use surtax_fuzz::target::{self, Target};

fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("SURTAX_FUZZ_TARGET").unwrap_or_default();
        target::find(&name)
            .unwrap_or_else(|| panic!("`SURTAX_FUZZ_TARGET` names no target: `{name}`"))
    });
    (target.run)(bytes);
});
