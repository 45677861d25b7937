//! The disk as SQLite finds it while a ledger is written: what somebody else laid beside the run is
//! not there.
//!
//! SQLite obeys a journal whoever made it: it rolls the database back, and deletes a further file
//! that the journal names. Where somebody else can make a file beside a run, one could appear at
//! any time. surtax uses none, and has undone what an older one left before SQLite opens a ledger,
//! so whatever has that name is not for SQLite.
//!
//! A log is believed in the same way. A ledger that has one says so in its first page, before the
//! log is made and until it was removed, and SQLite opens it for that reason without asking whether
//! there is one. So to that question the answer is always no. What SQLite opens for writing, and
//! whatever it opens beside a database, is looked at by its descriptor: as root SQLite makes a log
//! its own by `fchown(2)`, so that to look at its name afterwards proves nothing.
//!
//! Source: SQLite, "The OS Interface or VFS"; `hasHotJournal` and `pagerOpenWalIfPresent` in its
//! `pager.c`, `lockBtree` in `btree.c`, `robust_open`, `robustFchown` and `unixOpen` in
//! `os_unix.c`.

use super::files::{self, Beside};
use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::sync::OnceLock;

/// Name of this view of the disk in SQLite.
const NAME: &CStr = c"surtax-journalless";

/// Name in SQLite of the function by which it opens every file.
const OPEN_NAME: &CStr = c"open";

/// Files that SQLite finds only where it was told to look for them.
const HIDDEN: [Beside; 2] = [Beside::Journal, Beside::Log];

type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;

type Access =
    unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int, *mut c_int) -> c_int;

/// Function by which SQLite sees whether there is a file, as it is without us.
static ACCESS: OnceLock<Option<Access>> = OnceLock::new();

/// Function by which SQLite opens a file, as it is without us.
static OPEN: OnceLock<Open> = OnceLock::new();

/// The name of this view, which SQLite knows from the first call on.
///
/// # Errors
/// SQLite's: it has no view of the disk at all, or takes no further one.
pub(super) fn name() -> rusqlite::Result<&'static CStr> {
    let access = ACCESS.get_or_init(register);
    let code = ffi::Error::new(ffi::SQLITE_NOTFOUND);
    access.map(|_| NAME).ok_or(rusqlite::Error::SqliteFailure(code, None))
}

/// Makes it of SQLite's own, of which it differs by one function; how files are opened is the same
/// for all views.
fn register() -> Option<Access> {
    // SAFETY: no name asks for the one that SQLite uses where none is named.
    let found = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: it is none, or one that lives as long as the process.
    let system = unsafe { found.as_ref() }?;
    let (get, set) = (system.xGetSystemCall?, system.xSetSystemCall?);
    // SAFETY: it is asked for a name that ends in a zero byte.
    let open = unsafe { get(found, OPEN_NAME.as_ptr()) }?;
    // SAFETY: SQLite's own is of this type, and so has to be whatever takes its place.
    OPEN.get_or_init(|| unsafe { std::mem::transmute::<unsafe extern "C" fn(), Open>(open) });
    // SAFETY: SQLite asks for no type, and calls it with what it calls its own with.
    let ours = unsafe { std::mem::transmute::<Open, unsafe extern "C" fn()>(open_own) };
    // SAFETY: what is put in its place lives as long as the process.
    let code = unsafe { set(found, OPEN_NAME.as_ptr(), Some(ours)) };
    let ours = ffi::sqlite3_vfs {
        zName: NAME.as_ptr(),
        pNext: std::ptr::null_mut(),
        xAccess: Some(access_without_hidden),
        ..*system
    };
    if code != ffi::SQLITE_OK {
        return None;
    }
    // SAFETY: what is registered is complete, never given back, and nobody else's.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0) };
    system.xAccess.filter(|_| code == ffi::SQLITE_OK)
}

/// Opens a file as SQLite would, and gives it out only where it is this user's alone, or a database
/// to be read.
unsafe extern "C" fn open_own(name: *const c_char, flags: c_int, mode: c_int) -> c_int {
    let Some(open) = OPEN.get() else { return -1 };
    // What is no regular file must not be waited for, and to a regular one both flags say nothing.
    // SAFETY: these are the arguments that SQLite would give to it.
    let number = unsafe { open(name, flags | libc::O_NONBLOCK | libc::O_NOCTTY, mode) };
    // SAFETY: SQLite asks with a name that ends in a zero byte.
    let is_beside = ends_as(unsafe { CStr::from_ptr(name) }, &Beside::ALL);
    if number < 0 || !(is_beside || flags & libc::O_ACCMODE == libc::O_RDWR) {
        return number;
    }
    // SAFETY: it was opened here, and nobody else knows its number.
    let file = unsafe { File::from_raw_fd(number) };
    // A directory is opened to be synced, whatever it is called.
    let may_have = |found: std::fs::Metadata| found.is_dir() || files::is_of_us_alone(&found);
    if file.metadata().is_ok_and(may_have) {
        return file.into_raw_fd();
    }
    drop(file);
    // SAFETY: every thread has a place of its own for it, always.
    let errno = unsafe { libc::__errno_location() };
    // The one fault after which SQLite does not try to open it for reading.
    // SAFETY: the place is this thread's.
    unsafe { errno.write(libc::EISDIR) };
    -1
}

unsafe extern "C" fn access_without_hidden(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: SQLite asks with a name that ends in a zero byte.
    let is_hidden = ends_as(unsafe { CStr::from_ptr(name) }, &HIDDEN);
    match ACCESS.get().copied().flatten() {
        Some(access) if !is_hidden => {
            // SAFETY: these are the arguments that SQLite would give to it.
            unsafe { access(vfs, name, flags, found) }
        }
        _ => {
            // SAFETY: SQLite gives the place for the answer.
            unsafe { found.write(0) };
            ffi::SQLITE_OK
        }
    }
}

fn ends_as(name: &CStr, kinds: &[Beside]) -> bool {
    kinds.iter().any(|kind| name.to_bytes().ends_with(kind.word().as_bytes()))
}
