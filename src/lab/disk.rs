//! The disk on which scratch directories are: where block I/O is limited and looked at.

use super::directory;
use super::places::DISK_DIRECTORY;
use crate::fault::{Doing, Fault};
use crate::lab::IoLimits;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::backing::Backing;

/// Largest number of devices that may lie one on the other.
const DEPTH_LIMIT: usize = 16;

/// Time limit for an answer of the device mapper.
const ASK_DEADLINE: Duration = Duration::from_secs(5);

/// A whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Major and minor number of the device.
    pub numbers: (i64, i64),
    /// Device node, such as `/dev/vda`.
    pub node: PathBuf,
}

impl Disk {
    /// `MAJOR:MINOR`, as cgroups name it.
    #[must_use]
    pub fn number(&self) -> String {
        format!("{}:{}", self.numbers.0, self.numbers.1)
    }
}

impl IoLimits {
    /// The disk that they are for, if there are any.
    ///
    /// # Errors
    /// As [`under_scratch`].
    pub fn disk(&self) -> Result<Option<Disk>, Fault> {
        (*self != Self::default()).then(under_scratch).transpose()
    }
}

/// The disk under `/var/tmp`: a partition's is the one that it is part of, as limits want it.
///
/// # Errors
/// The user's: the directory is on no disk of this level, as in memory or on files of a host.
pub fn under_scratch() -> Result<Disk, Fault> {
    let meta = fs::metadata(DISK_DIRECTORY).doing(format_args!("look at `{DISK_DIRECTORY}`"))?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    of(Path::new("/sys"), &format!("{major}:{minor}"))
}

/// The file systems on a disk above which the kernel takes a layer of an overlay: neither memory,
/// nor another overlay, nor files of a host. Source: Linux `include/uapi/linux/magic.h` and
/// `fs/f2fs/f2fs.h`.
const HOLD_LAYERS: [u32; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];

/// Tells whether the layers of an overlay can be below `/var/tmp`, on a disk.
#[must_use]
pub fn holds_layers() -> bool {
    let kind = rustix::fs::statfs(DISK_DIRECTORY).map(|facts| facts.f_type).unwrap_or(0);
    u32::try_from(kind).is_ok_and(|kind| HOLD_LAYERS.contains(&kind))
}

/// Lists the devices below a file system, from its own device down: `vda1`, or `dm-0 (crypt) vdb`
/// where the device mapper has a device in between; nothing where it is on no disk of this level.
#[must_use]
pub fn under(held: &Backing) -> Vec<String> {
    let (major, minor) = held.device;
    let named = held.source.strip_prefix("/dev/").filter(|_| major == 0);
    let first = match named {
        // Some file systems have numbers that are no device's.
        Some(name) => Path::new("/sys/class/block").join(name),
        None => Path::new("/sys/dev/block").join(format!("{major}:{minor}")),
    };
    below(&first, &targets_of)
}

/// The file behind the last of these devices, where that is a loop.
#[must_use]
pub fn file_of_a_loop(below: &[String]) -> Option<PathBuf> {
    let name = below.last()?;
    let file = Path::new("/sys/class/block").join(name).join("loop/backing_file");
    fs::read_to_string(file).ok().map(|path| PathBuf::from(path.trim_end()))
}

/// A device and those that it is made of, each with how it is made of them.
fn below(device: &Path, targets: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let Ok(mut device) = fs::canonicalize(device) else { return Vec::new() };
    let mut lines = Vec::new();
    // A device that is made of several stands for them by the first.
    for _ in 0..DEPTH_LIMIT {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mapped = fs::read_to_string(device.join("dm/name")).ok();
        let kind = mapped.map(|mapped| {
            let kind = targets(mapped.trim_end());
            let uuid = fs::read_to_string(device.join("dm/uuid")).unwrap_or_default();
            let owner = uuid.split('-').next().unwrap_or_default().trim_end().to_lowercase();
            kind.unwrap_or(if owner.is_empty() { String::from("mapped") } else { owner })
        });
        lines.push(kind.map_or_else(|| name.clone(), |kind| format!("{name} ({kind})")));
        let parts = directory::entries(&device.join("slaves"));
        match parts.into_iter().next().and_then(|part| fs::canonicalize(part).ok()) {
            Some(part) => device = part,
            None => break,
        }
    }
    lines
}

