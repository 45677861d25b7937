//! The file that a command's first word names: looked up as `execvp(3)` does.

use crate::wire::Command;
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories where programs are looked for if the command has no `PATH`, as the C library does.
const PATH_DEFAULT: &[u8] = b"/bin:/usr/bin";

/// Returns the program that a command would start, if there is one.
#[must_use]
pub fn find(command: &Command) -> Option<PathBuf> {
    let program = command.argv.first().filter(|program| !program.is_empty())?;
    let cwd = path(&command.cwd);
    if program.contains(&b'/') {
        return Some(cwd.join(path(program))).filter(|path| is_program(path));
    }
    let is_path = |(key, _): &&(Vec<u8>, Vec<u8>)| key == b"PATH";
    let places = command.env.iter().rfind(is_path).map_or(PATH_DEFAULT, |(_, value)| value);
    let mut candidates =
        places.split(|byte| *byte == b':').map(|place| cwd.join(path(place)).join(path(program)));
    candidates.find(|path| is_program(path))
}

/// Returns the path that these bytes of a command are.
#[must_use]
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Tells whether this is a file that may be executed.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file()) && access(path, Access::EXEC_OK).is_ok()
}
