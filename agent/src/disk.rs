//! The scratch disk of a virtual machine: found, and mounted where a command has its data.
//!
//! Source: Linux `drivers/block/virtio_blk.c` (`serial_show`), `drivers/nvme/host/sysfs.c`,
//! `drivers/scsi/scsi_sysfs.c` (`vpd_pg80`), SPC-4 section 7.8.15 of the page with a unit's serial
//! number.

use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directory in which the kernel lists its disks.
const DISKS: &str = "/sys/block";

/// Length of the head of a unit's page with its serial number, in bytes.
const PAGE_HEAD_BYTES: usize = 4;

/// The machine's disk; it has at most one.
pub fn only() -> Option<PathBuf> {
    let is_disk =
        |name: &str| ["vd", "sd", "hd", "nvme", "xvd"].iter().any(|kind| name.starts_with(kind));
    let names = fs::read_dir(DISKS)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    node(&names.into_iter().find(|name| is_disk(name))?)
}

/// The disk among several whose hardware bears this serial number.
pub fn with_serial(wanted: &str) -> Option<PathBuf> {
    let mut entries = fs::read_dir(DISKS).ok()?.flatten();
    let found = entries.find(|entry| serial(&entry.path()).as_deref() == Some(wanted))?;
    node(found.file_name().to_str()?)
}

/// The device of a disk, as soon as somebody has made it.
fn node(name: &str) -> Option<PathBuf> {
    let device = Path::new("/dev").join(name);
    device.exists().then_some(device)
}

/// The serial number of a disk with this place in `/sys`; each kind of driver tells it elsewhere.
pub fn serial(disk: &Path) -> Option<String> {
    let text = |name: &str| fs::read(disk.join(name)).ok();
    let page =
        || text("device/vpd_pg80").and_then(|page| Some(page.get(PAGE_HEAD_BYTES..)?.to_vec()));
    let bytes = text("serial").or_else(|| text("device/serial")).or_else(page)?;
    let said = String::from_utf8_lossy(&bytes);
    let plain = said.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!plain.is_empty()).then(|| plain.to_owned())
}

/// Mounts a disk with an empty ext4, to which everybody may write.
pub fn mount_at(device: &Path, directory: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    mount(device, directory, c"ext4", MountFlags::empty(), None)?;
    // So that it is as empty as on any other medium.
    fs::remove_dir(Path::new(directory).join("lost+found"))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o1777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_driver_tells_the_serial_number_in_a_place_of_its_own() {
        let place = std::env::temp_dir().join(format!("surtax-serial-{}", std::process::id()));
        for (name, bytes) in [
            ("serial", &b"scratch"[..]),
            ("device/serial", b"scratch             \n"),
            ("device/vpd_pg80", b"\x00\x80\x00\x14scratch             "),
        ] {
            let disk = place.join(name.replace('/', "-"));
            fs::create_dir_all(disk.join("device")).unwrap();
            fs::write(disk.join(name), bytes).unwrap();
            assert_eq!(serial(&disk).as_deref(), Some("scratch"), "{name}");
        }
        let nameless = place.join("nameless");
        fs::create_dir_all(&nameless).unwrap();
        assert_eq!(serial(&nameless), None);
        fs::write(nameless.join("serial"), "").unwrap();
        assert_eq!(serial(&nameless), None, "a disk without a number");
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn no_disk_has_a_number_that_nobody_gave() {
        assert_eq!(with_serial("surtax-no-such-disk"), None);
    }
}
