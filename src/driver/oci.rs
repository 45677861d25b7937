//! `runc`, `crun` and `youki`: OCI runtimes on this level's kernel.
//!
//! - **Needs** the runtime in `PATH`, root, and cgroup v1 or v2.
//! - **Leaves out** seccomp, AppArmor and user namespaces, which are an engine's choice and not the
//!   runtime's; links, which are an engine's: `net=veth` prepares a namespace as its plugin would.
//! - **Payers** the runtime's own process and the container's group: engine. The group carries the
//!   command.
//! - **Checked against** runc 1.1.5, crun 1.8.1; youki by its own documents.

use super::options;
use crate::container::oci::Oci;
use crate::layer::{Descriptor, Limit, Need, Reach};
use std::sync::LazyLock;

fn descriptor(kind: &'static str, summary: &'static str) -> Descriptor {
    Descriptor {
        summary,
        reach: &[("host", Reach::Level), ("veth", Reach::Bridge { joins: true })],
        limits: Limit::OF_A_CONTAINER,
        holds_layers: true,
        both_ways: &["veth", "host"],
        ..options::container(kind)
    }
}

/// The reference runtime, in Go.
pub static RUNC: Oci = Oci::plain(&RUNC_DESCRIPTOR, "runc", "apt-get install runc");

static RUNC_DESCRIPTOR: LazyLock<Descriptor> =
    LazyLock::new(|| descriptor("runc", "a container by runc, the reference OCI runtime"));

/// The one in C.
pub static CRUN: Oci = Oci {
    copies_to: Some("_LIBCONTAINER_STATEDIR"),
    refuses_hybrid: true,
    ..Oci::plain(&CRUN_DESCRIPTOR, "crun", "apt-get install crun")
};

static CRUN_DESCRIPTOR: LazyLock<Descriptor> = LazyLock::new(|| Descriptor {
    needs: |_| &[Need::OwnNetwork],
    ..descriptor("crun", "a container by crun, the OCI runtime in C")
});

/// The one in Rust.
pub static YOUKI: Oci = Oci::plain(
    &YOUKI_DESCRIPTOR,
    "youki",
    "cargo install youki --locked --no-default-features --features v1,v2",
);

static YOUKI_DESCRIPTOR: LazyLock<Descriptor> =
    LazyLock::new(|| descriptor("youki", "a container by youki, the OCI runtime in Rust"));
