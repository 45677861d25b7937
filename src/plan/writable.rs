//! Directories whose writes are kept, as a draft asks for them.

use super::refuse::Draft;
use super::word::Word;
use crate::fault::Fault;
use std::fs;
use std::path::{Path, PathBuf};

impl Draft {
    /// Returns the directories whose writes are kept, each once.
    ///
    /// # Errors
    /// The user's: one is no directory, or is named in no text.
    pub(super) fn checked_writable(&self, cwd: &Path) -> Result<Vec<PathBuf>, Fault> {
        let mut checked: Vec<PathBuf> = Vec::new();
        for path in &self.writable {
            let path = self.checked_one(&cwd.join(path))?;
            if !checked.contains(&path) {
                checked.push(path);
            }
        }
        Ok(checked)
    }

    fn checked_one(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.check_directory("writable", "the writable directory", path)?;
        if path.to_str().is_none() {
            let shown = Word::from(path).escaped();
            let message = format!("the writable directory `{shown}` has a name that is no text");
            return Err(self.refuse("writable", message).hint(
                "name one in UTF-8: engines are told of it in their configurations, which are \
                 text",
            ));
        }
        // Whoever may write below it can exchange nothing of this name: it has no link, and no way
        // up.
        let path = real(path);
        if path == Path::new("/") {
            return Err(self
                .refuse("writable", "`/` as the writable directory would keep every write")
                .hint("name the directory whose files you want to keep"));
        }
        Ok(path)
    }
}

/// Returns where a path leads, without symbolic links, as far as it leads anywhere; what is not
/// there yet stands at its end as it is named.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for above in path.ancestors() {
        if let Ok(found) = fs::canonicalize(above) {
            return missing.into_iter().rev().fold(found, |path, name| path.join(name));
        }
        missing.extend(above.file_name());
    }
    path.to_path_buf()
}

/// Tells whether a path leads to a directory, or to what lies below it.
#[must_use]
pub fn leads_into(path: &Path, directory: &Path) -> bool {
    real(path).starts_with(real(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_yet_is_where_its_directory_leads() {
        let place = tempfile::tempdir().unwrap();
        let real_place = fs::canonicalize(place.path()).unwrap();
        let link = place.path().join("home");
        fs::create_dir(place.path().join("var")).unwrap();
        std::os::unix::fs::symlink("var", &link).unwrap();
        assert_eq!(real(&link.join("u/runs")), real_place.join("var/u/runs"));
        assert!(leads_into(&link.join("u/runs"), &place.path().join("var")));
        assert!(!leads_into(&place.path().join("variable"), &place.path().join("var")));
    }
}
