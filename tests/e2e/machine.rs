//! The machine under test: the built binary with directories of its own, and turns to look at it.
//!
//! A process of tests runs one at a time. Three such processes may run beside each other, as
//! `tests/run.sh` does: a test that measures, or that makes what no lab of surtax's owns, takes the
//! machine alone, and what would take too long beside two others is beside one.

use crate::watchdog::Watchdog;
use std::fs::File;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Instant;
use surtax::driver;
use surtax::lab::census::Census;
use surtax::lab::others::Others;
pub use surtax::lab::others::is_below_us;
use surtax::layer::Descriptor;

static TURN: Mutex<()> = Mutex::new(());

/// One test's turn on the machine: what others make meanwhile, if anything, belongs to labs of
/// theirs.
pub struct Machine {
    directory: tempfile::TempDir,
    before: Census,
    /// State of other people's labs when the test began.
    foreign: Foreign,
    /// Other tests run meanwhile: each trial is disturbed by them, and so would be its repeat.
    keeps_disturbed: bool,
    began: Instant,
    /// CPU time of this process, and of all that it had waited for.
    cpu_before: f64,
    _watchdog: Watchdog,
    _turn: MutexGuard<'static, ()>,
    _turn_among_processes: File,
}

impl Machine {
    /// Waits for its turn, beside other processes of tests, and takes a census.
    pub fn take() -> Self {
        Self::taken(true)
    }

    /// Waits for its turn, beside one other process of tests, as `tests/run.sh` sees to: a guest
    /// that is translated has a CPU of its own then, and what has a deadline is not starved.
    pub fn beside_one() -> Self {
        Self::take()
    }

    /// Waits until no other test runs on this machine, of whichever process, and takes a census.
    pub fn alone() -> Self {
        Self::taken(false)
    }

    fn taken(is_shared: bool) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = lock_file("surtax-tests.lock");
        if is_shared { lock.lock_shared() } else { lock.lock() }.unwrap();
        static FIRST: Once = Once::new();
        FIRST.call_once(|| {
            tell_failures_at_once();
            sweep();
        });
        let directory = tempfile::tempdir().unwrap();
        let foreign = Foreign::look();
        let before = Census::take().unwrap();
        Self {
            directory,
            before,
            foreign,
            keeps_disturbed: is_shared,
            began: Instant::now(),
            cpu_before: cpu_used(),
            _watchdog: Watchdog::new(),
            _turn: turn,
            _turn_among_processes: lock,
        }
    }

    /// Lets disturbed trials be repeated beside other tests, too.
    pub fn repeating(mut self) -> Self {
        self.keeps_disturbed = false;
        self
    }

    /// A path in this test's own directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The binary with these arguments, ready to start.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surtax"));
        let (word, rest) = arguments.split_at(arguments.len().min(1));
        let is_kept = self.keeps_disturbed && matches!(word, ["compare" | "run"]);
        command
            .args(word)
            .args(is_kept.then_some("--keep-disturbed"))
            .args(rest)
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

    /// Runs it, and reads its answer, whatever its exit code says.
    pub fn answer(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.surtax(arguments);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{arguments:?}:\n{}", text(&output.stderr)))
    }

    /// Runs a comparison of which no trial counts, and reads its answer.
    pub fn json_of_a_failure(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.surtax(arguments);
        let code = output.status.code();
        assert!(matches!(code, Some(2 | 3)), "{arguments:?}: {code:?}\n{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Lists what has come or gone since the test began; nothing, if surtax is honest.
    ///
    /// What other people's labs make and take away meanwhile is left out, as far as they can be
    /// told from ours; where they test too, what goes away by itself within two seconds is theirs
    /// as well, though more of theirs may have come by then.
    pub fn difference(&self) -> Vec<String> {
        let mut seen: Option<Vec<String>> = None;
        for attempt in 0.. {
            let mut lines = Census::take().unwrap().difference_from(&self.before);
            lines.retain(|line| seen.as_ref().is_none_or(|seen| seen.contains(line)));
            let now = Foreign::look();
            let is_crowded = now.is_crowded || self.foreign.is_crowded;
            lines.retain(|line| !now.others.own(line) && !self.foreign.others.own(line));
            lines.retain(|line| !has_another_owner(line));
            // A tool of another test had a file there for a moment when this one began.
            lines.retain(|line| !(is_crowded && line.starts_with("went: file `/tmp/")));
            // Without a command line it is about to end, which takes a while where CPUs are busy.
            let all_end = lines.iter().all(|line| line.ends_with(": ``"));
            if lines.is_empty() || attempt == 10 || !(is_crowded || all_end) {
                return lines;
            }
            seen = Some(lines);
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        unreachable!("the loop above ends by itself")
    }

    /// Fails the test if anything is left.
    pub fn assert_as_before(&self) {
        let difference = self.difference();
        assert!(difference.is_empty(), "the machine is not as before: {difference:#?}");
    }
}

/// Says past the harness what a test took, for the list of the slowest.
impl Drop for Machine {
    fn drop(&mut self) {
        let (thread, took) = (std::thread::current(), self.began.elapsed().as_secs_f64());
        let cpu = cpu_used() - self.cpu_before;
        let name = thread.name().unwrap_or("?").to_owned();
        say(&format!("TOOK {took:.1} s, of CPUs {cpu:.1} s: {name}\n"));
    }
}

/// A turn at what only one test may use at a time, until the file is closed.
pub fn turn_at(what: &str) -> File {
    let turn = lock_file(&format!("surtax-tests-{what}.lock"));
    turn.lock().unwrap();
    turn
}

fn lock_file(name: &str) -> File {
    File::create(std::env::temp_dir().join(name)).unwrap()
}

/// Says why a test fails when it does, past the harness, which keeps it until all others are
/// through: a log that is cut off has the cause next to the name.
fn tell_failures_at_once() {
    let keep = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread");
        say(&format!("FAILED {name}: {panic}\n"));
        keep(panic);
    }));
}

