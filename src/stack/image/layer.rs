//! One layer of an image: a tar stream, applied over the layers below it.
//!
//! Parents are opened with `openat2(RESOLVE_IN_ROOT)`: a symbolic link of a lower layer is followed
//! as a process in the container would follow it, and cannot lead out. The last part of a path is
//! never followed. Device nodes need a privilege that is not always there, and a container gets its
//! own `/dev`: a refusal of theirs is passed over.

use rustix::fs::{
    self, AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Entry, EntryType};

/// Prefix of a name that says: take away what the layers below have here.
const WHITEOUT: &[u8] = b".wh.";

/// Says: of this directory, show nothing that the layers below have.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Prefix of an extended attribute among a tar entry's PAX records.
const XATTR: &str = "SCHILY.xattr.";

/// Applies a layer to the tree at `root`.
pub fn apply(reader: impl Read, root: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::openat(CWD, root, flags, Mode::empty())?;
    let mut tree = Tree { root, fresh: HashSet::new(), directories: Vec::new() };
    for entry in tar::Archive::new(reader).entries()? {
        let mut entry = entry?;
        let path = inside(&entry.path()?)?;
        tree.apply(&mut entry, &path).map_err(|error| {
            io::Error::new(error.kind(), format!("entry `{}`: {error}", path.display()))
        })?;
    }
    tree.finish()
}

