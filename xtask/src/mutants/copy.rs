//! The copy: the working tree below the target directory, where a change hurts nobody.
//!
//! Its own target directory stays from mutant to mutant and from call to call, and a file is
//! written only when its text differs, so cargo builds again what a change reaches and nothing
//! else.

use super::list::Mutant;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of the compiler's lines that are shown when a copy does not build.
const LINES_SHOWN: usize = 20;

/// A copy of the working tree, with at most one change in it.
pub struct Copy {
    tree: PathBuf,
    target: PathBuf,
    /// The file that is changed, and what stood there.
    changed: Option<(PathBuf, String)>,
}

impl Copy {
    /// Copies what git knows and does not ignore, as it stands in the working tree at `root`.
    ///
    /// # Errors
    /// Git does not know the tree, or the copy cannot be written.
    pub fn of(root: &Path) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let place = target.unwrap_or_else(|| root.join("target")).join("mutants");
        let tree = place.join("tree");
        let listed = listed(root)?;
        let cannot = |error: io::Error| format!("cannot copy into `{}`: {error}", tree.display());
        fs::create_dir_all(&tree).map_err(cannot)?;
        for path in &listed {
            bring(&root.join(path), &tree.join(path)).map_err(cannot)?;
        }
        remove_others(&tree, Path::new(""), &listed).map_err(cannot)?;
        let tree = tree.canonicalize().map_err(|error| format!("the copy is gone: {error}"))?;
        let target = place.canonicalize().map_err(|error| format!("no target: {error}"))?;
        Ok(Self { tree, target: target.join("target"), changed: None })
    }

    /// Returns the root of the copy.
    pub fn place(&self) -> &Path {
        &self.tree
    }

    /// Makes a mutant's change. The one before must have been taken back.
    ///
    /// # Errors
    /// What is to be changed is not there once, or cannot be written.
    pub fn change(&mut self, mutant: &Mutant) -> Result<(), String> {
        assert!(self.changed.is_none(), "a copy holds one change");
        let path = self.tree.join(&mutant.path);
        let cannot = |error: io::Error| format!("cannot change `{}`: {error}", path.display());
        let was = fs::read_to_string(&path).map_err(cannot)?;
        fs::write(&path, mutant.applied_to(&was)?).map_err(cannot)?;
        self.changed = Some((path, was));
        Ok(())
    }

    /// Takes the change back.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&mut self) -> Result<(), String> {
        let Some((path, was)) = self.changed.take() else { return Ok(()) };
        fs::write(&path, was)
            .map_err(|error| format!("cannot restore `{}`: {error}", path.display()))
    }

    /// Builds it; gives the binary.
    ///
    /// # Errors
    /// The last lines of the compiler.
    pub fn build(&self) -> Result<PathBuf, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
        let mut command = Command::new(cargo);
        command.args(["build", "--locked", "--package", "surtax", "--bin", "surtax"]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // Proofs compute much and nobody debugs them; what stays equal must not be built again.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_INCREMENTAL", "1");
        let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
        if output.status.success() {
            return Ok(self.target.join("debug/surtax"));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let from = lines.len().saturating_sub(LINES_SHOWN);
        Err(format!("it does not build:\n{}", lines.get(from..).unwrap_or_default().join("\n")))
    }
}

/// The files that git knows or would take, relative to the root; one that was deleted is not there.
fn listed(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.output().map_err(|error| format!("git does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("git lists nothing: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec())));
    Ok(paths.filter(|path| root.join(path).is_file()).collect())
}

/// Copies a file, unless the same is there already: cargo goes by the time of the last change.
fn bring(from: &Path, to: &Path) -> io::Result<()> {
    if fs::read(to).is_ok_and(|there| fs::read(from).is_ok_and(|here| here == there)) {
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::copy(from, to).map(|_| ())
}

/// Removes what an earlier copy had and this one has not.
fn remove_others(tree: &Path, below: &Path, listed: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(tree.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(tree, &path, listed)?;
        } else if !listed.contains(&path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::list::MUTANTS;
    use super::*;

    /// A directory of this test's own, gone with it.
    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new(name: &str) -> Self {
            let name = format!("surtax-xtask-{}-{name}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(&place).unwrap();
            Self(place)
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_is_the_same_is_not_written_again() {
        let place = TestDirectory::new("bring");
        let (from, to) = (place.0.join("from"), place.0.join("a/b/to"));
        fs::write(&from, "one").unwrap();
        bring(&from, &to).unwrap();
        let changed_at = |path: &Path| path.metadata().unwrap().modified().unwrap();
        let before = changed_at(&to);
        bring(&from, &to).unwrap();
        assert_eq!(changed_at(&to), before);
        fs::write(&from, "two").unwrap();
        bring(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
    }

    #[test]
    fn what_is_not_listed_any_more_is_removed() {
        let place = TestDirectory::new("others");
        fs::create_dir(place.0.join("a")).unwrap();
        for name in ["a/stays", "a/goes", "goes"] {
            fs::write(place.0.join(name), "").unwrap();
        }
        remove_others(&place.0, Path::new(""), &BTreeSet::from([PathBuf::from("a/stays")]))
            .unwrap();
        assert!(place.0.join("a/stays").is_file());
        assert!(!place.0.join("a/goes").exists() && !place.0.join("goes").exists());
    }

    #[test]
    fn a_change_is_made_in_the_copy_alone_and_taken_back() {
        let place = TestDirectory::new("change");
        let mutant = &MUTANTS[0];
        let path = place.0.join(&mutant.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("fn a() {{ {} }}\n", mutant.text)).unwrap();
        let (tree, target) = (place.0.clone(), place.0.join("target"));
        let mut copy = Copy { tree, target, changed: None };
        copy.change(mutant).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains(&mutant.text));
        copy.restore().unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains(&mutant.text));
    }
}
