//! Hold on a ledger by who works on it: a lock on one byte of its file, which dies with its owner.
//!
//! The byte is far behind those that SQLite locks, and the file must be open for writing: who may
//! only read a ledger cannot pass for a running surtax. They can take a shared lock on the byte,
//! which is in the way; that is told as what it is. `flock(2)` would lock every byte where a file
//! system of the network keeps locks.
//!
//! SQLite's own locks belong to the process, and to close any descriptor of the file drops them. So
//! a ledger has one descriptor beside SQLite's. It is open before the connection is, and closed
//! after it.

use super::files::Files;
use crate::fault::{Doing, Fault};
use crate::lab::byte_lock::{self, Lock};
use crate::plan::shell_path;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};
use surtax_instrument::quantity::Nanoseconds;

/// The byte. SQLite locks some of the 512 from 2^30 on. Source: SQLite, "Database File Format",
/// section 1.3.12.
const BYTE: i64 = 1 << 62;

/// Time that a hold is waited for: a child that is about to become another program still has a copy
/// of that of a parent that was killed.
const PATIENCE: Duration = Duration::from_millis(300);

/// Between two tries.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A ledger's file, and whether this process works on it: then nobody else can hold it.
#[derive(Debug)]
pub(super) struct Hold {
    files: Files,
    is_ours: bool,
}

/// Takes hold of a ledger of this user's.
///
/// # Errors
/// The user's, when a running surtax has it, or somebody else could have written it.
pub(super) fn take(path: &Path) -> Result<Hold, Fault> {
    let began = monotonic_raw();
    loop {
        let files = Files::open(path, OFlags::RDWR)?;
        files.require_own()?;
        let hold = take_of(files)?;
        // Whoever had it before may have put another file in its place, which is held then.
        match hold.require_named() {
            Err(_) if monotonic_raw().since(began) < Nanoseconds::from(PATIENCE) => {}
            result => return result.map(|()| hold),
        }
    }
}

/// Takes hold of a ledger that is open for writing, also of one that has no name yet.
///
/// # Errors
/// As [`take`].
pub(super) fn take_of(files: Files) -> Result<Hold, Fault> {
    let look = || {
        let locked = explained(byte_lock::try_lock(files.file(), BYTE), files.path());
        locked.map(|it| it.then_some(())).transpose()
    };
    look_until(PATIENCE, LOOK_AGAIN, look).unwrap_or_else(|| Err(taken(&files)))?;
    Ok(Hold { files, is_ours: true })
}

/// Returns the fault of a ledger that somebody else has.
fn taken(files: &Files) -> Fault {
    let (shown, name) = (files.path().display(), shell_path(files.path()));
    if byte_lock::of_others(files.file(), BYTE) != Ok(Lock::Shared) {
        return Fault::user(format!("a running surtax works on the run file `{shown}`"))
            .hint("wait until it ends, or end it with Ctrl-C; `surtax show` can read meanwhile");
    }
    Fault::user(format!(
        "no surtax works on the run file `{shown}`, but a process that may read it keeps a lock on \
         it"
    ))
    .hint(format!(
        "run `chmod 600 {name}` and end that process, which `fuser {name}` may name; or copy the \
         run with its `-wal` file"
    ))
}

/// Says what would help where the kernel knows no such locks.
fn explained(tried: Result<bool, Errno>, path: &Path) -> Result<bool, Fault> {
    let took = tried.doing(format_args!("take hold of the run file `{}`", path.display()));
    match tried {
        Err(Errno::INVAL) => took.map_err(|fault| {
            fault.hint(
                "use Linux 3.15 or later, whose locks belong to open files; gVisor has none: keep \
                 the run outside of it",
            )
        }),
        _ => took,
    }
}

impl Hold {
    /// That of somebody who only reads, and asks who works on it.
    pub(super) fn of_nobody(files: Files) -> Self {
        Self { files, is_ours: false }
    }

    /// The files of the ledger.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Tells whether a process works on the ledger right now, this one or another.
    pub(super) fn is_held(&self) -> bool {
        // Where nothing is locked, nobody can hold anything.
        self.is_ours || byte_lock::of_others(self.files.file(), BYTE) == Ok(Lock::Exclusive)
    }

    /// Lets go of the ledger; its file stays open.
    ///
    /// # Errors
    /// The machine's.
    pub(super) fn release(&mut self) -> Result<(), Fault> {
        self.is_ours = false;
        let path = self.files.path().display();
        byte_lock::unlock(self.files.file(), BYTE).doing(format_args!("let go of `{path}`"))
    }

