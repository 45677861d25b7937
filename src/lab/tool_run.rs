//! Tool runs: a foreign tool is run to its end, and what it printed is kept.

use crate::fault::{Doing, Fault, last_words};
use crate::lab::{Process, Program, Room};
use crate::regular_file;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// The most that is read of what a tool printed, where the caller names no limit, in bytes.
const OUTPUT_LIMIT: u64 = 1 << 30;

/// The most of its last words that is read, in bytes.
const WORDS_LIMIT: u64 = 1 << 20;

/// The C library's words for a file that would exceed the limit.
const TOO_LARGE: &str = "File too large";

/// A tool to run, with what it reads and where.
pub(crate) struct ToolRun<'a> {
    /// Program and arguments.
    pub(crate) argv: &'a [&'a str],
    /// Working directory.
    pub(crate) cwd: Option<&'a Path>,
    /// Bytes that it reads from its standard input; none where absent.
    pub(crate) input: Option<&'a [u8]>,
    /// Time after which it is given up.
    pub(crate) deadline: Duration,
    /// The mount namespace that it enters; the program is then not looked for.
    pub(crate) mount_namespace: Option<&'a OwnedFd>,
}

impl<'a> ToolRun<'a> {
    /// Runs this, with nothing to read, for at most half a minute.
    pub(crate) fn new(argv: &'a [&'a str]) -> Self {
        let deadline = Duration::from_secs(30);
        Self { argv, cwd: None, input: None, deadline, mount_namespace: None }
    }

    /// Runs it and gives back its standard output.
    ///
    /// # Errors
    /// The tool is not there, does not end in time, prints more than 1 GiB, or fails; then with its
    /// last words.
    pub(crate) fn run(&self, room: &Room) -> Result<Vec<u8>, Fault> {
        self.attempt(None, room)?.ok_or_else(|| {
            let tool = self.name();
            Fault::machine(format!(
                "{tool}: printed more than {OUTPUT_LIMIT} bytes, the most that surtax reads"
            ))
            .hint(format!("see by hand why: {}", self.argv.join(" ")))
        })
    }

    /// The same of a tool that is given what nobody trusts: no file that it writes may become
    /// larger than `limit` bytes. `None` where its output would.
    ///
    /// # Errors
    /// As [`ToolRun::run`], but for the length of its output.
    pub(crate) fn run_up_to(&self, limit: u64, room: &Room) -> Result<Option<Vec<u8>>, Fault> {
        self.attempt(Some(limit), room)
    }

    fn name(&self) -> &str {
        self.argv.first().copied().unwrap_or_default()
    }

    /// Runs it; `None` where it prints more than it may. Without a limit its files may become as
    /// large as they will: some tools make disks.
    fn attempt(&self, limit: Option<u64>, room: &Room) -> Result<Option<Vec<u8>>, Fault> {
        let tool = self.name();
        let output = Scrap::create(room.directory().join("tool.out"))?;
        let errors = Scrap::create(room.directory().join("tool.err"))?;
        let input = match self.input {
            Some(bytes) => Some(Scrap::holding(room.directory().join("tool.in"), bytes)?),
            None => None,
        };
        let stdin = match &input {
            Some(scrap) => Some(File::open(&scrap.0).doing("open a tool's input")?.into()),
            None => None,
        };
        let mut process = room.spawn(Program {
            argv: self.argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: self.cwd.map(Path::to_owned),
            mount_namespace: self
                .mount_namespace
                .map(OwnedFd::try_clone)
                .transpose()
                .doing("hand a mount namespace to a tool")?,
            stdio: [stdin, Some(output.append()?), Some(errors.append()?)],
            ..Program::default()
        })?;
        let is_held = limit.map(|limit| hold_to(&process, limit)).transpose()?.unwrap_or(false);
        let Some(status) = process.wait(self.deadline)? else {
            let seconds = self.deadline.as_secs();
            return Err(Fault::machine(format!("{tool}: did not end within {seconds} s")));
        };
        if !status.success() {
            let words = String::from_utf8_lossy(&errors.end()?).into_owned();
            if is_held && was_stopped(status, &words) {
                return Ok(None);
            }
            return Err(last_words::fault(&format!("{tool}: failed with {status}"), &words));
        }
        output.read(limit.unwrap_or(OUTPUT_LIMIT))
    }

    /// Runs it and gives back its standard output as text.
    pub(crate) fn text(&self, room: &Room) -> Result<String, Fault> {
        Ok(String::from_utf8_lossy(&self.run(room)?).into_owned())
    }
}

