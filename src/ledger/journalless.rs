//! The disk as SQLite finds it while a ledger is written: no rollback journal is there.
//!
//! SQLite obeys a journal whoever made it: it rolls the database back, and deletes a further file that the journal names.
//! Where somebody else can make a file beside a run, one could appear at any time. surtax uses none, and has undone what
//! an older one left before SQLite opens a ledger, so whatever has that name is not for SQLite.
//!
//! Source: SQLite, "The OS Interface or VFS", and `hasHotJournal` in its `pager.c`.

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// What this view of the disk is called in SQLite.
const NAME: &CStr = c"surtax-journalless";

/// How the name of a rollback journal ends.
const JOURNAL: &[u8] = b"-journal";

type Access =
    unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int, *mut c_int) -> c_int;

/// How SQLite sees whether there is a file, as it is without us.
static ACCESS: OnceLock<Option<Access>> = OnceLock::new();

/// The name of this view, which SQLite knows from the first call on.
///
/// # Errors
/// SQLite's: it has no view of the disk at all, or takes no further one.
pub(super) fn name() -> rusqlite::Result<&'static CStr> {
    let access = ACCESS.get_or_init(register);
    let code = ffi::Error::new(ffi::SQLITE_NOTFOUND);
    access.map(|_| NAME).ok_or(rusqlite::Error::SqliteFailure(code, None))
}

/// Makes it of SQLite's own, of which it differs by one function.
fn register() -> Option<Access> {
    // SAFETY: no name asks for the one that SQLite uses where none is named.
    let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: it is none, or one that lives as long as the process.
    let system = unsafe { system.as_ref() }?;
    let ours = ffi::sqlite3_vfs {
        zName: NAME.as_ptr(),
        pNext: std::ptr::null_mut(),
        xAccess: Some(access_without_journals),
        ..*system
    };
    // SAFETY: what is registered is complete, never given back, and nobody else's.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0) };
    system.xAccess.filter(|_| code == ffi::SQLITE_OK)
}

unsafe extern "C" fn access_without_journals(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: SQLite asks with a name that ends in a zero byte.
    let is_journal = unsafe { CStr::from_ptr(name) }.to_bytes().ends_with(JOURNAL);
    match ACCESS.get().copied().flatten() {
        Some(access) if !is_journal => {
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
