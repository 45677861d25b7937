//! Errands: a foreign tool is run to its end, and what it printed is kept.

use crate::fault::{Doing, Fault};
use crate::lab::{Program, Room, last_words};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
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
        let (output, errors) = (scrap(b"")?, scrap(b"")?);
        let input = self.input.map(scrap).transpose()?;
        let mut process = room.spawn(Program {
            argv: self.argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: self.cwd.map(Path::to_owned),
            mount_namespace: self
                .mount_namespace
                .map(OwnedFd::try_clone)
                .transpose()
                .doing("hand a mount namespace to a tool")?,
            stdio: [input.map(OwnedFd::from), Some(shared(&output)?), Some(shared(&errors)?)],
            ..Program::default()
        })?;
        let Some(status) = process.wait(self.deadline)? else {
            let seconds = self.deadline.as_secs();
            return Err(Fault::machine(format!("{tool}: did not end within {seconds} s")));
        };
        if !status.success() {
            let words = String::from_utf8_lossy(&written(errors)?).into_owned();
            return Err(last_words::fault(&format!("{tool}: failed with {status}"), &words));
        }
        written(output)
    }

    /// Runs it and gives back its standard output as text.
    pub(crate) fn text(&self, room: &Room) -> Result<String, Fault> {
        Ok(String::from_utf8_lossy(&self.run(room)?).into_owned())
    }
}

/// A file in memory that holds these bytes, and to whose end a tool writes.
fn scrap(bytes: &[u8]) -> Result<File, Fault> {
    let doing = "make a file in memory for a tool";
    let mut file = File::from(memfd_create("errand", MemfdFlags::CLOEXEC).doing(doing)?);
    file.write_all(bytes).and_then(|()| file.rewind()).doing(doing)?;
    fcntl_setfl(&file, OFlags::APPEND).doing(doing)?;
    Ok(file)
}

fn shared(file: &File) -> Result<OwnedFd, Fault> {
    Ok(file.try_clone().doing("hand a file in memory to a tool")?.into())
}

fn written(mut file: File) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.doing("read what a tool has written")?;
    Ok(bytes)
}
