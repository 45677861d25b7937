//! Keeps unpacked kernels between runs, each at a place that only the bytes of its file lead to.

use super::FoundKernel;
use crate::fault::{Doing, Fault};
use crate::lab::exclusive;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of an unpacked kernel.
const IMAGE: &str = "vmlinux";

/// Tells whether a text is a release that may become a part of a path: the file of a kernel says
/// what it likes.
pub(super) fn is_release(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+~-".contains(&byte);
    text.bytes().all(is_plain) && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Returns the path where the ELF kernel in a file with this hash is kept: beside a kernel that apt
/// fetched, else under the hash.
pub(super) fn place(found: &FoundKernel, sha256: &str, kernels: &Path) -> PathBuf {
    let tree = kernels.join(&found.release);
    if found.file == tree.join("boot").join(format!("vmlinuz-{}", found.release)) {
        return tree.join(IMAGE);
    }
    kernels.join("unpacked").join(sha256).join(IMAGE)
}

/// Tells whether a file of the cache is there and nobody else can have put or changed it there.
/// What is not so is written anew.
pub(super) fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| {
        let others_write = facts.mode() & exclusive::GROUP_OR_OTHER_WRITE != 0;
        facts.is_file() && exclusive::is_trusted(facts.uid()) && !others_write
    })
}

/// Writes a file of the cache so that it is there whole or not at all.
///
/// # Errors
/// The machine's: it cannot be made, or the disk is full.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let doing = format!("write `{}`", path.display());
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).doing(&doing)?;
    let temporary = directory.join(format!(".{}.partial", exclusive::unguessable()?));
    let mut file = exclusive::create(&temporary, 0o644)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.doing(&doing)
}
