//! Makes directories and files that nobody else can have made, and proves whose those are that are
//! there.
//!
//! surtax runs as root beside users who do not. A directory that one of them made first, at a name
//! that they guessed or read, would be theirs: they could swap what is put in it. So a name of ours
//! is made exclusively, below parents that nobody else can rename, and what it turned out to be is
//! read back by its descriptor. A directory that labs share is taken only from root or from
//! ourselves.

mod trusted_path;

pub(super) use self::trusted_path::trusted_file;
use self::trusted_path::{Resolved, resolve};
use super::us;
use crate::fault::{Doing, Fault};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use surtax_instrument::hex;

/// Largest number of symbolic links that one path may lead through, as the kernel has it.
const LINK_LIMIT: usize = 40;

/// Bytes of a name that nobody can guess.
const RANDOM_BYTES: usize = 16;

/// Permission bits by which others than the owner change a file, or what is in a directory.
pub const GROUP_OR_OTHER_WRITE: u32 = 0o022;

/// Makes one directory of ours below a parent that nobody else controls. What is there already is
/// refused, whatever it is.
///
/// # Errors
/// The machine's: something has that name, or somebody else could swap the directory for another.
pub(super) fn make(path: &Path, mode: u32) -> Result<(), Fault> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    require_stable(parent)?;
    let at = path.display();
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let is_theirs =
                foreign_owner(path).map(|owner| format!(", and belongs to user {owner}"));
            return Err(Fault::machine(format!(
                "`{at}` is there already{}: surtax makes it new or not at all",
                is_theirs.unwrap_or_default()
            ))
            .hint(format!("find out who made it, then remove `{at}`")));
        }
        Err(error) => return Err(error).doing(format_args!("make the directory `{at}`")),
    }
    let made = hold(path)?;
    require_ours(&made, path)?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))
        .doing(format_args!("set the permissions of `{at}`"))
}

/// Makes a directory that labs share, with its parents, or takes the one that is there if nobody
/// else can change what is in it. Gives back its path without symbolic links.
///
/// # Errors
/// The machine's: it cannot be made, or belongs to somebody else.
pub(super) fn ensure(path: &Path, mode: u32) -> Result<PathBuf, Fault> {
    let path = std::path::absolute(path).doing(format_args!("name `{}`", path.display()))?;
    let at = path.display();
    let found = match resolve(&path)? {
        Resolved::Found(found) => found,
        Resolved::Absent(found) => {
            if let Some(parent) = found.parent() {
                ensure_parent(parent)?;
            }
            match rustix::fs::mkdir(&found, Mode::RWXU) {
                Ok(()) => rustix::fs::fchmod(hold(&found)?, Mode::from_raw_mode(mode))
                    .doing(format_args!("set the permissions of the shared `{at}`"))?,
                // Another lab makes it at the same time; whose it is will be read.
                Err(Errno::EXIST) => {}
                Err(error) => {
                    return Err(error).doing(format_args!("make the shared directory `{at}`"));
                }
            }
            found
        }
    };
    let directory = hold(&found)?;
    require_ours(&directory, &found)?;
    Ok(found)
}

/// The same for one that nobody else may look into either: to open it is enough for a lock that
/// keeps its owner out.
///
/// # Errors
/// As [`ensure`]; others may read the one that is there.
pub(super) fn ensure_closed(path: &Path) -> Result<PathBuf, Fault> {
    let found = ensure(path, 0o700)?;
    let directory = hold(&found)?;
    if facts_of(&directory, &found)?.st_mode & 0o077 == 0 {
        return Ok(found);
    }
    if super::state::named().is_none() {
        return shut(&found).map(|()| found);
    }
    let at = found.display();
    Err(Fault::machine(format!("`{at}` is open to others, who could hold the locks that it keeps"))
        .hint(format!("close it: chmod 700 {at}")))
}

/// Makes a directory that nobody else may enter, with its parents, or takes the one that is there
/// if nobody else can change what is in it, and shuts it. Gives back its path without symbolic
/// links.
///
/// # Errors
/// The machine's: it cannot be made or shut, or belongs to somebody else.
pub fn ensure_shut(path: &Path) -> Result<PathBuf, Fault> {
    let path = ensure(path, 0o700)?;
    shut(&path)?;
    Ok(path)
}

