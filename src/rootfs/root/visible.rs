//! The mounts of a namespace that a path can reach, and which of them hold files of the user's.
//!
//! A later mount can hide an earlier one; a hidden file system must not end up in a merged root.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use surtax_instrument::mountinfo::{self, Mounted};

/// File systems that hold no files of the user's.
const KERNEL_KINDS: [&str; 24] = [
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs",
    "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs",
];

/// Those of them that hold no settings and no devices: memory, and what waits to be mounted.
const WITHOUT_SETTINGS: [&str; 3] = ["autofs", "hugetlbfs", "ramfs"];

/// Tells whether a mount holds files that somebody put there.
pub fn is_real(mounted: &Mounted) -> bool {
    !KERNEL_KINDS.contains(&mounted.kind.as_str())
}

/// Tells whether one mount lies over the place where another is mounted.
fn hides(one: &Mounted, other: &Mounted) -> bool {
    let on_top = || one.parent == other.id && one.point == other.point;
    // Bytes first: of most pairs they differ, and a path is compared name by name.
    let begins = || bytes(&other.point).starts_with(bytes(&one.point));
    let beside = || one.parent == other.parent && begins() && other.point.starts_with(&one.point);
    one.id != other.id && (on_top() || (beside() && one.point != other.point))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The mounts that a path lookup can end in, in the table's order.
pub fn visible(table: &[u8]) -> Vec<Mounted> {
    let all = mountinfo::parse(table);
    all.iter().filter(|mount| is_visible(mount, &all)).cloned().collect()
}

/// Finds a file system with the kernel's settings or devices in which a directory lies, or else one
/// that can be reached below it.
pub fn kernel_mount_at(table: &[u8], directory: &Path) -> Option<Mounted> {
    let all = visible(table);
    let around = all.iter().filter(|mount| directory.starts_with(&mount.point));
    let around = around.max_by_key(|mount| mount.point.components().count());
    let mut below = all.iter().filter(|mount| mount.point.starts_with(directory));
    let is_kernels = |mount: &&Mounted| {
        let kind = mount.kind.as_str();
        KERNEL_KINDS.contains(&kind) && !WITHOUT_SETTINGS.contains(&kind)
    };
    around.filter(is_kernels).or_else(|| below.find(is_kernels)).cloned()
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
