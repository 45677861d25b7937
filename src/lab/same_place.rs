//! Directories and files of the user's that stacks are given: each must stay what it was when
//! the run first saw it.
//!
//! A command may rename what it can write to, and leave a link; so may another user who owns a
//! directory above. The next stack would be given what that leads to.

use super::Lab;
use crate::fault::{Doing, Fault};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Places by the path that the user named.
#[derive(Debug, Default)]
pub(super) struct SeenPlaces(Mutex<BTreeMap<PathBuf, Place>>);

/// End to which a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Path without symbolic links.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    fn of(path: &Path) -> Result<Self, Fault> {
        let doing = || format!("see where `{}` leads", path.display());
        let canonical = fs::canonicalize(path).doing(doing())?;
        let facts = fs::symlink_metadata(&canonical).doing(doing())?;
        Ok(Self { path: canonical, device: facts.dev(), inode: facts.ino() })
    }
}

impl SeenPlaces {
    fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn require_same(&self, path: &Path) -> Result<(), Fault> {
        let now = Place::of(path)?;
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.entry(path.to_path_buf()).or_insert_with(|| now.clone());
        if *before == now {
            return Ok(());
        }
        let shown = path.display();
        Err(Fault::machine(format!(
            "`{shown}` is not what it was when the run began: it was `{}`, and is `{}`{}",
            before.path.display(),
            now.path.display(),
            if before.path == now.path { ", another one" } else { "" }
        ))
        .hint(
            "the command, or whoever owns a directory above it, renamed or replaced it, and no \
             stack is given what is there now: look what it is, and begin another run",
        ))
    }
}

impl Lab {
    /// Begins a run, for which these places, named without links, are what they are now.
    ///
    /// # Errors
    /// As [`Lab::require_same_places`].
    pub fn begin_with_places(&self, paths: &[PathBuf]) -> Result<(), Fault> {
        self.places.forget();
        self.require_same_places(paths.iter().map(PathBuf::as_path))
    }

    /// Requires that paths of the user's lead where they led when this lab was first asked.
    ///
    /// # Errors
    /// The machine's: one leads elsewhere or nowhere, or to another directory in the same place.
    pub fn require_same_places<'a>(
        &self,
        mut paths: impl Iterator<Item = &'a Path>,
    ) -> Result<(), Fault> {
        paths.try_for_each(|path| self.places.require_same(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_renamed_and_replaced_by_a_link_or_another_one_is_told() {
        let place = tempfile::tempdir().unwrap();
        let [above, elsewhere] = ["above", "elsewhere"].map(|name| place.path().join(name));
        let path = above.join("kept");
        fs::create_dir_all(&path).unwrap();
        fs::create_dir_all(elsewhere.join("kept")).unwrap();
        let seen = SeenPlaces::default();
        seen.require_same(&path).unwrap();
        seen.require_same(&path).unwrap();
        fs::rename(&above, place.path().join("aside")).unwrap();
        assert!(seen.require_same(&path).is_err(), "it is nowhere");
        std::os::unix::fs::symlink(&elsewhere, &above).unwrap();
        let told = seen.require_same(&path).unwrap_err().message;
        assert!(told.contains("is not what it was") && told.contains("elsewhere"), "{told}");
        fs::remove_file(&above).unwrap();
        fs::create_dir_all(&path).unwrap();
        let told = seen.require_same(&path).unwrap_err().message;
        assert!(told.ends_with("another one"), "{told}");
        fs::remove_dir_all(&above).unwrap();
        fs::rename(place.path().join("aside"), &above).unwrap();
        seen.require_same(&path).unwrap();
        // Removed, its number could be the new one's.
        fs::rename(&path, place.path().join("kept-aside")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(seen.require_same(&path).is_err());
        seen.forget();
        seen.require_same(&path).unwrap();
    }
}