/// Takes the right to enter a directory from everybody else.
///
/// # Errors
/// The machine's: it is no directory, or somebody else's.
pub fn shut(path: &Path) -> Result<(), Fault> {
    let directory = hold(path)?;
    let facts = facts_of(&directory, path)?;
    if !is_trusted(facts.st_uid) {
        return Err(foreign(path, "directory", &facts));
    }
    if facts.st_mode & 0o7777 == Mode::RWXU.as_raw_mode() {
        return Ok(());
    }
    rustix::fs::fchmod(&directory, Mode::RWXU)
        .doing(format_args!("shut the directory `{}`", path.display()))
}

/// [`ensure`] for a directory above a shared one: it may be sticky, as `/tmp` is.
fn ensure_parent(path: &Path) -> Result<(), Fault> {
    if rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return require_stable(path);
    }
    ensure(path, 0o755).map(drop)
}

/// Makes a directory for another user, which nobody else may enter: made new, or ours or theirs
/// already. What is above it is made as ours.
///
/// Its parent may be that user's, so it is opened without following a link and given away by its
/// descriptor.
///
/// # Errors
/// The machine's: it cannot be made, is no directory, or belongs to somebody else.
pub fn make_for(owner: u32, path: &Path) -> Result<(), Fault> {
    let doing = format!("make `{}` for user {owner}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).doing(&doing)?;
    }
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error).doing(&doing),
    }
    let directory = hold(path)?;
    let facts = facts_of(&directory, path)?;
    if !is_trusted(facts.st_uid) && facts.st_uid != owner {
        return Err(foreign(path, "home", &facts));
    }
    let (user, group) = (rustix::fs::Uid::from_raw(owner), rustix::fs::Gid::from_raw(owner));
    rustix::fs::fchown(&directory, Some(user), Some(group)).doing(&doing)?;
    rustix::fs::fchmod(&directory, Mode::RWXU).doing(&doing)
}

/// Creates a file of ours, for writing. One that is there, or a symbolic link, is refused.
///
/// # Errors
/// The machine's: something has that name, or the directory cannot be written.
pub fn create(path: &Path, mode: u32) -> Result<File, Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(mode))
        .map(File::from)
        .doing(format_args!("create the new file `{}`", path.display()))
}

/// Writes a file of ours that must not have been there, readable by everybody who may reach it.
///
/// # Errors
/// As [`create`]; or the disk is full.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Fault> {
    create(path, 0o644)?
        .write_all(content.as_ref())
        .doing(format_args!("fill the new file `{}`", path.display()))
}

/// Opens a file of which others may take no lock, made if absent: to read one is enough for a lock
/// that keeps its owner out, so it is for its owner alone, also one of an earlier version that
/// everybody could read.
///
/// # Errors
/// The machine's: it is no file, belongs to somebody else, or cannot be made.
pub fn lock_file(path: &Path) -> Result<File, Fault> {
    let at = path.display();
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let own = Mode::RUSR | Mode::WUSR;
    let file = rustix::fs::open(path, flags, own).doing(format_args!("open the lock `{at}`"))?;
    let facts = rustix::fs::fstat(&file).doing(format_args!("look at the lock `{at}`"))?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile
        || facts.st_uid != rustix::process::geteuid().as_raw()
    {
        return Err(Fault::machine(format!(
            "the lock `{at}` is no file of this user's: it belongs to user {}",
            facts.st_uid
        ))
        .hint(format!("find out who made it, then remove `{at}`")));
    }
    if Mode::from_raw_mode(facts.st_mode) != own {
        rustix::fs::fchmod(&file, own).doing(format_args!("close the lock `{at}` to others"))?;
    }
    Ok(File::from(file))
}

/// A part of a name that nobody can guess.
///
/// # Errors
/// The machine's: the kernel gives no random numbers.
pub fn unguessable() -> Result<String, Fault> {
    let mut random = [0_u8; RANDOM_BYTES];
    random_bytes(&mut random)?;
    Ok(hex::of(&random))
}

