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
    words: &[
        "<domain type='kvm'>",
        "<devices>",
        "</devices>",
        "<disk ",
        "/>",
        "<!ENTITY a \"b\">",
        "&a;",
        "<!DOCTYPE d [",
        "]>",
        "<channel>",
        "<target name='org.qemu.guest_agent.0'/>",
        "<![CDATA[",
        "&#x1b;",
        "xmlns:a='b'",
    ],
    longest: 16 << 10,
};