/// Says something past the harness, in one piece: another process of tests may write to the same
/// file.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Undoes what a surtax that was killed together with its reaper left, before the first census: the
/// first one that a test starts would, and what went would be held against it.
fn sweep() {
    let swept = Command::new(env!("CARGO_BIN_EXE_surtax")).arg("gc").output().unwrap();
    eprintln!("{}", text(&swept.stderr));
}

/// Objects that other people's surtax works on.
struct Foreign {
    others: Others,
    /// Somebody else runs surtax or its tests.
    is_crowded: bool,
}

impl Foreign {
    fn look() -> Self {
        let is_crowded = pids().into_iter().any(|pid| {
            let exe = std::fs::read_link(process(pid).join("exe")).unwrap_or_default();
            let name = exe.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            (name.starts_with("surtax") || name.starts_with("e2e-")) && !is_below_us(pid)
        });
        Self { others: Others::look().unwrap(), is_crowded }
    }
}

/// A process that came and has a living parent which is neither ours nor the machine's first
/// process: what we start and lose is left to that one.
fn has_another_owner(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("came: process `") else { return false };
    let pid = rest.split("` (").nth(1).and_then(|rest| rest.split(')').next()?.parse().ok());
    let owner = pid.and_then(parent);
    let has_owner = owner.is_some_and(|owner| owner > 1) && !pid.is_some_and(is_below_us);
    has_owner || pid.is_some_and(came_by_ssh)
}

/// Tells whether a session of `ssh` started it: what is left on the far side, until its lease is
/// over, is what tests of that look for.
fn came_by_ssh(pid: u32) -> bool {
    let own = std::env::var("SSH_CONNECTION").unwrap_or_default();
    ssh_connection(pid).is_some_and(|connection| connection != own)
}

/// The connection of the session of `ssh` that a process came by, or the one that it inherited.
pub fn ssh_connection(pid: u32) -> Option<String> {
    let environment = std::fs::read(process(pid).join("environ")).unwrap_or_default();
    let mut words = environment.split(|byte| *byte == 0);
    words.find_map(|word| Some(text(word.strip_prefix(b"SSH_CONNECTION=")?)))
}

pub fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

pub fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    of_its_state(pid, 1)
}

/// Time since the boot at which a process began.
pub fn started_ticks(pid: u32) -> u64 {
    of_its_state(pid, 19).unwrap_or_else(|| panic!("process {pid} has no start"))
}

/// CPU time of this process and of all that it has waited for, in seconds.
fn cpu_used() -> f64 {
    let ticks = |at| of_its_state::<f64>(std::process::id(), at).unwrap_or_default();
    (11..15).map(ticks).sum::<f64>() / 100.0
}