/// Fills a buffer with the kernel's random numbers.
///
/// # Errors
/// The machine's: there are none.
pub fn random_bytes(buffer: &mut [u8]) -> Result<(), Fault> {
    // So few come at once or not at all.
    let drawn = getrandom(&mut *buffer, GetRandomFlags::empty()).doing("draw random bytes")?;
    if drawn == buffer.len() {
        return Ok(());
    }
    Err(Fault::machine(format!("the kernel gave {drawn} of {} random bytes", buffer.len())))
}

/// The owner of what is at a path, if that is neither root nor this user.
pub(super) fn foreign_owner(path: &Path) -> Option<u32> {
    let facts = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (!is_trusted(facts.st_uid)).then_some(facts.st_uid)
}

/// That nobody but root and ourselves can rename or remove what is in a directory of ours there.
fn require_stable(path: &Path) -> Result<(), Fault> {
    let path = std::path::absolute(path).doing(format_args!("locate `{}`", path.display()))?;
    match resolve(&path)? {
        Resolved::Found(_) => Ok(()),
        Resolved::Absent(missing) => Err(Fault::machine(format!(
            "there is no directory `{}` to make another one in",
            missing.display()
        ))
        .hint(format!("mkdir -p {}", path.display()))),
    }
}

/// That nobody but root and ourselves can make, swap or remove a name in a directory, or swap the
/// directory.
///
/// # Errors
/// The machine's: somebody else could, or it is not there.
pub fn require_ours_alone(path: &Path) -> Result<(), Fault> {
    require_stable(path)?;
    let path = fs::canonicalize(path).doing(format_args!("see where `{}` is", path.display()))?;
    require_ours(&hold(&path)?, &path)
}

/// That a directory is of root or of ourselves, and that nobody else can write to it.
fn require_ours(directory: &OwnedFd, path: &Path) -> Result<(), Fault> {
    let facts = facts_of(directory, path)?;
    if !is_trusted(facts.st_uid) {
        return Err(foreign(path, "directory", &facts));
    }
    if facts.st_mode & GROUP_OR_OTHER_WRITE != 0 {
        return Err(open_to_others(path, &facts));
    }
    Ok(())
}

/// Tells whether a user is root or ourselves.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn foreign(path: &Path, what: &str, facts: &Stat) -> Fault {
    let at = path.display();
    if us::is_unmapped(facts.st_uid) {
        return Fault::machine(format!(
            "the {what} `{at}` belongs to a user whom the user namespace of this process does not \
             have, so that nobody can tell whose it is"
        ))
        .hint("start surtax outside of that user namespace");
    }
    Fault::machine(format!(
        "the {what} `{at}` belongs to user {}, who could put something else in its place",
        facts.st_uid
    ))
    .hint(format!("remove `{at}`, or have its owner changed to root or to yourself"))
}

fn open_to_others(path: &Path, facts: &Stat) -> Fault {
    let at = path.display();
    Fault::machine(format!(
        "others can write to `{at}` (mode {:04o}), and could put something else there",
        facts.st_mode & 0o7777
    ))
    .hint(format!("chmod go-w {at}"))
}

fn facts_of(directory: &OwnedFd, path: &Path) -> Result<Stat, Fault> {
    let mut facts = rustix::fs::fstat(directory)
        .doing(format_args!("read the owner of `{}`", path.display()))?;
    facts.st_uid = us::owner(directory, facts.st_uid);
    Ok(facts)
}

/// Opens a directory without following a link at its end; only to look at it.
pub(super) fn hold(path: &Path) -> Result<OwnedFd, Fault> {
    match directory_with(path, OFlags::RDONLY)? {
        // One that may be passed through and not be listed.
        Err(Errno::ACCESS) => directory_with(path, OFlags::RDONLY | OFlags::PATH)?,
        other => other,
    }
    .doing(format_args!("open the directory {path:?} itself"))
}

/// Opens a directory without following a link at its end, to change its attributes.
pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, Fault> {
    directory_with(path, OFlags::RDONLY)?
        .doing(format_args!("open the directory {path:?}, to change its attributes"))
}

fn directory_with(path: &Path, flags: OFlags) -> Result<Result<OwnedFd, Errno>, Fault> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(c_path(path)?, flags, Mode::empty()))
}

/// A path as the kernel takes it.
pub(super) fn c_path(path: &Path) -> Result<CString, Fault> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Fault::user(format!("`{}` has a zero byte in it", path.display())))
}

#[cfg(test)]
mod tests;
