//! Directories whose writes are kept, as a draft asks for them.

use super::refuse::Draft;
use super::word::Word;
use crate::fault::Fault;
use std::fs;
use std::path::{Component, Path, PathBuf};

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

    /// Says which of them are named by links, and where these lead.
    pub fn links_note(&self, cwd: &Path) -> impl Iterator<Item = String> {
        self.writable.iter().filter_map(move |path| {
            let (named, found) = (Word::from(path.as_path()), real(&cwd.join(path)));
            let is_plain = without_dots(&cwd.join(path)) == found;
            let found = Word::from(found.as_path());
            (!is_plain).then(|| {
                format!(
                    "the writable directory `{}` leads to `{}`",
                    named.escaped(),
                    found.escaped()
                )
            })
        })
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

/// Returns a path as it is named, without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_named_by_a_link_is_told_and_one_that_is_named_by_dots_is_not() {
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", base.join("link")).unwrap();
        let writable = ["link", "a/./b", "a/b/..", "."].map(PathBuf::from).to_vec();
        let draft = Draft { writable, ..Draft::default() };
        let notes: Vec<String> = draft.links_note(&base).collect();
        let led = base.join("a/b").display().to_string();
        assert_eq!(notes, [format!("the writable directory `link` leads to `{led}`")]);
    }

    #[test]
    fn a_name_that_is_not_there_yet_is_where_its_directory_leads() {
        let place = tempfile::tempdir().unwrap();
        let real_place = fs::canonicalize(place.path()).unwrap();
        let link = place.path().join("home");
        fs::create_dir(place.path().join("var")).unwrap();
        std::os::unix::fs::symlink("var", &link).unwrap();
        assert_eq!(real(&link.join("u/runs")), real_place.join("var/u/runs"));
    }
}