/// Holds the files that a tool writes to a limit; false where its user's own is lower.
///
/// It has begun when this is called. Should it have written more until then, its next write stops
/// it, and no more than the limit is read.
fn hold_to(process: &Process, limit: u64) -> Result<bool, Fault> {
    if getrlimit(Resource::Fsize).current.is_some_and(|own| own < limit) {
        return Ok(false);
    }
    // Without a number the limit would be that of surtax.
    let Some(pid) = i32::try_from(process.pid()).ok().and_then(Pid::from_raw) else {
        return Err(Fault::bug("a tool without a process id"));
    };
    let most = Rlimit { current: Some(limit), maximum: Some(limit) };
    match prlimit(Some(pid), Resource::Fsize, most) {
        // It may have ended already.
        Ok(_) | Err(Errno::SRCH) => Ok(true),
        Err(error) => Err(error).doing("limit what a tool writes"),
    }
}

/// Tells whether a tool that failed did so because one of its files would have become too
/// large: by the signal, or by what it says if it takes none.
fn was_stopped(status: ExitStatus, words: &str) -> bool {
    status.signal() == Some(Signal::XFSZ.as_raw()) || words.contains(TOO_LARGE)
}

/// A file in the room that is gone when the tool run is done.
struct Scrap(PathBuf);

impl Scrap {
    fn create(path: PathBuf) -> Result<Self, Fault> {
        Self::holding(path, b"")
    }

    fn holding(path: PathBuf, bytes: &[u8]) -> Result<Self, Fault> {
        std::fs::write(&path, bytes).doing(format_args!("write `{}`", path.display()))?;
        Ok(Self(path))
    }

    fn append(&self) -> Result<std::os::fd::OwnedFd, Fault> {
        let file = File::options().append(true).open(&self.0);
        Ok(file.doing(format_args!("open `{}`", self.0.display()))?.into())
    }

    /// Reads it whole; `None` if it is longer than `limit`.
    fn read(&self, limit: u64) -> Result<Option<Vec<u8>>, Fault> {
        match regular_file::read(&self.0, limit) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Ok(None),
            read => read.map(Some).doing(format_args!("read `{}`", self.0.display())),
        }
    }

    /// Reads its end: as much as is quoted of it, and more.
    fn end(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut read = || -> io::Result<usize> {
            let mut file = File::open(&self.0)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(WORDS_LIMIT)))?;
            file.take(WORDS_LIMIT).read_to_end(&mut bytes)
        };
        read().doing(format_args!("read `{}`", self.0.display()))?;
        Ok(bytes)
    }
}

impl Drop for Scrap {
    fn drop(&mut self) {
        // Should this fail, the room takes the file away with its directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_prints_without_end_is_stopped_at_its_limit() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("tool-run").unwrap();
        for script in ["exec cat /dev/zero", "trap '' 25; exec cat /dev/zero"] {
            let argv = ["sh", "-c", script];
            let said = ToolRun::new(&argv).run_up_to(1 << 16, &room).unwrap();
            assert!(said.is_none(), "{script}");
        }
    }

    #[test]
    fn what_a_tool_prints_within_its_limit_is_whole_and_its_failures_stay_its_own() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("tool-run").unwrap();
        let three = ToolRun::new(&["printf", "123"]);
        assert_eq!(three.run_up_to(3, &room).unwrap().as_deref(), Some(&b"123"[..]));
        assert_eq!(three.run_up_to(2, &room).unwrap(), None);
        let fault = ToolRun::new(&["false"]).run_up_to(3, &room).unwrap_err();
        assert!(fault.message.starts_with("false: failed with"), "{fault}");
    }
}
