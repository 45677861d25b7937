//! Places that decide what root's programs do, as every machine has them, and those in which surtax
//! keeps what it has.
//!
//! Of this machine's they are a table: the innermost place around a directory decides, so that
//! somebody's project in `/var/lib` is no engine's. Those that depend on what a machine is
//! configured to do are found by the readers beside this file.

use crate::lab;
use crate::ledger::shelf;
use crate::plan::writable::real;
use crate::rootfs::engines;
use crate::table::rows;
use crate::workload;
use std::path::{Path, PathBuf};

/// A place that a command must not exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Path of the place, absolute.
    pub(super) path: PathBuf,
    /// Extent of it that must not be written.
    pub(super) extent: Extent,
    /// Reason for which it must not.
    pub(super) reason: Reason,
    /// Ways to have it elsewhere, each as part of a hint. Places with one in common are all had
    /// elsewhere by it.
    pub(super) remedies: Vec<String>,
}

impl Place {
    /// One that nothing but a narrower directory helps with.
    pub(super) fn new(path: impl Into<PathBuf>, extent: Extent, reason: Reason) -> Self {
        Self { path: path.into(), extent, reason, remedies: Vec::new() }
    }

    /// One that a line or a setting names: all of it, since modules may be loaded from below. A
    /// directory of everybody's, such as in `TMPDIR=/tmp`, is not, nor one right below `/`, nor a
    /// home.
    pub(super) fn named(path: impl Into<PathBuf>, reason: Reason) -> Self {
        let path = path.into();
        let found = real(&path);
        let is_shared =
            |[shared, extent, _]: [&str; 3]| extent == ITSELF && found == Path::new(shared);
        let above = found.parent();
        let is_wide = above
            .is_none_or(|above| [Path::new("/"), Path::new("/home")].contains(&above))
            || std::env::home_dir().is_some_and(|home| found == home)
            || rows(OF_THE_MACHINE).any(is_shared);
        Self::new(path, if is_wide { Itself } else { Whole }, reason)
    }

    /// The same place, which can be had elsewhere.
    pub(super) fn or(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

/// Extent of a place that no command may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Nothing in it may be written either.
    Whole,
    /// It may not be written as a whole: what lies in it is like any other directory.
    Itself,
}

/// Reason for which a place must not be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// Description of the place, which goes on after "is".
    pub(super) description: &'static str,
    /// Harm that a command could do, which goes on after "could".
    pub(super) harm: &'static str,
}

impl Reason {
    /// That of a place from which something is started or obeyed.
    pub(super) const fn started(description: &'static str) -> Self {
        Self { description, harm: "exchange what is started or obeyed next" }
    }

    /// The one that the table of reasons has by this word.
    ///
    /// # Panics
    /// It has none.
    fn called(word: &str) -> Self {
        let row = rows::<3>(REASONS).find(|[known, ..]| *known == word);
        let [_, description, harm] = row.unwrap_or_else(|| panic!("no reason is called `{word}`"));
        Self { description, harm }
    }

    /// That of a place in which surtax has what it says in the end.
    const fn result(description: &'static str) -> Self {
        Self { description, harm: "write its own result" }
    }
}

use Extent::{Itself, Whole};

/// Places of this machine; `docs/what-it-does-to-your-machine.md` has them for users. The word is
/// that for an extent of the place alone.
const OF_THE_MACHINE: &str = include_str!("places.tsv");
const ITSELF: &str = "itself";

/// Reasons for which these must not be exchanged, and the word for that of an engine's directory.
const REASONS: &str = include_str!("reasons.tsv");
const ENGINE: &str = "engine";

const CACHE: Reason = Reason::started("where surtax keeps kernels and images");
const OWN_STATE: Reason = Reason::result("where surtax keeps its state");
const RUNNING: Reason = Reason::result("where surtax has what runs");
const RUNS: Reason = Reason::result("where surtax keeps runs");
const WORKLOADS: Reason = Reason::started("where surtax finds your workloads");

