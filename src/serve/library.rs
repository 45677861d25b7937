//! The library: runs that are kept, read again only where their files changed.
//!
//! One run is read at a time. That bounds what a stranger's file may cost, and SQLite's locks
//! belong to the process: whoever closes a file drops them for all who read it beside them.

use crate::fault::Fault;
use crate::finding::diff::{Diff, diff, require_one_question, require_two};
use crate::finding::history::{History, history};
use crate::finding::kept::{self, KeptRun};
use crate::finding::{Findings, of_metric};
use crate::ledger::{Ledger, shelf};
use crate::report::export;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;

/// Bytes of pages that are kept.
const PAGES_MAX_BYTES: usize = 64 << 20;

/// Time for which a page of a running run is good though its file is as before: its surtax may have
/// been killed, which no file tells.
const RUNNING_FOR: Nanoseconds = Nanoseconds(5_000_000_000);

/// Runs of one question that are laid side by side, at most, the latest.
const HISTORY_MAX: usize = 200;

/// Form in which a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// A page for people.
    Html,
    /// Every number, for programs.
    Json,
}

/// Text that several who ask for it share.
pub(super) type Text = Arc<str>;

/// Mark of a run's files, which changes when they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp([(u64, u64, i64, i64); 2]);

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let of = |path: &Path| {
            let found = fs::symlink_metadata(path);
            found.map_or_else(
                |_| (0, 0, 0, 0),
                |it| (it.ino(), it.len(), it.mtime(), it.mtime_nsec()),
            )
        };
        Self([of(path), of(Path::new(&log))])
    }
}

/// A run in the list, or why it cannot be read.
pub(super) type Row = Result<Arc<KeptRun>, Arc<str>>;

struct Known<T> {
    stamp: Stamp,
    at: Nanoseconds,
    is_running: bool,
    what: T,
}

impl<T> Known<T> {
    fn is_good(&self, stamp: &Stamp) -> bool {
        self.stamp == *stamp && (!self.is_running || monotonic_raw().since(self.at) < RUNNING_FOR)
    }
}

#[derive(Default)]
struct Kept {
    rows: HashMap<PathBuf, Known<Row>>,
    pages: HashMap<(PathBuf, Form), Known<Text>>,
}

/// The runs in some folders.
pub(super) struct Library {
    directories: Vec<PathBuf>,
    kept: Mutex<Kept>,
    reading: Mutex<()>,
}

impl Library {
    pub(super) fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories, kept: Mutex::default(), reading: Mutex::new(()) }
    }

    /// The runs, the latest first.
    pub(super) fn rows(&self) -> Result<Vec<Row>, Fault> {
        let paths = shelf::list(&self.directories)?;
        let rows = paths.iter().rev().map(|path| self.row(path)).collect();
        lock(&self.kept).rows.retain(|path, _| paths.contains(path));
        Ok(rows)
    }

    fn row(&self, path: &Path) -> Row {
        let stamp = Stamp::of(path);
        let known = |kept: &Kept| {
            kept.rows.get(path).filter(|it| it.is_good(&stamp)).map(|it| it.what.clone())
        };
        if let Some(row) = known(&lock(&self.kept)) {
            return row;
        }
        let _reading = lock(&self.reading);
        if let Some(row) = known(&lock(&self.kept)) {
            return row;
        }
        let row: Row = match KeptRun::read(path) {
            Ok(run) => Ok(Arc::new(run)),
            Err(fault) => Err(fault.message.into()),
        };
        let is_running = row.as_ref().is_ok_and(|run| run.is_running());
        let known = Known { stamp, at: monotonic_raw(), is_running, what: row.clone() };
        lock(&self.kept).rows.insert(path.into(), known);
        row
    }

    /// The file of the run that has exactly this name; `None` where there is none. A name never
    /// becomes a path.
    pub(super) fn path(&self, name: &str) -> Result<Option<PathBuf>, Fault> {
        let is_it =
            |path: &PathBuf| path.file_stem().is_some_and(|it| it.to_string_lossy() == name);
        Ok(shelf::list(&self.directories)?.into_iter().find(is_it))
    }

    /// Returns what a run found, as `page` or JSON has it.
    pub(super) fn page(
        &self,
        path: &Path,
        form: Form,
        page: impl FnOnce(&Findings) -> String,
    ) -> Result<Text, Fault> {
        let (stamp, key) = (Stamp::of(path), (path.to_path_buf(), form));
        let known = |kept: &Kept| {
            kept.pages.get(&key).filter(|it| it.is_good(&stamp)).map(|it| it.what.clone())
        };
        if let Some(page) = known(&lock(&self.kept)) {
            return Ok(page);
        }
        let _reading = lock(&self.reading);
        if let Some(page) = known(&lock(&self.kept)) {
            return Ok(page);
        }
        let findings = found(path)?;
        let page: Text = match form {
            Form::Html => page(&findings).into(),
            Form::Json => export::json(&findings).into(),
        };
        let is_running = findings.run.state == "running";
        let known = Known { stamp, at: monotonic_raw(), is_running, what: page.clone() };
        lock(&self.kept).keep(key, known);
        Ok(page)
    }

    /// Reads something of a run while nobody else here reads.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&Ledger) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let _reading = lock(&self.reading);
        read(&Ledger::open(path)?)
    }

    /// The difference of two runs, in what people look at first.
    pub(super) fn diff(&self, before: &Path, after: &Path) -> Result<Diff, Fault> {
        let _reading = lock(&self.reading);
        let (before, after) = (found(before)?, found(after)?);
        require_two(&before, &after)?;
        let is_of_workload = after.run.workload.is_some();
        let mut found = diff(&before, &after)?;
        of_metric::keep_usual(&mut found.changes, |it| &it.metric, is_of_workload);
        Ok(found)
    }

    /// All runs of the question that a run asks, in what people look at first.
    pub(super) fn history(&self, path: &Path) -> Result<History, Fault> {
        let mut paths = shelf::list(&self.directories)?;
        let (asked, plan) =
            self.read(path, |ledger| Ok((kept::findings(ledger)?, ledger.plan()?)))?;
        paths.retain(|other| other != path);
        let mut runs = Vec::new();
        for other in paths.iter().rev() {
            if runs.len() + 1 == HISTORY_MAX {
                break;
            }
            let _reading = lock(&self.reading);
            if !kept::is_like(other, &plan).unwrap_or(false) {
                continue;
            }
            let other = found(other).ok().filter(|it| require_one_question(it, &asked).is_ok());
            runs.extend(other);
        }
        let is_of_workload = asked.run.workload.is_some();
        runs.push(asked);
        let mut found = history(runs)?;
        of_metric::keep_usual(&mut found.series, |it| &it.metric, is_of_workload);
        Ok(found)
    }
}

impl Kept {
    /// Keeps a page, and forgets the oldest where there are too many bytes of them.
    fn keep(&mut self, key: (PathBuf, Form), page: Known<Text>) {
        self.pages.insert(key, page);
        while self.pages.values().map(|it| it.what.len()).sum::<usize>() > PAGES_MAX_BYTES {
            let oldest = self.pages.iter().min_by_key(|(_, it)| it.at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.pages.remove(&oldest);
        }
    }
}

fn found(path: &Path) -> Result<Findings, Fault> {
    kept::findings(&Ledger::open(path)?)
}

/// A thread that panicked left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
