//! The storage driver of podman: what makes the container's own layer, as for `docker`.
//!
//! Without one the root is a directory. With one it is a skeleton image, whose top level is all
//! that it has: the directories of the root are mounted into it, and what is new in `/` goes into
//! the layer, `/scratch` with `scratch=layer` above all. The image is imported once for each lab
//! and driver, into a store on this level's disk; a btrfs is an image of a disk there, mounted in
//! the namespaces of podman's processes alone.

use super::RUN;
use crate::container::conmon::Conmon;
use crate::container::skeleton::Skeleton;
use crate::container::storage::Storage;
use crate::container::tool::{ContainerRequest, word};
use crate::container::{rootless, skeleton, storage};
use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Room, Service, ToolRun};
use crate::layer::medium::Medium;
use crate::layer::{LayerSpec, OptionSpec, option};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::SCRATCH;

/// The option that names the driver.
pub(super) const CHOICE: OptionSpec = option(storage::CHOICE.key, &["overlay2", "vfs", "btrfs"])
    .help(
        "what makes the container's own layer, where `scratch=layer` is, on this level's disk \
     (default: none: the root is a directory)",
    );

/// Refuses a driver to a user without privileges.
///
/// # Errors
/// The user's.
pub(super) fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    if !rootless::is_asked(spec) || !spec.options.contains_key("storage") {
        return Ok(());
    }
    Err(Fault::user("podman: with `rootless=on` its root is a directory, which no driver makes")
        .hint("leave `storage` out, or use `docker:rootless=on` with it"))
}

/// A container's image, and where it is kept.
pub(super) struct Store {
    storage: Storage,
    data: PathBuf,
    image: String,
    /// The directories of the root that are mounted into it.
    directories: Vec<PathBuf>,
}

impl Store {
    /// The store of a spec's driver, with the image of a root; nothing where no driver is named.
    ///
    /// # Errors
    /// The machine's: podman's, or that there is no space.
    pub fn of(wanted: &ContainerRequest<'_>) -> Result<Option<Self>, Fault> {
        if !wanted.spec.options.contains_key("storage") {
            return Ok(None);
        }
        let storage = Storage::read(wanted.spec)?;
        let skeleton = Skeleton::read(wanted.base, wanted.medium.is_some().then_some(SCRATCH))?;
        let archive = skeleton.archive()?;
        let tag = skeleton::tag(&archive);
        let image = format!("localhost/surtax/root:{tag}");
        let service = wanted.lab.service(&format!("podman{}-{tag}", storage.suffix()), |room| {
            import(wanted, storage, room, &archive, &image).map(|()| None)
        })?;
        let disk = disk(&service)?;
        let mut directories: Vec<PathBuf> = skeleton.directories().map(Path::to_path_buf).collect();
        // A kept directory may be one of them, or below one.
        for path in wanted.writable.iter().filter_map(|path| path.strip_prefix("/").ok()) {
            if !directories.iter().any(|known| known == path) {
                directories.push(path.to_path_buf());
            }
        }
        if matches!(wanted.medium, Some(Medium::Bind | Medium::Tmpfs)) {
            directories.push(PathBuf::from(SCRATCH.trim_start_matches('/')));
        }
        Ok(Some(Self { storage, data: disk.join("data"), image, directories }))
    }

    /// The words before podman's command, which name the store.
    ///
    /// # Errors
    /// The user's: a path is not text.
    pub fn words(&self) -> Result<Vec<String>, Fault> {
        words(self.storage, &self.data)
    }

    /// The words for the container: what is mounted into it from the merged root, and the image.
    ///
    /// # Errors
    /// The user's: a path is not text.
    pub fn container(&self, merged: &Path) -> Result<Vec<String>, Fault> {
        let volume = |name: &PathBuf| {
            let place = Path::new("/").join(name);
            Ok(format!("--volume={}:{}", word(&merged.join(name))?, word(&place)?))
        };
        let mut words = self.directories.iter().map(volume).collect::<Result<Vec<_>, Fault>>()?;
        words.push(self.image.clone());
        Ok(words)
    }

    /// Returns the image to mount before podman is started, and its mount point. `None` where the
    /// storage is not Btrfs.
    pub fn image_to_mount(&self) -> Option<(PathBuf, PathBuf)> {
        let image = self.data.with_file_name(storage::BTRFS_IMAGE);
        (self.storage == Storage::Btrfs).then(|| (image, self.data.clone()))
    }
}

fn disk(service: &Service) -> Result<&Path, Fault> {
    let disk = service.disk_directory.as_deref();
    disk.ok_or_else(|| Fault::bug("podman's store is in no directory on a disk"))
}

fn words(storage: Storage, data: &Path) -> Result<Vec<String>, Fault> {
    let driver = match storage {
        Storage::Default | Storage::Overlay2 => "overlay",
        other => other.driver(),
    };
    let words = ["--storage-driver", driver, "--root", &word(data)?, "--runroot", RUN];
    Ok(words.map(str::to_owned).to_vec())
}

fn import(
    wanted: &ContainerRequest<'_>,
    storage: Storage,
    room: &Room,
    archive: &[u8],
    image: &str,
) -> Result<(), Fault> {
    let places = ["/run", "/var/lib"];
    let mounts = places.map(|place| Mount::Tmpfs { target: place.into() });
    let namespace = room.mount_namespace(&mounts)?;
    let data = storage.prepare(room, &namespace)?;
    // Its own `/run` hides the room's directory.
    let disk = room.disk_directory()?;
    let (file, books) = (disk.join("skeleton.tar"), disk.join("books"));
    fs::write(&file, archive).doing(format_args!("write `{}`", file.display()))?;
    fs::create_dir_all(&books).doing(format_args!("make `{}`", books.display()))?;
    let configuration = books.join("containers.conf");
    let conmon = Conmon::with(super::runtime(wanted.spec), &books)
        .map_err(|it| it.fault().during("podman"))?;
    let text =
        super::configuration(&conmon, &books, &books.join("volumes"), &Path::new(RUN).join("tmp"));
    fs::write(&configuration, text).doing(format_args!("write `{}`", configuration.display()))?;
    let mut line = vec![
        String::from("env"),
        format!("CONTAINERS_CONF={}", word(&configuration)?),
        wanted.program.to_owned(),
    ];
    line.extend(words(storage, &data)?);
    line.extend(["import", "--quiet", &word(&file)?, image].map(str::to_owned));
    let argv: Vec<&str> = line.iter().map(String::as_str).collect();
    ToolRun { mount_namespace: Some(&namespace), ..ToolRun::new(&argv) }.run(room).map(drop)
}
