//! Hashes of files, by which two files of one name or one version are told apart.

use crate::fault::{Doing, Fault};
use crate::regular_file;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of a file that are in memory at once.
const PIECE: usize = 1 << 20;

/// The SHA-256 of a file, computed once per process: an image is the same in every trial.
///
/// # Errors
/// The machine's, when it cannot be read.
pub fn sha256(path: &Path) -> Result<String, Fault> {
    type Key = (PathBuf, [u64; 3], [i64; 4]);
    static KNOWN: Mutex<BTreeMap<Key, String>> = Mutex::new(BTreeMap::new());

    let doing = format!("hash `{}`", path.display());
    let about = fs::metadata(path).doing(&doing)?;
    // Its owner can set the time of a file's content back, and not that of its change.
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    let key = (path.to_owned(), [about.dev(), about.ino(), about.len()], times);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known.get(&key) {
        return Ok(hash.clone());
    }
    let mut file = regular_file::open(path).doing(&doing)?;
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece).doing(&doing)? {
            0 => break,
            count => hasher.update(&piece[..count]),
        }
    }
    let hash = hex(&hasher.finalize());
    known.insert(key, hash.clone());
    Ok(hash)
}

/// Bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_piece_by_piece_as_it_is_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..PIECE + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(sha256(file.path()).unwrap(), hex(&Sha256::digest(&bytes)));
    }
}
