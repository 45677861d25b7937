//! libvirt's description of a domain.

use super::{Target, text};
use surtax::driver::untrusted;

pub const TARGET: Target = Target {
    name: "domain",
    run: |bytes| {
        let facts = untrusted::domain(text(bytes)).unwrap_or_default();
        assert!(facts <= bytes.len(), "{facts} facts of {} bytes", bytes.len());
    },
    seeds: super::none,
    folders: &[],
    longest: 16 << 10,
};
