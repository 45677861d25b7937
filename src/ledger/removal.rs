//! Removal of a run: its file and what lies beside it, if nobody works on it.

use super::Ledger;
use super::files::{Beside, Files};
use super::hold::{self, Hold};
use crate::fault::{Doing, Fault};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

impl Ledger {
    /// Removes the run in a file of this user's. What is no run is left, and so is one that a
    /// surtax works on.
    ///
    /// # Errors
    /// As [`Ledger::open`]; the user's where somebody works on it, or somebody else could have
    /// written it; the machine's where it cannot be removed.
    pub fn remove(path: &Path) -> Result<(), Fault> {
        let reader = Self::open(path)?;
        let hold = hold::take(path)?;
        hold.require_same(&reader.hold)?;
        hold.require_named()?;
        unlink(&hold)
    }
}

/// Takes the names away, the run's own first: killed in between, what is left belongs to no run.
fn unlink(hold: &Hold) -> Result<(), Fault> {
    let files: &Files = hold.files();
    let beside = Beside::ALL.map(|which| files.path_of(which));
    for path in std::iter::once(files.path()).chain(beside.iter().map(AsRef::as_ref)) {
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.doing(format_args!("remove `{}`", path.display()))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::{add, done, id, ledger};

    #[test]
    fn a_run_is_removed_with_what_lies_beside_it_and_not_while_somebody_works_on_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.surtax");
        let mut run = ledger(&path, &["native"]);
        add(&mut run, &done(id(0, 0), 1));
        let fault = Ledger::remove(&path).unwrap_err();
        assert!(fault.message.contains("a running surtax works on"), "{fault}");
        assert!(path.exists());
        drop(run);
        fs::write(place.path().join("b"), "").unwrap();
        Ledger::remove(&path).unwrap();
        let left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn what_is_no_run_of_ones_own_stays() {
        let place = tempfile::tempdir().unwrap();
        let text = place.path().join("notes.surtax");
        fs::write(&text, "my notes").unwrap();
        Ledger::remove(&text).unwrap_err();
        assert_eq!(fs::read_to_string(&text).unwrap(), "my notes");
        let path = place.path().join("a.surtax");
        drop(ledger(&path, &["native"]));
        let link = place.path().join("link.surtax");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let _ = Ledger::remove(&link);
        assert!(path.exists(), "a link is not followed");
    }
}