/// Places that are surtax's on every machine, whatever this one's are called.
const OURS: [(&str, Reason); 3] = [
    ("/run/surtax", RUNNING),
    ("/var/cache/surtax", CACHE),
    ("/var/lib/surtax", Reason::result("where surtax keeps runs and its state")),
];

/// Lists the places of the table, and those of engines that every machine has.
fn usual() -> impl Iterator<Item = (&'static str, Extent, Reason)> {
    let table = rows(OF_THE_MACHINE).map(|[path, extent, reason]| {
        let extent = if extent == ITSELF { Itself } else { Whole };
        (path, extent, Reason::called(reason))
    });
    table.chain(engines::USUAL.map(|path| (path, Whole, Reason::called(ENGINE))))
}

/// Lists the usual places, and those of engines, wherever their owner put them.
pub(super) fn of_the_machine() -> impl Iterator<Item = Place> {
    let engine = Reason::called(ENGINE);
    let configured = engines::configured().map(move |path| Place::new(path, Whole, engine));
    usual().map(|(path, extent, reason)| Place::new(path, extent, reason)).chain(configured)
}

/// Lists the places in which surtax keeps what it has, wherever these were put.
pub(super) fn of_surtax() -> impl Iterator<Item = Place> {
    let fixed = OURS.map(|(path, reason)| Place::new(path, Whole, reason));
    let named = |found: Option<PathBuf>, reason, remedy: &str| {
        found.map(|path| Place::new(path, Whole, reason).or(format!(", or have {remedy}")))
    };
    let runs = shelf::directories().unwrap_or_default().into_iter();
    let runs =
        runs.map(move |path| named(Some(path), RUNS, "runs kept elsewhere: set `XDG_DATA_HOME`"));
    let (state, cache) = (lab::state::directory().ok(), lab::cache_place().ok());
    let workloads = workload::shelf::directory().ok();
    let others = [
        named(state, OWN_STATE, "it elsewhere: set `SURTAX_STATE_DIR`"),
        named(cache, CACHE, "these elsewhere: set `SURTAX_CACHE_DIR`"),
        named(workloads, WORKLOADS, "workloads elsewhere: set `XDG_CONFIG_HOME`"),
    ];
    let running = Place::new(lab::run_directory(), Whole, RUNNING);
    fixed.into_iter().chain(runs.chain(others).flatten()).chain([running])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of the book's table that names a path.
    fn row(path: &str) -> &'static str {
        let book = include_str!("../../../docs/what-it-does-to-your-machine.md");
        let named = format!("`{path}`");
        let row = book.lines().find(|line| line.starts_with('|') && line.contains(&named));
        row.unwrap_or_else(|| panic!("no row of what `--writable` refuses has `{path}`"))
    }

    #[test]
    fn all_of_a_directory_that_is_named_is_a_place_unless_it_is_everybody_s() {
        for (path, extent) in [
            ("/srv/lib", Whole),
            ("/srv/not-there", Whole),
            ("/usr/lib", Whole),
            ("/tmp", Itself),
            ("/srv/../tmp/.", Itself),
            ("/home", Itself),
            ("/", Itself),
            ("/..", Itself),
        ] {
            assert_eq!(Place::named(path, RUNS).extent, extent, "{path}");
        }
    }

    #[test]
    fn the_table_names_each_place_once_and_in_order_and_every_reason_is_that_of_one() {
        let places: Vec<[&str; 3]> = rows(OF_THE_MACHINE).collect();
        assert!(places.is_sorted_by(|one, other| one[0] < other[0]));
        assert!(places.iter().all(|[_, extent, _]| ["whole", ITSELF].contains(extent)));
        for [word, ..] in rows::<3>(REASONS) {
            assert!(places.iter().any(|[.., reason]| *reason == word), "{word}");
        }
    }

    #[test]
    fn the_book_has_the_table_with_its_reasons() {
        for (path, extent, Reason { description, .. }) in usual() {
            let row = row(path);
            // Of those that are refused as a whole the row says that one reason for all.
            let is_told = extent == Itself || row.contains(description);
            assert!(is_told, "`{path}` is {description}, and the book says: {row}");
        }
    }
}
