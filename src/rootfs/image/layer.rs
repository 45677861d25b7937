//! One layer of an image: a tar stream, applied over the layers below it.
//!
//! Parents are opened with `openat2(RESOLVE_IN_ROOT)`: a symbolic link of a lower layer is followed
//! as a process in the container would follow it, and cannot lead out. The last part of a path is
//! never followed, and what an entry says of owner, mode and time is set by a descriptor of what
//! was made.
//!
//! Devices are left out: a container gets its own `/dev`, and a node of an image's choice would be
//! this machine's own disk to whoever may open it. One still takes the place of what the layers
//! below have there. What a layer takes away it names by `.wh.`; no device is read as a whiteout,
//! as in an overlay.

use super::entries;
use rustix::fs::{
    self, AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Entry, EntryType};

/// Prefix of a name that says: take away what the layers below have here.
const WHITEOUT: &[u8] = b".wh.";

/// Says: of this directory, show nothing that the layers below have.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Prefix of an extended attribute among a tar entry's PAX records.
const XATTR: &str = "SCHILY.xattr.";

/// By attributes of this kind an overlay would obey an image: say that what lies below is hidden or
/// is somewhere else.
const TRUSTED: &str = "trusted.";

/// The deepest that a directory of an image may lie. Each level costs whoever removes a tree a
/// descriptor, of which many a process has 1024, and a part of its stack.
const LEVELS_LIMIT: usize = 256;

/// The most characters of a path that a person is shown.
const SHOWN_CHARACTERS: usize = 200;

/// Applies a layer to the tree at `root`.
pub fn apply(reader: impl Read, root: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::openat(CWD, root, flags, Mode::empty())?;
    let mut tree = Tree {
        levels_above: levels(&root)?,
        root,
        fresh: HashSet::new(),
        left_out: HashSet::new(),
        directories: Vec::new(),
    };
    entries::each(reader, |entry| {
        let path = inside(&entry.path()?)?;
        tree.apply(entry, &path).map_err(|error| {
            io::Error::new(error.kind(), format!("entry `{}`: {error}", shown(&path)))
        })
    })?;
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
                let what = format!("entry `{}` leads upward", shown(path));
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
    Ok(plain)
}

/// Names a path; of a long one, its beginning.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn too_deep() -> io::Error {
    let what = format!("it lies more than {LEVELS_LIMIT} directories deep; make the image flatter");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Counts the parts of the path at which a directory really lies, whatever links led to it.
fn levels(directory: &OwnedFd) -> io::Result<usize> {
    match std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())) {
        Ok(path) => Ok(path.components().count()),
        // Too long to be told.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Ok(usize::MAX),
        Err(error) => Err(error),
    }
}

struct Tree {
    root: OwnedFd,
    /// Number of parts of the root's own path.
    levels_above: usize,
    /// Paths that this layer has put here; its own opaque marks must not take them away.
    fresh: HashSet<PathBuf>,
    /// Devices of this layer, and links to them.
    left_out: HashSet<PathBuf>,
    /// Modification times of directories, set last: filling a directory changes them.
    directories: Vec<(PathBuf, Timestamps)>,
}

impl Tree {
    fn apply<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> io::Result<()> {
        let Some(name) = path.file_name() else {
            return self.set_root(entry);
        };
        let above = path.parent().unwrap_or(Path::new(""));
        if above.components().count() > LEVELS_LIMIT {
            return Err(too_deep());
        }
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
        // What comes later takes its place.
        self.left_out.remove(path);
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
            self.make_directory(&holder, part.as_os_str())?;
            current.push(part);
        }
        Ok(self.open(path)?)
    }

    /// Makes a directory where there is nothing, unless it would lie too deep: links add up to more
    /// levels than any path has.
    fn make_directory(&self, holder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if levels(holder)?.saturating_sub(self.levels_above) >= LEVELS_LIMIT {
            return Err(too_deep());
        }
        match fs::mkdirat(holder, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    fn set_root<R: Read>(&mut self, entry: &Entry<'_, R>) -> io::Result<()> {
        set_owner_and_mode(&open_made(&self.root, OsStr::new("."), OFlags::DIRECTORY)?, entry)
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
            EntryType::Directory => {
                self.make_directory(parent, name)?;
                self.directories.push((path.to_path_buf(), times_of(entry)));
                set_owner_and_mode(&open_made(parent, name, OFlags::DIRECTORY)?, entry)
            }
            EntryType::Symlink => put_link(entry, parent, name),
            EntryType::Link => self.link(entry, parent, name, path),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                put_file(entry, parent, name)
            }
            EntryType::Fifo => put_fifo(entry, parent, name),
            EntryType::Char | EntryType::Block => {
                self.left_out.insert(path.to_path_buf());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A hard link to a file of the tree; its target's last part is not followed either.
    fn link<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> io::Result<()> {
        let target = inside(&link_of(entry)?)?;
        if self.left_out.contains(&target) {
            self.left_out.insert(path.to_path_buf());
            return Ok(());
        }
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
    set_owner_and_mode(&file, entry)?;
    if let Some(records) = entry.pax_extensions()? {
        for record in records {
            let record = record?;
            let attribute = record.key().ok().and_then(|key| key.strip_prefix(XATTR));
            let Some(attribute) = attribute.filter(|name| !name.starts_with(TRUSTED)) else {
                continue;
            };
            match fs::fsetxattr(&file, attribute, record.value_bytes(), XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(fs::futimens(&file, &times_of(entry))?)
}

fn put_fifo<R: Read>(entry: &Entry<'_, R>, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    fs::mknodat(parent, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    // So it is not waited for who writes.
    let fifo = open_made(parent, name, OFlags::NONBLOCK)?;
    set_owner_and_mode(&fifo, entry)?;
    Ok(fs::futimens(&fifo, &times_of(entry))?)
}

fn put_link<R: Read>(entry: &Entry<'_, R>, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    fs::symlinkat(link_of(entry)?.as_path(), parent, name)?;
    let (owner, group) = owners_of(entry);
    fs::chownat(parent, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(fs::utimensat(parent, name, &times_of(entry), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Opens what was just made under a name, and nothing that a link leads to.
fn open_made(parent: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(parent, name, flags, Mode::empty())?)
}

fn set_owner_and_mode<R: Read>(made: &impl AsFd, entry: &Entry<'_, R>) -> io::Result<()> {
    let (owner, group) = owners_of(entry);
    fs::fchown(made, owner, group)?;
    Ok(fs::fchmod(made, Mode::from_raw_mode(entry.header().mode()? & 0o7777))?)
}

fn owners_of<R: Read>(entry: &Entry<'_, R>) -> (Option<Uid>, Option<Gid>) {
    let id = |number: io::Result<u64>| number.ok().and_then(|id| u32::try_from(id).ok());
    let header = entry.header();
    (id(header.uid()).map(Uid::from_raw), id(header.gid()).map(Gid::from_raw))
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

/// Removes a name with everything below it; a name that is not there is no error. No directory lies
/// deeper than [`LEVELS_LIMIT`].
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
