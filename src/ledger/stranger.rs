//! A ledger is a stranger's until shown otherwise: nothing in it acts, and reading it has bounds.
//!
//! A database can hold programs: views, triggers, virtual tables, expressions in columns and
//! indexes. Ours holds one view, and its schema is known to the letter, so any other is refused
//! before a row is read. What remains are numbers and text: as many as the file's size allows, each
//! of a bounded length, in a bounded time.

use super::files::{Beside, Files};
use super::{APPLICATION_ID, FORMAT_VERSION, birth, recovered, refused, schema};
use crate::fault::Fault;
use crate::lab::exclusive::{self, GROUP_OR_OTHER_WRITE};
use crate::plan::shell_path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use rustix::fs::OFlags;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use surtax_instrument::clock::process_cpu;
use surtax_instrument::quantity::Nanoseconds;

/// A database of at most this size is read whole before SQLite sees it; a larger one only where it
/// needs no recovery.
const IMAGE_MAX_BYTES: u64 = 64 << 20;

/// No text and no blob of a run is longer: outputs are kept as tails, and a histogram has some
/// thousand counts.
const VALUE_MAX_BYTES: i32 = 4 << 20;

/// No plan that is written is longer: it is in a row with other values, which all have to be read.
const PLAN_MAX_BYTES: usize = 3 << 20;

/// Bytes that a stranger's ledger may make this process hold.
const STRANGER_BYTES: u64 = 192 << 20;

/// The same of one that was made here.
const OWN_BYTES: u64 = 8 << 30;

/// Bytes that even the smallest file may make it hold: its proofs are spelled out once per trial
/// that has them.
const FLOOR_BYTES: u64 = 16 << 20;

/// Number of times that a byte of a file may be told: a fact is once in it, and is part of many
/// proofs.
const TOLD_MAX: u64 = 32;

/// Bytes that a row costs beside its text.
const ROW_BYTES: u64 = 64;

/// Reading a stranger's ledger ends after this much CPU time, and what its size explains. A machine
/// that is busy with something else makes no run unreadable.
const STRANGER_TIME: Duration = Duration::from_secs(1);

/// Bytes of a file that explain another second.
const BYTES_PER_SECOND: u64 = 16 << 20;

/// Reading one that was made here ends after this: something is wrong with its pages.
const OWN_TIME: Duration = Duration::from_secs(600);

/// Number of bytes that are paid for between two looks at the clock, as a power of two.
const LOOK_AGAIN: u32 = 14;

/// Bytes that are escaped in a name for SQLite.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// After so many steps of its machine SQLite asks whether to go on.
const STEPS: i32 = 1_000;

/// A ledger that was opened to be read.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// To be closed after the connection.
    pub(super) files: Files,
    pub(super) format: i32,
    pub(super) budget: Budget,
    /// True if nobody but the user of this process can have written what is read.
    pub(super) is_own: bool,
}

/// Budget that is left for reading, shared with the handler that interrupts SQLite.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    bytes: Arc<AtomicU64>,
    /// CPU time of this process.
    until_ns: Arc<AtomicU64>,
}

impl Budget {
    fn of_a_stranger(size: u64) -> Self {
        let bytes = size.saturating_mul(TOLD_MAX).clamp(FLOOR_BYTES, STRANGER_BYTES);
        let time = STRANGER_TIME + Duration::from_secs(size / BYTES_PER_SECOND);
        let share = |number| Arc::new(AtomicU64::new(number));
        Self { bytes: share(bytes), until_ns: share(after(time).0) }
    }

    /// That of a run that this process writes: what it has written it may read, for as long as it
    /// takes.
    pub(super) fn of_our_own() -> Self {
        let endless = || Arc::new(AtomicU64::new(u64::MAX));
        Self { bytes: endless(), until_ns: endless() }
    }

    /// Makes it that of a run that was begun here.
    pub(super) fn widen(&self) {
        self.bytes.store(OWN_BYTES, Ordering::Relaxed);
        self.until_ns.store(after(OWN_TIME).0, Ordering::Relaxed);
    }

