//! The journal: what one main process is about to make, and how to take it away again.
//!
//! One file of JSON lines per main process, which holds an exclusive lock on it for as long as it
//! lives: a journal whose lock is free has lost its owner, and whoever takes the lock undoes it. A
//! child of a killed owner that has not come to its `exec` yet holds the lock a moment longer, and
//! its reaper as long as it works: such a lock is waited for. A plain `write` survives the death of
//! the process, so `fdatasync` is only paid for objects which survive a reboot. A line that was cut
//! off by a crash belongs to something that was never made.
//!
//! A lock says nothing to another kernel that has the same files, nor through an overlay. So a
//! journal says where its owner saw it, and one whose owner may live elsewhere is left alone
//! (`origin.rs`).

mod origin;

use super::undo::{LAB_DIGITS, Undo};
use super::{exclusive, session, state, sweep};
use crate::fault::{Doing, Fault};
pub(super) use origin::Seen;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};
use surtax_instrument::quantity::Nanoseconds;

/// Extension of a journal's file name.
pub(super) const EXTENSION: &str = "journal";

/// Beginning of the name of a directory of one lab's journal.
const PRIVATE: &str = "journal-";

/// Time limit for the locks of journals whose owner is gone.
pub(super) const LOCK_LIMIT: Nanoseconds = Nanoseconds(20_000_000_000);

/// Process that wrote a journal, and the boot of the machine in which it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The lab's id, part of the name of all that it makes.
    pub lab: String,
    /// `/proc/sys/kernel/random/boot_id` at that time.
    pub boot: String,
    /// The main process.
    pub pid: u32,
    /// Start time of that process, in clock ticks since boot: tells it from a later one of that
    /// pid.
    pub started_ticks: u64,
    /// Number of the PID namespace that `pid` is of; `None` in those of earlier versions.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// Journal as its owner saw it; `None` in those of earlier versions, which did not say.
    #[serde(default)]
    pub seen: Option<Seen>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    Lab(Header),
    Will { id: u64, undo: Undo },
    Undone { id: u64 },
}

impl Header {
    /// The header of a new lab of this process.
    pub(super) fn of_this_process() -> Result<Self, Fault> {
        let mut random = [0; 4];
        exclusive::random_bytes(&mut random)
            .map_err(|fault| fault.during("a number for the lab"))?;
        let pid = std::process::id();
        Ok(Self {
            lab: format!("{:0LAB_DIGITS$x}", u32::from_ne_bytes(random)),
            boot: sweep::boot_id()?,
            pid,
            started_ticks: session::started_ticks(pid).unwrap_or(0),
            pid_namespace: pid_namespace(),
            seen: None,
        })
    }
}

/// An open journal, its lock held.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    header: Header,
    pending: BTreeMap<u64, Undo>,
    next_id: u64,
    /// Descriptions of what could not be read in it, for people.
    damage: Vec<String>,
}

/// The journals whose owner is gone.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Those that may be undone here. Nobody's lock is held: another sweep may take one first.
    pub found: Vec<PathBuf>,
    /// Those whose owner may live where this lock says nothing, with the reason.
    pub elsewhere: Vec<String>,
}

/// Outcome of taking over one of them.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is ours, its lock held.
    Over(Journal),
    /// Somebody undid and removed it first.
    Undone,
    /// Somebody else still holds it.
    Held,
}

/// A directory for the journal of a lab in a level of ours, which goes away with the level: the one
/// of the machine may be seen from there too, and what is in it belongs to labs of another kernel.
pub(super) fn private_directory() -> Result<PathBuf, Fault> {
    let run = exclusive::ensure(&super::places::run_directory(), 0o711)?;
    let path = run.join(format!("{PRIVATE}{}", exclusive::unguessable()?));
    exclusive::make(&path, 0o700)?;
    Ok(path)
}

/// Tells whether a directory of journals is one of those.
pub(super) fn is_private(state: &Path) -> bool {
    state.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PRIVATE))
}

/// The directory of this machine's journals, made if absent.
pub(super) fn state_directory() -> Result<PathBuf, Fault> {
    let made = state::ensured().and_then(|_| exclusive::ensure_closed(&state::journals()?));
    made.map_err(|fault| {
        let hint = fault.hint.clone().map_or_else(String::new, |hint| format!("{hint}; or "));
        let root = if super::us::is_machines_root() { "" } else { "run it as root, or " };
        fault
            .during("the directory of the journals")
            .hint(format!("{hint}{root}name a directory of your own in `SURTAX_STATE_DIR`"))
    })
}

