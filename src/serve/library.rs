//! The library: runs that are kept, read again where their files changed, and those that go on now
//! and then.
//!
//! One run is read at a time. That bounds what a stranger's file may cost, and SQLite's locks
//! belong to the process: whoever closes a file drops them for all who read it beside them.

use super::lock;
use crate::fault::Fault;
use crate::finding::diff::{Diff, diff, require_two};
use crate::finding::gathered::Gathered;
use crate::finding::history::{History, history};
use crate::finding::kept::{self, KeptRun};
use crate::finding::{Findings, of_metric};
use crate::ledger::{Ledger, RunState, shelf};
use hyper::body::Bytes;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;

/// Bytes of pages that are kept.
const PAGES_MAX_BYTES: usize = 64 << 20;

/// Multiple of the time that a look at a running run took, for which it is good: what is left to
/// the run.
const REST: u64 = 20;

/// Time for which a page of a running run is good though its file is as before: its surtax may have
/// been killed, which no file tells.
const RUNNING_FOR: Nanoseconds = Nanoseconds(5_000_000_000);

/// Runs of one question that are laid side by side, at most, the latest.
const HISTORY_MAX: usize = 200;

/// Form in which a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RunForm {
    /// A page for people.
    Html,
    /// Every number, for programs.
    Json,
}

/// Text that several who ask for it share.
pub(super) type Text = Bytes;

/// Mark of a run's files, which changes when they do, or whoever may write to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp([(u64, u64, i64, i64); 3]);

impl FileStamp {
    pub(super) fn of(path: &Path) -> Self {
        Self(["", "-wal", "-journal"].map(|ending| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            let found = fs::symlink_metadata(Path::new(&name));
            found.map_or((0, 0, 0, 0), |it| (it.ino(), it.len(), it.ctime(), it.ctime_nsec()))
        }))
    }
}

/// Time for which a look at a running run is good that took so long.
pub(super) fn rest(took: Nanoseconds) -> Nanoseconds {
    Nanoseconds(took.0.saturating_mul(REST))
}

/// A run in the list, or why it cannot be read.
pub(super) type ListRow = Result<Arc<KeptRun>, Arc<str>>;

struct Cached<T> {
    stamp: FileStamp,
    at: Nanoseconds,
    /// Time that it took to read it.
    took: Nanoseconds,
    /// True if it changes by itself: the run goes on, or could not be read.
    is_of_now: bool,
    what: T,
}

impl<T> Cached<T> {
    /// Tells whether it need not be read again. What changes all the time is good for long where to
    /// read it takes long: to watch a run must not be what disturbs it.
    fn is_good(&self, stamp: &FileStamp, now: Nanoseconds, is_running: bool) -> bool {
        let (age, is_same) = (now.since(self.at), self.stamp == *stamp);
        match (self.is_of_now, is_same) {
            (false, _) => is_same,
            (true, _) if is_running && age < rest(self.took) => true,
            // Also of one that has ended by what is known, of which no file told.
            (true, _) => is_running && is_same && age < RUNNING_FOR,
        }
    }
}

#[derive(Default)]
struct Cache {
    rows: HashMap<PathBuf, Cached<ListRow>>,
    pages: HashMap<(PathBuf, RunForm), Cached<Text>>,
}

/// The runs in some folders.
pub(super) struct Library {
    directories: Vec<PathBuf>,
    kept: Mutex<Cache>,
    reading: Mutex<()>,
}

