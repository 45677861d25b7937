//! `/proc/self/mountinfo`: what is mounted where, and what of it a path can reach.
//!
//! A later mount can hide an earlier one; a hidden file system must not end up in a merged root.
//! Source: `proc(5)`, `Documentation/filesystems/proc.rst` section 3.5.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

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

/// Where container engines keep the roots and volumes of running containers mounted.
const ENGINE_PLACES: [&str; 6] = [
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/lib/lxc",
    "/var/lib/machines",
];

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    id: u32,
    parent: u32,
    /// Where.
    pub point: PathBuf,
    /// Type of file system.
    pub kind: String,
    /// Whether the mount or its file system is read-only.
    pub read_only: bool,
}

impl Mounted {
    /// Whether it holds files that a command may want.
    pub fn is_real(&self) -> bool {
        !KERNEL_KINDS.contains(&self.kind.as_str())
            && !ENGINE_PLACES.iter().any(|place| self.point.starts_with(place))
    }

    /// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let fields: Vec<&str> = mount.split(' ').collect();
        let mut system = system.split(' ');
        let kind = system.next()?.to_owned();
        let has_ro = |options: &str| options.split(',').any(|option| option == "ro");
        let read_only = has_ro(fields.get(5)?) || has_ro(system.nth(1).unwrap_or(""));
        Some(Self {
            id: fields.first()?.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            point: unescape(fields.get(4)?),
            kind,
            read_only,
        })
    }

    /// Whether `self` lies over the place where `other` is mounted.
    fn hides(&self, other: &Self) -> bool {
        let on_top = self.parent == other.id && self.point == other.point;
        let beside = self.parent == other.parent && other.point.starts_with(&self.point);
        self.id != other.id && (on_top || (beside && self.point != other.point))
    }
}

/// The mounts that a path lookup can end in, in the table's order.
pub fn visible(text: &str) -> Vec<Mounted> {
    let all: Vec<Mounted> = text.lines().filter_map(Mounted::parse).collect();
    all.iter().filter(|mount| is_visible(mount, &all)).cloned().collect()
}

fn is_visible(mount: &Mounted, all: &[Mounted]) -> bool {
    let (mut current, mut came_from) = (mount, mount.id);
    // A chain of parents is at most as long as the table.
    for _ in 0..all.len() {
        // What lies exactly over its parent hides it, and stays in plain sight itself.
        if all.iter().any(|other| other.id != came_from && other.hides(current)) {
            return false;
        }
        match all.iter().find(|other| other.id == current.parent && other.id != current.id) {
            Some(parent) => (current, came_from) = (parent, current.id),
            None => return true,
        }
    }
    false
}

/// Undoes the table's `\040` and the like.
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let octal =
            bytes.get(index + 1..index + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[index] == b'\\' => {
                plain.push(byte);
                index += 4;
            }
            _ => {
                plain.push(bytes[index]);
                index += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}
