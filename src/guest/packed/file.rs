//! A file that is packed: opened once. Whoever may write to its directory can put another there at
//! any time, or a link to what is root's, and what was looked at is what the guest gets.

use crate::regular_file;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file that has been found, with its length then.
#[derive(Debug)]
pub(super) struct PackedFile {
    /// Path by which it was found.
    pub(super) path: PathBuf,
    file: File,
    /// Number of bytes that it has, and that room is made for.
    pub(super) bytes: u64,
}

impl PackedFile {
    /// Opens a file that a disk or memory keeps.
    ///
    /// # Errors
    /// The kernel's; or it is no regular file, or one of the kernel's own.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = regular_file::open_kept(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    /// Reads it whole, if it has no more bytes than `limit`; of one that has grown since it was
    /// found, as much as it had.
    ///
    /// # Errors
    /// The kernel's; or it is longer.
    pub(super) fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        if self.bytes > limit {
            return Err(regular_file::too_long(limit));
        }
        regular_file::read_again(&self.file, self.bytes)
    }

    /// Returns what may be done with it, and by whom.
    pub(super) fn mode(&self) -> io::Result<u32> {
        Ok(self.file.metadata()?.permissions().mode() & 0o777)
    }
}