    /// Pays for a row.
    ///
    /// # Errors
    /// SQLite's word for an interruption, where there is nothing left to pay with.
    pub(super) fn pay(&self, row: &Row) -> rusqlite::Result<()> {
        let columns = 0..row.as_ref().column_count();
        let lengths = columns.map(|column| match row.get_ref(column) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len(),
            _ => 0,
        });
        let length = u64::try_from(lengths.sum::<usize>()).unwrap_or(u64::MAX);
        self.spend(length.saturating_add(ROW_BYTES))
    }

    /// Pays for so many bytes.
    ///
    /// # Errors
    /// As [`Budget::pay`].
    pub(super) fn spend(&self, bytes: u64) -> rusqlite::Result<()> {
        let before = self.bytes.load(Ordering::Relaxed);
        match before.checked_sub(bytes) {
            // The clock is asked now and then: it takes as long as a row.
            Some(left) if before >> LOOK_AGAIN == left >> LOOK_AGAIN || !self.is_over() => {
                self.bytes.store(left, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(interrupted()),
        }
    }

    fn is_over(&self) -> bool {
        process_cpu().0 >= self.until_ns.load(Ordering::Relaxed)
    }
}

fn after(time: Duration) -> Nanoseconds {
    Nanoseconds(process_cpu().0.saturating_add(Nanoseconds::from(time).0))
}

fn interrupted() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

/// Opens a ledger to read it, and touches nothing on the disk.
///
/// # Errors
/// The user's: it is no ledger, or none that this surtax can have written. The machine's: it cannot
/// be read.
pub(super) fn open(path: &Path) -> Result<Opened, Fault> {
    let files = Files::open(path, OFlags::RDONLY)?;
    let size = files.size().unwrap_or(0);
    let budget = Budget::of_a_stranger(size);
    let cannot = |error: std::io::Error| {
        Fault::machine(format!("cannot recover the run file `{}`: {error}", path.display())).hint(
            "copy it to another directory with its `-wal` and `-journal` files, and ask there",
        )
    };
    let is_small = size <= IMAGE_MAX_BYTES;
    let ours = if is_small { Ok(()) } else { require_ours_to_open(&files) };
    let is_ours = ours.is_ok();
    let mut connection = if is_small {
        let limit = usize::try_from(2 * IMAGE_MAX_BYTES).unwrap_or(usize::MAX);
        let image = recovered::image(&files, limit).map_err(cannot)?;
        files.require_of_one()?;
        of_image(&image).map_err(|error| refused(path, "open", &error))?
    } else {
        of_file(&files, ours)?
    };
    let guarded = guard(&mut connection, &budget);
    guarded.map_err(|error| refused(path, "guard against what it holds", &error))?;
    let format = require(&connection, path)?;
    let is_own = is_ours && files.is_own();
    Ok(Opened { connection, files, format, budget, is_own })
}

/// One that is too large to be read first. SQLite opens it by its name once more, so where that is
/// somebody else's to change, it may do nothing with what it finds but read it.
fn of_file(files: &Files, ours: Result<(), Fault>) -> Result<Connection, Fault> {
    let path = files.path();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let has_more = [Beside::Journal, Beside::Log].iter().any(|which| files.has(*which));
    let opened = match ours {
        Ok(()) => Connection::open_with_flags(path, flags),
        Err(why) if has_more => return Err(unreadable(path, &why)),
        Err(_) => Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI),
    };
    opened.map_err(|error| refused(path, "open", &error))
}

/// Returns the fault of a large ledger that needs recovery where SQLite cannot be let do it.
fn unreadable(path: &Path, why: &Fault) -> Fault {
    let directory = birth::directory_of(path);
    let found = std::fs::metadata(directory);
    let is_ours = found.is_ok_and(|it| {
        let is_sticky = it.mode() & libc::S_ISVTX != 0;
        it.uid() == rustix::process::geteuid().as_raw()
            && it.mode() & GROUP_OR_OTHER_WRITE != 0
            && !is_sticky
    });
    let hint = if is_ours {
        format!("see that the run is as you left it, then: chmod go-w {}", shell_path(directory))
    } else {
        String::from(
            "copy it with its `-wal` and `-journal` files to a directory of your own, and ask \
             there",
        )
    };
    Fault::user(format!(
        "somebody else can change the run file `{}` or its directory, and what was written last is \
         in a file beside it: {}",
        path.display(),
        why.message
    ))
    .hint(hint)
}

/// Demands that all that SQLite would open by its name is of this user alone, and nobody else can
/// put a file there.
fn require_ours_to_open(files: &Files) -> Result<(), Fault> {
    files.require_own()?;
    exclusive::require_ours_alone(birth::directory_of(files.path()))
}

/// The name by which SQLite takes no lock, and looks for no file beside it. Source: SQLite,
/// "Uniform Resource Identifiers".
fn unchanging(path: &Path) -> String {
    // What follows two slashes would be the name of a machine.
    let begin = if path.is_absolute() { "file://" } else { "file:" };
    format!("{begin}{}?immutable=1", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
}

/// Tells whether no run was ever begun in a file: an older surtax made the file first, and the run
/// in it afterwards.
pub(super) fn is_unbegun(path: &Path) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    if !found.is_file() || found.len() == 0 {
        return found.is_file();
    }
    if found.len() > IMAGE_MAX_BYTES {
        return false;
    }
    let is_empty = || {
        let files = Files::open(path, OFlags::RDONLY).ok()?;
        let limit = usize::try_from(IMAGE_MAX_BYTES).ok()?;
        let mut connection = of_image(&recovered::image(&files, limit).ok()?).ok()?;
        guard(&mut connection, &Budget::of_a_stranger(found.len())).ok()?;
        is_without_tables(&connection).ok()
    };
    is_empty() == Some(true)
}

fn is_without_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) = 0 FROM sqlite_schema";
    connection.query_row(query, [], |row| row.get(0))
}

/// A database in memory that is read and never written.
fn of_image(image: &[u8]) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact("main", image, image.len(), true)?;
    Ok(connection)
}