/// Keeps journals from being made or listed while it lives, so that a new one is never seen
/// unlocked.
fn turnstile(state: &Path) -> Result<File, Fault> {
    let directory = File::open(state).doing(format_args!("open `{}`", state.display()))?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)
        .doing(format_args!("lock `{}`", state.display()))?;
    Ok(directory)
}

impl Journal {
    /// Starts the journal of a new lab, locked from its first moment.
    pub(super) fn create(state: &Path, header: Header) -> Result<Self, Fault> {
        let path = state.join(&header.lab).with_extension(EXTENSION);
        let guard = turnstile(state)?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .doing(format_args!("make the journal `{}`", path.display()))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .doing(format_args!("lock the journal `{}`", path.display()))?;
        drop(guard);
        let seen = Some(Seen::of(&file).doing(format_args!("look at `{}`", path.display()))?);
        let header = Header { seen, ..header };
        let pending = BTreeMap::new();
        let mut journal =
            Self { file, path, header: header.clone(), pending, next_id: 0, damage: Vec::new() };
        journal.append(&[JournalLine::Lab(header)])?;
        Ok(journal)
    }

    /// Finds every journal of the directory that has lost its owner.
    pub(super) fn orphans(state: &Path) -> Result<Orphans, Fault> {
        let _guard = turnstile(state)?;
        let entries = fs::read_dir(state).doing(format_args!("list `{}`", state.display()))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
            .collect();
        paths.sort();
        let boot = sweep::boot_id()?;
        let mut orphans = Orphans::default();
        for path in paths {
            let found = open(&path).and_then(|file| {
                file.map(|file| origin::require(&file, &path, &boot).map(|()| file)).transpose()
            });
            match found {
                Ok(Some(file)) if is_free(&file) || owner_is_gone(&path) => {
                    orphans.found.push(path);
                }
                Ok(_) => {}
                // One that another kernel has just removed cannot even be opened.
                Err(fault) => orphans.elsewhere.push(fault.message),
            }
        }
        Ok(orphans)
    }

    /// Takes over a journal whose owner is gone as soon as its lock is free, if it is before this
    /// time.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub(super) fn take_before(deadline: Nanoseconds, path: &Path) -> Result<Taken, Fault> {
        let Some(file) = open(path)? else { return Ok(Taken::Undone) };
        if !is_locked_before(deadline, &file) {
            return Ok(Taken::Held);
        }
        Ok(Self::take_over(file, path)?.map_or(Taken::Undone, Taken::Over))
    }

    /// Waits until a journal has lost its owner and takes it over; `None` if somebody undid it
    /// first.
    pub(super) fn inherit(path: &Path) -> Result<Option<Self>, Fault> {
        let Some(file) = open(path)? else { return Ok(None) };
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .doing(format_args!("lock the journal `{}`", path.display()))?;
        Self::take_over(file, path)
    }

    /// Reads a journal whose lock we hold; `None` if somebody undid and removed it first.
    fn take_over(file: File, path: &Path) -> Result<Option<Self>, Fault> {
        let facts = file.metadata().doing(format_args!("look at `{}`", path.display()))?;
        if facts.nlink() == 0 {
            return Ok(None);
        }
        Self::read(file, path.to_path_buf()).map(Some)
    }

    fn read(mut file: File, path: PathBuf) -> Result<Self, Fault> {
        let mut text = Vec::new();
        file.read_to_end(&mut text).doing(format_args!("read `{}`", path.display()))?;
        let lab = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let header = Header { lab, ..Header::default() };
        let (pending, damage) = (BTreeMap::new(), Vec::new());
        let mut journal = Self { file, path, header, pending, next_id: 0, damage };
        // What follows the last line end was cut off: its object was never made.
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            // Else the next line that is written would be a part of it.
            let length = u64::try_from(whole).unwrap_or(u64::MAX);
            journal.file.set_len(length).doing(format_args!("cut `{}`", journal.path.display()))?;
        }
        for (index, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
            if !line.is_empty() {
                journal.replay(index, line);
            }
        }
        Ok(journal)
    }

    fn replay(&mut self, index: usize, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(JournalLine::Lab(header)) => self.header = header,
            Ok(JournalLine::Will { id, undo }) => {
                self.next_id = self.next_id.max(id.saturating_add(1));
                self.pending.insert(id, undo);
            }
            Ok(JournalLine::Undone { id }) => {
                self.pending.remove(&id);
            }
            Err(error) => self.damage.push(format!(
                "{}:{}: cannot be read and is left alone: {error}",
                self.path.display(),
                index + 1
            )),
        }
    }

    /// Writes down how to undo what is about to be made, all of it in one write. On disk when this
    /// returns, if one of the objects survives a reboot.
    pub(super) fn will(&mut self, undos: Vec<Undo>) -> Result<Vec<u64>, Fault> {
        let durable = undos.iter().any(Undo::survives_reboot);
        let first = self.next_id;
        let numbered: Vec<(u64, Undo)> = (first..).zip(undos).collect();
        let lines: Vec<JournalLine> = numbered
            .iter()
            .map(|(id, undo)| JournalLine::Will { id: *id, undo: undo.clone() })
            .collect();
        self.append(&lines)?;
        if durable {
            self.file.sync_data().doing(format_args!("flush `{}`", self.path.display()))?;
        }
        let ids = numbered.iter().map(|(id, _)| *id).collect();
        self.next_id = first + numbered.len() as u64;
        self.pending.extend(numbered);
        Ok(ids)
    }

    /// Writes down that these need not be undone again.
    pub(super) fn undone(&mut self, ids: &[u64]) -> Result<(), Fault> {
        let lines: Vec<JournalLine> =
            ids.iter().map(|id| JournalLine::Undone { id: *id }).collect();
        for id in ids {
            self.pending.remove(id);
        }
        self.append(&lines)
    }

    fn append(&mut self, lines: &[JournalLine]) -> Result<(), Fault> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(|error| {
                Fault::bug(format!("a journal line cannot be written: {error}"))
            })?;
            text.push(b'\n');
        }
        let doing = || format!("write `{}`", self.path.display());
        let length = self.file.metadata().doing(doing())?.len();
        self.file.write_all(&text).doing(doing()).inspect_err(|_| {
            // The next line would be a part of one that was cut off.
            let _ = self.file.set_len(length);
        })
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lists what is still to be undone, latest first, each with its number in the journal.
    pub(super) fn pending(&self) -> Vec<(u64, Undo)> {
        self.pending.iter().rev().map(|(id, undo)| (*id, undo.clone())).collect()
    }

    /// Lists what could not be read.
    pub(super) fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Removes the journal, which must have nothing left to undo.
    pub(super) fn remove(self) -> Result<(), Fault> {
        fs::remove_file(&self.path).doing(format_args!("remove `{}`", self.path.display()))
    }
}

