//! A lock on one byte of a file, held by an open file and not by a process.
//!
//! It stays when this process closes another descriptor of the file, and the kernel lets go of it
//! with the last copy of the descriptor, however its owner ended. The byte need not be in the file.
//! Where a file system of the network keeps locks, it is kept there; `flock(2)` would be a lock on
//! every byte.
//!
//! Source: `F_OFD_SETLK` and `F_OFD_GETLK` in `fcntl_locking(2)`.

use super::confinement::last_errno;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK` and `SEEK_SET`, as wide as `struct flock` has them.
const READ_LOCK: libc::c_short = 0;
const WRITE_LOCK: libc::c_short = 1;
const UNLOCK: libc::c_short = 2;
const FROM_BEGINNING: libc::c_short = 0;

/// Lock that others hold on a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nothing.
    None,
    /// A lock that several may have. To read the file is enough to take it, and it keeps everybody
    /// from [`try_lock`].
    Shared,
    /// The one that [`try_lock`] takes, for which the file has to be open for writing.
    Exclusive,
}

/// Locks a byte of a file that is open for writing; `false` where somebody else has it.
///
/// # Errors
/// The kernel's: the file system keeps no locks, or too many.
pub fn try_lock(file: &File, offset: i64) -> Result<bool, Errno> {
    take(file, WRITE_LOCK, offset)
}

/// Lets go of a byte, also for copies of the descriptor that others have.
///
/// # Errors
/// As [`try_lock`].
pub fn unlock(file: &File, offset: i64) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, &mut range(UNLOCK, offset))
}

/// The lock of somebody else on a byte; takes nothing.
///
/// # Errors
/// As [`try_lock`].
pub fn of_others(file: &File, offset: i64) -> Result<Lock, Errno> {
    let mut asked = range(WRITE_LOCK, offset);
    control(file, libc::F_OFD_GETLK, &mut asked)?;
    Ok(match asked.l_type {
        UNLOCK => Lock::None,
        READ_LOCK => Lock::Shared,
        _ => Lock::Exclusive,
    })
}

/// Takes a lock that several may have, as whoever may only read a file can; `false` where somebody
/// has the other kind.
///
/// # Errors
/// As [`try_lock`].
#[cfg(test)]
pub(crate) fn try_share(file: &File, offset: i64) -> Result<bool, Errno> {
    take(file, READ_LOCK, offset)
}

fn take(file: &File, kind: libc::c_short, offset: i64) -> Result<bool, Errno> {
    match control(file, libc::F_OFD_SETLK, &mut range(kind, offset)) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error),
    }
}

fn range(kind: libc::c_short, offset: i64) -> libc::flock {
    libc::flock { l_type: kind, l_whence: FROM_BEGINNING, l_start: offset, l_len: 1, l_pid: 0 }
}

fn control(file: &File, what: libc::c_int, range: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and `range` is ours alone and outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), what, &raw mut *range) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_one_holder_whatever_else_is_closed_and_asking_takes_nothing() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        let far = 1 << 62;
        let asked = |file, at| of_others(file, at).unwrap();
        assert_eq!((asked(&one, far), asked(&other, far)), (Lock::None, Lock::None));
        assert_eq!((try_lock(&one, far), try_lock(&other, far)), (Ok(true), Ok(false)));
        drop(open());
        let reader = File::open(&path).unwrap();
        assert_eq!((asked(&reader, far), asked(&reader, far - 1)), (Lock::Exclusive, Lock::None));
        assert_eq!(asked(&one, far), Lock::None, "its own is nobody else's");
        let _copy = one.try_clone().unwrap();
        unlock(&one, far).unwrap();
        assert_eq!((try_lock(&other, far), try_lock(&one, far)), (Ok(true), Ok(false)));
    }

    #[test]
    fn a_lock_for_which_reading_is_enough_is_told_from_the_one_that_needs_writing() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(try_lock(&reader, 7), Err(Errno::BADF));
        assert_eq!(try_share(&reader, 7), Ok(true));
        assert_eq!((of_others(&file, 7), try_lock(&file, 7)), (Ok(Lock::Shared), Ok(false)));
        drop(reader);
        assert_eq!(try_lock(&file, 7), Ok(true));
        assert_eq!(try_share(&File::open(&path).unwrap(), 7), Ok(false));
    }
}
