//! Errands: a foreign tool is run to its end, and what it printed is kept.

use crate::fault::{Doing, Fault};
use crate::lab::{Program, Room, last_words};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// The tool is not there, does not end in time, or fails; then with its last words.
    pub(crate) fn run(&self, room: &Room) -> Result<Vec<u8>, Fault> {
        let tool = self.argv.first().copied().unwrap_or_default();
        let output = Scrap::create(room.directory().join("errand.out"))?;
        let errors = Scrap::create(room.directory().join("errand.err"))?;
        let input = match self.input {
            Some(bytes) => Some(Scrap::holding(room.directory().join("errand.in"), bytes)?),
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
        let Some(status) = process.wait(self.deadline)? else {
            let seconds = self.deadline.as_secs();
            return Err(Fault::machine(format!("{tool}: did not end within {seconds} s")));
        };
        if !status.success() {
            let words = String::from_utf8_lossy(&errors.read()?).into_owned();
            return Err(last_words::fault(&format!("{tool}: failed with {status}"), &words));
        }
        output.read()
    }

    /// Runs it and gives back its standard output as text.
    pub(crate) fn text(&self, room: &Room) -> Result<String, Fault> {
        Ok(String::from_utf8_lossy(&self.run(room)?).into_owned())
    }
}

/// A file in the room that is gone when the errand is done.
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

    fn read(&self) -> Result<Vec<u8>, Fault> {
        std::fs::read(&self.0).doing(format_args!("read `{}`", self.0.display()))
    }
}

impl Drop for Scrap {
    fn drop(&mut self) {
        // Should this fail, the room takes the file away with its directory.
        let _ = std::fs::remove_file(&self.0);
    }
}