    /// Demands that another hold is of the same file.
    ///
    /// # Errors
    /// The user's: it is not.
    pub(super) fn require_same(&self, other: &Self) -> Result<(), Fault> {
        if self.files.is_same(&other.files) {
            return Ok(());
        }
        let path = self.files.path().display();
        Err(Fault::user(format!("the run file `{path}` was replaced after it was read"))
            .hint("see what it is now: surtax show"))
    }

    /// Demands that the ledger's name still leads to the file that is held.
    ///
    /// # Errors
    /// The user's: it leads to another one, or to none.
    pub(super) fn require_named(&self) -> Result<(), Fault> {
        if self.files.is_named() {
            return Ok(());
        }
        let path = self.files.path().display();
        Err(Fault::user(format!(
            "the run file `{path}` was exchanged for another file as it was opened"
        ))
        .hint("see who else works in that directory, and ask once more"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::fs::File;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    /// Something that may be held: an empty file is no ledger.
    fn ledger() -> tempfile::TempPath {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "a ledger").unwrap();
        path
    }

    fn is_held(path: &Path) -> bool {
        Hold::of_nobody(Files::open(path, OFlags::RDONLY).unwrap()).is_held()
    }

    #[test]
    fn a_ledger_has_one_holder_at_a_time_and_asking_takes_nothing() {
        let ledger = ledger();
        assert!(!is_held(&ledger));
        let mut hold = take(&ledger).unwrap();
        assert!(is_held(&ledger) && is_held(&ledger) && hold.is_held());
        let fault = take(&ledger).unwrap_err();
        assert!(fault.message.starts_with("a running surtax works on"), "{fault}");
        hold.release().unwrap();
        assert!(!is_held(&ledger) && !hold.is_held());
        let again = take(&ledger).unwrap();
        assert!(hold.is_held(), "by somebody else");
        drop(again);
        assert!(!is_held(&ledger));
    }

    #[test]
    fn who_may_only_read_a_ledger_is_no_surtax_and_their_lock_is_told_as_what_it_is() {
        let ledger = ledger();
        let reader = File::open(&ledger).unwrap();
        assert_eq!(byte_lock::try_share(&reader, BYTE), Ok(true));
        assert!(!is_held(&ledger));
        let fault = take(&ledger).unwrap_err();
        assert!(fault.message.contains("a process that may read it keeps a lock"), "{fault}");
        assert!(fault.hint.unwrap().contains("chmod 600 "));
        drop(reader);
        take(&ledger).unwrap();
    }

    #[test]
    fn a_kernel_without_locks_of_open_files_is_told_with_what_helps() {
        let fault = |error| explained(Err(error), Path::new("run.surtax")).unwrap_err();
        assert_eq!(fault(Errno::NOLCK).hint, None);
        let fault = fault(Errno::INVAL);
        assert!(fault.message.contains("cannot take hold of the run file"), "{fault}");
        assert!(fault.hint.unwrap().contains("Linux 3.15"));
    }

    #[test]
    fn who_waits_for_a_file_that_is_replaced_holds_the_one_that_has_the_name() {
        let (ledger, other) = (ledger(), ledger());
        let first = take(&ledger).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(&ledger).unwrap());
            std::thread::sleep(PATIENCE / 6);
            std::fs::rename(&other, &ledger).unwrap();
            drop(first);
            waiting.join().unwrap().require_named().unwrap();
        });
    }

    #[test]
    fn what_is_no_regular_file_is_not_held() {
        let shelf = tempfile::tempdir().unwrap();
        let (file, link) = (shelf.path().join("file"), shelf.path().join("link"));
        std::fs::write(&file, "a ledger").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let fault = take(&link).unwrap_err();
        assert!(fault.message.contains("is a symbolic link"), "{fault}");
        let pipe = shelf.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let fault = take(&pipe).unwrap_err();
        assert!(fault.message.contains("is a pipe"), "{fault}");
        take(&file).unwrap();
    }

    #[test]
    fn a_name_that_anybody_may_take_keeps_nobody_from_a_ledger() {
        let ledger = ledger();
        let file = ledger.metadata().unwrap();
        let name = format!("surtax-ledger-{:x}-{:x}", file.dev(), file.ino());
        let _squatter =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        assert!(!is_held(&ledger));
        take(&ledger).unwrap();
    }
}
