//! Directories whose writes are kept, as a draft asks for them.

use super::refuse::Draft;
use super::word::Word;
use crate::fault::Fault;
use crate::layer::StackSpec;
use std::fs;
use std::path::{Path, PathBuf};

impl Draft {
    /// Returns the directories whose writes are kept, each once.
    ///
    /// # Errors
    /// The user's: one is no directory, is named in no text, lies in another one, or holds the root
    /// of a stack.
    pub(super) fn checked_writable(&self, cwd: &Path) -> Result<Vec<PathBuf>, Fault> {
        let mut checked: Vec<PathBuf> = Vec::new();
        for path in &self.writable {
            let path = self.checked_one(&cwd.join(path))?;
            if !checked.contains(&path) {
                checked.push(path);
            }
        }
        self.require_apart(&checked)?;
        self.require_roots_outside(&checked)?;
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

    /// A command that can rename a directory above another one decides where that one is.
    fn require_apart(&self, checked: &[PathBuf]) -> Result<(), Fault> {
        for outer in checked {
            let inside = |it: &&PathBuf| *it != outer && it.starts_with(outer);
            if let Some(inner) = checked.iter().find(inside) {
                let message = format!(
                    "the writable directory `{}` lies in `{}`, which is writable as a whole",
                    inner.display(),
                    outer.display()
                );
                return Err(self.refuse("writable", message).hint("name the outer one alone"));
            }
        }
        Ok(())
    }

    /// A command that can replace the root of the next stack decides what that one sees.
    fn require_roots_outside(&self, checked: &[PathBuf]) -> Result<(), Fault> {
        let all = self.stacks.iter().chain(&self.baseline);
        for root in all.filter_map(root_of) {
            if let Some(outer) = checked.iter().find(|it| leads_into(&root, it)) {
                let message = format!(
                    "the root `{}` of a stack lies in the writable directory `{}`",
                    root.display(),
                    outer.display()
                );
                return Err(self
                    .refuse("writable", message)
                    .hint("a command could replace it for the trials after its own: move one"));
            }
        }
        Ok(())
    }
}

/// The root of the outermost layer, where that is a path.
fn root_of(stack: &StackSpec) -> Option<PathBuf> {
    Some(stack.layers.first()?.root().ok()?.path()?.to_path_buf())
}

/// Returns where a path leads, without symbolic links; itself if it leads nowhere.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Tells whether a path leads to a directory, or to what lies below it.
#[must_use]
pub fn leads_into(path: &Path, directory: &Path) -> bool {
    real(path).starts_with(real(directory))
}