/// Reads the bytes of a journal as the sweep of a later start does, and undoes nothing: how many
/// objects it would have undone, and what could not be read.
///
/// # Errors
/// The machine's: there is no memory for a file.
pub fn read_untrusted(bytes: &[u8]) -> Result<(usize, Vec<String>), Fault> {
    let file = rustix::fs::memfd_create("journal", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(file.doing("make a journal in memory")?);
    let written = file.write_all(bytes).and_then(|()| file.rewind());
    written.doing("write a journal in memory")?;
    let journal = Journal::read(file, PathBuf::from("untrusted.journal"))?;
    Ok((journal.pending().len(), journal.damage))
}

fn is_locked_now(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Tells whether nobody holds this lock; does not hold it either.
fn is_free(file: &File) -> bool {
    is_locked_now(file) && rustix::fs::flock(file, FlockOperation::Unlock).is_ok()
}

fn is_locked_before(deadline: Nanoseconds, file: &File) -> bool {
    let left = deadline.since(monotonic_raw()).into();
    look_until(left, Duration::from_millis(5), || is_locked_now(file).then_some(())).is_some()
}

/// The ids of the labs on this machine whose owner is alive, this process's among them.
///
/// # Errors
/// The machine's: there is no place for journals, or it cannot be listed.
pub fn living() -> Result<Vec<String>, Fault> {
    let state = state::journals()?;
    let entries = fs::read_dir(&state).doing(format_args!("look into `{}`", state.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_living = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == EXTENSION) && !owner_is_gone(path)
    };
    let id = |path: PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    Ok(paths.filter(is_living).filter_map(id).collect())
}

/// Tells whether the process that wrote a journal has ended, as far as its number says that here.
/// One that says nothing yet is about to.
fn owner_is_gone(path: &Path) -> bool {
    first_line(path).is_some_and(|header| {
        let is_of_ours = header.pid_namespace.is_none_or(|it| Some(it) == pid_namespace());
        is_of_ours && !session::is_running(header.pid, header.started_ticks)
    })
}

fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|facts| facts.ino())
}

/// Reads what a journal says of its owner; `None` where that is not written yet.
fn first_line(path: &Path) -> Option<Header> {
    let text = fs::read(path).ok()?;
    let line = text.split(|&byte| byte == b'\n').next()?;
    match serde_json::from_slice(line) {
        Ok(JournalLine::Lab(header)) => Some(header),
        _ => None,
    }
}

fn open(path: &Path) -> Result<Option<File>, Fault> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new().read(true).append(true).custom_flags(no_follow).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).doing(format_args!("open the journal `{}`", path.display())),
    }
}

#[cfg(test)]
mod tests;