/// A path without `/` in front and without `..`.
fn inside(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                let what = format!("entry `{}` leads upward", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
    Ok(plain)
}

struct Tree {
    root: OwnedFd,
    /// What this layer has put here; its own opaque marks must not take that away.
    fresh: HashSet<PathBuf>,
    /// Modification times of directories, set last: filling a directory changes them.
    directories: Vec<(PathBuf, Timestamps)>,
}

impl Tree {
    fn apply<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> io::Result<()> {
        let Some(name) = path.file_name() else {
            return self.set_root(entry);
        };
        let above = path.parent().unwrap_or(Path::new(""));
        let parent = self.parent(above)?;
        if name.as_bytes() == OPAQUE {
            return self.clear(&parent, above);
        }
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            return remove(parent.as_fd(), OsStr::from_bytes(plain_name(hidden)?));
        }
        for ancestor in path.ancestors() {
            self.fresh.insert(ancestor.to_path_buf());
        }
        self.put(entry, &parent, name, path)
    }

    /// Opens the directory at `path`, as a process with this root would, and makes what is missing.
    fn parent(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.open(path) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
        let mut current = PathBuf::new();
        for part in path.components() {
            let holder = self.open(&current)?;
            match fs::mkdirat(&holder, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => current.push(part),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.open(path)?)
    }

    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    fn set_root<R: Read>(&mut self, entry: &Entry<'_, R>) -> io::Result<()> {
        let root = self.open(Path::new(""))?;
        set_owner_and_mode(&root, OsStr::new("."), entry, false)
    }

    fn put<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> io::Result<()> {
        let kind = entry.header().entry_type();
        let is_directory = kind == EntryType::Directory;
        if !(is_directory && kind_of(parent.as_fd(), name)? == Some(FileType::Directory)) {
            remove(parent.as_fd(), name)?;
        }
        match kind {
            EntryType::Directory => match fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            },
            EntryType::Symlink => fs::symlinkat(link_of(entry)?.as_path(), parent, name)?,
            EntryType::Link => return self.link(entry, parent, name),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                put_file(entry, parent, name)?;
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                if !put_node(entry, parent, name)? {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        set_owner_and_mode(parent, name, entry, kind == EntryType::Symlink)?;
        let times = times_of(entry);
        if is_directory {
            self.directories.push((path.to_path_buf(), times));
            return Ok(());
        }
        Ok(fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// A hard link to a file of the tree; its target's last part is not followed either.
    fn link<R: Read>(
        &self,
        entry: &Entry<'_, R>,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> io::Result<()> {
        let target = inside(&link_of(entry)?)?;
        let file = target.file_name().ok_or(Errno::INVAL)?;
        let holder = self.open(target.parent().unwrap_or(Path::new("")))?;
        Ok(fs::linkat(&holder, file, parent, name, AtFlags::empty())?)
    }

    /// Takes away everything in a directory that this layer did not put there.
    fn clear(&self, directory: &OwnedFd, path: &Path) -> io::Result<()> {
        for (name, kind) in list(directory.as_fd())? {
            let child = path.join(&name);
            if !self.fresh.contains(&child) {
                remove(directory.as_fd(), &name)?;
            } else if kind == FileType::Directory {
                self.clear(&self.open(&child)?, &child)?;
            }
        }
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        for (path, times) in self.directories.iter().rev() {
            // A later whiteout of the same layer may have taken it away.
            if let Ok(directory) = self.open(path) {
                fs::utimensat(&directory, ".", times, AtFlags::empty())?;
            }
        }
        Ok(())
    }
}

fn put_file<R: Read>(entry: &mut Entry<'_, R>, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
    io::copy(entry, &mut file)?;
    // Changing the owner drops capabilities, so they are set after it.
    set_owner_and_mode(parent, name, entry, false)?;
    let Some(records) = entry.pax_extensions()? else { return Ok(()) };
    for record in records {
        let record = record?;
        let attribute = record.key().ok().and_then(|key| key.strip_prefix(XATTR));
        if let Some(attribute) = attribute {
            match fs::fsetxattr(&file, attribute, record.value_bytes(), XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Makes a device or a FIFO; says whether it could.
fn put_node<R: Read>(entry: &Entry<'_, R>, parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Char => FileType::CharacterDevice,
        EntryType::Block => FileType::BlockDevice,
        _ => FileType::Fifo,
    };
    let number = |part: io::Result<Option<u32>>| part.ok().flatten().unwrap_or(0);
    let device = fs::makedev(number(header.device_major()), number(header.device_minor()));
    match fs::mknodat(parent, name, kind, Mode::from_raw_mode(0o600), device) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn set_owner_and_mode<R: Read>(
    parent: &OwnedFd,
    name: &OsStr,
    entry: &Entry<'_, R>,
    is_link: bool,
) -> io::Result<()> {
    let id = |number: io::Result<u64>| number.ok().and_then(|id| u32::try_from(id).ok());
    let header = entry.header();
    let owner = id(header.uid()).map(Uid::from_raw);
    let group = id(header.gid()).map(Gid::from_raw);
    fs::chownat(parent, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
    if !is_link {
        // The name was just made without following a link, and nobody else is in this tree.
        let mode = Mode::from_raw_mode(header.mode()? & 0o7777);
        fs::chmodat(parent, name, mode, AtFlags::empty())?;
    }
    Ok(())
}

fn times_of<R: Read>(entry: &Entry<'_, R>) -> Timestamps {
    let seconds = entry.header().mtime().ok().and_then(|time| i64::try_from(time).ok());
    let time = Timespec { tv_sec: seconds.unwrap_or(0), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn link_of<R: Read>(entry: &Entry<'_, R>) -> io::Result<PathBuf> {
    let target = entry.link_name()?;
    target
        .map(std::borrow::Cow::into_owned)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a link without a target"))
}

/// A name that is one part of a path and not the directory itself.
fn plain_name(name: &[u8]) -> io::Result<&[u8]> {
    if matches!(name, b"" | b"." | b"..") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a whiteout of nothing"));
    }
    Ok(name)
}

fn kind_of(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileType>> {
    match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a name with everything below it; a name that is not there is no error.
fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match kind_of(parent, name)? {
        None => Ok(()),
        Some(FileType::Directory) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = fs::openat(parent, name, flags, Mode::empty())?;
            for (child, _) in list(directory.as_fd())? {
                remove(directory.as_fd(), &child)?;
            }
            Ok(fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
        }
        Some(_) => Ok(fs::unlinkat(parent, name, AtFlags::empty())?),
    }
}

fn list(directory: BorrowedFd<'_>) -> io::Result<Vec<(std::ffi::OsString, FileType)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = fs::openat(directory, ".", flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in fs::Dir::new(readable)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            found.push((name.to_os_string(), entry.file_type()));
        }
    }
    Ok(found)
}