impl Library {
    pub(super) fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories, kept: Mutex::default(), reading: Mutex::new(()) }
    }

    /// The runs, the latest first.
    pub(super) fn rows(&self) -> Result<Vec<ListRow>, Fault> {
        let paths = shelf::list(&self.directories)?;
        let rows = paths.iter().rev().map(|path| self.row(path)).collect();
        let paths: HashSet<_> = paths.into_iter().collect();
        lock(&self.kept).rows.retain(|path, _| paths.contains(path));
        Ok(rows)
    }

    fn row(&self, path: &Path) -> ListRow {
        let (stamp, at) = (FileStamp::of(path), monotonic_raw());
        let known = |kept: &Cache| {
            let row = kept.rows.get(path).filter(|it| it.is_good(&stamp, at, true));
            row.map(|it| it.what.clone())
        };
        self.kept_or_read(known, || {
            let began = monotonic_raw();
            let row: ListRow = match KeptRun::read(path) {
                Ok(run) => Ok(Arc::new(run)),
                Err(fault) => Err(fault.message.into()),
            };
            let is_of_now = row.as_ref().map_or(true, |run| run.is_running());
            let (took, what) = (monotonic_raw().since(began), row.clone());
            let cached = Cached { stamp: stamp.clone(), at, took, is_of_now, what };
            lock(&self.kept).rows.insert(path.into(), cached);
            row
        })
    }

    /// Something that is kept, or else is read while nobody else here reads.
    fn kept_or_read<T>(&self, known: impl Fn(&Cache) -> Option<T>, read: impl FnOnce() -> T) -> T {
        if let Some(what) = known(&lock(&self.kept)) {
            return what;
        }
        let _reading = lock(&self.reading);
        // Whoever read before may have read this.
        let what = known(&lock(&self.kept));
        what.unwrap_or_else(read)
    }

    /// The file of the run that has exactly this name; `None` where there is none. A name never
    /// becomes a path.
    pub(super) fn path(&self, name: &str) -> Result<Option<PathBuf>, Fault> {
        let is_it =
            |path: &PathBuf| path.file_stem().is_some_and(|it| it.to_string_lossy() == name);
        Ok(shelf::list(&self.directories)?.into_iter().find(is_it))
    }

    /// Returns what a run found, as `page` has it. `is_running` says what is known of it.
    pub(super) fn page(
        &self,
        path: &Path,
        form: RunForm,
        is_running: bool,
        page: impl FnOnce(&Findings) -> String,
    ) -> Result<Text, Fault> {
        let (stamp, at) = (FileStamp::of(path), monotonic_raw());
        let key = (path.to_path_buf(), form);
        let known = |kept: &Cache| {
            let page = kept.pages.get(&key).filter(|it| it.is_good(&stamp, at, is_running));
            page.map(|it| Ok(it.what.clone()))
        };
        self.kept_or_read(known, || {
            let began = monotonic_raw();
            let findings = found(path)?;
            let page: Text = page(&findings).into();
            let is_of_now = findings.run.state == RunState::Running.word();
            let (took, what) = (monotonic_raw().since(began), page.clone());
            let cached = Cached { stamp: stamp.clone(), at, took, is_of_now, what };
            lock(&self.kept).keep(key.clone(), cached);
            Ok(page)
        })
    }

    /// Forgets what is kept of a run.
    pub(super) fn forget(&self, path: &Path) {
        lock(&self.kept).pages.retain(|(of, _), _| of != path);
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

    /// All runs of the question that a run asks, in what people look at first, and what is to be
    /// said of those that are left out.
    pub(super) fn history(&self, path: &Path) -> Result<(History, Vec<String>), Fault> {
        // Whoever reads meanwhile would pay for it: a budget counts the time of the process.
        let _reading = lock(&self.reading);
        let gathered = Gathered::of(path, &self.directories, HISTORY_MAX)?;
        let is_of_workload = gathered.runs.iter().any(|it| it.run.workload.is_some());
        let mut found = history(gathered.runs)?;
        of_metric::keep_usual(&mut found.series, |it| &it.metric, is_of_workload);
        Ok((found, gathered.notes))
    }
}

impl Cache {
    /// Keeps a page, and forgets the oldest where there are too many bytes of them.
    fn keep(&mut self, key: (PathBuf, RunForm), page: Cached<Text>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stamp: &FileStamp, is_of_now: bool, took: u64, bytes: usize) -> Cached<Text> {
        let took = Nanoseconds(took);
        let (at, what) = (Nanoseconds(0), Bytes::from(vec![b'x'; bytes]));
        Cached { stamp: stamp.clone(), at, took, is_of_now, what }
    }

    #[test]
    fn a_page_is_good_as_long_as_its_run_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.surtax");
        fs::write(&file, "a").unwrap();
        let stamp = FileStamp::of(&file);
        let of = |is_of_now, took| known(&stamp, is_of_now, took, 0);
        let second = |seconds: u64| Nanoseconds(seconds * 1_000_000_000);
        assert!(of(false, 0).is_good(&stamp, second(1_000_000), false));
        assert!(of(true, 0).is_good(&stamp, second(4), true));
        assert!(!of(true, 0).is_good(&stamp, second(6), true), "its surtax may have been killed");
        fs::write(folder.path().join("a.surtax-wal"), "").unwrap();
        let other = FileStamp::of(&file);
        assert_ne!(stamp, other, "a log belongs to it");
        assert!(!of(false, 0).is_good(&other, second(0), false));
        assert!(!of(true, 0).is_good(&other, second(1), true));
        // Half a second to make it: good for ten, and not when the run has ended.
        assert!(of(true, 500_000_000).is_good(&other, second(9), true));
        assert!(!of(true, 500_000_000).is_good(&other, second(11), true));
        assert!(!of(true, 500_000_000).is_good(&other, second(1), false));
        assert!(
            !of(true, 0).is_good(&stamp, second(1), false),
            "it was killed, which no file tells"
        );
    }

    #[test]
    fn of_too_many_pages_the_oldest_are_forgotten() {
        let mut kept = Cache::default();
        let stamp = FileStamp::of(Path::new("/"));
        for age in 0..5_u64 {
            let mut page = known(&stamp, false, 0, PAGES_MAX_BYTES / 3);
            page.at = Nanoseconds(10 - age);
            kept.keep((PathBuf::from(age.to_string()), RunForm::Html), page);
        }
        let mut names: Vec<_> = kept.pages.keys().map(|(path, _)| path.clone()).collect();
        names.sort();
        assert_eq!(names, ["0", "1", "2"].map(PathBuf::from));
    }
}
