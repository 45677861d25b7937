//! The skeleton of a root: its top level as a tiny image, to which everything else is mounted.
//!
//! An engine starts containers from images only. So that none has to be built, this image holds
//! nothing but directories and symbolic links (`/bin` → `usr/bin`), and each directory that is not
//! a container's own gets a volume: an overlay over the real one. Plain files directly in `/` are
//! left out.

use crate::fault::{Doing, Fault};
use crate::layer::OWN_PLACES;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_instrument::hex;
use tar::{Builder, EntryType, Header};

/// The top level of a root.
pub struct Skeleton {
    entries: Vec<Entry>,
}

struct Entry {
    name: PathBuf,
    mode: u32,
    owner: (u64, u64),
    kind: Kind,
}

enum Kind {
    Link(PathBuf),
    EmptyDirectory,
    Directory,
}

impl Skeleton {
    /// Reads the top level of the root at `base`; `scratch` is a directory that the container's own
    /// layer has beside it, to which everybody may write.
    ///
    /// # Errors
    /// The machine's, when it cannot be read.
    pub fn read(base: &Path, scratch: Option<&str>) -> Result<Self, Fault> {
        let doing = format!("list the root `{}`", base.display());
        let device = fs::metadata(base).doing(&doing)?.dev();
        let mut entries = Vec::new();
        for entry in fs::read_dir(base).doing(&doing)? {
            let entry = entry.doing(&doing)?;
            let name = PathBuf::from(entry.file_name());
            let found = entry.metadata().doing(&doing)?;
            let kind = if found.is_symlink() {
                Kind::Link(fs::read_link(entry.path()).doing(&doing)?)
            } else if !found.is_dir() {
                continue;
            } else if is_own(&name) || is_bare_mount(&entry.path(), found.dev(), device) {
                Kind::EmptyDirectory
            } else {
                Kind::Directory
            };
            let owner = (found.uid().into(), found.gid().into());
            entries.push(Entry { name, mode: found.mode() & 0o7777, owner, kind });
        }
        for own in OWN_PLACES.map(|place| PathBuf::from(place.trim_start_matches('/'))) {
            if !entries.iter().any(|entry| entry.name == own) {
                let kind = Kind::EmptyDirectory;
                entries.push(Entry { name: own, mode: 0o755, owner: (0, 0), kind });
            }
        }
        if let Some(path) = scratch {
            let name = PathBuf::from(path.trim_start_matches('/'));
            entries.retain(|entry| entry.name != name);
            entries.push(Entry { name, mode: 0o1777, owner: (0, 0), kind: Kind::EmptyDirectory });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { entries })
    }

    /// The directories that must be mounted, by name.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let filled = self.entries.iter().filter(|entry| matches!(entry.kind, Kind::Directory));
        filled.map(|entry| entry.name.as_path())
    }

    /// The image: the same bytes for the same top level.
    ///
    /// # Errors
    /// Ours, when a name does not fit into an archive.
    pub fn archive(&self) -> Result<Vec<u8>, Fault> {
        self.write().map_err(|error| Fault::bug(format!("the skeleton's archive: {error}")))
    }

    fn write(&self) -> std::io::Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for entry in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_uid(entry.owner.0);
            header.set_gid(entry.owner.1);
            header.set_size(0);
            header.set_mtime(0);
            if let Kind::Link(target) = &entry.kind {
                header.set_entry_type(EntryType::Symlink);
                builder.append_link(&mut header, &entry.name, target)?;
            } else {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, &entry.name, std::io::empty())?;
            }
        }
        builder.into_inner()
    }
}

/// A name for these bytes: the first 12 digits of their SHA-256.
pub fn tag(archive: &[u8]) -> String {
    hex::of(&Sha256::digest(archive)[..6])
}

/// Tells whether a container gets its own of this directory. `lost+found` is its file system's.
fn is_own(name: &Path) -> bool {
    OWN_PLACES.iter().any(|own| Path::new(own) == Path::new("/").join(name))
        || name == Path::new("lost+found")
}

/// Tells whether an empty directory is a file system of its own, such as one that the kernel mounts
/// when somebody looks into it: nothing can be laid over that.
fn is_bare_mount(path: &Path, device: u64, of_root: u64) -> bool {
    device != of_root && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use crate::container::skeleton::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_skeleton_has_links_and_directories_and_all_but_a_containers_own_are_mounted() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in ["usr/bin", "srv", "tmp", "proc/1", "run/lock", "lost+found/x"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        fs::set_permissions(at("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(at("tmp/file"), "").unwrap();
        fs::write(at("plain"), "").unwrap();
        symlink("usr/bin", at("bin")).unwrap();

        let skeleton = Skeleton::read(root.path(), Some("/scratch")).unwrap();
        let mounted: Vec<_> = skeleton.directories().collect();
        assert_eq!(mounted, ["srv", "tmp", "usr"].map(Path::new));

        let bytes = skeleton.archive().unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let listed = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let link = entry.link_name().unwrap().map(|link| format!(" -> {}", link.display()));
            let path = entry.path().unwrap().display().to_string();
            format!("{path} {:o}{}", entry.header().mode().unwrap(), link.unwrap_or_default())
        });
        assert_eq!(
            listed.collect::<Vec<_>>(),
            [
                "bin 777 -> usr/bin", "dev 755", "lost+found 755", "proc 755", "run 755",
                "scratch 1777", "srv 755", "sys 755", "tmp 1777", "usr 755"
            ]
        );
        assert_eq!(
            tag(&bytes),
            tag(&Skeleton::read(root.path(), Some("/scratch")).unwrap().archive().unwrap())
        );
    }
}
