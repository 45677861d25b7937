//! The storage driver of a private daemon: what makes the container's own layer.
//!
//! That layer is `/` itself with what is new in it, `/scratch` with `scratch=layer` above all; the
//! directories of the root are volumes whichever driver there is. All of them work on this level's
//! disk, below `/var/tmp`, so that drivers can be compared; btrfs in an image of its own there, by
//! a loop device that is gone with the daemon's mounts.

use crate::fault::{Doing, Fault};
use crate::lab::{self, Room, ToolRun, disk};
use crate::layer::{LayerSpec, OptionSpec, option, value_of};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The option that names the driver.
pub const CHOICE: OptionSpec = option("storage", &["overlay2", "vfs", "btrfs", "devicemapper"]).help(
    "what makes the container's own layer, where `scratch=layer` is; on this level's disk if named \
     (default: the daemon's, overlay2 in a private one)",
);

/// File name of the image of a btrfs, beside the directory where it is mounted.
pub const BTRFS_IMAGE: &str = "btrfs.image";

/// Time limit of a mount.
const MOUNT_DEADLINE: Duration = Duration::from_secs(60);

/// The size of the image of a btrfs, of which only what is written takes space.
const IMAGE_BYTES: u64 = 8 << 30;

/// A storage driver, and whether it was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The one that there is unless told.
    Default,
    /// Layers of an overlay.
    Overlay2,
    /// A copy for each layer.
    Vfs,
    /// A subvolume for each layer.
    Btrfs,
}

impl Storage {
    /// Reads a spec.
    ///
    /// # Errors
    /// The user's: a driver that a private daemon cannot have.
    pub fn read(spec: &LayerSpec) -> Result<Self, Fault> {
        Ok(match spec.option("storage") {
            None => Self::Default,
            Some("vfs") => Self::Vfs,
            Some("btrfs") => Self::Btrfs,
            Some("devicemapper") => return Err(no_device_mapper(&spec.kind)),
            Some(_) => Self::Overlay2,
        })
    }

    /// The daemon's word for it.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Default | Self::Overlay2 => "overlay2",
            Self::Vfs => "vfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Returns the suffix of the name of the daemon that has it; empty for the default.
    pub fn suffix(self) -> String {
        if self == Self::Default { String::new() } else { format!("-{}", self.driver()) }
    }

    /// That an engine of ours could have it.
    ///
    /// # Errors
    /// The user's: a program is missing.
    pub fn require(self, kind: &str) -> Result<(), Fault> {
        if self == Self::Btrfs && lab::find("mkfs.btrfs").is_none() {
            return Err(Fault::user(format!(
                "{kind}: `storage=btrfs` takes `mkfs.btrfs`, which is not in `PATH`"
            ))
            .hint("apt-get install btrfs-progs"));
        }
        Ok(())
    }

    /// That a daemon, whose driver is `found`, has the one of a spec.
    ///
    /// # Errors
    /// The user's: it has another.
    pub fn require_of(spec: &LayerSpec, found: Option<&str>) -> Result<(), Fault> {
        let Some(asked) = spec.option("storage") else { return Ok(()) };
        let found = found.unwrap_or("unknown");
        if found == asked {
            return Ok(());
        }
        let kind = &spec.kind;
        Err(Fault::user(format!(
            "{kind}: `storage={asked}` was asked for, and the daemon's driver is `{found}`"
        ))
        .hint("stop the machine's own daemon, so that a private one has the driver"))
    }

    /// Returns the directory of the daemon's data: made where a driver is named, and mounted in the
    /// daemon's namespace where it is a btrfs.
    ///
    /// # Errors
    /// The machine's: no space, or no such file system.
    pub fn prepare(self, room: &Room, namespace: &OwnedFd) -> Result<PathBuf, Fault> {
        if self == Self::Default {
            return default_data(room, room.directory());
        }
        let disk = room.disk_directory()?;
        let data = disk.join("data");
        fs::create_dir(&data).doing(format_args!("make `{}`", data.display()))?;
        if self == Self::Btrfs {
            mount_btrfs(&disk.join(BTRFS_IMAGE), &data, room, namespace)?;
        }
        Ok(data)
    }
}

