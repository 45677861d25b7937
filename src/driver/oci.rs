//! `runc`, `crun` and `youki`: OCI runtimes on this level's kernel.
//!
//! - **Needs** the runtime in `PATH` or by `binary=`, root, and cgroup v1 or v2.
//! - **Leaves out** seccomp, AppArmor and user namespaces, which are an engine's choice and not the
//!   runtime's; links, which are an engine's: `net=veth` prepares a namespace as its plugin would.
//! - **Payers** the runtime's own process and the container's group: engine. The group carries the
//!   command.
//! - **Checked against** runc 1.1.5, crun 1.8.1; youki by its own documents.

use crate::container::oci::{Oci, PRIVILEGED};
use crate::container::tool_network;
use crate::layer::{
    BINARY, Descriptor, Limit, Need, OptionSpec, Reach, Rights, impairment, medium,
};

/// The options of all three.
const OPTIONS: &[OptionSpec] = &[
    tool_network::choice(&["none", "host", "veth"]),
    impairment::DELAY,
    impairment::LOSS,
    impairment::RATE,
    medium::CHOICE,
    PRIVILEGED,
    BINARY,
];

const fn descriptor(
    kind: &'static str,
    package: &'static str,
    summary: &'static str,
    variants: &'static [&'static str],
) -> Descriptor {
    Descriptor {
        kind,
        package,
        summary,
        reach: &[("host", Reach::Level), ("veth", Reach::Bridge { joins: true })],
        options: OPTIONS,
        limits: Limit::OF_A_CONTAINER,
        holds_layers: true,
        both_ways: &["veth", "host"],
        variants,
        ..Descriptor::CONTAINER
    }
}

/// The reference runtime, in Go.
pub static RUNC: Oci = Oci::plain(&RUNC_DESCRIPTOR, "runc", "apt-get install runc");

static RUNC_DESCRIPTOR: Descriptor = Descriptor {
    // Whose network it is mounts `/sys`.
    rights: |spec| if spec.says("net", "host") { Rights::Root } else { Rights::Namespace },
    ..descriptor(
        "runc",
        "runc",
        "a container by runc, the reference OCI runtime",
        &[
            "runc", "runc:net=host", "runc:net=veth", "runc:net=veth,delay=20ms",
            "runc:privileged=true", "runc+runc",
        ],
    )
};

/// The one in C.
pub static CRUN: Oci = Oci {
    copies_to: Some("_LIBCONTAINER_STATEDIR"),
    refuses_hybrid: true,
    ..Oci::plain(&CRUN_DESCRIPTOR, "crun", "apt-get install crun")
};

static CRUN_DESCRIPTOR: Descriptor = Descriptor {
    needs: |_| &[Need::OwnNetwork],
    ..descriptor(
        "crun",
        "crun",
        "a container by crun, the OCI runtime in C",
        &["crun", "crun:net=veth"],
    )
};

/// The one in Rust.
pub static YOUKI: Oci = Oci::plain(
    &YOUKI_DESCRIPTOR,
    "youki",
    "cargo install youki --locked --no-default-features --features v1,v2",
);

static YOUKI_DESCRIPTOR: Descriptor = descriptor(
    "youki",
    "",
    "a container by youki, the OCI runtime in Rust",
    &["youki", "youki:net=veth"],
);
