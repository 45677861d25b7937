//! A notebook: what a long campaign has counted, unit by unit, in a file that outlives it.
//!
//! One line of JSON per unit, flushed before the next one begins. A campaign that is started again
//! with the same file takes what it finds there and does the rest, so that hours of work survive
//! Ctrl-C, a crash and a reboot. A file that another version or another commit of surtax wrote is
//! refused: its units were counted by something else.

use crate::fault::{Doing, Fault};
use crate::lab::exclusive::GROUP_OR_OTHER_WRITE;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest notebook that is read, in bytes: a million units of a hundred bytes fit.
const LENGTH_LIMIT: u64 = 256 << 20;

/// The results of units by their names, in memory or in a file as well.
#[derive(Debug, Default)]
pub struct Notebook {
    known: RefCell<HashMap<String, serde_json::Value>>,
    file: Option<RefCell<File>>,
    path: PathBuf,
}

/// First line of a notebook: who counted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    surtax_version: String,
    commit: String,
    size: String,
}

/// One unit and what came of it.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    unit: String,
    result: serde_json::Value,
}

impl Notebook {
    /// Opens a notebook, made if absent, for campaigns of one size.
    ///
    /// # Errors
    /// The user's: another surtax wrote it, or it is no notebook. The machine's: it cannot be read
    /// or written.
    pub fn open(path: &Path, size: &str) -> Result<Self, Fault> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .doing(format_args!("open the notebook `{shown}`"))?;
        let facts = file.metadata().doing(format_args!("look at the notebook `{shown}`"))?;
        let us = rustix::process::geteuid().as_raw();
        let is_ours = facts.uid() == us && facts.mode() & GROUP_OR_OTHER_WRITE == 0;
        if !facts.is_file() || !is_ours || facts.len() > LENGTH_LIMIT {
            return Err(Fault::user(format!(
                "`{shown}` is no notebook of a campaign, or others may have written into it"
            ))
            .hint("name a file that is not there yet"));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).doing(format_args!("read the notebook `{shown}`"))?;
        // A line that was cut off is of a unit that is done again.
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let ours = Header::of(size);
        let mut notebook = Self::default();
        match lines.next().map(serde_json::from_slice::<Header>) {
            None if text.is_empty() => append(&mut file, &ours, path)?,
            None => return Err(no_notebook(path, &"its first line has no end")),
            Some(Ok(theirs)) if theirs == ours => {}
            Some(Ok(theirs)) => {
                let Header { surtax_version, commit, size } = theirs;
                return Err(Fault::user(format!(
                    "`{shown}` was counted by surtax {surtax_version} ({commit}), {size}, and this \
                     is {} ({}), {}",
                    ours.surtax_version, ours.commit, ours.size
                ))
                .hint("name another file, or use the surtax that began it"));
            }
            Some(Err(error)) => return Err(no_notebook(path, &error)),
        }
        for line in lines {
            let entry: Entry = serde_json::from_slice(line)
                .map_err(|error| Fault::user(format!("`{shown}` holds no unit: {error}")))?;
            notebook.known.get_mut().insert(entry.unit, entry.result);
        }
        // Only now it is known to be ours to change.
        if whole < text.len() {
            let length = u64::try_from(whole).unwrap_or(u64::MAX);
            file.set_len(length).doing(format_args!("cut the notebook `{shown}`"))?;
        }
        Ok(Self { file: Some(RefCell::new(file)), path: path.to_owned(), ..notebook })
    }

    /// The result of a unit: the one that was written down, or that of doing it now.
    ///
    /// # Errors
    /// The unit's; the machine's when it cannot be written down.
    pub(super) fn unit<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<(T, Origin), Fault> {
        if let Some(known) = self.known.borrow().get(name) {
            let found = serde_json::from_value(known.clone()).map_err(|error| {
                Fault::user(format!("the notebook's unit `{name}` is of another kind: {error}"))
            })?;
            return Ok((found, Origin::Remembered));
        }
        let result = work()?;
        let value = serde_json::to_value(&result)
            .map_err(|error| Fault::bug(format!("the unit `{name}` is no JSON: {error}")))?;
        let entry = Entry { unit: name.to_owned(), result: value };
        if let Some(file) = &self.file {
            append(&mut file.borrow_mut(), &entry, &self.path)?;
        }
        self.known.borrow_mut().insert(entry.unit, entry.result);
        Ok((result, Origin::Done))
    }
}

/// Origin of the result of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was done just now.
    Done,
    /// It was in the notebook.
    Remembered,
}

impl Header {
    fn of(size: &str) -> Self {
        Self {
            surtax_version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("SURTAX_COMMIT").to_owned(),
            size: size.to_owned(),
        }
    }
}

fn no_notebook(path: &Path, why: &dyn std::fmt::Display) -> Fault {
    Fault::user(format!("`{}` begins as no notebook does: {why}", path.display()))
        .hint("name a file that is not there yet")
}

fn append(file: &mut File, line: &impl Serialize, path: &Path) -> Result<(), Fault> {
    let shown = path.display();
    let mut text = serde_json::to_vec(line)
        .map_err(|error| Fault::bug(format!("a line of a notebook is no JSON: {error}")))?;
    text.push(b'\n');
    file.write_all(&text).doing(format_args!("write the notebook `{shown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn count(notebook: &Notebook, unit: &str, times: &mut u32) -> u32 {
        let work = || {
            *times += 1;
            Ok(*times)
        };
        notebook.unit(unit, work).unwrap().0
    }

    #[test]
    fn a_unit_is_done_once_also_by_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("campaign.jsonl");
        let mut times = 0;
        let first = Notebook::open(&path, "full").unwrap();
        assert_eq!(count(&first, "a", &mut times), 1);
        assert_eq!(count(&first, "a", &mut times), 1);
        drop(first);
        let second = Notebook::open(&path, "full").unwrap();
        assert_eq!((count(&second, "a", &mut times), count(&second, "b", &mut times)), (1, 2));
    }

    #[test]
    fn a_line_that_was_cut_off_is_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("campaign.jsonl");
        let mut times = 0;
        let first = Notebook::open(&path, "full").unwrap();
        count(&first, "a", &mut times);
        count(&first, "b", &mut times);
        drop(first);
        let length = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
        let second = Notebook::open(&path, "full").unwrap();
        assert_eq!((count(&second, "a", &mut times), count(&second, "b", &mut times)), (1, 3));
        drop(second);
        assert!(Notebook::open(&path, "full").is_ok());
    }

    #[test]
    fn what_another_surtax_counted_is_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("campaign.jsonl");
        drop(Notebook::open(&path, "full").unwrap());
        let fault = Notebook::open(&path, "quick").unwrap_err();
        assert!(fault.to_string().contains("was counted by surtax"), "{fault}");
    }

    #[test]
    fn a_file_that_is_no_notebook_of_ours_stays_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letter.txt");
        for text in ["hello\n", "hello", "hello\nworld", "\n", "{\"unit\":"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Notebook::open(&path, "full").unwrap_err().exit_code(), 2, "{text:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::remove_file(&path).unwrap();
        drop(Notebook::open(&path, "full").unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o620)).unwrap();
        let fault = Notebook::open(&path, "full").unwrap_err();
        assert!(fault.to_string().contains("others may have written"), "{fault}");
    }
}
