//! The disk on which scratch directories are: where block I/O is limited and looked at.

use super::DISK_DIRECTORY;
use crate::fault::{Doing, Fault};
use crate::stack::IoLimits;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its major number, and its minor one.
    pub numbers: (i64, i64),
    /// Its node, such as `/dev/vda`.
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