/// The kinds of target that a mapped device is made of, as in `linear` or `crypt`; none where
/// nobody can be asked.
fn targets_of(mapped: &str) -> Option<String> {
    super::find("dmsetup")?;
    let argv = ["dmsetup", "table", mapped].map(String::from);
    let said = super::ask(&argv, None, ASK_DEADLINE).ok()?;
    let mut kinds: Vec<&str> =
        said.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)).collect();
    kinds.dedup();
    (!kinds.is_empty()).then(|| kinds.join(","))
}

fn of(sys: &Path, number: &str) -> Result<Disk, Fault> {
    let none = || {
        Fault::user(format!("`{DISK_DIRECTORY}` is on no disk of this level that could be limited"))
            .hint("leave `read-bps`, `write-bps`, `read-iops` and `write-iops` out here")
    };
    let device = fs::canonicalize(sys.join("dev/block").join(number)).map_err(|_| none())?;
    let whole = match device.parent() {
        Some(parent) if device.join("partition").exists() => parent,
        _ => &device,
    };
    let read = |name: &str| fs::read_to_string(whole.join(name));
    let number = read("dev").map_err(|_| none())?;
    let (major, minor) = number.trim_end().split_once(':').ok_or_else(none)?;
    let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else { return Err(none()) };
    let events = read("uevent").map_err(|_| none())?;
    let name = events.lines().find_map(|line| line.strip_prefix("DEVNAME=")).ok_or_else(none)?;
    Ok(Disk { numbers: (major, minor), node: Path::new("/dev").join(name) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_lies_below_is_named_with_how_the_device_mapper_makes_it() {
        let sys = tempfile::tempdir().unwrap();
        let at = |name: &str| sys.path().join(name);
        for (upper, lower) in [("dm-1", "dm-0"), ("dm-0", "vda1")] {
            fs::create_dir_all(at(upper).join("slaves")).unwrap();
            fs::create_dir_all(at(upper).join("dm")).unwrap();
            fs::create_dir_all(at(lower)).unwrap();
            symlink(at(lower), at(upper).join("slaves").join(lower)).unwrap();
            fs::write(at(upper).join("dm/name"), format!("mapped-{upper}\n")).unwrap();
        }
        fs::write(at("dm-1/dm/uuid"), "LVM-abc\n").unwrap();
        fs::write(at("dm-0/dm/uuid"), "\n").unwrap();
        let told = |name: &str| (name == "mapped-dm-0").then(|| String::from("crypt"));
        assert_eq!(below(&at("dm-1"), &told), ["dm-1 (lvm)", "dm-0 (crypt)", "vda1"]);
        assert_eq!(below(&at("dm-0"), &|_| None), ["dm-0 (mapped)", "vda1"]);
        assert_eq!(below(&at("nothing"), &told), [""; 0]);
    }

    #[test]
    fn a_partition_stands_for_its_disk_and_memory_for_none() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/vda");
        fs::create_dir_all(disk.join("vda1")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("dev"), "254:0\n").unwrap();
        fs::write(disk.join("uevent"), "MAJOR=254\nMINOR=0\nDEVNAME=vda\nDEVTYPE=disk\n").unwrap();
        fs::write(disk.join("vda1/dev"), "254:1\n").unwrap();
        fs::write(disk.join("vda1/partition"), "1\n").unwrap();
        symlink(&disk, sys.path().join("dev/block/254:0")).unwrap();
        symlink(disk.join("vda1"), sys.path().join("dev/block/254:1")).unwrap();

        let expected = Disk { numbers: (254, 0), node: "/dev/vda".into() };
        assert_eq!(of(sys.path(), "254:1"), Ok(expected.clone()));
        assert_eq!(of(sys.path(), "254:0"), Ok(expected.clone()));
        assert_eq!(expected.number(), "254:0");
        let fault = of(sys.path(), "0:30").unwrap_err();
        assert!(fault.message.contains("on no disk"), "{fault}");
    }
}
