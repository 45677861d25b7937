//! QMP: a QEMU that says anything.

use super::{Target, text};
use surtax::driver::untrusted;

pub const TARGET: Target =
    Target { name: "qmp", run, seeds: super::none, folders: &[], longest: 32 << 10 };

fn run(bytes: &[u8]) {
    if untrusted::qmp(bytes).is_ok() {
        assert!(text(bytes).contains("QMP"), "a QEMU that never greeted was believed");
    }
}