/// Takes from a connection all that a database could act by, and bounds the rest.
pub(super) fn guard(connection: &mut Connection, budget: &Budget) -> rusqlite::Result<()> {
    for (config, is_on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    ] {
        connection.set_db_config(config, is_on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (Limit::SQLITE_LIMIT_COLUMN, 100),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    let budget = budget.clone();
    connection.progress_handler(STEPS, Some(move || budget.is_over()))?;
    connection.pragma_update(None, "cell_size_check", "ON")?;
    connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(())).or_else(|error| {
        // A database in memory has no map to be switched off, and says nothing.
        if error == rusqlite::Error::QueryReturnedNoRows { Ok(()) } else { Err(error) }
    })
}

/// Checks that a plan that is to be written can be read again.
///
/// # Errors
/// The user's: it is too long.
pub(super) fn require_readable(plan_json: &str) -> Result<(), Fault> {
    if plan_json.len() <= PLAN_MAX_BYTES {
        return Ok(());
    }
    let bytes = plan_json.len();
    Err(Fault::user(format!(
        "what is asked takes {bytes} bytes in a run file, and no more than {PLAN_MAX_BYTES} are \
         read"
    ))
    .hint("put long arguments into a file that the command reads"))
}

/// Checks what a database says of itself, and gives its format.
///
/// # Errors
/// As [`open`].
pub(super) fn require(connection: &Connection, path: &Path) -> Result<i32, Fault> {
    let shown = path.display();
    let number = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(|error| refused(path, "read the format", &error))
    };
    let (application, format) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION_ID {
        // Asked of the connection: to open the file again and close it would drop SQLite's locks.
        let is_empty = is_without_tables(connection).unwrap_or(false);
        return Err(match is_empty {
            true => super::files::empty(path),
            false => Fault::user(format!("`{shown}` is a database, but not a run file of surtax"))
                .hint("name a run file; `surtax list` shows those that are kept"),
        });
    }
    if format > FORMAT_VERSION {
        return Err(Fault::user(format!(
            "the run file `{shown}` has format {format}, and this surtax reads up to \
             {FORMAT_VERSION}"
        ))
        .hint("use the surtax that wrote it, or a newer one"));
    }
    let other = schema::difference(connection, format);
    match other.map_err(|error| refused(path, "read the schema", &error))? {
        None => Ok(format),
        Some(what) => Err(Fault::user(format!(
            "the run file `{shown}` is not as surtax made it: {what}"
        ))
        .hint(
            "nothing of it was read or run; ask whoever gave it to you for the file as it was made",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::RunState;
    use crate::ledger::fixture::ledger;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// Nobody's number on Debian.
    const SOMEBODY: u32 = 65534;

    #[test]
    fn a_plan_that_could_not_be_read_again_is_not_written() {
        require_readable(&"x".repeat(PLAN_MAX_BYTES)).unwrap();
        let fault = require_readable(&"x".repeat(PLAN_MAX_BYTES + 1)).unwrap_err();
        assert!(fault.message.contains("in a run file"), "{fault}");
    }

    #[test]
    fn a_large_file_of_somebody_else_is_opened_for_nothing_but_its_own_pages() {
        let shelf = tempfile::tempdir().unwrap();
        let path = shelf.path().join("a 100 % large?run#1.surtax");
        ledger(&path, &["native"]).finish(RunState::Finished).unwrap();
        let count = || {
            let files = Files::open(&path, OFlags::RDONLY)?;
            let connection = of_file(&files, require_ours_to_open(&files))?;
            Ok::<_, Fault>(connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0)))
        };
        assert_eq!(count().unwrap(), Ok(1));
        chown(&path, Some(SOMEBODY), None).unwrap();
        assert_eq!(count().unwrap(), Ok(1));
        let journal = shelf.path().join("a 100 % large?run#1.surtax-journal");
        std::fs::write(&journal, "something").unwrap();
        let assert_refused = || {
            let fault = count().unwrap_err();
            assert!(fault.message.contains("somebody else can change the run file"), "{fault}");
            fault
        };
        assert_refused();
        chown(&path, Some(0), None).unwrap();
        assert!(count().is_ok());
        for (owner, mode, remedy) in
            [(0, 0o770, "chmod go-w "), (0, 0o1777, "copy it"), (SOMEBODY, 0o700, "copy it")]
        {
            chown(shelf.path(), Some(owner), None).unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(shelf.path(), mode).unwrap();
            let fault = assert_refused();
            assert!(fault.message.contains(&format!("`{}`", shelf.path().display())), "{fault}");
            assert!(fault.hint.unwrap().contains(remedy), "{remedy}");
        }
        std::fs::remove_file(&journal).unwrap();
        assert_eq!(count().unwrap(), Ok(1));
        assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 1, "nothing was made");
    }

    #[test]
    fn a_name_is_one_file_whatever_is_in_it() {
        assert_eq!(
            unchanging(Path::new("/a b/c?d=e#f%.x")),
            "file:///a%20b/c%3Fd%3De%23f%25.x?immutable=1"
        );
        assert_eq!(unchanging(Path::new("a/b")), "file:a/b?immutable=1");
    }
}
