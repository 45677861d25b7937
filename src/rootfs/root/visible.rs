//! The mounts of a namespace that a path can reach, and which of them hold files of the user's.
//!
//! A later mount can hide an earlier one; a hidden file system must not end up in a merged root.

use surtax_instrument::mountinfo::{self, Mounted};

/// File systems that hold no files of the user's.
const KERNEL_KINDS: [&str; 22] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Directories where container engines keep the roots and volumes of running containers mounted.
const ENGINE_PLACES: [&str; 6] = [
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/lib/lxc",
    "/var/lib/machines",
];

/// Tells whether a mount holds files that a command may want.
pub fn is_real(mounted: &Mounted) -> bool {
    !KERNEL_KINDS.contains(&mounted.kind.as_str())
        && !ENGINE_PLACES.iter().any(|place| mounted.point.starts_with(place))
}

/// Tells whether one mount lies over the place where another is mounted.
fn hides(one: &Mounted, other: &Mounted) -> bool {
    let on_top = one.parent == other.id && one.point == other.point;
    let beside = one.parent == other.parent && other.point.starts_with(&one.point);
    one.id != other.id && (on_top || (beside && one.point != other.point))
}

/// The mounts that a path lookup can end in, in the table's order.
pub fn visible(table: &[u8]) -> Vec<Mounted> {
    let all = mountinfo::parse(table);
    all.iter().filter(|mount| is_visible(mount, &all)).cloned().collect()
}

fn is_visible(mount: &Mounted, all: &[Mounted]) -> bool {
    let (mut current, mut came_from) = (mount, mount.id);
    // A chain of parents is at most as long as the table.
    for _ in 0..all.len() {
        // What lies exactly over its parent hides it, and stays in plain sight itself.
        if all.iter().any(|other| other.id != came_from && hides(other, current)) {
            return false;
        }
        match all.iter().find(|other| other.id == current.parent && other.id != current.id) {
            Some(parent) => (current, came_from) = (parent, current.id),
            None => return true,
        }
    }
    false
}
