//! Targets: one file for each reader, each with what it is given to begin with.

mod console;
mod disk_image;
mod docker;
mod domain;
mod dynamic;
mod executable;
mod histogram;
mod image;
mod journal;
mod ledger;
mod link;
mod monitor;
mod output;
mod plan;
mod qmp;
mod recipe;
mod request;
mod session;
mod stack;
mod wire;
mod workload;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
pub use wire::Planted;

/// One reader, and what it is given.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, also that of its corpus and its dictionary.
    pub name: &'static str,
    /// Reads the bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs that this program makes itself, beside those in the corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Folders of the repository whose files are inputs, too.
    pub folders: &'static [&'static str],
    /// The longest input, in bytes.
    pub longest: usize,
}

static SCRATCH: OnceLock<PathBuf> = OnceLock::new();

/// Says where targets may make files; the first place that is said counts.
pub fn use_scratch(place: &Path) {
    let _first = SCRATCH.set(place.to_owned());
}

/// Makes the directory for a target's files, below what [`use_scratch`] said, or
/// `SURTAX_FUZZ_SCRATCH`. Somebody else removes it.
fn scratch(target: &str) -> PathBuf {
    let place = SCRATCH.get_or_init(|| {
        let named = std::env::var_os("SURTAX_FUZZ_SCRATCH");
        PathBuf::from(named.expect("somebody said where files can be made"))
    });
    let place = place.join(target);
    std::fs::create_dir_all(&place).expect("there is room for a directory");
    place
}

/// Makes a place for [`use_scratch`], in memory where this machine has one: files come and go by
/// the thousand.
///
/// # Errors
/// The file system's.
pub fn make_scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// No inputs but those of the corpus.
fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// Every target, in the order in which they are run.
pub const TARGETS: [Target; 21] = [
    wire::TARGET,
    link::TARGET,
    session::TARGET,
    journal::TARGET,
    ledger::TARGET,
    qmp::TARGET,
    docker::TARGET,
    monitor::TARGET,
    domain::TARGET,
    console::TARGET,
    output::TARGET,
    workload::TARGET,
    plan::TARGET,
    stack::TARGET,
    image::TARGET,
    disk_image::TARGET,
    recipe::TARGET,
    request::TARGET,
    executable::TARGET,
    dynamic::TARGET,
    histogram::TARGET,
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// The bytes as text, as far as they are one: a reader of text is never given anything else.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
