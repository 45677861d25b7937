//! Walks a group and all below it, however deep a command made them.
//!
//! A group may lie deeper than a path can say, so the walk goes by descriptors: down by one name at
//! a time, and up by `..`, which is safe here since the kernel moves no group below another. It
//! holds one descriptor, and of each level above it the names that are still to be seen.

use crate::counters::rest_of;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The longest path that is told of a group: the kernel opens none that is longer.
const PATH_BYTES: usize = 4096;

/// The most groups of a tree that are counted in; to look at so many takes seconds.
pub(crate) const GROUPS_LIMIT: usize = 200_000;

/// A level of a walk.
struct Level {
    /// Name in the level above.
    name: CString,
    /// Children that are still to be seen.
    left: Vec<CString>,
}

/// The way to where a walk has arrived.
pub struct Way<'a> {
    top: &'a Path,
    levels: &'a [Level],
    number: Option<u64>,
}

impl Way<'_> {
    /// Returns the number that the kernel gives the directory; `None` where it gives none any more.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Number of levels below the top.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The path, as much of it as a path can have: of a group that is deeper, that of one above it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let mut path = self.top.to_owned();
        for level in self.levels.iter().skip(1) {
            if path.as_os_str().len() + 1 + level.name.count_bytes() >= PATH_BYTES {
                break;
            }
            path.push(OsStr::from_bytes(level.name.to_bytes()));
        }
        path
    }
}

/// Visits a group's directory and all below it, parents first. What is gone meanwhile is left out.
pub fn visit(directory: &Path, arrive: &mut dyn FnMut(BorrowedFd<'_>, &Way<'_>)) {
    // As far as it comes: who looks for processes looks again, and who removes says what refused.
    let _ = walk(directory, arrive, &mut |_, _| Ok(()));
}

/// Removes what is below a group's directory, children first; false if somebody is in it.
///
/// # Errors
/// The kernel's, where it refuses for another reason.
pub fn remove_below(directory: &Path) -> Result<bool, Errno> {
    let mut all_gone = true;
    walk(directory, &mut |_, _| (), &mut |above, name| {
        match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // The kernel says "busy" for processes and for children alike.
            Err(Errno::BUSY) => {
                all_gone = false;
                Ok(())
            }
            Err(error) => Err(error),
        }
    })?;
    Ok(all_gone)
}

/// Calls `arrive` with each directory, the top one included, before those below it, and `leave`
/// with the parent and the name of each but the top one, after those below it.
fn walk(
    top: &Path,
    arrive: &mut dyn FnMut(BorrowedFd<'_>, &Way<'_>),
    leave: &mut dyn FnMut(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let Some(mut here) = open(CWD, top)? else { return Ok(()) };
    let Found { number, children } = Found::of(&here);
    let mut levels = vec![Level { name: CString::default(), left: children }];
    arrive(here.as_fd(), &Way { top, levels: &levels, number });
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            let Some(Level { name, .. }) = levels.pop() else { break };
            if !levels.is_empty() {
                here = rustix::fs::openat(&here, c"..", DIRECTORY, Mode::empty())?;
                leave(here.as_fd(), &name)?;
            }
            continue;
        };
        let Some(below) = open(here.as_fd(), &name)? else { continue };
        let Found { number, children } = Found::of(&below);
        levels.push(Level { name, left: children });
        arrive(below.as_fd(), &Way { top, levels: &levels, number });
        here = below;
    }
    Ok(())
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the directory of a group; none if it is gone, also while it is opened.
fn open(above: BorrowedFd<'_>, name: impl Arg) -> Result<Option<OwnedFd>, Errno> {
    match rustix::fs::openat(above, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT | Errno::NODEV) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Facts of a directory where a walk arrives.
#[derive(Default)]
struct Found {
    number: Option<u64>,
    children: Vec<CString>,
}

impl Found {
    fn of(directory: &OwnedFd) -> Self {
        let Ok(facts) = rustix::fs::fstat(directory) else { return Self::default() };
        // Its name above, and its own `.`: each below would have a `..` that counts.
        let has_none = facts.st_nlink == 2;
        let children = if has_none { Vec::new() } else { children(directory) };
        Self { number: Some(facts.st_ino), children }
    }
}

/// The names of the groups that are directly below one, as far as they can be listed.
fn children(directory: &OwnedFd) -> Vec<CString> {
    let Ok(entries) = rustix::fs::Dir::read_from(directory) else { return Vec::new() };
    entries
        .map_while(Result::ok)
        .filter(|entry| entry.file_type() == FileType::Directory)
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name.as_c_str() != c"." && name.as_c_str() != c"..")
        .collect()
}

/// Reads a file of a group; empty if that cannot be.
#[must_use]
pub fn read(group: BorrowedFd<'_>, file: &CStr) -> String {
    // A list that cannot be read to its end is no list.
    try_read(group, file).unwrap_or_default()
}

/// Reads a file of a group; `None` if that cannot be.
pub(crate) fn try_read(group: BorrowedFd<'_>, file: &CStr) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(group, file, flags, Mode::empty()).ok()?;
    String::from_utf8(rest_of(File::from(opened)).ok()?).ok()
}

/// Writes to a file of a group, where there is one that takes it.
pub fn write(group: BorrowedFd<'_>, file: &CStr, value: &str) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(opened) = rustix::fs::openat(group, file, flags, Mode::empty()) {
        let _ = File::from(opened).write_all(value.as_bytes());
    }
}
