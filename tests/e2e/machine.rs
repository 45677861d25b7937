//! The machine under test: the built binary with directories of its own, and turns to look at it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use surtax::lab::census::Census;

static TURN: Mutex<()> = Mutex::new(());

/// One test's turn on the machine: nobody else makes anything meanwhile.
pub struct Machine {
    directory: tempfile::TempDir,
    before: Census,
    _turn: MutexGuard<'static, ()>,
    _turn_among_processes: File,
}

impl Machine {
    /// Waits for its turn and takes a census.
    pub fn take() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Another checkout's tests may run on this machine too.
        let lock = File::create(std::env::temp_dir().join("surtax-tests.lock")).unwrap();
        lock.lock().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let before = Census::take().unwrap();
        Self { directory, before, _turn: turn, _turn_among_processes: lock }
    }

    /// A path in this test's own directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The binary with these arguments, ready to start.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surtax"));
        command
            .args(arguments)
            .env("XDG_DATA_HOME", self.path("data"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn surtax(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts it.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Runs it, requires success, and reads its standard output as one JSON object.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.surtax(arguments);
        assert!(output.status.success(), "{arguments:?}:\n{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What has come or gone since the test began; nothing, if surtax is honest.
    pub fn difference(&self) -> Vec<String> {
        Census::take().unwrap().difference_from(&self.before)
    }

    /// Fails the test if anything is left.
    pub fn assert_as_before(&self) {
        let difference = self.difference();
        assert!(difference.is_empty(), "the machine is not as before: {difference:#?}");
    }
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a stack may be skipped: not if `SURTAX_REQUIRE` names it, or all (`*`).
pub fn is_required(stack: &str) -> bool {
    let required = std::env::var("SURTAX_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name == stack || name == "*")
}

/// Says aloud that something is not tested here; fails where it must be.
pub fn skip(stack: &str, why: &str) {
    assert!(!is_required(stack), "`{stack}` must run here and cannot: {why}");
    println!("SKIPPED {stack}: {why}");
}

/// Whether a layer can run here; if it cannot, that was said.
pub fn is_usable(machine: &Machine, stack: &str) -> bool {
    let kind = stack.split(['+', ':']).next().unwrap_or(stack);
    let doctor = machine.json(&["doctor", "--format", "json"]);
    let layers = doctor["layers"].as_array().unwrap();
    let asked: Vec<_> = layers.iter().filter(|layer| layer["kind"] == kind).collect();
    if asked.iter().any(|layer| layer["usable"] == true) {
        return true;
    }
    let why = asked.first().and_then(|layer| layer["why"].as_str());
    skip(stack, why.unwrap_or("the doctor does not know it"));
    false
}

/// The processes whose command line contains `word` and whose parent is `parent`.
pub fn children_named(parent: u32, word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let directory = Path::new("/proc").join(pid.to_string());
        let stat = std::fs::read_to_string(directory.join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let is_child = after_name.split_whitespace().nth(1) == Some(&parent.to_string());
        let line = std::fs::read(directory.join("cmdline")).unwrap_or_default();
        is_child && text(&line).contains(word)
    })
    .collect()
}
