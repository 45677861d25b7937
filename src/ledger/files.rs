//! The files of a ledger: the database, and what SQLite may have left beside it; looked at before
//! anything is believed.
//!
//! A name that was handed over may lead anywhere: to a pipe that nobody writes to, to a device that
//! acts when it is opened, to a terabyte of nothing. Only a regular file of a size that a run may
//! have is opened, and links are not followed: what is opened is what was named.
//!
//! What lies beside a database is part of it for SQLite. So a ledger is this user's own only where
//! each of its files is, and nobody else may write to one.

use crate::fault::{Doing, Fault};
use crate::lab::exclusive::GROUP_OR_OTHER_WRITE;
use crate::plan::shell_path;
use rustix::fs::{Mode, OFlags};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use surtax_instrument::words;

/// No run is as large: a hundred thousand trials are a tenth of it.
const SIZE_MAX_BYTES: u64 = 2 << 30;

/// File that may lie beside a database; its word is how its name goes on after the database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The rollback journal.
    Journal,
    /// The write-ahead log.
    Log,
    /// The log's index, in memory that processes share.
    Index,
}

words!(Beside { Journal: "-journal", Log: "-wal", Index: "-shm" });

/// A ledger's files.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    database: File,
    /// Fault of a file beside it that was read and is not this user's alone, wherever it is now.
    met_foreign: OnceCell<Fault>,
}

/// Stamp that tells that nobody has written in between.
#[derive(Debug, PartialEq)]
pub(super) struct Stamp {
    /// Of the database alone: with a log, whatever changes in it is in the log, too.
    database: Option<(u64, i64, i64)>,
    journal: Option<(u64, u64, i64, i64)>,
    /// Identity of the log's file, and its head, which changes when it is begun again.
    log: Option<(u64, Vec<u8>)>,
}

impl Files {
    /// Opens the database, if the name leads to one that this process has such access to.
    ///
    /// # Errors
    /// The user's: there is none, or it is something else than a file of a run's size.
    pub(super) fn open(path: &Path, access: OFlags) -> Result<Self, Fault> {
        let shown = path.display();
        let found = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Fault::user(format!("there is no run file `{shown}`"))
                    .hint("name a run file that ends in `.surtax`; `surtax list` shows them"));
            }
            result => result.doing(format_args!("look at the run file `{shown}`"))?,
        };
        require_file(path, &found)?;
        let database = opened(path, access)
            .doing(format_args!("open the run file `{shown}`"))
            .map_err(|fault| fault.hint("runs belong to whoever made them: ask as that user"))?;
        let found =
            database.metadata().doing(format_args!("see what the run file `{shown}` is"))?;
        require_file(path, &found)?;
        Ok(Self::of(path, database))
    }

    /// Those of a database that is open, and may have no name yet.
    pub(super) fn of(path: &Path, database: File) -> Self {
        Self { path: path.into(), database, met_foreign: OnceCell::new() }
    }

    /// Returns where the database is, or is to be.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The database itself.
    pub(super) fn file(&self) -> &File {
        &self.database
    }

    /// Tells whether the name still leads to the database that is open.
    pub(super) fn is_named(&self) -> bool {
        let named = std::fs::symlink_metadata(&self.path);
        named.is_ok_and(|named| self.is_file(&named))
    }

    /// Tells whether the database is that of `other`.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        other.database.metadata().is_ok_and(|other| self.is_file(&other))
    }

    fn is_file(&self, found: &Metadata) -> bool {
        let of = |file: &Metadata| (file.dev(), file.ino());
        self.database.metadata().is_ok_and(|file| of(&file) == of(found))
    }

    /// Returns the size of the database, in bytes.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.database.metadata()?.len())
    }

    /// Tells whether nobody but the user of this process can have written any of them.
    pub(super) fn is_own(&self) -> bool {
        self.require_own().is_ok()
    }

    /// Demands that nobody but the user of this process can write to the database, or to what lies
    /// beside it.
    ///
    /// # Errors
    /// The user's, with the file.
    pub(super) fn require_own(&self) -> Result<(), Fault> {
        let whose = || format!("see whose the run file `{}` is", self.path.display());
        let found = self.database.metadata().doing(whose())?;
        let mut foreign = self.met_foreign.get().cloned().or_else(|| foreign(&self.path, &found));
        for path in Beside::ALL.map(|which| self.path_of(which)) {
            foreign = foreign.or(match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                found => self::foreign(&path, &found.doing(whose())?),
            });
        }
        foreign.map_or(Ok(()), Err)
    }

    /// Demands of a database of this user's own that nothing of somebody else's beside it was read
    /// as a part of it. What is a stranger's as a whole may be read.
    ///
    /// # Errors
    /// The user's, with the file.
    pub(super) fn require_of_one(&self) -> Result<(), Fault> {
        let is_own = self.database.metadata().is_ok_and(|found| is_of_us_alone(&found));
        self.met_foreign.get().filter(|_| is_own).cloned().map_or(Ok(()), Err)
    }

    /// Everything in the database.
    pub(super) fn database(&self, limit: usize) -> io::Result<Vec<u8>> {
        let mut again = &self.database;
        io::Seek::seek(&mut again, io::SeekFrom::Start(0))?;
        whole(again, limit)
    }

    /// Everything in a file beside it; nothing where there is none.
    pub(super) fn beside(&self, which: Beside, limit: usize) -> io::Result<Vec<u8>> {
        match self.opened(which)? {
            Some(file) => whole(&file, limit),
            None => Ok(Vec::new()),
        }
    }

    /// Tells whether a file beside it holds anything.
    pub(super) fn has(&self, which: Beside) -> bool {
        std::fs::symlink_metadata(self.path_of(which)).is_ok_and(|found| found.len() > 0)
    }

    /// Returns the path of a file beside it.
    pub(super) fn path_of(&self, which: Beside) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(which.word());
        PathBuf::from(name)
    }

    pub(super) fn stamp(&self) -> io::Result<Stamp> {
        let of = |file: &Metadata| (file.len(), file.mtime(), file.mtime_nsec());
        let log = match self.opened(Beside::Log)? {
            Some(file) if file.metadata()?.len() > 0 => {
                let mut head = Vec::new();
                (&file).take(32).read_to_end(&mut head)?;
                Some((file.metadata()?.ino(), head))
            }
            _ => None,
        };
        let journal = self.opened(Beside::Journal)?.map(|file| file.metadata()).transpose()?;
        let database = if log.is_none() { Some(of(&self.database.metadata()?)) } else { None };
        let journal = journal.map(|file| (file.ino(), file.len(), file.mtime(), file.mtime_nsec()));
        Ok(Stamp { database, journal, log })
    }

    /// A file beside it, if it is there and is one.
    fn opened(&self, which: Beside) -> io::Result<Option<File>> {
        let path = self.path_of(which);
        let file = match opened(&path, OFlags::RDONLY) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(None),
            result => result?,
        };
        let found = file.metadata()?;
        if let Some(fault) = foreign(&path, &found) {
            self.met_foreign.get_or_init(|| fault);
        }
        Ok(found.is_file().then_some(file))
    }
}