/// Returns the directory of an engine's data unless a driver is named: on this level's disk, or
/// where that holds no layers, in another directory of the room.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn default_data(room: &Room, otherwise: &Path) -> Result<PathBuf, Fault> {
    let directory = if disk::holds_layers() { room.disk_directory()? } else { otherwise };
    Ok(directory.join("data"))
}

fn no_device_mapper(kind: &str) -> Fault {
    let why = match Path::new("/dev/mapper/control").exists() {
        true => "its pools would stay on this machine",
        false => "this kernel has no device mapper",
    };
    Fault::user(format!("{kind}: a private daemon cannot have `storage=devicemapper`: {why}"))
        .hint("use `storage=overlay2`, `vfs` or `btrfs`")
}

fn mount_btrfs(image: &Path, target: &Path, room: &Room, namespace: &OwnedFd) -> Result<(), Fault> {
    let file = File::create(image).doing(format_args!("make the image `{}`", image.display()))?;
    file.set_len(IMAGE_BYTES).doing(format_args!("size the image `{}`", image.display()))?;
    let (image, target) = (image.to_string_lossy(), target.to_string_lossy());
    ToolRun::new(&["mkfs.btrfs", "--quiet", &image]).run(room)?;
    mount_image(Path::new(&*image), Path::new(&*target), namespace)
}

/// Mounts the image of a btrfs in a namespace.
///
/// # Errors
/// The machine's: no btrfs, or no loop device.
pub fn mount_image(image: &Path, target: &Path, namespace: &OwnedFd) -> Result<(), Fault> {
    let (image, target) = (image.to_string_lossy(), target.to_string_lossy());
    let words = ["mount", "-t", "btrfs", "-o", "loop", &image, &target];
    let namespace = namespace.try_clone().doing("enter an engine's mount namespace")?;
    lab::ask(&words.map(str::to_owned), Some(namespace), MOUNT_DEADLINE).map(drop).map_err(
        |fault| fault.hint("use a kernel with btrfs and loop devices, or `storage=overlay2`"),
    )
}

/// That the root of the container is what the driver that was asked for makes.
///
/// # Errors
/// The machine's: it is not.
pub fn prove(spec: &LayerSpec, inside: &[Fact]) -> Result<Option<Fact>, Fault> {
    let Some(asked) = spec.option("storage") else { return Ok(None) };
    let mounted = value_of(inside, "root_mount")?;
    let kind = mounted.split(' ').next().unwrap_or_default();
    let fits = match asked {
        "overlay2" => kind == "overlay",
        "btrfs" => kind == "btrfs",
        // A plain directory of whatever file system the daemon's data is on.
        _ => kind != "overlay",
    };
    if fits {
        return Ok(Some(Fact::new("root_file_system", kind, "mountinfo inside")));
    }
    Err(Fault::machine(format!(
        "{}: `storage={asked}` was asked for, and the container's root is `{mounted}`",
        spec.kind
    )))
}

#[cfg(test)]
mod tests {
    use crate::container::storage::*;

    fn spec(driver: &str) -> LayerSpec {
        let options = [("storage".to_owned(), driver.to_owned())].into();
        LayerSpec { kind: "docker".into(), options }
    }

    #[test]
    fn a_driver_that_a_private_daemon_cannot_have_is_refused_by_its_name() {
        let fault = Storage::read(&spec("devicemapper")).unwrap_err();
        assert!(fault.message.contains("`storage=devicemapper`"), "{fault}");
        for driver in ["overlay2", "vfs", "btrfs"] {
            assert_eq!(Storage::read(&spec(driver)).unwrap().driver(), driver);
        }
        assert_eq!(Storage::Default.suffix(), "");
        assert_eq!(Storage::Vfs.suffix(), "-vfs");
    }

    #[test]
    fn a_root_that_another_driver_made_is_named() {
        let seen = |mounted: &str| [Fact::new("root_mount", mounted, "test")];
        assert!(prove(&spec("btrfs"), &seen("btrfs /dev/loop0 rw")).is_ok());
        assert!(prove(&spec("vfs"), &seen("ext4 /dev/vda rw")).is_ok());
        let fault = prove(&spec("btrfs"), &seen("overlay overlay rw")).unwrap_err();
        assert!(fault.message.contains("`overlay overlay rw`"), "{fault}");
        assert!(prove(&spec("overlay2"), &seen("ext4 /dev/vda rw")).is_err());
    }
}
