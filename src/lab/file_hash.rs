//! Hashes of files, by which two files of one name or one version are told apart.

use crate::fault::{Doing, Fault};
use crate::regular_file;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use surtax_instrument::hex;

/// Bytes of a file that are in memory at once.
const CHUNK_BYTES: usize = 1 << 20;

/// State of a file that tells it from every other, and from itself with another content.
pub(super) type Identity = ([u64; 3], [i64; 4]);

/// Returns the state of a file by what the kernel says of it. Its owner can set the time of its
/// content back, and not that of its change.
pub(super) fn identity(about: &Metadata) -> Identity {
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    ([about.dev(), about.ino(), about.len()], times)
}

/// The SHA-256 of a file, computed once per process: an image is the same in every trial.
///
/// # Errors
/// The machine's, when it cannot be read.
pub fn sha256(path: &Path) -> Result<String, Fault> {
    static KNOWN: Mutex<BTreeMap<(PathBuf, Identity), String>> = Mutex::new(BTreeMap::new());

    let doing = format!("hash `{}`", path.display());
    let key = (path.to_owned(), identity(&fs::metadata(path).doing(&doing)?));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known.get(&key) {
        return Ok(hash.clone());
    }
    let mut file = regular_file::open(path).doing(&doing)?;
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).doing(&doing)? {
            0 => break,
            count => hasher.update(&chunk[..count]),
        }
    }
    let hash = hex::of(&hasher.finalize());
    known.insert(key, hash.clone());
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_chunk_by_chunk_as_it_is_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> =
            (0..CHUNK_BYTES + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(sha256(file.path()).unwrap(), hex::of(&Sha256::digest(&bytes)));
    }
}
