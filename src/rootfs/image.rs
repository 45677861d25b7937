//! OCI images: a layout directory or an archive of one, unpacked once and kept by its digest.
//!
//! Nothing is kept that was not verified: the bytes of a blob are hashed as they are used, and a
//! tree gets its name when all of them were the ones that the image names. An entry of a layer is
//! placed with `openat2` and `RESOLVE_IN_ROOT`, so that the kernel itself keeps every path and
//! every link inside. A finished tree is renamed into place; a crash leaves only a directory that
//! the next unpacking removes.
//!
//! A tree holds what its image says: programs that make whoever starts them root, and directories
//! that everybody may write to. So nobody but its owner may enter the directory that all of them
//! lie in. Layers need no right to pass through it: root mounts a tree in a trial's own mount
//! namespace, and who runs in there starts from that mount.
//!
//! - **Reference** OCI image specification 1.1: `image-layout.md`, `manifest.md`, `layer.md`.

mod entries;
mod layer;
mod layout;

use crate::fault::{Blame, Doing, Fault};
use crate::lab::exclusive;
use layout::{Blob, Layout};
use oci_spec::image::{Descriptor, MediaType};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

/// Directory in the cache in which images are unpacked.
const STORE: &str = "images";

/// Directory in which they were once unpacked, and which everybody could enter: what is in it may
/// be anybody's.
const OPEN_STORE: &str = "oci";

/// A file or directory at one moment: if neither time nor size has changed, neither has its image.
type Stamp = (PathBuf, Option<SystemTime>, u64);

/// Paths at which the images of this process's trials were unpacked, so that a trial pays for a
/// look-up only.
static UNPACKED: LazyLock<Mutex<HashMap<Stamp, PathBuf>>> = LazyLock::new(Mutex::default);

/// Unpacks the image at `image` into `cache` unless it is there, and says where its root is.
///
/// # Errors
/// The user's, when there is no image or it is not one that can run here; the machine's otherwise.
pub fn unpack_oci(image: &Path, cache: &Path) -> Result<PathBuf, Fault> {
    let stamp = stamp(image)?;
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(root) = unpacked.get(&stamp).filter(|root| root.is_dir()) {
        return Ok(root.clone());
    }
    let root = store_in(cache)
        .and_then(|store| unpack_into(image, &store))
        .map_err(|fault| fault.during(format_args!("image `{}`", image.display())))?;
    unpacked.insert(stamp, root.clone());
    Ok(root)
}

fn stamp(image: &Path) -> Result<Stamp, Fault> {
    let index = image.join("index.json");
    let at = if image.is_dir() { &index } else { image };
    let found = fs::metadata(at)
        .map_err(|error| Fault::user(format!("no OCI image at `{}`: {error}", image.display())))?;
    Ok((image.to_path_buf(), found.modified().ok(), found.len()))
}

/// The directory that images are unpacked in, which nobody else may enter.
fn store_in(cache: &Path) -> Result<PathBuf, Fault> {
    let open = cache.join(OPEN_STORE);
    if fs::symlink_metadata(&open).is_ok_and(|found| found.is_dir()) {
        exclusive::shut(&open)?;
        match fs::remove_dir_all(&open) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.doing(format_args!("remove the old images in `{}`", open.display()))?,
        }
    }
    exclusive::ensure_shut(&cache.join(STORE))
}

/// The order of the lines is the protocol: find, unpack aside, verify, move into place.
fn unpack_into(image: &Path, store: &Path) -> Result<PathBuf, Fault> {
    let aside = Aside::new(store)?;
    let layout = Layout::open(image, &aside.0.join("layout"))?;
    let chosen = layout.manifest_for_this_machine()?;
    let root = store.join(chosen.digest.digest());
    if root.is_dir() {
        return Ok(root);
    }

    let fresh = aside.0.join("root");
    fs::create_dir(&fresh).doing(format_args!("make `{}`", fresh.display()))?;
    for descriptor in chosen.manifest.layers() {
        let mut blob = layout.blob(descriptor)?;
        let unpacked = unpack_layer(&mut blob, descriptor, &fresh);
        // Bytes that are not the image's explain why they cannot be unpacked.
        blob.require_named()?;
        unpacked?;
    }
    match fs::rename(&fresh, &root) {
        // Another process was faster; its tree has the same digest.
        Err(_) if root.is_dir() => Ok(root),
        other => other.map(|()| root.clone()).doing(format_args!("keep `{}`", root.display())),
    }
}

fn unpack_layer(blob: &mut Blob, descriptor: &Descriptor, root: &Path) -> Result<(), Fault> {
    let name = descriptor.digest();
    let file = BufReader::with_capacity(256 << 10, blob);
    let reader: Box<dyn Read + '_> = match descriptor.media_type() {
        MediaType::ImageLayer => Box::new(file),
        MediaType::ImageLayerGzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
        MediaType::Other(kind) if kind == "application/vnd.docker.image.rootfs.diff.tar.gzip" => {
            Box::new(flate2::read::MultiGzDecoder::new(file))
        }
        other => {
            return Err(Fault::user(format!(
                "layer `{name}` is `{other}`, which surtax cannot read"
            ))
            .hint("copy it with `skopeo copy --dest-compress-format gzip`"));
        }
    };
    layer::apply(reader, root).map_err(|error| unreadable(&error, name))
}

fn unreadable(error: &io::Error, layer: &impl std::fmt::Display) -> Fault {
    let blame = match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Blame::User,
        _ => Blame::Machine,
    };
    Fault { blame, ..Fault::machine(format!("cannot unpack layer `{layer}`: {error}")) }
}

/// Prefix of the name of a directory in which an image is unpacked.
const ASIDE: &str = ".unpacking-";

/// Number of times that one is made anew that another process took away.
const ASIDE_TRIES: u32 = 8;

/// A directory beside the finished trees that is removed whatever happens. Its lock says that
/// somebody unpacks there.
pub(super) struct Aside(PathBuf, #[expect(dead_code, reason = "held for its lock")] OwnedFd);

impl Aside {
    /// Path of it.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes one, and takes away those that were left.
    pub(super) fn new(store: &Path) -> Result<Self, Fault> {
        let entries = fs::read_dir(store).doing(format_args!("list `{}`", store.display()))?;
        for entry in entries.flatten() {
            let is_aside = entry.file_name().to_string_lossy().starts_with(ASIDE);
            if is_aside && locked(&entry.path()).is_ok_and(|lock| lock.is_some()) {
                // Whoever unpacked there was killed.
                let _gone = fs::remove_dir_all(entry.path());
            }
        }
        for _ in 0..ASIDE_TRIES {
            let path = store.join(format!("{ASIDE}{}", exclusive::unguessable()?));
            fs::create_dir(&path).doing(format_args!("make `{}`", path.display()))?;
            // Another process may have taken it for one that was left, before it was locked.
            if let Ok(Some(lock)) = locked(&path)
                && path.is_dir()
            {
                return Ok(Self(path, lock));
            }
        }
        Err(Fault::machine(format!("others take away what is made in `{}`", store.display())))
    }
}

/// The lock of a directory, unless somebody else has it.
fn locked(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