/// A field of `/proc/PID/stat`, counted from the one after the name.
fn of_its_state<T: std::str::FromStr>(pid: u32, at: usize) -> Option<T> {
    let stat = std::fs::read_to_string(process(pid).join("stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(at)?.parse().ok()
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Tells whether a stack must run: if `SURTAX_REQUIRE` names its layers, or all (`*`).
pub fn is_required(stack: &str) -> bool {
    let kind = |layer: &str| layer.split(':').next().unwrap_or(layer).to_owned();
    let kinds = stack.split('+').map(kind).collect::<Vec<_>>().join("+");
    let required = std::env::var("SURTAX_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name == kinds || name == "*")
}

/// Says aloud that something is not tested here; fails where it must be.
pub fn skip(stack: &str, why: &str) {
    assert!(!is_required(stack), "`{stack}` must run here and cannot: {why}");
    println!("SKIPPED {stack}: {why}");
}

/// Tells whether a layer can run here; if it cannot, that was said.
pub fn is_usable(machine: &Machine, stack: &str) -> bool {
    let kind = stack.split(['+', ':']).next().unwrap_or(stack);
    // Asked once: what can run here stays the same, and asking is to start some sixty tools.
    static DOCTOR: OnceLock<serde_json::Value> = OnceLock::new();
    let doctor = DOCTOR.get_or_init(|| asked_once(machine));
    let layers = doctor["layers"].as_array().unwrap();
    let of_kind: Vec<_> = layers.iter().filter(|layer| layer["kind"] == kind).collect();
    // A variant that was asked about may lack what the others have.
    let exact = of_kind.iter().find(|layer| layer["layer"] == stack);
    let asked = exact.map_or(of_kind.clone(), |layer| vec![*layer]);
    if asked.iter().any(|layer| layer["usable"] == true) {
        return true;
    }
    let why = asked.first().and_then(|layer| layer["why"].as_str());
    skip(stack, why.unwrap_or("the doctor does not know it"));
    false
}

/// Every container but `native`, each with its descriptor: its kind alone, and with other users
/// inside where the doctor asks about them.
pub fn containers() -> impl Iterator<Item = (&'static Descriptor, &'static str)> {
    driver::containers().filter(|it| it.kind != "native").flat_map(|it| {
        let has_other_users = move |text: &&str| {
            let options = text.strip_prefix(it.kind).and_then(|rest| rest.strip_prefix(":user="));
            options.is_some_and(|word| !word.contains(','))
        };
        let others = it.variants.iter().copied().filter(has_other_users);
        iter::once(it.kind).chain(others).map(move |stack| (it, stack))
    })
}

/// The doctor's answer: that of the first process of this run to ask, where `tests/run.sh` names a
/// file for it.
fn asked_once(machine: &Machine) -> serde_json::Value {
    let ask = || machine.json(&["doctor", "--format", "json"]);
    let Some(file) = std::env::var_os("SURTAX_TESTS_DOCTOR").map(PathBuf::from) else {
        return ask();
    };
    // Three at once would each wait for what all three start.
    let turn = File::create(file.with_extension("lock")).unwrap();
    turn.lock().unwrap();
    if let Ok(kept) = std::fs::read(&file) {
        return serde_json::from_slice(&kept).unwrap();
    }
    let answer = ask();
    std::fs::write(&file, answer.to_string()).unwrap();
    answer
}

/// Tells whether this run makes what is slow, too, as `make test-all` does; otherwise says aloud
/// what it leaves to that.
pub fn is_slow_made(what: &str) -> bool {
    let is_made = std::env::var("SURTAX_SLOW_TESTS").is_ok_and(|value| value == "1");
    if !is_made {
        println!("LEFT to `make test-all`: {what}");
    }
    is_made
}

/// All cases where what is slow is made, and the first `few` otherwise.
pub fn cases<T>(all: &[T], few: usize) -> &[T] {
    let few = few.min(all.len());
    if is_slow_made(&format!("{} of {} cases", all.len() - few, all.len())) {
        all
    } else {
        &all[..few]
    }
}

/// The processes whose command line contains `word` and whose parent is `owner`.
pub fn children_named(owner: u32, word: &str) -> Vec<u32> {
    let says = |pid: &u32| {
        let line = std::fs::read(process(*pid).join("cmdline")).unwrap_or_default();
        parent(*pid) == Some(owner) && text(&line).contains(word)
    };
    pids().into_iter().filter(says).collect()
}