/// Opens what a name leads to, if that is no link; waits for nobody, also where it is a pipe's.
pub(super) fn opened(path: &Path, access: OFlags) -> Result<File, rustix::io::Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Tells whether an open file is one that nobody but the user of this process can write.
pub(super) fn is_of_us_alone(found: &Metadata) -> bool {
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    found.is_file() && is_ours && found.mode() & GROUP_OR_OTHER_WRITE == 0
}

/// Says why a file of a ledger is not of this user alone, if it is not.
fn foreign(path: &Path, found: &Metadata) -> Option<Fault> {
    if is_of_us_alone(found) {
        return None;
    }
    let (shown, quoted) = (path.display().to_string(), shell_path(path));
    let us = rustix::process::geteuid().as_raw();
    Some(if !found.is_file() {
        Fault::user(format!("`{shown}` lies beside a run file, and is no regular file"))
            .hint(format!("see who made it, and remove it: rm {quoted}"))
    } else if found.uid() != us {
        Fault::user(format!(
            "`{shown}` belongs to user {}, who could change the run, and not to user {us}",
            found.uid()
        ))
        .hint(match shown.ends_with("-wal") || shown.ends_with("-journal") {
            true => format!(
                "it is not of your making: move it away, and believe nothing in it: mv {quoted} \
                 {quoted}.not-mine"
            ),
            false if found.uid() == 0 => String::from("it is root's: sudo surtax …"),
            false => String::from(
                "copy the run to a directory of your own: what it says is whoever's it is",
            ),
        })
    } else {
        Fault::user(format!(
            "others could change the run: they may write to `{shown}` (mode {:04o})",
            found.mode() & 0o7777
        ))
        .hint(format!("see that the run is as you left it, then: chmod 600 {quoted}"))
    })
}

/// Reads a file that has at most so many bytes.
fn whole(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let mut bytes = Vec::with_capacity(length);
    file.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what is no regular file, or larger than any run.
fn require_file(path: &Path, found: &Metadata) -> Result<(), Fault> {
    let shown = path.display();
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "",
    };
    if !what.is_empty() {
        let hint = match what {
            "a symbolic link" => "name the file that it leads to: links are not followed",
            "a directory" => "`surtax list DIRECTORY` shows the runs in it",
            _ => "name a run file, as `surtax list` shows them",
        };
        return Err(Fault::user(format!("`{shown}` is {what} and no run file")).hint(hint));
    }
    if found.len() > SIZE_MAX_BYTES {
        return Err(Fault::user(format!(
            "`{shown}` is no run file: it has {} GiB, and no run has more than {}",
            found.len() >> 30,
            SIZE_MAX_BYTES >> 30
        ))
        .hint("name a run file, which `surtax list` shows with its run"));
    }
    if found.len() == 0 {
        return Err(empty(path));
    }
    Ok(())
}

/// Returns the fault of a file in which no run was ever begun.
pub(super) fn empty(path: &Path) -> Fault {
    let shown = path.display();
    Fault::user(format!(
        "`{shown}` holds no run: an older surtax was killed, or its disk was full, as it began one"
    ))
    .hint(format!("remove it: rm {}", shell_path(path)))
}
