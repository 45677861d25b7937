//! The files of a ledger: the database, and what SQLite may have left beside it; looked at before anything is believed.
//!
//! A name that was handed over may lead anywhere: to a pipe that nobody writes to, to a device that acts when it is
//! opened, to a terabyte of nothing. Only a regular file of a size that a run may have is opened, and links are not
//! followed: what is opened is what was named.

use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// No run is as large: a hundred thousand trials are a tenth of it.
const SIZE_MAX_BYTES: u64 = 2 << 30;

/// What may lie beside a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The rollback journal.
    Journal,
    /// The write-ahead log.
    Log,
}

impl Beside {
    fn ending(self) -> &'static str {
        match self {
            Self::Journal => "-journal",
            Self::Log => "-wal",
        }
    }
}

/// A ledger's files.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    database: File,
}

/// What tells that nobody has written in between.
#[derive(Debug, PartialEq)]
pub(super) struct Stamp {
    /// Of the database alone: with a log, whatever changes in it is in the log, too.
    database: Option<(u64, i64, i64)>,
    journal: Option<(u64, u64, i64, i64)>,
    /// Which file the log is, and its head, which changes when it is begun again.
    log: Option<(u64, Vec<u8>)>,
}

impl Files {
    /// Opens the database, if the name leads to one that may be read.
    ///
    /// # Errors
    /// The user's: there is none, or it is something else than a file of a run's size.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let shown = path.display();
        let found = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Fault::user(format!("there is no ledger `{shown}`"))
                    .hint("name a run file that ends in `.surtax`; `surtax list` shows them"));
            }
            result => result.doing(format_args!("look at the ledger `{shown}`"))?,
        };
        require_file(path, &found)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let database = rustix::fs::open(path, flags, Mode::empty())
            .doing(format_args!("open the ledger `{shown}`"))
            .map_err(|fault| fault.hint("runs belong to whoever made them: ask as that user"))?;
        let database = File::from(database);
        let opened = database.metadata().doing(format_args!("see what the ledger `{shown}` is"))?;
        require_file(path, &opened)?;
        Ok(Self { path: path.into(), database })
    }

    /// How large the database is.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.database.metadata()?.len())
    }

    /// Whether it belongs to the user of this process.
    pub(super) fn is_own(&self) -> bool {
        let us = rustix::process::geteuid().as_raw();
        self.database.metadata().is_ok_and(|file| file.uid() == us)
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

    /// Whether a file beside it holds anything.
    pub(super) fn has(&self, which: Beside) -> bool {
        std::fs::symlink_metadata(self.path_of(which)).is_ok_and(|found| found.len() > 0)
    }

    /// Where a file beside it is.
    pub(super) fn path_of(&self, which: Beside) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(which.ending());
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
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(self.path_of(which), flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
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

/// What is said of a file in which no run was ever begun.
pub(super) fn empty(path: &Path) -> Fault {
    let shown = path.display();
    Fault::user(format!(
        "`{shown}` holds no run: an older surtax was killed, or its disk was full, as it began one"
    ))
    .hint(format!("remove it: rm {}", crate::plan::shell_line([shown.to_string().as_str()])))
}
